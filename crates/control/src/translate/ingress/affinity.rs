//! Session affinity by a cookie. Not supported yet.

use super::annotation::Effect::Unsupported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;

annotations! {
    "affinity", Ingress, "", Unsupported, "Keeps a client at one endpoint, by a cookie.";
    "affinity-canary-behavior", Ingress, "sticky", Unsupported,
        "`sticky` keeps a client at the canary or off it.";
    "affinity-mode", Ingress, "balanced", Unsupported,
        "`balanced` rebalances when endpoints change, `persistent` never moves a client while its endpoint lives.";
    "session-cookie-change-on-failure", Ingress, "false", Unsupported, "Moves a client whose endpoint fails.";
    "session-cookie-conditional-samesite-none", Ingress, "false", Unsupported,
        "Leaves SameSite=None out for old browsers.";
    "session-cookie-domain", Ingress, "", Unsupported, "Domain of the affinity cookie.";
    "session-cookie-expires", Ingress, "", Unsupported, "Expires of the affinity cookie, in seconds.";
    "session-cookie-max-age", Ingress, "", Unsupported, "Max-Age of the affinity cookie.";
    "session-cookie-name", Ingress, "INGRESSCOOKIE", Unsupported, "Name of the affinity cookie.";
    "session-cookie-path", Ingress, "", Unsupported, "Path of the affinity cookie.";
    "session-cookie-samesite", Ingress, "", Unsupported, "SameSite of the affinity cookie.";
    "session-cookie-secure", Ingress, "", Unsupported, "Secure of the affinity cookie.";
}
