//! A request that is over.

use std::ops::Deref;

use crate::admit::Admitted;
use crate::route::values::{HasValues, Scope};

/// A request that is over: what its record is made of.
pub(crate) struct Answered<'a> {
    pub(crate) admitted: &'a Admitted<'a>,
}

impl<'a> Deref for Answered<'a> {
    type Target = Admitted<'a>;

    #[inline]
    fn deref(&self) -> &Admitted<'a> {
        self.admitted
    }
}

impl HasValues for Answered<'_> {
    fn scope(&self) -> Scope<'_> {
        self.admitted.scope()
    }
}
