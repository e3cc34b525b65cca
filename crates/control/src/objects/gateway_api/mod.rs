//! The objects of the Gateway API (`gateway.networking.k8s.io`), version 1.6. The fields of its older
//! versions are the same. Those of version 1.7 differ in `session`, which reads both.
//!
//! Values to which a later version may add more are `open`: an object with an unknown value is still read.
//!
//! Never in here: the meaning of objects, and their status.

mod backend_ref;
mod backend_tls_policy;
mod backend_traffic_policy;
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
mod session;
mod tcp_route;
mod tls_route;
mod udp_route;

pub use backend_ref::BackendRef;
pub use backend_tls_policy::{
    BackendTlsPolicy, BackendTlsPolicySpec, BackendValidation, PolicyTarget, SubjectAltName,
};
pub use backend_traffic_policy::{
    BackendTrafficPolicySpec, BudgetDetails, EXPERIMENTAL_GROUP, RequestRate, RetryConstraint,
    XBackendTrafficPolicy,
};
pub use filter::{
    Cors, DirectResponse, DirectResponseBody, ExternalAuth, Filter, ForwardBody, Fraction, GrpcAuth, Header,
    HeaderModifier, HttpAuth, PathModifier, RequestMirror, RequestRedirect, UrlRewrite,
};
pub use gateway::{
    AllowedListeners, AllowedNamespaces, AllowedRoutes, BackendTls, FrontendTls, FrontendTlsConfig,
    FrontendValidation, Gateway, GatewayAddress, GatewaySpec, GatewayTls, Infrastructure, Listener,
    ListenerFilter, ListenerFilters, ListenerNamespaces, ListenerTls, PortTls, RouteGroupKind,
};
pub use gateway_class::{GatewayClass, GatewayClassSpec};
pub use grpc_route::{GrpcMatch, GrpcMethodMatch, GrpcRoute, GrpcRouteRule, GrpcRouteSpec};
pub use http_route::{
    HttpMatch, HttpRoute, HttpRouteRule, HttpRouteSpec, PathMatch, Retry, Timeouts, ValueMatch,
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
pub use session::{CookieConfig, HeaderConfig, SessionPersistence};
pub use tcp_route::{TcpRoute, TcpRouteSpec};
pub use tls_route::{TlsRoute, TlsRouteSpec};
pub use udp_route::{UdpRoute, UdpRouteSpec};
