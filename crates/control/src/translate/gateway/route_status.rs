//! What the status of a route is to say, and the problems that follow from it.
//!
//! Never in here: where it is attached.

use super::conditions::{self, PARTIALLY_INVALID, problem};
use super::pieces::{Pieces, RouteObject};
use super::placed::AtParent;
use super::report::{Condition, ParentStatus, RouteStatus};
use super::routes::Content;
use crate::problem::Problem;

/// What is said of a route at its parents.
pub(super) fn of(object: &RouteObject, parents: &[AtParent], pieces: &Pieces) -> (RouteStatus, Vec<Problem>) {
    let mut all = Vec::new();
    let status = |at: &AtParent| {
        let Content { unresolved, refused, partly, problems, .. } = at.content(pieces);
        all.extend(problems.iter().cloned());
        let fault = at.attached.listeners.as_ref().err().or(refused.as_ref());
        let mut conditions = vec![conditions::accepted(fault), conditions::resolved(unresolved.as_ref())];
        if let Some(partly) = partly {
            conditions.push(Condition::yes(PARTIALLY_INVALID, partly.reason, partly.message.clone()));
        }
        let parent = &object.parents()[at.attached.parent];
        let place = object.place(parent);
        for fault in fault.into_iter().chain(unresolved).chain(partly) {
            all.push(problem(&place, "", fault));
        }
        ParentStatus { parent_ref: parent.value.clone(), conditions }
    };
    let statuses = parents.iter().map(status).collect();
    // Policies of a listener may have something to be told of there alone.
    let others = parents.iter().flat_map(|at| at.contents(pieces).skip(1));
    all.extend(others.flat_map(|content| content.problems.iter().cloned()));
    (RouteStatus { subject: object.subject(), parents: statuses }, all)
}
