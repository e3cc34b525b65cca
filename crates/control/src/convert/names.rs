//! Unique names for the created objects: two objects of one kind and namespace never share a name, because
//! the second would replace the first, with its access restrictions.
//!
//! Never in here: kinds, each of which has names of its own.

use std::collections::BTreeSet;

use super::annotations::Annotations;
use crate::names::NsName;

/// The names of one kind that are taken.
#[derive(Clone, Debug)]
pub(super) struct Names(BTreeSet<NsName>);

impl Names {
    /// Reserves the name of each Ingress for its first object.
    pub(super) fn kept_for(ingresses: &[Annotations<'_>]) -> Self {
        Self(ingresses.iter().map(|one| one.ingress.key()).collect())
    }

    /// Takes the name, with a number at its end if the name is taken.
    pub(super) fn take(&mut self, namespace: &str, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let free = names.find(|name| self.0.insert(NsName::new(namespace, &**name)));
        free.expect("there are more numbers than objects")
    }
}
