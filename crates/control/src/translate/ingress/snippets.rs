//! nginx configuration in annotations. It is never interpreted, so that locations with a snippet are closed.

use super::annotation::Effect::Restricting;
use super::annotation::Extent;
use super::annotation::Scope::{Ingress, Location};
use super::annotation::annotations;

annotations! {
    "configuration-snippet", Location, "", Restricting(Extent::Locations),
        "nginx configuration for the locations.";
    "server-snippet", Ingress, "", Restricting(Extent::Host), "nginx configuration for the host.";
    "stream-snippet", Ingress, "", Restricting(Extent::Locations), "nginx configuration for TCP and UDP.";
}
