//! Basic and digest authentication, and external authentication. None of it is enforced yet, so that locations which ask for it are
//! closed.

use super::annotation::Effect::{Restricting, Unsupported};
use super::annotation::Extent;
use super::annotation::Scope::Location;
use super::annotation::annotations;

annotations! {
    "auth-always-set-cookie", Location, "false", Restricting(Extent::Locations),
        "Passes cookies of the auth service on with every status.";
    "auth-cache-duration", Location, "", Restricting(Extent::Locations),
        "How long answers of the auth service are kept, by status.";
    "auth-cache-key", Location, " = off", Restricting(Extent::Locations),
        "Keeps answers of the auth service, under this key.";
    "auth-keepalive", Location, "0", Restricting(Extent::Locations),
        "Idle connections kept to the auth service.";
    "auth-keepalive-requests", Location, "1000", Restricting(Extent::Locations),
        "Requests on one connection to the auth service.";
    "auth-keepalive-share-vars", Location, "false", Restricting(Extent::Locations),
        "Shares nginx variables with the request to the auth service.";
    "auth-keepalive-timeout", Location, "60", Restricting(Extent::Locations),
        "Idle time of a connection to the auth service.";
    "auth-method", Location, "GET", Restricting(Extent::Locations),
        "Method of the request to the auth service.";
    "auth-proxy-set-headers", Location, "", Restricting(Extent::Locations),
        "ConfigMap with headers for the auth service.";
    "auth-realm", Location, "", Restricting(Extent::Locations),
        "Realm that is named to clients without credentials.";
    "auth-request-redirect", Location, "", Restricting(Extent::Locations),
        "Value of X-Auth-Request-Redirect.";
    "auth-response-headers", Location, "", Restricting(Extent::Locations),
        "Headers of the auth service's answer that the endpoint gets.";
    "auth-secret", Location, "", Restricting(Extent::Locations), "Secret with the users of `auth-type`.";
    "auth-secret-type", Location, "auth-file", Restricting(Extent::Locations),
        "`auth-file`: one htpasswd; `auth-map`: one key for each user.";
    "auth-signin", Location, "", Restricting(Extent::Locations),
        "Where clients go that the auth service refuses with 401.";
    "auth-signin-redirect-param", Location, "rd", Restricting(Extent::Locations),
        "Query parameter in which `auth-signin` finds the way back.";
    "auth-snippet", Location, "", Restricting(Extent::Locations),
        "nginx configuration for the request to the auth service.";
    "auth-type", Location, "", Restricting(Extent::Locations), "Turns on `basic` or `digest` authentication.";
    "auth-url", Location, "", Restricting(Extent::Locations), "Asks this URL whether a request is let in.";
    "enable-global-auth", Location, "true", Unsupported,
        "Whether the ConfigMap's `global-auth-url` is asked.";
}
