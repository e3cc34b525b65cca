//! The Kubernetes objects that configure the proxy, with exactly the fields that translation reads.
//!
//! Unknown fields are ignored, as an older client ignores those of a newer server. A known field of the wrong
//! type is an error. The fields of the legacy API groups are read into the same types.
//!
//! Never in here: the sources of objects, and their meaning.

mod de;
mod endpoints;
pub mod forebay_policy;
pub mod gateway_api;
mod ingress;
mod map;
mod metadata;
mod namespace;
mod secret;
mod service;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::names::{NsName, ObjectRef};
use de::nullable;
use gateway_api::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ReferenceGrant, TcpRoute,
    TlsRoute, UdpRoute, XBackendTrafficPolicy,
};

pub use de::At;
pub use endpoints::{
    Conditions, EndpointAddress, EndpointHints, EndpointPort, EndpointSlice, EndpointSubset, Endpoints,
    Place, SliceEndpoint,
};
pub use forebay_policy::{Fields, ForebayPolicy, ForebayPolicySpec};
pub use ingress::{
    Backend, HttpRule, Ingress, IngressClass, IngressClassSpec, IngressPath, IngressPoint, IngressRule,
    IngressSpec, IngressStatus, IngressTls, PathType,
};
pub use map::Map;
pub use metadata::Metadata;
pub(crate) use metadata::SERVICE_NAME;
pub use namespace::Namespace;
pub use secret::Secret;
pub(crate) use service::is_of;
pub use service::{Service, ServicePort, ServiceSpec};

/// A kind of object.
pub trait Resource {
    /// Name of the kind.
    const KIND: &'static str;
    /// Whether objects of this kind are in a namespace.
    const NAMESPACED: bool = true;

    /// The object's metadata.
    fn metadata(&self) -> &Metadata;
}

/// An object and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The place where the object was read.
    pub origin: Origin,
    /// The object itself.
    pub object: T,
}

/// The place where an object was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file; none if the object came from the API server.
    pub file: Option<Arc<Path>>,
    /// First line of the object, from 1.
    pub line: u32,
    /// First line of its YAML document, from which the lines of its values count.
    pub document_line: u32,
}

impl Origin {
    /// Line in the file of a value of this object; none without a file.
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
    /// Namespace: empty if the kind is not in a namespace, `default` if the object does not name one.
    pub fn namespace(&self) -> &str {
        if T::NAMESPACED { self.metadata().namespace.as_deref().unwrap_or("default") } else { "" }
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.metadata().name
    }

    /// Namespace and name of the object.
    pub fn key(&self) -> NsName {
        NsName::new(self.namespace(), self.name())
    }

    /// Kind, namespace and name of the object, for messages.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef { kind: T::KIND, namespace: self.namespace().into(), name: self.name().into() }
    }
}

/// Keys with values. One `ConfigMap` holds the settings of the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ConfigMap {
    /// Name, namespace, labels and annotations.
    pub metadata: Metadata,
    /// Keys and values.
    #[serde(default, deserialize_with = "nullable")]
    pub data: BTreeMap<String, At<String>>,
}

/// Declares the kinds: the variant, the name, the API versions that are read into it, and whether the kind
/// has namespaces.
macro_rules! kinds {
    ($($kind:ident $name:literal ($($version:literal)|+) $namespaced:literal;)*) => {
        /// An object of one of the supported kinds.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Object {
            $(#[doc = concat!("`", $name, "`.")] $kind(Arc<Sourced<$kind>>),)*
        }

        impl Object {
            /// Kind, namespace and name, which identify the object.
            pub fn key(&self) -> (&'static str, NsName) {
                match self {
                    $(Self::$kind(object) => ($kind::KIND, object.key()),)*
                }
            }
        }

        /// A supported kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind,)*
        }

        impl Kind {
            /// The names of the kinds, each with the API versions in which it is read, the newest first.
            pub(crate) const KNOWN: &'static [(&'static str, &'static [&'static str])] =
                &[$(($name, &[$($version),+])),*];

            /// Name of the kind.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// The kind that `apiVersion` and `kind` name; none if it is not supported.
            pub(crate) fn of(api_version: &str, kind: &str) -> Option<Self> {
                match (kind, api_version) {
                    $(($name, $($version)|+) => Some(Self::$kind),)*
                    _ => None,
                }
            }

            /// Deserializes an object of this kind.
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
            const KIND: &'static str = $name;
            const NAMESPACED: bool = $namespaced;

            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        })*
    };
}

kinds! {
    Ingress "Ingress" ("networking.k8s.io/v1" | "networking.k8s.io/v1beta1" | "extensions/v1beta1") true;
    IngressClass "IngressClass" ("networking.k8s.io/v1" | "networking.k8s.io/v1beta1") false;
    Service "Service" ("v1") true;
    EndpointSlice "EndpointSlice" ("discovery.k8s.io/v1" | "discovery.k8s.io/v1beta1") true;
    Endpoints "Endpoints" ("v1") true;
    ConfigMap "ConfigMap" ("v1") true;
    Secret "Secret" ("v1") true;
    Namespace "Namespace" ("v1") false;
    GatewayClass "GatewayClass" ("gateway.networking.k8s.io/v1" | "gateway.networking.k8s.io/v1beta1") false;
    Gateway "Gateway" ("gateway.networking.k8s.io/v1" | "gateway.networking.k8s.io/v1beta1") true;
    ListenerSet "ListenerSet" ("gateway.networking.k8s.io/v1") true;
    HttpRoute "HTTPRoute" ("gateway.networking.k8s.io/v1" | "gateway.networking.k8s.io/v1beta1") true;
    GrpcRoute "GRPCRoute" ("gateway.networking.k8s.io/v1" | "gateway.networking.k8s.io/v1alpha2") true;
    TlsRoute "TLSRoute" (
        "gateway.networking.k8s.io/v1" | "gateway.networking.k8s.io/v1alpha2" | "gateway.networking.k8s.io/v1alpha3"
    ) true;
    TcpRoute "TCPRoute" ("gateway.networking.k8s.io/v1" | "gateway.networking.k8s.io/v1alpha2") true;
    UdpRoute "UDPRoute" ("gateway.networking.k8s.io/v1" | "gateway.networking.k8s.io/v1alpha2") true;
    ReferenceGrant "ReferenceGrant" ("gateway.networking.k8s.io/v1" | "gateway.networking.k8s.io/v1beta1") true;
    ForebayPolicy "ForebayPolicy" ("forebay.io/v1alpha1") true;
    XBackendTrafficPolicy "XBackendTrafficPolicy" ("gateway.networking.x-k8s.io/v1alpha1") true;
    BackendTlsPolicy "BackendTLSPolicy" ("gateway.networking.k8s.io/v1" | "gateway.networking.k8s.io/v1alpha3") true;
}
