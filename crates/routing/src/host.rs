//! From the host that a client names to the table of its routes.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::RandomState;
use model::{HostName, HostTls};

use crate::path::PathIndex;
use crate::route::Route;

/// Longest host name in bytes (RFC 1035 section 2.3.4); none that is longer can be configured.
const NAME_BYTES_MAX: usize = 253;

/// A host with its routes.
#[derive(Debug)]
pub struct HostTable {
    pub(crate) name: Arc<HostName>,
    pub(crate) tls: Arc<HostTls>,
    /// In the order of the model, which is what the indices in `paths` count.
    pub(crate) routes: Vec<Arc<Route>>,
    pub(crate) paths: PathIndex,
}

impl HostTable {
    pub(crate) fn new(name: Arc<HostName>, tls: Arc<HostTls>, routes: Vec<Arc<Route>>) -> Self {
        let paths = PathIndex::new(routes.iter().map(|route| &route.path));
        Self { name, tls, routes, paths }
    }

    /// Which requests come here.
    pub fn name(&self) -> &HostName {
        &self.name
    }

    /// How it is served over TLS. The same allocation for as long as it stays the same.
    pub fn tls(&self) -> &Arc<HostTls> {
        &self.tls
    }

    /// Its routes in the order of the model, those included that another one of equal path hides.
    pub fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }
}

/// Host tables by name. Each server block stands alone, as in nginx: a host whose paths do not match is not made up for
/// by a wildcard or by [`HostName::Any`].
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    exact: HashSet<ByName, RandomState>,
    wildcard: HashSet<ByName, RandomState>,
    any: Option<Arc<HostTable>>,
    in_order: Vec<Arc<HostTable>>,
}

impl Hosts {
    /// The table for a host as a client sent it: in any letter case, with or without a port or a final dot.
    ///
    /// "Exact beats wildcard", and both beat [`HostName::Any`]: nginx, `server_name`.
    pub(crate) fn find(&self, host: &[u8]) -> Option<&Arc<HostTable>> {
        self.find_named(host).or(self.any.as_ref())
    }

    fn find_named(&self, host: &[u8]) -> Option<&Arc<HostTable>> {
        let host = without_port(host);
        let host = host.strip_suffix(b".").unwrap_or(host);
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = buffer.get_mut(..host.len())?;
        name.copy_from_slice(host);
        name.make_ascii_lowercase();
        let found = self.exact.get(&*name).or_else(|| self.find_wildcard(name))?;
        Some(&found.0)
    }

    fn find_wildcard(&self, name: &[u8]) -> Option<&ByName> {
        if self.wildcard.is_empty() {
            return None;
        }
        let dot = memchr::memchr(b'.', name)?;
        let (label, suffix) = (&name[..dot], &name[dot + 1..]);
        if is_one_label(label) { self.wildcard.get(suffix) } else { None }
    }

    /// The table of a configured name.
    pub(crate) fn get(&self, name: &HostName) -> Option<&Arc<HostTable>> {
        match name {
            HostName::Exact(text) => self.exact.get(text.as_bytes()).map(|found| &found.0),
            HostName::Wildcard(suffix) => self.wildcard.get(suffix.as_bytes()).map(|found| &found.0),
            HostName::Any => self.any.as_ref(),
        }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<HostTable>> {
        self.in_order.iter()
    }
}

impl FromIterator<Arc<HostTable>> for Hosts {
    fn from_iter<I: IntoIterator<Item = Arc<HostTable>>>(tables: I) -> Self {
        let mut hosts = Self { in_order: tables.into_iter().collect(), ..Self::default() };
        for table in &hosts.in_order {
            let entry = ByName(Arc::clone(table));
            match *table.name {
                HostName::Exact(_) => _ = hosts.exact.insert(entry),
                HostName::Wildcard(_) => _ = hosts.wildcard.insert(entry),
                HostName::Any => hosts.any = Some(entry.0),
            }
        }
        hosts
    }
}

/// A host table that hashes and compares as the bytes of its name, or of its suffix.
#[derive(Debug)]
struct ByName(Arc<HostTable>);

impl Borrow<[u8]> for ByName {
    fn borrow(&self) -> &[u8] {
        match &*self.0.name {
            HostName::Exact(text) | HostName::Wildcard(text) => text.as_bytes(),
            HostName::Any => b"",
        }
    }
}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Borrow::<[u8]>::borrow(self).hash(state);
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        Borrow::<[u8]>::borrow(self) == Borrow::<[u8]>::borrow(other)
    }
}

impl Eq for ByName {}

/// Cuts off `:` and digits. What stays of an IPv6 literal holds a `[` or a `:`, which no configured name does.
fn without_port(host: &[u8]) -> &[u8] {
    let digits = host.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    host[..host.len() - digits].strip_suffix(b":").unwrap_or(host)
}

/// What ingress-nginx puts in place of `*`: `[\w-]+`.
fn is_one_label(label: &[u8]) -> bool {
    !label.is_empty() && label.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hosts(names: &[&str]) -> Hosts {
        let parse = |name: &&str| if *name == "_" { HostName::Any } else { HostName::parse(name).unwrap() };
        let table = |name| Arc::new(HostTable::new(Arc::new(name), Arc::default(), Vec::new()));
        names.iter().map(parse).map(table).collect()
    }

    fn found(hosts: &Hosts, host: impl AsRef<[u8]>) -> Option<String> {
        hosts.find(host.as_ref()).map(|table| table.name.to_string())
    }

    #[test]
    fn port_case_and_final_dot_do_not_matter() {
        let hosts = hosts(&["foo.com", "10.0.0.1"]);
        for host in ["foo.com", "FOO.com", "foo.com:80", "foo.com:", "foo.com.", "Foo.Com.:8443"] {
            assert_eq!(found(&hosts, host).as_deref(), Some("foo.com"), "{host}");
        }
        assert_eq!(found(&hosts, "10.0.0.1:80").as_deref(), Some("10.0.0.1"));
        assert_eq!(found(&hosts, "10.0.0.1").as_deref(), Some("10.0.0.1"));
    }

    #[test]
    fn what_is_no_configured_name_goes_to_any() {
        let named = ["foo.com", "*.foo.com"];
        let long = "a".repeat(300) + ".foo.com";
        let strange: [&[u8]; 14] = [
            b"",
            b".",
            b":",
            b":80",
            b"..",
            b"[::1]",
            b"[::1]:80",
            b"::1",
            b"foo.com:x",
            b"foo.com:80:80",
            b"foo.com..",
            b"\xff\xfe.foo.com",
            b"a b.foo.com",
            long.as_bytes(),
        ];
        for host in strange {
            assert_eq!(found(&hosts(&named), host), None, "{host:?}");
            assert_eq!(found(&hosts(&["foo.com", "*.foo.com", "_"]), host).as_deref(), Some("_"), "{host:?}");
        }
    }

    #[test]
    fn a_wildcard_stands_for_exactly_one_label() {
        let hosts = hosts(&["*.foo.com", "web.foo.com", "*.b.foo.com"]);
        for (host, name) in [
            ("a.foo.com", Some("*.foo.com")),
            ("A_b-1.Foo.com:80", Some("*.foo.com")),
            ("web.foo.com", Some("web.foo.com")),
            ("a.b.foo.com", Some("*.b.foo.com")),
            ("b.foo.com", Some("*.foo.com")),
            ("a.c.foo.com", None),
            ("foo.com", None),
            (".foo.com", None),
        ] {
            assert_eq!(found(&hosts, host).as_deref(), name, "{host}");
        }
    }

    /// Looks at every configured name in turn.
    fn find_naively(names: &[&str], host: &str) -> Option<String> {
        let host = host.to_ascii_lowercase();
        let host = host.split_once(':').map_or(host.as_str(), |(name, _port)| name);
        let host = host.strip_suffix('.').unwrap_or(host);
        let wildcard = |name: &str| {
            let label = name.strip_prefix('*').and_then(|suffix| host.strip_suffix(suffix));
            label.is_some_and(|label| !label.is_empty() && !label.contains('.'))
        };
        let exact = names.iter().find(|name| **name == host);
        let best = exact.or_else(|| names.iter().find(|name| wildcard(name)));
        best.or_else(|| names.iter().find(|name| **name == "_")).map(|name| (*name).to_owned())
    }

    const NAMES: [&str; 8] = ["a", "b.a", "*.a", "a.b.a", "*.b.a", "*.b", "c.b", "_"];

    proptest! {
        #[test]
        fn finds_what_a_linear_search_finds(
            names in proptest::sample::subsequence(&NAMES, 0..=NAMES.len()),
            host in "([abcABC]\\.){0,3}[abcABC]?(:[0-9]{0,3})?",
        ) {
            prop_assert_eq!(found(&hosts(&names), &host), find_naively(&names, &host));
        }

        #[test]
        fn no_host_panics(host: Vec<u8>) {
            prop_assert!(hosts(&["_"]).find(&host).is_some());
        }
    }
}
