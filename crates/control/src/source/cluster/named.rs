//! The kept part of Secrets and `ConfigMap`s. Never in here: the objects that name them.

use crate::names::NsName;
use crate::objects::{ConfigMap, Resource, Secret};

/// An object that the index holds only while another object or the settings name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Named {
    /// Kind of the object: a Secret or a `ConfigMap`.
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
