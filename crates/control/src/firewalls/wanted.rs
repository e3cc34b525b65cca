//! The rules that a firewall is to have.
//!
//! Never in here: compiled rules.

use std::sync::Arc;

/// The rules that a firewall is to have, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    /// The rules of the object itself.
    pub(crate) snippet: Option<Arc<str>>,
    /// The rules that many objects share.
    pub(crate) base: Base,
}

/// Rules that many objects share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Base {
    /// The default settings come first.
    pub(crate) defaults: bool,
    /// The rules of the `ConfigMap`.
    pub(crate) snippet: Option<Arc<str>>,
    /// The core rules.
    pub(crate) core: bool,
}
