//! The stores of the Gateway API's kinds.

use super::Store;
use crate::names::NsName;
use crate::objects::gateway_api::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ReferenceGrant, TcpRoute,
    TlsRoute, UdpRoute,
};
use crate::objects::{ForebayPolicy, Namespace, Object, Resource};
use crate::problem::Problem;

impl GatewayStores {
    /// How many objects ask for something: Gateways, routes and policies.
    pub(crate) fn asking(&self) -> usize {
        let routes = self.http_routes.iter().count() + self.grpc_routes.iter().count();
        let streams =
            self.tls_routes.iter().count() + self.tcp_routes.iter().count() + self.udp_routes.iter().count();
        self.gateways.iter().count() + self.forebay_policies.iter().count() + routes + streams
    }
}

macro_rules! stores {
    ($($(#[$doc:meta])* $field:ident: $kind:ident;)*) => {
        /// The objects of the Gateway API, and what only they need.
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

            /// Removes an object. Returns whether it was there.
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

            /// Every object.
            pub(super) fn objects(&self) -> impl Iterator<Item = Object> {
                std::iter::empty()$(.chain(self.$field.iter().cloned().map(Object::$kind)))*
            }
        }
    };
}

stores! {
    /// Namespaces, for their labels.
    namespaces: Namespace;
    /// Classes.
    classes: GatewayClass;
    /// Gateways.
    gateways: Gateway;
    /// Sets of listeners.
    listener_sets: ListenerSet;
    /// HTTP routes.
    http_routes: HttpRoute;
    /// gRPC routes.
    grpc_routes: GrpcRoute;
    /// TLS routes.
    tls_routes: TlsRoute;
    /// TCP routes.
    tcp_routes: TcpRoute;
    /// UDP routes.
    udp_routes: UdpRoute;
    /// Grants.
    grants: ReferenceGrant;
    /// Policies for TLS towards backends.
    backend_tls_policies: BackendTlsPolicy;
    /// Settings for Gateways and routes.
    forebay_policies: ForebayPolicy;
}
