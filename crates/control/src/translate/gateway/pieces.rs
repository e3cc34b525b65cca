//! Routes of all kinds in one form, and what is made of each, which is kept until something that it was made of differs.
//!
//! Never in here: where routes are attached.

use std::sync::Arc;

use super::attach::Candidate;
use super::backends::BackendFinder;
use super::conditions::{age, subject};
use super::kinds::RouteKind;
use super::policies::Policies;
use super::report::Subject;
use super::routes::{self, Content};
use super::rules;
use crate::names::NsName;
use crate::objects::At;
use crate::objects::Sourced;
use crate::objects::gateway_api::{GrpcRoute, HttpRoute, ParentReference, TcpRoute, TlsRoute, UdpRoute};
use crate::problem::Place;
use crate::translate::claim::DraftRoute;
use crate::translate::clusters::ClusterQueries;
use crate::translate::inputs::Inputs;
use crate::translate::memo::{Memo, Revisions};

/// What identifies a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PieceKey {
    kind: RouteKind,
    name: NsName,
    /// The Secret with the certificate that is shown to backends.
    client_certificate: Option<NsName>,
}

/// What was made of a route.
pub(super) struct Piece {
    object: RouteObject,
    /// The version of grants and policies that it was made with.
    version: u32,
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

            fn key(&self, client_certificate: Option<&NsName>) -> PieceKey {
                let name = match self {
                    $(Self::$kind(object) => object.key(),)*
                };
                PieceKey { kind: self.kind(), name, client_certificate: client_certificate.cloned() }
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

    fn content(&self, base: &DraftRoute, finder: BackendFinder<'_, '_, '_>) -> Content {
        match self {
            Self::Http(it) => routes::of_requests(&it.reference(), &rules::of_http(it), base, finder),
            Self::Grpc(it) => routes::of_requests(&it.reference(), &rules::of_grpc(it), base, finder),
            Self::Tls(it) => routes::of_streams(&it.reference(), &it.spec.rules, finder),
            Self::Tcp(it) => routes::of_streams(&it.reference(), &it.spec.rules, finder),
            Self::Udp(it) => routes::of_streams(&it.reference(), &it.spec.rules, finder),
        }
    }
}

/// Makes a route again if something of it has changed, for Gateways with this certificate for backends. Returns its number.
pub(super) fn follow<'a>(
    pieces: &mut Pieces,
    (object, client_certificate): (&RouteObject, Option<&NsName>),
    (policies, version): (&Policies, u32),
    base: &DraftRoute,
    inputs: &Inputs<'a>,
    clusters: &mut ClusterQueries<'_, 'a>,
    revisions: &Revisions,
) -> u32 {
    let number = pieces.number(object.key(client_certificate), revisions);
    pieces.get(
        number,
        revisions,
        |old| old.version == version && old.object.is(object),
        |_, _| {
            let finder = BackendFinder {
                inputs,
                clusters,
                policies,
                client_certificate,
                kind: object.kind(),
                namespace: object.namespace(),
                faults: Vec::new(),
                services: Vec::new(),
            };
            Piece { object: object.clone(), version, content: object.content(base, finder) }
        },
    );
    number
}
