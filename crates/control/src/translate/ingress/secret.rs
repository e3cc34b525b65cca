//! Secrets that annotations name.

use crate::names::NsName;
use crate::problem::Reason;

/// Why something that annotations name cannot be had.
pub(super) type Fault = (Reason, String);

/// The Secret that an annotation names: `namespace/name`, of the Ingress' own namespace unless others are allowed.
pub(super) fn secret_name(text: &str, namespace: &str, crosses_namespaces: bool) -> Result<NsName, Fault> {
    let name: NsName = text.trim().parse().map_err(|error| (Reason::Annotation, format!("{error}")))?;
    if name.namespace != namespace && !crosses_namespaces {
        let why = format!(
            "Secret {name} is of another namespace, which allow-cross-namespace-resources has to allow"
        );
        return Err((Reason::Forbidden, why));
    }
    Ok(name)
}
