//! A route at its parents, its status there, and the resulting problems.
//!
//! Never in here: the search for its listeners.

use super::attach::Attached;
use super::conditions::{self, Fault, PARTIALLY_INVALID, problem};
use super::pieces::{Pieces, RouteObject};
use super::report::{Condition, ParentStatus, RouteStatus};
use super::routes::Content;
use crate::problem::Problem;

/// A listener that refuses a route, because another route has a name there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// The index of the listener.
    pub(super) listener: usize,
    pub(super) fault: Fault,
}

/// A route at one of its parents.
pub(super) struct AtParent {
    pub(super) attached: Attached,
    /// The number of the route's content at the parent.
    pub(super) number: u32,
    /// The numbers of its content at each listener.
    pub(super) of_listeners: Vec<u32>,
    /// The listeners at which it loses against other routes.
    pub(super) lost: Vec<Lost>,
}

impl AtParent {
    /// The numbers of all contents of the route.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        [self.number].into_iter().chain(self.of_listeners.iter().copied())
    }

    /// The content of the route at the parent.
    pub(super) fn content<'p>(&self, pieces: &'p Pieces) -> &'p Content {
        &pieces.value(self.number).content
    }

    /// The content of the route at each listener.
    pub(super) fn contents<'p>(&self, pieces: &'p Pieces) -> impl Iterator<Item = &'p Content> {
        self.of_listeners.iter().map(|&number| &pieces.value(number).content)
    }

    /// Whether a listener refuses it because of another route.
    pub(super) fn loses(&self, listener: usize) -> bool {
        self.lost.iter().any(|lost| lost.listener == listener)
    }

    /// The fault if every listener refuses it because of other routes.
    fn conflict(&self) -> Option<&Fault> {
        let listeners = self.attached.listeners.as_ref().ok()?;
        self.lost.first().filter(|_| self.lost.len() == listeners.len()).map(|lost| &lost.fault)
    }
}

/// The status of a route, and its problems.
pub(super) fn status(
    object: &RouteObject,
    parents: &[AtParent],
    pieces: &Pieces,
) -> (RouteStatus, Vec<Problem>) {
    let mut all = Vec::new();
    let of_parent = |at: &AtParent| {
        let Content { refused, partly, problems, .. } = at.content(pieces);
        // A reference may lead nowhere at one listener only, such as one that ends TLS.
        let unresolved = at.contents(pieces).find_map(|content| content.unresolved.as_ref());
        let unresolved = unresolved.or(at.content(pieces).unresolved.as_ref());
        all.extend(problems.iter().cloned());
        let fault = at.attached.listeners.as_ref().err().or(refused.as_ref()).or_else(|| at.conflict());
        let mut conditions = vec![conditions::accepted(fault), conditions::resolved(unresolved)];
        if let Some(partly) = partly {
            conditions.push(Condition::yes(PARTIALLY_INVALID, partly.reason, partly.message.clone()));
        }
        let parent = &object.parents()[at.attached.parent];
        let place = object.place(parent);
        let lost = at.lost.iter().map(|lost| &lost.fault).filter(|_| fault.is_none());
        for fault in fault.into_iter().chain(unresolved).chain(partly).chain(lost) {
            all.push(problem(&place, "", fault));
        }
        ParentStatus { parent_ref: parent.value.clone(), conditions }
    };
    let statuses = parents.iter().map(of_parent).collect();
    // Policies of a listener may cause problems at this listener only.
    let others = parents.iter().flat_map(|at| at.contents(pieces).skip(1));
    all.extend(others.flat_map(|content| content.problems.iter().cloned()));
    (RouteStatus { subject: object.subject(), parents: statuses }, all)
}
