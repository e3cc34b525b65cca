//! Routes of all kinds in one form, and what is made of each, which is kept until something that it was made of differs.
//!
//! Never in here: where routes are attached.

use std::sync::Arc;

use super::attach::Candidate;
use super::backends::BackendFinder;
use super::conditions::{age, subject};
use super::forebay_policies::{Above, Drafts, ForebayPolicies};
use super::kinds::RouteKind;
use super::policies::Policies;
use super::report::Subject;
use super::routes::{self, Content};
use super::rules;
use crate::names::NsName;
use crate::objects::gateway_api::{GrpcRoute, HttpRoute, ParentReference, TcpRoute, TlsRoute, UdpRoute};
use crate::objects::{At, ForebayPolicy, Sourced};
use crate::problem::Place;
use crate::translate::claim::DraftRoute;
use crate::translate::clusters::ClusterQueries;
use crate::translate::ingress::Settings;
use crate::translate::inputs::Inputs;
use crate::translate::memo::{Memo, Revisions};

/// What identifies a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PieceKey {
    kind: RouteKind,
    name: NsName,
    /// The Secret with the certificate that is shown to backends.
    client_certificate: Option<NsName>,
    /// The Gateway or listener whose policies hold.
    above: Option<Above>,
}

/// What was made of a route.
pub(super) struct Piece {
    object: RouteObject,
    /// The version of grants and policies that it was made with.
    version: u32,
    /// The policies that it was made with.
    own_policies: Vec<Arc<Sourced<ForebayPolicy>>>,
    pub(super) content: Content,
}

/// What is made of routes, kept from one translation to the next.
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

            fn whole_place(&self) -> Place {
                match self {
                    $(Self::$kind(object) => Place::of(&**object),)*
                }
            }

            fn age(&self) -> (u64, String, String) {
                match self {
                    $(Self::$kind(object) => age(&**object),)*
                }
            }

            pub(super) fn subject(&self) -> Subject {
                match self {
                    $(Self::$kind(object) => subject(&**object),)*
                }
            }

            /// The place of a reference to a parent.
            pub(super) fn place(&self, parent: &At<ParentReference>) -> Place {
                match self {
                    $(Self::$kind(object) => Place::at(&**object, parent),)*
                }
            }

            fn namespace(&self) -> &str {
                match self {
                    $(Self::$kind(object) => object.namespace(),)*
                }
            }

            fn parents(&self) -> &[At<ParentReference>] {
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
    /// All routes, the oldest first.
    pub(super) fn all(inputs: &Inputs<'_>) -> Vec<Self> {
        let stores = inputs.gateway();
        let mut all: Vec<_> = stores.http_routes.iter().cloned().map(Self::Http).collect();
        all.extend(stores.grpc_routes.iter().cloned().map(Self::Grpc));
        all.extend(stores.tls_routes.iter().cloned().map(Self::Tls));
        all.extend(stores.tcp_routes.iter().cloned().map(Self::Tcp));
        all.extend(stores.udp_routes.iter().cloned().map(Self::Udp));
        all.sort_by_cached_key(Self::age);
        all
    }

    /// What decides about attachment.
    pub(super) fn candidate(&self) -> Candidate<'_> {
        let hostnames = match self {
            Self::Http(object) => Some(object.spec.hostnames.as_slice()),
            Self::Grpc(object) => Some(object.spec.hostnames.as_slice()),
            Self::Tls(object) => Some(object.spec.hostnames.as_slice()),
            Self::Tcp(_) | Self::Udp(_) => None,
        };
        Candidate { kind: self.kind(), namespace: self.namespace(), parents: self.parents(), hostnames }
    }

    /// Whether it is the one of a kind with a name.
    pub(super) fn is_named(&self, kind: &str, name: &NsName) -> bool {
        self.kind().name() == kind && self.name() == *name
    }

    /// The names of its rules, as far as they have any.
    pub(super) fn rule_names(&self) -> Vec<&str> {
        match self {
            Self::Http(it) => it.spec.rules.iter().filter_map(|rule| rule.value.name.as_deref()).collect(),
            Self::Grpc(it) => it.spec.rules.iter().filter_map(|rule| rule.value.name.as_deref()).collect(),
            Self::Tls(_) | Self::Tcp(_) | Self::Udp(_) => Vec::new(),
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

/// What all routes are made with.
pub(super) struct Context<'m> {
    pub(super) policies: &'m Policies,
    /// Is another one whenever grants or the policies are other ones.
    pub(super) version: u32,
    pub(super) forebay_policies: &'m ForebayPolicies,
    /// What holds for routes without policies.
    pub(super) usual: &'m DraftRoute,
    /// What the `ConfigMap` says.
    pub(super) base: &'m Settings,
}

/// Makes a route again if something of it has changed, for Gateways with this certificate for backends and for listeners with these policies.
/// Returns its number.
pub(super) fn follow<'a>(
    pieces: &mut Pieces,
    object: &RouteObject,
    (client_certificate, above): (Option<&NsName>, Option<Above>),
    context: &Context<'_>,
    inputs: &Inputs<'a>,
    clusters: &mut ClusterQueries<'_, 'a>,
    revisions: &Revisions,
) -> u32 {
    let (kind, name) = (object.kind(), object.name());
    let own = context.forebay_policies.of_route(above.as_ref(), kind.name(), &name, &object.rule_names());
    let own_policies = own.objects();
    let key = PieceKey { kind, name, client_certificate: client_certificate.cloned(), above };
    let number = pieces.number(key, revisions);
    let is_same = |old: &Piece| {
        let mut policies = old.own_policies.iter().zip(&own_policies);
        old.version == context.version
            && old.object.is(object)
            && old.own_policies.len() == own_policies.len()
            && policies.all(|(old, new)| Arc::ptr_eq(old, new))
    };
    pieces.get(number, revisions, is_same, |_, _| {
        let mut problems = Vec::new();
        let place = object.whole_place();
        let drafts = own.drafts(&place, context.usual, context.base, inputs, &mut problems);
        let finder = BackendFinder {
            inputs,
            clusters,
            policies: context.policies,
            client_certificate,
            kind: object.kind(),
            namespace: object.namespace(),
            faults: Vec::new(),
            services: Vec::new(),
        };
        let mut content = object.content(&drafts, finder);
        content.problems.extend(problems);
        Piece {
            object: object.clone(),
            version: context.version,
            own_policies: own_policies.clone(),
            content,
        }
    });
    number
}
