//! The stores of the Gateway API's kinds.

use super::{Store, Version};
use crate::names::NsName;
use crate::objects::gateway_api::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ReferenceGrant, TcpRoute,
    TlsRoute, UdpRoute, XBackendTrafficPolicy,
};
use crate::objects::{ForebayPolicy, Namespace, Object, Resource};
use crate::problem::Problem;

impl GatewayStores {
    /// Whether there are neither Gateways nor classes of them nor policies, so that routes have no effect.
    pub(crate) fn is_empty(&self) -> bool {
        self.gateways.is_empty() && self.classes.is_empty() && self.forebay_policies.is_empty()
    }

    /// The number of objects that request something: Gateways, routes and policies.
    pub(crate) fn asking(&self) -> usize {
        let routes = self.http_routes.iter().count() + self.grpc_routes.iter().count();
        let streams =
            self.tls_routes.iter().count() + self.tcp_routes.iter().count() + self.udp_routes.iter().count();
        self.gateways.iter().count() + self.forebay_policies.iter().count() + routes + streams
    }
}

macro_rules! stores {
    ($($(#[$doc:meta])* $field:ident: $kind:ident;)*) => {
        /// The objects of the Gateway API, and the Namespaces, which only Gateways need.
        #[derive(Debug, Default)]
        pub struct GatewayStores {
            $($(#[$doc])* pub $field: Store<$kind>,)*
        }

        impl GatewayStores {
            /// Adds an object, unless it is of another kind.
            pub(super) fn add(&mut self, object: &Object) -> Result<(), Box<Problem>> {
                match object {
                    $(Object::$kind(object) => self.$field.add(object),)*
                    _ => Ok(()),
                }
            }

            /// Replaces or adds an object. Returns whether it differs from the old one.
            pub(super) fn replace(&mut self, object: &Object) -> bool {
                match object {
                    $(Object::$kind(object) => self.$field.replace(object),)*
                    _ => false,
                }
            }

            /// Removes an object. Returns whether the object existed.
            pub(super) fn remove(&mut self, kind: &str, key: &NsName) -> bool {
                match kind {
                    $($kind::KIND => self.$field.remove(key).is_some(),)*
                    _ => false,
                }
            }

            /// The names of the objects of a kind.
            pub(crate) fn keys(&self, kind: &str) -> Vec<NsName> {
                match kind {
                    $($kind::KIND => self.$field.iter().map(|object| object.key()).collect(),)*
                    _ => Vec::new(),
                }
            }

            /// The versions of all stores: while they are the same, so are the objects.
            pub(crate) fn versions(&self) -> Vec<Version> {
                vec![$(self.$field.version().clone()),*]
            }

            /// Every object of these kinds.
            pub(super) fn objects(&self) -> impl Iterator<Item = Object> {
                std::iter::empty()$(.chain(self.$field.iter().cloned().map(Object::$kind)))*
            }
        }
    };
}

stores! {
    /// The Namespaces, of which labels are read.
    namespaces: Namespace;
    /// The known `GatewayClass`es.
    classes: GatewayClass;
    /// The Gateways of all classes.
    gateways: Gateway;
    /// The `ListenerSet`s, which add listeners to Gateways.
    listener_sets: ListenerSet;
    /// The routes for HTTP.
    http_routes: HttpRoute;
    /// The routes for gRPC.
    grpc_routes: GrpcRoute;
    /// The routes for TLS connections.
    tls_routes: TlsRoute;
    /// The routes for TCP connections.
    tcp_routes: TcpRoute;
    /// The routes for UDP datagrams.
    udp_routes: UdpRoute;
    /// The `ReferenceGrant`s of all namespaces.
    grants: ReferenceGrant;
    /// The policies for TLS towards backends.
    backend_tls_policies: BackendTlsPolicy;
    /// The policies for requests to Services.
    traffic_policies: XBackendTrafficPolicy;
    /// The settings for Gateways and routes.
    forebay_policies: ForebayPolicy;
}
