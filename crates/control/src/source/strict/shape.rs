//! The fields that the API server knows, and the types that it accepts for them.
//!
//! `Ingress`, `IngressClass` and the metadata of all kinds are complete here. The fields of other kinds
//! depend on the version of the cluster, or have schemas of their own in CRDs, so only their maps of texts
//! are described.

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// A value that is not checked.
    Any,
    /// A text value, of any content.
    Text,
    /// A whole number.
    Whole,
    /// Text or a whole number.
    TextOrWhole,
    /// A map whose values are texts.
    Texts,
    /// A list of values of one type.
    List(&'static Shape),
    /// A mapping with these fields and no others.
    Fields(&'static [Field]),
    /// A mapping of which only these fields are known here.
    Some(&'static [Field]),
}

/// A field of a mapping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) is_required: bool,
}

const fn field(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, is_required: false }
}

const fn required(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, is_required: true }
}

const METADATA: Shape = Shape::Fields(&[
    field("annotations", Shape::Texts),
    field("clusterName", Shape::Text),
    field("creationTimestamp", Shape::Any),
    field("deletionGracePeriodSeconds", Shape::Whole),
    field("deletionTimestamp", Shape::Any),
    field("finalizers", Shape::List(&Shape::Text)),
    field("generateName", Shape::Text),
    field("generation", Shape::Whole),
    field("labels", Shape::Texts),
    field("managedFields", Shape::Any),
    field("name", Shape::Text),
    field("namespace", Shape::Text),
    field("ownerReferences", Shape::Any),
    field("resourceVersion", Shape::Text),
    field("selfLink", Shape::Text),
    field("uid", Shape::Text),
]);

const TLS: Shape =
    Shape::Fields(&[field("hosts", Shape::List(&Shape::Text)), field("secretName", Shape::Text)]);

const RESOURCE: Shape = Shape::Fields(&[
    field("apiGroup", Shape::Text),
    required("kind", Shape::Text),
    required("name", Shape::Text),
]);

const SERVICE_PORT: Shape = Shape::Fields(&[field("name", Shape::Text), field("number", Shape::Whole)]);

const BACKEND: Shape = Shape::Fields(&[
    field("resource", RESOURCE),
    field("service", Shape::Fields(&[required("name", Shape::Text), required("port", SERVICE_PORT)])),
]);

const LEGACY_BACKEND: Shape = Shape::Fields(&[
    field("resource", RESOURCE),
    field("serviceName", Shape::Text),
    field("servicePort", Shape::TextOrWhole),
]);

const PATH: Shape = Shape::Fields(&[
    required("backend", BACKEND),
    field("path", Shape::Text),
    required("pathType", Shape::Text),
]);

const LEGACY_PATH: Shape = Shape::Fields(&[
    required("backend", LEGACY_BACKEND),
    field("path", Shape::Text),
    field("pathType", Shape::Text),
]);

const RULE: Shape = Shape::Fields(&[
    field("host", Shape::Text),
    field("http", Shape::Fields(&[required("paths", Shape::List(&PATH))])),
]);

const LEGACY_RULE: Shape = Shape::Fields(&[
    field("host", Shape::Text),
    field("http", Shape::Fields(&[required("paths", Shape::List(&LEGACY_PATH))])),
]);

/// The shape of an object with this shape for its `spec`.
macro_rules! object {
    ($spec:expr) => {
        Shape::Fields(&[
            required("apiVersion", Shape::Text),
            required("kind", Shape::Text),
            required("metadata", METADATA),
            required("spec", $spec),
            field("status", Shape::Any),
        ])
    };
}

const INGRESS: Shape = object!(Shape::Fields(&[
    field("defaultBackend", BACKEND),
    field("ingressClassName", Shape::Text),
    field("rules", Shape::List(&RULE)),
    field("tls", Shape::List(&TLS)),
]));

const LEGACY_INGRESS: Shape = object!(Shape::Fields(&[
    field("backend", LEGACY_BACKEND),
    field("ingressClassName", Shape::Text),
    field("rules", Shape::List(&LEGACY_RULE)),
    field("tls", Shape::List(&TLS)),
]));

const INGRESS_CLASS: Shape =
    object!(Shape::Fields(&[field("controller", Shape::Text), field("parameters", Shape::Any),]));

/// The shape of objects of other kinds.
const OBJECT: Shape = Shape::Some(&[field("data", Shape::Any), field("metadata", METADATA)]);

const MAP_OF_TEXTS: Shape = Shape::Some(&[
    field("data", Shape::Texts),
    field("metadata", METADATA),
    field("stringData", Shape::Texts),
]);

/// The shape of an object of a supported kind.
pub(super) fn of(api_version: &str, kind: &str) -> Shape {
    match (kind, api_version) {
        ("Ingress", "networking.k8s.io/v1") => INGRESS,
        ("Ingress", _) => LEGACY_INGRESS,
        ("IngressClass", _) => INGRESS_CLASS,
        ("ConfigMap" | "Secret", _) => MAP_OF_TEXTS,
        _ => OBJECT,
    }
}
