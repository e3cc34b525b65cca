//! An Ingress as the asker of settings.
//!
//! Never in here: the meaning of a setting.

use super::asker::Asker;
use super::own;
use crate::objects::{Ingress, Sourced};
use crate::problem::SourceLocation;

/// An Ingress, and the prefix of the annotations that are not Forebay's own.
pub(super) struct OfIngress<'i> {
    pub(super) ingress: &'i Sourced<Ingress>,
    pub(super) prefix: &'i str,
}

impl Asker for OfIngress<'_> {
    fn namespace(&self) -> &str {
        self.ingress.namespace()
    }

    fn place(&self) -> SourceLocation {
        SourceLocation::of(self.ingress)
    }

    fn given(&self, name: &str) -> Option<SourceLocation> {
        let value = self.ingress.metadata.annotations.get(&self.key(name))?;
        Some(SourceLocation::at(self.ingress, value))
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.ingress.metadata.annotations.get(&self.key(name)).map(|value| value.value.as_str())
    }

    fn names(&self) -> Vec<&str> {
        let keys = self.ingress.metadata.annotations.iter().map(|(key, _)| key);
        let own = keys.filter_map(|key| Some((key, key.split_once('/')?.1)));
        own.filter(|(key, name)| self.key(name) == *key).map(|(_, name)| name).collect()
    }

    fn short(&self, name: &str) -> String {
        name.to_owned()
    }

    fn key(&self, name: &str) -> String {
        let prefix = if own::named(name).is_some() { own::PREFIX } else { self.prefix };
        format!("{prefix}/{name}")
    }

    fn called(&self, name: &str) -> String {
        format!("annotation {}", self.key(name))
    }

    fn closed(&self) -> &'static str {
        "the locations of this Ingress"
    }
}
