//! The objects of the Gateway API (`gateway.networking.k8s.io`), version 1.6. The fields of its older
//! versions are the same.
//!
//! Values to which a later version may add more are `open`: an object with an unknown value is still read.
//!
//! Never in here: the meaning of objects, and their status.

mod backend_ref;
mod backend_tls_policy;
mod filter;
mod gateway;
mod gateway_class;
mod grpc_route;
mod http_route;
mod l4;
mod listener_set;
mod open;
mod reference_grant;
mod references;
mod selector;
mod tcp_route;
mod tls_route;
mod udp_route;

pub use backend_ref::BackendRef;
pub use backend_tls_policy::{
    BackendTlsPolicy, BackendTlsPolicySpec, BackendValidation, PolicyTarget, SubjectAltName,
};
pub use filter::{
    Cors, DirectResponse, DirectResponseBody, ExternalAuth, Filter, ForwardBody, Fraction, GrpcAuth, Header,
    HeaderModifier, HttpAuth, PathModifier, RequestMirror, RequestRedirect, UrlRewrite,
};
pub use gateway::{
    AllowedListeners, AllowedNamespaces, AllowedRoutes, BackendTls, FrontendTls, FrontendTlsConfig,
    FrontendValidation, Gateway, GatewayAddress, GatewaySpec, GatewayTls, Infrastructure, Listener,
    ListenerNamespaces, ListenerTls, PortTls, RouteGroupKind,
};
pub use gateway_class::{GatewayClass, GatewayClassSpec};
pub use grpc_route::{GrpcMatch, GrpcMethodMatch, GrpcRoute, GrpcRouteRule, GrpcRouteSpec};
pub use http_route::{
    CookieConfig, HttpMatch, HttpRoute, HttpRouteRule, HttpRouteSpec, PathMatch, Retry, SessionPersistence,
    Timeouts, ValueMatch,
};
pub use l4::L4Rule;
pub use listener_set::{ListenerSet, ListenerSetSpec};
pub use open::{
    AddressType, CookieLifetime, FilterType, FromNamespaces, PathMatchType, PathModifierType, Protocol,
    SelectorOperator, SessionType, SubjectAltNameType, TlsMode, ValidationMode, ValueMatchType,
};
pub use reference_grant::{GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec};
pub use references::{GROUP, ObjectReference, ParentReference};
pub use selector::{LabelSelector, SelectorRequirement};
pub use tcp_route::{TcpRoute, TcpRouteSpec};
pub use tls_route::{TlsRoute, TlsRouteSpec};
pub use udp_route::{UdpRoute, UdpRouteSpec};
