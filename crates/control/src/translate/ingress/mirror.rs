//! Request mirroring. Not supported yet.

use super::annotation::Effect::Unsupported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;

annotations! {
    "mirror-host", Ingress, "", Unsupported, "Host header of mirrored requests.", High;
    "mirror-request-body", Ingress, "on", Unsupported, "Mirrors request bodies too.";
    "mirror-target", Ingress, "", Unsupported, "Where copies of requests go.", High;
}
