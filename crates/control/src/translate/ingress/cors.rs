//! Cross-origin resource sharing (CORS). Not supported yet.

use super::annotation::Effect::Unsupported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;

annotations! {
    "cors-allow-credentials", Ingress, "true", Unsupported, "Access-Control-Allow-Credentials.";
    "cors-allow-headers", Ingress, "", Unsupported, "Access-Control-Allow-Headers.";
    "cors-allow-methods", Ingress, "GET, PUT, POST, DELETE, PATCH, OPTIONS", Unsupported,
        "Access-Control-Allow-Methods.";
    "cors-allow-origin", Ingress, "*", Unsupported, "Origins that are allowed.";
    "cors-expose-headers", Ingress, "", Unsupported, "Access-Control-Expose-Headers.";
    "cors-max-age", Ingress, "1728000", Unsupported, "Access-Control-Max-Age.";
    "enable-cors", Ingress, "false", Unsupported, "Answers preflight requests and adds CORS headers.";
}
