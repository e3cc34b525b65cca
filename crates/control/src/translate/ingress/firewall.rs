//! The web application firewall. There is none, so that what asks for it is closed.

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
