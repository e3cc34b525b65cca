//! An endpoint that was selected for a try.

use std::rc::Rc;

use crate::answer::attempted::CookieLine;
use crate::upstream::{Member, Slot};

/// An endpoint that was selected.
pub(crate) struct Selected<'c> {
    pub(crate) member: &'c Rc<Member>,
    /// The slot at the endpoint, where the route has limits.
    pub(crate) place: Option<Slot>,
    /// The cookie by which the client stays with the endpoint, where it is given one.
    pub(crate) cookie: Option<Box<CookieLine>>,
}

impl<'c> Selected<'c> {
    pub(crate) fn of(member: &'c Rc<Member>) -> Self {
        Self { member, place: None, cookie: None }
    }
}
