//! Decodes objects that the API server sends. Of an object that cannot be decoded, the name is still read.
//!
//! Never in here: the effect of an object.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use kube::api::ObjectMeta;
use kube::core::DynamicResourceScope;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::names::NsName;
use crate::objects::gateway_api::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ReferenceGrant, TcpRoute,
    TlsRoute, UdpRoute, XBackendTrafficPolicy,
};
use crate::objects::{
    ConfigMap, EndpointSlice, ForebayPolicy, Ingress, IngressClass, Namespace, Object, Origin, Resource,
    Secret, Service, Sourced,
};

/// A watched kind, and its path in the API.
pub(super) trait Watched: Resource + DeserializeOwned + Clone + Debug + Send + Sync + 'static {
    const GROUP: &'static str;
    const PLURAL: &'static str;

    /// The object for the index.
    fn object(this: Arc<Sourced<Self>>) -> Object;
}

macro_rules! watched {
    ($($kind:ident $group:literal $plural:literal;)*) => {
        $(impl Watched for $kind {
            const GROUP: &'static str = $group;
            const PLURAL: &'static str = $plural;

            fn object(this: Arc<Sourced<Self>>) -> Object {
                Object::$kind(this)
            }
        })*
    };
}

watched! {
    Ingress "networking.k8s.io" "ingresses";
    IngressClass "networking.k8s.io" "ingressclasses";
    Service "" "services";
    EndpointSlice "discovery.k8s.io" "endpointslices";
    ConfigMap "" "configmaps";
    Secret "" "secrets";
    Namespace "" "namespaces";
    GatewayClass "gateway.networking.k8s.io" "gatewayclasses";
    Gateway "gateway.networking.k8s.io" "gateways";
    ListenerSet "gateway.networking.k8s.io" "listenersets";
    HttpRoute "gateway.networking.k8s.io" "httproutes";
    GrpcRoute "gateway.networking.k8s.io" "grpcroutes";
    TlsRoute "gateway.networking.k8s.io" "tlsroutes";
    TcpRoute "gateway.networking.k8s.io" "tcproutes";
    UdpRoute "gateway.networking.k8s.io" "udproutes";
    ReferenceGrant "gateway.networking.k8s.io" "referencegrants";
    BackendTlsPolicy "gateway.networking.k8s.io" "backendtlspolicies";
    XBackendTrafficPolicy "gateway.networking.x-k8s.io" "xbackendtrafficpolicies";
    ForebayPolicy "forebay.io" "forebaypolicies";
}

/// An object, or the error of decoding it.
///
/// [`kube::core::DeserializeGuard`] would store a copy of the whole object, including managed fields; a list
/// has thousands of objects.
#[derive(Clone, Debug)]
pub(super) struct Item<T> {
    pub(super) meta: ObjectMeta,
    pub(super) read: Result<Arc<Sourced<T>>, String>,
}

/// The result of decoding an item.
pub(super) enum Thing {
    Object(Object),
    /// An object that cannot be decoded.
    Undecodable {
        uid: Option<String>,
        why: String,
    },
}

impl<T: Watched> Item<T> {
    /// The item as an object for the index.
    pub(super) fn thing(self) -> Thing {
        match self.read {
            Ok(object) => Thing::Object(T::object(object)),
            Err(why) => Thing::Undecodable { uid: self.meta.uid, why },
        }
    }

    pub(super) fn key(&self) -> NsName {
        let namespace = self.meta.namespace.as_deref().unwrap_or_default();
        NsName::new(namespace, self.meta.name.as_deref().unwrap_or_default())
    }
}

impl<'de, T: Watched> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(de)?;
        let metadata = value.get_mut("metadata").ok_or_else(|| D::Error::custom("no metadata"))?;
        trim(metadata);
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).map(str::to_owned);
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            uid: text("uid"),
            ..ObjectMeta::default()
        };
        let read = serde_path_to_error::deserialize(value)
            .map(|object| Arc::new(Sourced { origin: Origin::default(), object }))
            .map_err(|error| error.to_string());
        Ok(Self { meta, read })
    }
}

/// Removes unused metadata, such as managed fields, before the object is stored.
fn trim(metadata: &mut Value) {
    let Some(fields) = metadata.as_object_mut() else { return };
    fields.remove("managedFields");
    if let Some(annotations) = fields.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !name.starts_with("kubectl.kubernetes.io/"));
    }
}

impl<T: Watched> kube::Resource for Item<T> {
    /// The version that the watch requests.
    type DynamicType = &'static str;
    type Scope = DynamicResourceScope;

    fn kind<'a>(_: &'a &'static str) -> Cow<'a, str> {
        T::KIND.into()
    }

    fn group<'a>(_: &'a &'static str) -> Cow<'a, str> {
        T::GROUP.into()
    }

    fn version<'a>(version: &'a &'static str) -> Cow<'a, str> {
        (*version).into()
    }

    fn plural<'a>(_: &'a &'static str) -> Cow<'a, str> {
        T::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_read_keeps_its_name_and_says_where_it_is_wrong() {
        let item: Item<Service> = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "b", "resourceVersion": "7"},
            "spec": {"ports": [{"port": 80}, {"port": "eighty"}]},
        }))
        .unwrap();
        assert_eq!(item.key(), NsName::new("b", "a"));
        let why = item.read.unwrap_err();
        assert!(why.starts_with("spec.ports[1].port: invalid type: string \"eighty\""), "{why}");
    }

    #[test]
    fn what_nobody_reads_is_not_kept() {
        let item: Item<Ingress> = serde_json::from_value(json!({
            "metadata": {
                "name": "a",
                "uid": "u",
                "managedFields": [{"manager": "x"}],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "1"},
            },
        }))
        .unwrap();
        let read = item.read.unwrap();
        assert_eq!(read.metadata.annotations.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["kept"]);
        assert_eq!(read.metadata.uid(), Some("u"));
        assert_eq!(read.metadata.annotations.get("kept").map(|kept| kept.value.as_str()), Some("1"));
    }
}
