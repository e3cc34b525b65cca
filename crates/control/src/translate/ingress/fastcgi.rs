//! Endpoints that speak `FastCGI`. Not supported yet.

use super::annotation::Effect::Unsupported;
use super::annotation::Scope::Location;
use super::annotation::annotations;

annotations! {
    "fastcgi-index", Location, "", Unsupported, "Index file for FastCGI.", Medium;
    "fastcgi-params-configmap", Location, "", Unsupported, "ConfigMap with FastCGI parameters.", Medium;
}
