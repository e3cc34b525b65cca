//! Routes with their attachments and status, stored until one of their inputs differs.
//!
//! Never in here: the contents of routes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::at_parent::{self, AtParent};
use super::attach::{Attached, attach};
use super::conflicts;
use super::effective::{Effective, ParentKey};
use super::forebay_policies::{Above, ForebayPolicies};
use super::listeners::{Listeners, OwnGateway};
use super::pieces::{self, Context, Pieces, RouteObject};
use super::report::RouteStatus;
use crate::index::{GatewayStores, Store};
use crate::names::{NsName, ObjectRef};
use crate::objects::gateway_api::{Gateway, GatewayClass, ListenerSet};
use crate::objects::{ForebayPolicy, Namespace, Resource, Sourced};
use crate::problem::Problem;
use crate::translate::clusters::ClusterQueries;
use crate::translate::inputs::Inputs;
use crate::translate::memo::Revisions;

/// New routes beyond which all are sorted again, instead of putting each in its place.
const INSERTED_MAX: usize = 64;

/// A route, its attachments, and its status.
pub(super) struct StoredRoute {
    pub(super) object: RouteObject,
    pub(super) parents: Vec<AtParent>,
    /// The status of the route; at first the status of the object that it replaces.
    pub(super) status: Option<Arc<RouteStatus>>,
    pub(super) problems: Vec<Problem>,
    is_judged: bool,
}

/// All routes, the oldest first, stored from one translation to the next.
#[derive(Default)]
pub(super) struct StoredRoutes {
    all: Vec<StoredRoute>,
    around: Around,
}

/// The inputs of attachment beside the routes.
#[derive(Default)]
struct Around {
    classes: Same<GatewayClass>,
    gateways: Same<Gateway>,
    sets: Same<ListenerSet>,
    namespaces: Same<Namespace>,
    policies: Same<ForebayPolicy>,
    /// The listeners that accept routes.
    take: Vec<bool>,
    /// The sets that are not accepted.
    refused: Vec<bool>,
    /// The certificates for backends, of each Gateway.
    certificates: Vec<Option<NsName>>,
}

/// The objects of a kind in the previous translation, to detect whether they are the same.
pub(super) struct Same<T>(Vec<Arc<Sourced<T>>>);

impl<T> Default for Same<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Resource> Same<T> {
    /// Records the objects. Returns whether they are the same as before.
    pub(super) fn note(&mut self, store: &Store<T>) -> bool {
        let mut pairs = self.0.iter().zip(store.iter());
        let is_same = self.0.len() == store.iter().count() && pairs.all(|(old, new)| Arc::ptr_eq(old, new));
        if !is_same {
            self.0 = store.iter().cloned().collect();
        }
        is_same
    }
}

impl Around {
    /// Records everything. Returns whether policies and whether everything are the same as before.
    fn note(&mut self, stores: &GatewayStores, listeners: &Listeners<'_>) -> (bool, bool) {
        let has_same_policies = self.policies.note(&stores.forebay_policies);
        // Every call is necessary, because it records the objects.
        let objects = [
            has_same_policies,
            self.classes.note(&stores.classes),
            self.gateways.note(&stores.gateways),
            self.sets.note(&stores.listener_sets),
            self.namespaces.note(&stores.namespaces),
        ];
        let take = listeners.all.iter().map(Effective::takes_routes).collect();
        let refused = listeners.sets.iter().map(|set| set.refused.is_some()).collect();
        let certificates = listeners.gateways.iter().map(|one| one.client_certificate.clone()).collect();
        let is_same = objects.iter().all(|is_same| *is_same)
            && (&self.take, &self.refused, &self.certificates) == (&take, &refused, &certificates);
        (self.take, self.refused, self.certificates) = (take, refused, certificates);
        (has_same_policies, is_same)
    }
}

impl StoredRoutes {
    /// Attaches the routes whose inputs differ. `context` is called with whether the policies are the same as
    /// before.
    pub(super) fn follow<'a, 'm>(
        &mut self,
        pieces: &mut Pieces,
        context: impl FnOnce(bool) -> Context<'m>,
        listeners: &Listeners<'a>,
        inputs: &Inputs<'a>,
        clusters: &mut ClusterQueries<'_, 'a>,
        revisions: &Revisions,
    ) {
        let (has_same_policies, is_same) = self.around.note(inputs.gateway(), listeners);
        let context = context(has_same_policies);
        self.follow_objects(inputs.gateway());
        for placed in &mut self.all {
            placed.is_judged &= is_same;
            if !placed.is_judged {
                placed.place(pieces, context.forebay_policies, listeners, inputs, revisions);
            }
            for number in placed.parents.iter().flat_map(AtParent::numbers) {
                placed.is_judged &=
                    !pieces::follow(pieces, number, &placed.object, &context, inputs, clusters, revisions);
            }
        }
        let routes = self.all.iter().map(|placed| (&placed.object, placed.parents.as_slice()));
        let mut lost = conflicts::find(&routes.collect::<Vec<_>>(), listeners.all.len(), pieces);
        for (number, placed) in self.all.iter_mut().enumerate() {
            for (at, parent) in placed.parents.iter_mut().enumerate() {
                let lost = lost.remove(&(number, at)).unwrap_or_default();
                placed.is_judged &= parent.lost == lost;
                parent.lost = lost;
            }
            if !placed.is_judged {
                placed.judge(pieces);
            }
        }
    }

    /// The routes with a parent of this controller.
    pub(super) fn attached(&self) -> impl Iterator<Item = &StoredRoute> {
        self.all.iter().filter(|placed| !placed.parents.is_empty())
    }

    /// Keeps the routes that still exist, and adds new ones.
    fn follow_objects(&mut self, stores: &GatewayStores) {
        let mut new: HashSet<usize, FixedState> =
            RouteObject::all(stores).map(|object| object.address()).collect();
        let is_gone = |placed: &mut StoredRoute| !new.remove(&placed.object.address());
        let gone = self.all.extract_if(.., is_gone).filter_map(|placed| placed.status);
        let mut gone: HashMap<ObjectRef, Arc<RouteStatus>> =
            gone.map(|status| (status.subject.object.clone(), status)).collect();
        if new.is_empty() {
            return;
        }
        let added = RouteObject::all(stores).filter(|object| new.contains(&object.address()));
        let stored = |object: RouteObject| {
            let status = gone.remove(&object.subject().object);
            StoredRoute { object, parents: Vec::new(), status, problems: Vec::new(), is_judged: false }
        };
        if new.len() > INSERTED_MAX {
            self.all.extend(added.map(stored));
            self.all.sort_by(|a, b| a.object.rank().cmp(&b.object.rank()));
            return;
        }
        for route in added.map(stored) {
            let place = self.all.partition_point(|other| other.object.rank() < route.object.rank());
            self.all.insert(place, route);
        }
    }
}

impl StoredRoute {
    fn place(
        &mut self,
        pieces: &mut Pieces,
        policies: &ForebayPolicies,
        listeners: &Listeners<'_>,
        inputs: &Inputs<'_>,
        revisions: &Revisions,
    ) {
        let object = &self.object;
        let at_parent = |attached: Attached| {
            let gateway = listeners.gateway_of(&attached.key);
            let certificate = gateway.and_then(|gateway| gateway.client_certificate.as_ref());
            let mut number =
                |above, passes_tls| pieces::number(pieces, object, certificate, above, passes_tls, revisions);
            let places = attached.listeners.iter().flatten().map(|(at, _)| &listeners.all[*at]);
            let of_listeners: Vec<_> =
                places.map(|one| number(above(gateway, one, policies), one.passes_tls())).collect();
            let number = of_listeners.first().copied().unwrap_or_else(|| number(None, false));
            AtParent { attached, number, of_listeners, lost: Vec::new() }
        };
        let attached = attach(&object.candidate(), listeners, inputs);
        self.parents = attached.into_iter().map(at_parent).collect();
    }

    fn judge(&mut self, pieces: &Pieces) {
        let (status, problems) = at_parent::status(&self.object, &self.parents, pieces);
        if self.status.as_deref() != Some(&status) {
            self.status = Some(Arc::new(status));
        }
        (self.problems, self.is_judged) = (problems, true);
    }
}

/// The identity of the policies at a listener.
fn above(
    gateway: Option<&OwnGateway<'_>>,
    listener: &Effective<'_>,
    policies: &ForebayPolicies,
) -> Option<Above> {
    let name = match &listener.parent {
        ParentKey::Gateway(_) => Some(&*listener.listener.name),
        ParentKey::Set(_) => None,
    };
    policies.above(&gateway?.object.key(), name)
}
