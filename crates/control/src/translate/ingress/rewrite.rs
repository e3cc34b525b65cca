//! Rewrites of paths, hosts and cookies. Not supported yet.

use super::annotation::Effect::Unsupported;
use super::annotation::Scope::{Ingress, Location};
use super::annotation::annotations;

annotations! {
    "proxy-cookie-domain", Location, "off", Unsupported, "Rewrites the Domain of cookies.";
    "proxy-cookie-path", Location, "off", Unsupported, "Rewrites the Path of cookies.";
    "proxy-redirect-from", Location, "off", Unsupported, "Prefix of Location to replace.";
    "proxy-redirect-to", Location, "off", Unsupported, "What replaces it.";
    "rewrite-target", Ingress, "", Unsupported, "Path that the endpoint gets instead.";
    "server-alias", Ingress, "", Unsupported, "Further names of the host.";
    "use-regex", Location, "false", Unsupported, "Takes paths for regular expressions.";
    "x-forwarded-prefix", Location, "", Unsupported, "Value of X-Forwarded-Prefix when a path is rewritten.";
}
