//! References across namespaces: a `ReferenceGrant` in the namespace of the named object has to allow them.
//!
//! Never in here: the named objects, and whether they exist.

use crate::index::Store;
use crate::objects::gateway_api::ReferenceGrant;

/// An object with references, with the properties that grants compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Referrer<'r> {
    pub(super) group: &'r str,
    pub(super) kind: &'r str,
    pub(super) namespace: &'r str,
}

/// Whether the object may name an object of the core group in a namespace. "When a reference is within one
/// namespace, no grant is needed."
pub(super) fn allow(
    grants: &Store<ReferenceGrant>,
    referrer: Referrer<'_>,
    kind: &str,
    (namespace, name): (&str, &str),
) -> bool {
    referrer.namespace == namespace
        || grants.iter().filter(|grant| grant.namespace() == namespace).any(|grant| {
            let is_from = grant.spec.from.iter().any(|from| {
                *from.group == *referrer.group
                    && *from.kind == *referrer.kind
                    && *from.namespace == *referrer.namespace
            });
            let is_to = grant.spec.to.iter().any(|to| {
                to.group.is_empty() && *to.kind == *kind && to.name.as_deref().is_none_or(|one| one == name)
            });
            is_from && is_to
        })
}
