//! Secrets that annotations name.

use crate::names::NsName;
use crate::problem::Reason;

/// Why the object that an annotation names cannot be used.
pub(super) type Fault = (Reason, String);

/// The name of the Secret in an annotation: `namespace/name`. The namespace has to be that of the Ingress, unless others are
/// allowed.
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
