//! Objects that annotations name.

use crate::names::NsName;
use crate::objects::{ConfigMap, Sourced};
use crate::problem::Reason;
use crate::translate::inputs::Inputs;

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

/// The `ConfigMap` that an annotation names as `namespace/name`. `namespace` is the only one that it may be of, if it is only one.
pub(super) fn configmap<'a>(
    text: &str,
    namespace: Option<&str>,
    inputs: &Inputs<'a>,
) -> Result<&'a Sourced<ConfigMap>, Fault> {
    let name: NsName = text.trim().parse().map_err(|error| (Reason::Annotation, format!("{error}")))?;
    if namespace.is_some_and(|namespace| namespace != name.namespace) {
        let why = format!(
            "ConfigMap {name} is of another namespace, which allow-cross-namespace-resources has to allow"
        );
        return Err((Reason::Forbidden, why));
    }
    inputs.configmap(&name).ok_or_else(|| (Reason::Missing, format!("ConfigMap {name} is missing")))
}
