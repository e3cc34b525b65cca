//! A request whose endpoints are being tried, or that needs none.

use std::cell::Cell;
use std::ops::Deref;

use crate::admit::Admitted;
use crate::route::values::{HasValues, Scope};
use crate::upstream::Slot;

/// A request whose endpoints are being tried. What its tries were is counted in its report.
pub(crate) struct Attempted<'x, 'a> {
    pub(crate) admitted: &'x Admitted<'a>,
    /// The affinity cookie that the client is given for its endpoint.
    pub(crate) cookie: Option<Box<CookieLine>>,
    /// The slot at the endpoint that is being tried, where the route has limits. It is given back while the
    /// endpoint waits for the client.
    pub(crate) place: Cell<Option<Slot>>,
}

/// The value of a `Set-Cookie`, or of the header that stands for it; behind one pointer, since few requests
/// have one.
pub(crate) struct CookieLine(pub(crate) String);

impl<'a> Deref for Attempted<'_, 'a> {
    type Target = Admitted<'a>;

    #[inline]
    fn deref(&self) -> &Admitted<'a> {
        self.admitted
    }
}

impl<'x, 'a> Attempted<'x, 'a> {
    /// A request before its first try.
    pub(crate) fn new(admitted: &'x Admitted<'a>) -> Self {
        Self { admitted, cookie: None, place: Cell::new(None) }
    }
}

impl HasValues for Attempted<'_, '_> {
    fn scope(&self) -> Scope<'_> {
        self.admitted.scope()
    }
}
