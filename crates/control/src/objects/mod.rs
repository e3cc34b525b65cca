//! The Kubernetes objects that configure the proxy: exactly the fields that translation reads.
//!
//! Unknown fields are passed over, as an older client passes over a newer server's; a known field of the wrong type is
//! an error. The legacy API groups' fields are read into the same types.
//!
//! Never in here: where objects come from, and what they mean.

mod de;
mod endpoints;
mod ingress;
mod map;
mod secret;
mod service;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::names::{NsName, ObjectRef};
use de::nullable;

pub use de::At;
pub use endpoints::{
    Conditions, EndpointAddress, EndpointHints, EndpointPort, EndpointSlice, EndpointSubset, Endpoints,
    ForZone, SliceEndpoint,
};
pub use ingress::{
    Backend, HttpRule, Ingress, IngressClass, IngressClassSpec, IngressPath, IngressPoint, IngressRule,
    IngressSpec, IngressStatus, IngressTls, LoadBalancer,
};
pub use map::Map;
pub use secret::Secret;
pub(crate) use service::is_of;
pub use service::{Service, ServicePort, ServiceSpec};

/// What objects of every kind have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Name, unique in its namespace and kind.
    pub name: String,
    /// Namespace; `default` where a file says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// RFC 3339 in UTC with whole seconds, so that texts compare as the times do. Files seldom have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// Tells an object from a later one of the same name. Files do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Those labels that are read; the others are not kept.
    #[serde(default, deserialize_with = "labels")]
    pub labels: Map<String>,
    /// Annotations.
    #[serde(default, deserialize_with = "nullable")]
    pub annotations: Map<At<String>>,
}

/// The label of an [`EndpointSlice`] that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The labels that are kept of objects.
const LABELS_READ: &[&str] = &[SERVICE_NAME];

fn labels<'de, D: Deserializer<'de>>(de: D) -> Result<Map<String>, D::Error> {
    let mut labels: Map<String> = nullable(de)?;
    labels.retain(|name| LABELS_READ.contains(&name));
    Ok(labels)
}

/// A kind of object.
pub trait Resource {
    /// Name of the kind.
    const KIND: &'static str;
    /// Whether its objects live in a namespace.
    const NAMESPACED: bool = true;

    /// The object's metadata.
    fn metadata(&self) -> &Metadata;
}

/// An object and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// Where it came from.
    pub origin: Origin,
    /// The object.
    pub object: T,
}

/// Where an object came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file, if it was one.
    pub file: Option<Arc<Path>>,
    /// First line of the object, from 1.
    pub line: u32,
    /// First line of its YAML document, from which the lines of its values count.
    pub document_line: u32,
}

impl Origin {
    /// Line of a value of this object.
    pub fn line_of<V>(&self, value: &At<V>) -> Option<u32> {
        self.file.as_ref().filter(|_| value.line > 0).map(|_| self.document_line + value.line - 1)
    }
}

impl<T> Deref for Sourced<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T: Resource> Sourced<T> {
    /// Namespace: empty where the kind has none, `default` where the object says nothing.
    pub fn namespace(&self) -> &str {
        if T::NAMESPACED { self.metadata().namespace.as_deref().unwrap_or("default") } else { "" }
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.metadata().name
    }

    /// Namespace and name.
    pub fn key(&self) -> NsName {
        NsName::new(self.namespace(), self.name())
    }

    /// Kind, namespace and name.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef { kind: T::KIND, namespace: self.namespace().into(), name: self.name().into() }
    }
}

/// Settings of the proxy, among much else.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ConfigMap {
    /// Metadata.
    pub metadata: Metadata,
    /// Keys and values.
    #[serde(default, deserialize_with = "nullable")]
    pub data: BTreeMap<String, At<String>>,
}

/// A group of names. Its labels are judged by the API server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Namespace {
    /// Metadata.
    pub metadata: Metadata,
}

impl Resource for Namespace {
    const KIND: &'static str = "Namespace";
    const NAMESPACED: bool = false;

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// Kinds: the variant, the API versions that are read into it, and whether it lives in a namespace.
macro_rules! kinds {
    ($($kind:ident($($version:literal)|+) $namespaced:literal;)*) => {
        /// An object of one of the kinds that are understood.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Object {
            $(#[doc = concat!("A ", stringify!($kind), ".")] $kind(Arc<Sourced<$kind>>),)*
        }

        /// A kind that is understood.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind,)*
        }

        impl Kind {
            /// The kind that an object's `apiVersion` and `kind` name.
            pub(crate) fn of(api_version: &str, kind: &str) -> Option<Self> {
                match (kind, api_version) {
                    $((stringify!($kind), $($version)|+) => Some(Self::$kind),)*
                    _ => None,
                }
            }

            /// Reads an object of this kind.
            pub(crate) fn read<'de, D>(self, de: D, origin: Origin) -> Result<Object, D::Error>
            where
                D: serde::Deserializer<'de>,
            {
                Ok(match self {
                    $(Self::$kind => {
                        let object = $kind::deserialize(de)?;
                        Object::$kind(Arc::new(Sourced { origin, object }))
                    })*
                })
            }
        }

        $(impl Resource for $kind {
            const KIND: &'static str = stringify!($kind);
            const NAMESPACED: bool = $namespaced;

            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        })*
    };
}

kinds! {
    Ingress("networking.k8s.io/v1" | "networking.k8s.io/v1beta1" | "extensions/v1beta1") true;
    IngressClass("networking.k8s.io/v1" | "networking.k8s.io/v1beta1") false;
    Service("v1") true;
    EndpointSlice("discovery.k8s.io/v1" | "discovery.k8s.io/v1beta1") true;
    Endpoints("v1") true;
    ConfigMap("v1") true;
    Secret("v1") true;
}
