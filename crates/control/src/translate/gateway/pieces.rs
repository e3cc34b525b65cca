//! Routes of all kinds in one form, with the content made of each, which is stored until one of its inputs
//! differs.
//!
//! Never in here: the attachment of routes.

use std::sync::Arc;

use super::attach::Candidate;
use super::backends::{BackendFinder, ByPolicies};
use super::conditions::{age, subject};
use super::extension;
use super::forebay_policies::{Above, Asks, Drafts, ForebayPolicies};
use super::kinds::RouteKind;
use super::policies::Policies;
use super::report::Subject;
use super::routes::{self, Content};
use super::rules;
use super::traffic::TrafficPolicies;
use crate::index::GatewayStores;
use crate::names::NsName;
use crate::objects::gateway_api::{
    BackendRef, Filter, GrpcRoute, HttpRoute, ParentReference, TcpRoute, TlsRoute, UdpRoute,
};
use crate::objects::{At, ForebayPolicy, Sourced};
use crate::problem::SourceLocation;
use crate::translate::claim::DraftRoute;
use crate::translate::clusters::ClusterQueries;
use crate::translate::ingress::Settings;
use crate::translate::inputs::Inputs;
use crate::translate::memo::{Memo, Revisions};
use crate::translate::ownership::Owner;

/// The identity of a route's content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PieceKey {
    kind: RouteKind,
    name: NsName,
    /// The Secret with the client certificate for backends.
    client_certificate: Option<NsName>,
    /// The Gateway or listener whose policies apply.
    above: Option<Above>,
    /// The listener passes on the TLS of its clients.
    passes_tls: bool,
}

/// The content made of a route, and its inputs.
pub(super) struct Piece {
    object: RouteObject,
    /// The version of grants and policies that the content was made with.
    version: u32,
    /// The policies that the content was made with.
    own_policies: Vec<Arc<Sourced<ForebayPolicy>>>,
    pub(super) content: Content,
}

/// The content of routes, stored from one translation to the next.
pub(super) type Pieces = Memo<PieceKey, Piece>;

macro_rules! route_objects {
    ($($kind:ident $object:ident;)*) => {
        /// A route of any kind.
        #[derive(Clone)]
        pub(super) enum RouteObject {
            $($kind(Arc<Sourced<$object>>),)*
        }

        impl RouteObject {
            pub(super) fn kind(&self) -> RouteKind {
                match self {
                    $(Self::$kind(_) => RouteKind::$kind,)*
                }
            }

            fn name(&self) -> NsName {
                match self {
                    $(Self::$kind(object) => object.key(),)*
                }
            }

            fn whole_place(&self) -> SourceLocation {
                match self {
                    $(Self::$kind(object) => SourceLocation::of(&**object),)*
                }
            }

            fn age(&self) -> (u64, &str, &str) {
                match self {
                    $(Self::$kind(object) => age(&**object),)*
                }
            }

            /// The route as an owner of hosts.
            pub(super) fn owner(&self) -> Owner {
                match self {
                    $(Self::$kind(object) => Owner { born: age(&**object).0, object: object.reference() },)*
                }
            }

            /// The address of the object, which identifies it as long as it is stored.
            pub(super) fn address(&self) -> usize {
                match self {
                    $(Self::$kind(object) => Arc::as_ptr(object).addr(),)*
                }
            }

            pub(super) fn subject(&self) -> Subject {
                match self {
                    $(Self::$kind(object) => subject(&**object),)*
                }
            }

            /// The place of a reference to a parent.
            pub(super) fn place(&self, parent: &At<ParentReference>) -> SourceLocation {
                match self {
                    $(Self::$kind(object) => SourceLocation::at(&**object, parent),)*
                }
            }

            fn namespace(&self) -> &str {
                match self {
                    $(Self::$kind(object) => object.namespace(),)*
                }
            }

            pub(super) fn parents(&self) -> &[At<ParentReference>] {
                match self {
                    $(Self::$kind(object) => &object.spec.parent_refs,)*
                }
            }

            fn is(&self, other: &Self) -> bool {
                match (self, other) {
                    $((Self::$kind(a), Self::$kind(b)) => Arc::ptr_eq(a, b),)*
                    _ => false,
                }
            }
        }
    };
}

route_objects! {
    Http HttpRoute;
    Grpc GrpcRoute;
    Tls TlsRoute;
    Tcp TcpRoute;
    Udp UdpRoute;
}

impl RouteObject {
    /// The routes of all kinds.
    pub(super) fn all(stores: &GatewayStores) -> impl Iterator<Item = Self> {
        let requests = stores.http_routes.iter().cloned().map(Self::Http);
        let requests = requests.chain(stores.grpc_routes.iter().cloned().map(Self::Grpc));
        let streams = stores.tls_routes.iter().cloned().map(Self::Tls);
        let streams = streams.chain(stores.tcp_routes.iter().cloned().map(Self::Tcp));
        requests.chain(streams).chain(stores.udp_routes.iter().cloned().map(Self::Udp))
    }

    /// The sort key that puts the oldest route first; it is unique.
    pub(super) fn rank(&self) -> ((u64, &str, &str), RouteKind) {
        (self.age(), self.kind())
    }

    /// The properties that decide about attachment.
    pub(super) fn candidate(&self) -> Candidate<'_> {
        let hostnames = match self {
            Self::Http(object) => Some(object.spec.hostnames.as_slice()),
            Self::Grpc(object) => Some(object.spec.hostnames.as_slice()),
            Self::Tls(object) => Some(object.spec.hostnames.as_slice()),
            Self::Tcp(_) | Self::Udp(_) => None,
        };
        Candidate { kind: self.kind(), namespace: self.namespace(), parents: self.parents(), hostnames }
    }

    /// Whether the route has this kind and name.
    pub(super) fn is_named(&self, kind: &str, name: &NsName) -> bool {
        self.kind().name() == kind && self.name() == *name
    }

    /// The names of its rules, without unnamed rules.
    pub(super) fn rule_names(&self) -> Vec<&str> {
        match self {
            Self::Http(it) => it.spec.rules.iter().filter_map(|rule| rule.value.name.as_deref()).collect(),
            Self::Grpc(it) => it.spec.rules.iter().filter_map(|rule| rule.value.name.as_deref()).collect(),
            Self::Tls(_) | Self::Tcp(_) | Self::Udp(_) => Vec::new(),
        }
    }

    /// The policies that its rules name.
    pub(super) fn asks(&self) -> Asks<'_> {
        match self {
            Self::Http(it) => asks(it.spec.rules.iter().map(|rule| {
                let rule = &rule.value;
                (rule.name.as_deref(), &*rule.filters, &*rule.backend_refs)
            })),
            Self::Grpc(it) => asks(it.spec.rules.iter().map(|rule| {
                let rule = &rule.value;
                (rule.name.as_deref(), &*rule.filters, &*rule.backend_refs)
            })),
            Self::Tls(_) | Self::Tcp(_) | Self::Udp(_) => Asks::default(),
        }
    }

    fn content(&self, drafts: &Drafts, finder: BackendFinder<'_, '_, '_>) -> Content {
        match self {
            Self::Http(it) => routes::of_requests(&it.reference(), &rules::of_http(it), drafts, finder),
            Self::Grpc(it) => routes::of_requests(&it.reference(), &rules::of_grpc(it), drafts, finder),
            Self::Tls(it) => routes::of_streams(&it.reference(), &it.spec.rules, finder),
            Self::Tcp(it) => routes::of_streams(&it.reference(), &it.spec.rules, finder),
            Self::Udp(it) => routes::of_streams(&it.reference(), &it.spec.rules, finder),
        }
    }
}

type RuleParts<'r> = (Option<&'r str>, &'r [At<Filter>], &'r [At<BackendRef>]);

fn asks<'r>(rules: impl Iterator<Item = RuleParts<'r>>) -> Asks<'r> {
    let mut asks = Asks::default();
    for (name, filters, backends) in rules {
        asks.rules.push((name.unwrap_or_default(), extension::names(filters).collect()));
        asks.of_backends.extend(backends.iter().flat_map(|backend| extension::names(&backend.value.filters)));
    }
    asks
}

/// The inputs that all routes share.
pub(super) struct Context<'m> {
    pub(super) policies: &'m Policies,
    pub(super) traffic: &'m TrafficPolicies,
    /// The version of grants and policies: it changes whenever they change.
    pub(super) version: u32,
    pub(super) forebay_policies: &'m ForebayPolicies,
    /// The policies are those of the previous translation.
    pub(super) has_same_policies: bool,
    /// The draft of routes without policies.
    pub(super) usual: &'m DraftRoute,
    /// The settings of the `ConfigMap`.
    pub(super) base: &'m Settings,
}

/// The number of a route's content for Gateways with this certificate for backends, and for listeners with
/// these policies that pass on TLS or do not.
pub(super) fn number(
    pieces: &mut Pieces,
    object: &RouteObject,
    client_certificate: Option<&NsName>,
    above: Option<Above>,
    passes_tls: bool,
    revisions: &Revisions,
) -> u32 {
    let (kind, name) = (object.kind(), object.name());
    let client_certificate = client_certificate.cloned();
    let key = PieceKey { kind, name, client_certificate, above, passes_tls };
    pieces.number(key, revisions)
}

/// Makes the content of a route again if one of its inputs has changed. Returns whether it did.
pub(super) fn follow<'a>(
    pieces: &mut Pieces,
    number: u32,
    object: &RouteObject,
    context: &Context<'_>,
    inputs: &Inputs<'a>,
    clusters: &mut ClusterQueries<'_, 'a>,
    revisions: &Revisions,
) -> bool {
    let own_of = |key: &PieceKey| {
        let kind = key.kind.name();
        context.forebay_policies.of_route(key.above.as_ref(), kind, &key.name, &object.asks())
    };
    let own_policies = (!context.has_same_policies).then(|| own_of(pieces.key(number)).objects());
    let has_same_policies = |old: &Piece| {
        own_policies.as_ref().is_none_or(|own| {
            let mut pairs = old.own_policies.iter().zip(own);
            old.own_policies.len() == own.len() && pairs.all(|(old, new)| Arc::ptr_eq(old, new))
        })
    };
    let is_same =
        |old: &Piece| old.version == context.version && old.object.is(object) && has_same_policies(old);
    pieces.get(number, revisions, is_same, |key, _| {
        let mut problems = Vec::new();
        let place = object.whole_place();
        let own = own_of(key);
        let drafts = own.drafts(&place, context.usual, context.base, inputs, &mut problems);
        let finder = BackendFinder {
            inputs,
            clusters,
            policies: context.policies,
            traffic: context.traffic,
            client_certificate: key.client_certificate.as_ref(),
            kind: object.kind(),
            is_in_clear: !key.passes_tls,
            namespace: object.namespace(),
            health: None,
            by_policies: ByPolicies::default(),
            answers: &drafts.answers,
            faults: Vec::new(),
            services: Vec::new(),
        };
        let mut content = object.content(&drafts, finder);
        content.problems.extend(problems);
        Piece { object: object.clone(), version: context.version, own_policies: own.objects(), content }
    })
}
