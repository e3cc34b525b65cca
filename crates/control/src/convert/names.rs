//! Names of the objects that are made: two objects of one kind and namespace never share one, since the second would take the place
//! of the first, with what that keeps away.
//!
//! Never in here: kinds, each of which has names of its own.

use std::collections::BTreeSet;

use super::annotations::Annotations;
use crate::names::NsName;

/// The names of one kind that are taken.
#[derive(Clone, Debug)]
pub(super) struct Names(BTreeSet<NsName>);

impl Names {
    /// Each Ingress keeps its own name for its first object.
    pub(super) fn kept_for(ingresses: &[Annotations<'_>]) -> Self {
        Self(ingresses.iter().map(|one| one.ingress.key()).collect())
    }

    /// The name, with a number behind it where it is taken.
    pub(super) fn take(&mut self, namespace: &str, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let free = names.find(|name| self.0.insert(NsName::new(namespace, &**name)));
        free.expect("there are more numbers than objects")
    }
}
