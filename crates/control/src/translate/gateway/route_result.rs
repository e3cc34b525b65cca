//! A route with what it is attached to, and what it is there.
//!
//! Never in here: what is said of it.

use super::attach::Attached;
use super::pieces::{Pieces, RouteObject};
use super::routes::Content;

/// A route with what it is attached to.
pub(super) struct RouteResult<'r> {
    pub(super) object: &'r RouteObject,
    pub(super) attached: &'r [Attached<'r>],
    /// What it is at each parent.
    pub(super) contents: Vec<&'r Content>,
    /// What it is at each listener of each parent.
    pub(super) at_listeners: Vec<Vec<&'r Content>>,
}

impl<'r> RouteResult<'r> {
    /// `numbers`: those of the pieces at each parent, and at each of its listeners.
    pub(super) fn new(
        object: &'r RouteObject,
        attached: &'r [Attached<'r>],
        numbers: &[(u32, Vec<u32>)],
        pieces: &'r Pieces,
    ) -> Self {
        let content = |&number: &u32| &pieces.value(number).content;
        let contents = numbers.iter().map(|(first, _)| content(first)).collect();
        let at_listeners = numbers.iter().map(|(_, all)| all.iter().map(content).collect()).collect();
        Self { object, attached, contents, at_listeners }
    }
}
