//! The web application firewall (`ModSecurity`). Forebay has none, so that locations which ask for it are closed.

use super::annotation::Effect::{Restricting, Unsupported};
use super::annotation::Extent;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;

annotations! {
    "enable-modsecurity", Ingress, "false", Restricting(Extent::Locations),
        "Turns the web application firewall on.";
    "enable-owasp-core-rules", Ingress, "false", Restricting(Extent::Locations),
        "Loads the OWASP core rules.";
    "modsecurity-snippet", Ingress, "", Restricting(Extent::Locations),
        "Rules of the web application firewall.";
    "modsecurity-transaction-id", Ingress, "", Unsupported, "Transaction id of the web application firewall.";
}
