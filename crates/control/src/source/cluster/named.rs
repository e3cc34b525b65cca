//! What is kept of Secrets and `ConfigMap`s. Must not be in here: who names them.

use crate::names::NsName;
use crate::objects::{ConfigMap, Resource, Secret};

/// An object that is kept only while something names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Named {
    /// Kind: a Secret or a `ConfigMap`.
    pub(super) kind: &'static str,
    pub(super) key: NsName,
}

impl Named {
    pub(super) fn secret(key: NsName) -> Self {
        Self { kind: Secret::KIND, key }
    }

    pub(super) fn configmap(key: NsName) -> Self {
        Self { kind: ConfigMap::KIND, key }
    }
}
