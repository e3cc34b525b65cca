//! Aliases of hosts (ingress-nginx: `server-alias`). The lookup by aliases comes after that by the hosts' own
//! names.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use model::{Alias, HostName, Pattern};

/// The aliases of all hosts. Of two hosts with the same alias the first has it.
#[derive(Debug)]
pub(crate) struct Aliases<T> {
    exact: HashMap<Vec<u8>, Arc<T>, RandomState>,
    /// Wildcards, the longest first.
    wildcards: Vec<(HostName, Arc<T>)>,
    patterns: Vec<(Pattern, Arc<T>)>,
}

impl<T> Aliases<T> {
    /// The aliases of these hosts; none if they have none.
    pub(crate) fn of<'t>(hosts: impl Iterator<Item = (&'t [Alias], &'t Arc<T>)>) -> Option<Arc<Self>>
    where
        T: 't,
    {
        let mut all = Self { exact: HashMap::default(), wildcards: Vec::new(), patterns: Vec::new() };
        for (alias, host) in hosts.flat_map(|(aliases, host)| aliases.iter().map(move |alias| (alias, host)))
        {
            all.add(alias, Arc::clone(host));
        }
        all.wildcards.sort_by_key(|(name, _)| Reverse(suffix(name).len()));
        let has_some = !all.exact.is_empty() || !all.wildcards.is_empty() || !all.patterns.is_empty();
        has_some.then(|| Arc::new(all))
    }

    fn add(&mut self, alias: &Alias, host: Arc<T>) {
        match alias {
            Alias::Name(HostName::Exact(name)) => {
                self.exact.entry(name.clone().into_bytes()).or_insert(host);
            }
            Alias::Name(wildcard) => self.wildcards.push((wildcard.clone(), host)),
            Alias::Pattern(pattern) => self.patterns.push((pattern.clone(), host)),
        }
    }

    /// The host with an exact alias.
    pub(crate) fn find_name(&self, name: &[u8]) -> Option<&Arc<T>> {
        self.exact.get(name)
    }

    /// The host with the longest wildcard for a name, if that is longer than the other one.
    pub(crate) fn find_wildcard(&self, name: &[u8], other: Option<&HostName>) -> Option<&Arc<T>> {
        let name = std::str::from_utf8(name).ok()?;
        let (wildcard, host) = self.wildcards.iter().find(|(wildcard, _)| wildcard.takes(name))?;
        let is_longer = other.is_none_or(|other| suffix(other).len() < suffix(wildcard).len());
        is_longer.then_some(host)
    }

    /// The first host with a pattern that matches in a name.
    pub(crate) fn find_pattern(&self, name: &[u8]) -> Option<&Arc<T>> {
        let name = std::str::from_utf8(name).ok()?;
        self.patterns.iter().find(|(pattern, _)| pattern.is_match(name)).map(|(_, host)| host)
    }
}

/// The suffix of a wildcard.
fn suffix(name: &HostName) -> &str {
    match name {
        HostName::Exact(text) | HostName::OneLabel(text) | HostName::Suffix(text) => text,
        HostName::Any => "",
    }
}
