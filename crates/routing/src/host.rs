//! Look-up of the table of routes by the host that a client names.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::RandomState;
use model::{Alias, Host, HostList, HostName, HostTls, Route, StepBudget};

use crate::aliases::Aliases;
use crate::expressions::Expressions;
use crate::needs::Needs;
use crate::path::{Found, PathIndex};

/// Longest host name in bytes (RFC 1035 section 2.3.4); a longer one cannot be configured.
const NAME_BYTES_MAX: usize = 253;

/// A host with its routes.
#[derive(Debug)]
pub struct HostTable {
    host: Arc<Host>,
    is_plain: bool,
    /// Index of the routes without a regular expression. `expressions` is searched first.
    paths: PathIndex,
    /// None for most hosts, which have no regular expression.
    expressions: Option<Box<Expressions>>,
    /// The features that each route uses, in the order of the routes.
    needs: Box<[Needs]>,
}

impl HostTable {
    pub(crate) fn new(host: &Arc<Host>) -> Arc<Self> {
        let paths = PathIndex::new(host.routes.iter().map(|route| (&route.path, route.precedence())));
        let expressions = Expressions::boxed(host.routes.iter().map(|route| &route.path));
        let is_plain = *host.tls == HostTls::default();
        let needs = host.routes.iter().map(|route| Needs::of_route(route)).collect();
        Arc::new(Self { host: Arc::clone(host), is_plain, paths, expressions, needs })
    }

    /// The route for a normalised path. `complies` reports whether the request meets the conditions of a
    /// route.
    pub(crate) fn find(
        &self,
        path: &[u8],
        budget: &StepBudget,
        complies: impl Fn(usize) -> bool,
    ) -> Option<Found> {
        let by_expression =
            self.expressions.as_ref().and_then(|expressions| expressions.find(path, budget, &complies));
        by_expression.or_else(|| self.paths.find(path, complies))
    }

    /// The host that the table is compiled from.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Name of the host, which selects the requests of this table.
    pub fn name(&self) -> &HostName {
        &self.host.name
    }

    /// Name of the host whose routes are searched if none of its own matches a request.
    pub fn wider(&self) -> Option<&HostName> {
        self.host.wider.as_deref()
    }

    fn aliases(&self) -> &[Alias] {
        &self.host.aliases
    }

    /// TLS settings. The allocation stays the same until the settings change.
    pub fn tls(&self) -> &Arc<HostTls> {
        &self.host.tls
    }

    /// Whether the TLS settings are the defaults.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Routes in the order of the model, including those that are shadowed by another of the same path.
    pub fn routes(&self) -> &[Arc<Route>] {
        &self.host.routes
    }

    /// The features that a route uses, by its place among the routes.
    pub(crate) fn needs(&self, route: usize) -> Needs {
        self.needs[route]
    }

    fn is_of_name(&self, host: &Arc<Host>) -> bool {
        Arc::ptr_eq(&self.host, host) || self.host.name == host.name
    }

    /// Whether the table was built from this host, or from an equal one.
    fn is_of(&self, host: &Arc<Host>) -> bool {
        self.host == *host
    }
}

/// Host tables by name. Each server block is separate, as in nginx: if no path of the selected host matches,
/// wildcards and [`HostName::Any`] are not searched.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    exact: HashSet<ByName, RandomState>,
    one_label: HashSet<ByName, RandomState>,
    suffix: HashSet<ByName, RandomState>,
    any: Option<Arc<HostTable>>,
    /// None if no host has aliases, which is the usual case.
    aliases: Option<Arc<Aliases<HostTable>>>,
    in_order: Vec<Arc<HostTable>>,
    /// The hosts of the model.
    list: HostList,
}

impl Hosts {
    /// Builds the tables of these hosts. Tables of hosts that have not changed are reused from `previous`.
    pub(crate) fn new(list: &HostList, previous: &Self) -> Self {
        let mut before = Before { hosts: previous, at: 0, known: 0 };
        let mut changed = Vec::new();
        let table = |host| {
            before.table(host).cloned().unwrap_or_else(|| {
                let table = HostTable::new(host);
                changed.push(Arc::clone(&table));
                table
            })
        };
        let in_order: Vec<_> = list.iter().map(table).collect();
        if before.known < previous.in_order.len() {
            return Self { list: Arc::clone(list), ..in_order.into_iter().collect() };
        }
        let aliases = Aliases::of(in_order.iter().map(|table| (table.aliases(), table)));
        // No host was removed, so the names of before are all still valid.
        let list = Arc::clone(list);
        let mut hosts = Self { aliases, in_order, list, ..previous.clone_names() };
        for table in changed {
            hosts.enter(table);
        }
        hosts
    }

    fn clone_names(&self) -> Self {
        Self {
            exact: self.exact.clone(),
            one_label: self.one_label.clone(),
            suffix: self.suffix.clone(),
            any: self.any.clone(),
            aliases: None,
            in_order: Vec::new(),
            list: HostList::default(),
        }
    }

    /// Whether the tables were built from just this list.
    pub(crate) fn is_of(&self, list: &HostList) -> bool {
        Arc::ptr_eq(&self.list, list)
    }

    fn enter(&mut self, table: Arc<HostTable>) {
        match table.name() {
            HostName::Exact(_) => _ = self.exact.replace(ByName(table)),
            HostName::OneLabel(_) => _ = self.one_label.replace(ByName(table)),
            HostName::Suffix(_) => _ = self.suffix.replace(ByName(table)),
            HostName::Any => self.any = Some(table),
        }
    }

    /// The table of the host that a client names in `Host`, `:authority` or the server name of a TLS
    /// handshake:
    /// in any letter case, with or without a port or a final dot.
    ///
    /// "Exact beats wildcard", and both beat [`HostName::Any`]: nginx, `server_name`. The longest wildcard
    /// wins; of two of equal length, the one of an Ingress wins, because it matches fewer names.
    pub fn find(&self, host: &[u8]) -> Option<&Arc<HostTable>> {
        self.find_named(host).or(self.any.as_ref())
    }

    fn find_named(&self, host: &[u8]) -> Option<&Arc<HostTable>> {
        let host = without_port(host);
        let host = host.strip_suffix(b".").unwrap_or(host);
        // Configured names are in lower case, as nearly all that clients send: those need no lower-cased
        // copy.
        if let Some(found) = self.exact.get(host) {
            return Some(&found.0);
        }
        self.find_in_lower_case(host)
    }

    /// [`find_named`](Self::find_named) for a name that is no exact host as the client sent it. Not inlined,
    /// so that the common case needs no stack frame for the lower-cased copy.
    #[inline(never)]
    fn find_in_lower_case(&self, host: &[u8]) -> Option<&Arc<HostTable>> {
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = buffer.get_mut(..host.len())?;
        name.copy_from_slice(host);
        name.make_ascii_lowercase();
        if name != host
            && let Some(found) = self.exact.get(&*name)
        {
            return Some(&found.0);
        }
        let by_wildcard =
            || self.find_one_label(name).or_else(|| self.find_suffix(name)).map(|found| &found.0);
        let Some(aliases) = self.aliases.as_deref() else { return by_wildcard() };
        aliases.find_name(name).or_else(|| {
            // Aliases rank as hosts do: the longest wildcard wins; of two equal ones, that of a host itself.
            let declared = by_wildcard();
            let longer = aliases.find_wildcard(name, declared.map(|table| table.name()));
            longer.or(declared).or_else(|| aliases.find_pattern(name))
        })
    }

    fn find_one_label(&self, name: &[u8]) -> Option<&ByName> {
        if self.one_label.is_empty() {
            return None;
        }
        self.one_label.get(after_label(name)?)
    }

    /// Drops one label at a time, so that the longest suffix is found first.
    fn find_suffix(&self, name: &[u8]) -> Option<&ByName> {
        if self.suffix.is_empty() {
            return None;
        }
        let mut suffixes = std::iter::successors(after_label(name), |suffix| after_label(suffix));
        suffixes.find_map(|suffix| self.suffix.get(suffix))
    }

    /// The table of a configured name.
    pub fn get(&self, name: &HostName) -> Option<&Arc<HostTable>> {
        match name {
            HostName::Exact(text) => self.exact.get(text.as_bytes()).map(|found| &found.0),
            HostName::OneLabel(suffix) => self.one_label.get(suffix.as_bytes()).map(|found| &found.0),
            HostName::Suffix(suffix) => self.suffix.get(suffix.as_bytes()).map(|found| &found.0),
            HostName::Any => self.any.as_ref(),
        }
    }

    /// The tables in the order of the model.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<HostTable>> {
        self.in_order.iter()
    }
}

impl FromIterator<Arc<HostTable>> for Hosts {
    fn from_iter<I: IntoIterator<Item = Arc<HostTable>>>(tables: I) -> Self {
        let mut hosts = Self::default();
        for table in tables {
            hosts.in_order.push(Arc::clone(&table));
            hosts.enter(table);
        }
        hosts.aliases = Aliases::of(hosts.iter().map(|table| (table.aliases(), table)));
        hosts
    }
}

/// The previous tables with a cursor. Hosts are added and removed but seldom reordered, so the next table is
/// usually the match.
struct Before<'a> {
    hosts: &'a Hosts,
    at: usize,
    /// Number of previous tables whose host name still exists.
    known: usize,
}

impl<'a> Before<'a> {
    /// The table of a host, if it has not changed.
    fn table(&mut self, host: &Arc<Host>) -> Option<&'a Arc<HostTable>> {
        let next = self.hosts.in_order.get(self.at);
        let found = next.filter(|table| table.is_of_name(host)).or_else(|| self.hosts.get(&host.name))?;
        self.known += 1;
        if next.is_some_and(|next| Arc::ptr_eq(next, found)) {
            self.at += 1;
        } else if self.hosts.in_order.get(self.at + 1).is_some_and(|second| Arc::ptr_eq(second, found)) {
            self.at += 2;
        }
        Some(found).filter(|table| table.is_of(host))
    }
}

/// A host table that is hashed and compared by the bytes of its name or suffix.
#[derive(Clone, Debug)]
struct ByName(Arc<HostTable>);

impl Borrow<[u8]> for ByName {
    fn borrow(&self) -> &[u8] {
        match self.0.name() {
            HostName::Exact(text) | HostName::OneLabel(text) | HostName::Suffix(text) => text.as_bytes(),
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

/// Cuts off `:` and digits. The rest of an IPv6 literal has a `[` or a `:`, which no configured name has.
fn without_port(host: &[u8]) -> &[u8] {
    let digits = host.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    host[..host.len() - digits].strip_suffix(b":").unwrap_or(host)
}

/// The name without its first label and the dot; none if the label is not a valid one.
fn after_label(name: &[u8]) -> Option<&[u8]> {
    let dot = memchr::memchr(b'.', name)?;
    is_one_label(&name[..dot]).then_some(&name[dot + 1..])
}

/// Whether `*` matches this label. ingress-nginx translates `*` to `[\w-]+`.
fn is_one_label(label: &[u8]) -> bool {
    !label.is_empty() && label.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use model::Pattern;
    use proptest::prelude::*;

    use super::*;

    fn host(name: HostName) -> Arc<Host> {
        Arc::new(Host { name, aliases: Vec::new(), tls: Arc::default(), routes: Vec::new(), wider: None })
    }

    /// `_` is [`HostName::Any`], and `**.` stands for any number of labels.
    fn parse(name: &str) -> HostName {
        match name.strip_prefix('*') {
            _ if name == "_" => HostName::Any,
            Some(rest) if rest.starts_with('*') => HostName::parse_with_suffix(rest).unwrap(),
            _ => HostName::parse(name).unwrap(),
        }
    }

    fn hosts(names: &[&str]) -> Hosts {
        names.iter().map(|name| HostTable::new(&host(parse(name)))).collect()
    }

    fn found(hosts: &Hosts, host: impl AsRef<[u8]>) -> Option<String> {
        hosts.find(host.as_ref()).map(|table| match table.name() {
            HostName::Suffix(suffix) => format!("**.{suffix}"),
            name => name.to_string(),
        })
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

    #[test]
    fn a_suffix_stands_for_any_number_of_labels() {
        let hosts = hosts(&["**.foo.com", "web.foo.com", "**.b.foo.com", "*.b.foo.com"]);
        for (host, name) in [
            ("a.foo.com", Some("**.foo.com")),
            ("a.c.foo.com:80", Some("**.foo.com")),
            ("web.foo.com", Some("web.foo.com")),
            ("a.b.foo.com", Some("*.b.foo.com")),
            ("a.a.b.foo.com", Some("**.b.foo.com")),
            ("b.foo.com", Some("**.foo.com")),
            ("foo.com", None),
            (".foo.com", None),
            ("a..foo.com", None),
        ] {
            assert_eq!(found(&hosts, host).as_deref(), name, "{host}");
        }
    }

    /// Reference implementation: a linear search through the configured names.
    fn find_naively(names: &[&str], host: &str) -> Option<String> {
        let host = host.to_ascii_lowercase();
        let host = host.split_once(':').map_or(host.as_str(), |(name, _port)| name);
        let host = host.strip_suffix('.').unwrap_or(host);
        let wildcard = |name: &str| {
            let label = name.strip_prefix('*').and_then(|suffix| host.strip_suffix(suffix));
            label.is_some_and(|label| !label.is_empty() && !label.contains('.'))
        };
        let exact = names.iter().find(|name| **name == host);
        let suffix = |name: &&&str| {
            let labels = name.strip_prefix("**").and_then(|suffix| host.strip_suffix(suffix));
            labels.is_some_and(|labels| labels.split('.').all(|label| !label.is_empty()))
        };
        let best = exact.or_else(|| names.iter().find(|name| wildcard(name)));
        let best = best.or_else(|| names.iter().filter(suffix).max_by_key(|name| name.len()));
        best.or_else(|| names.iter().find(|name| **name == "_")).map(|name| (*name).to_owned())
    }

    const NAMES: [&str; 11] =
        ["a", "b.a", "*.a", "a.b.a", "*.b.a", "*.b", "c.b", "_", "**.a", "**.b.a", "**.b"];

    fn with_aliases(name: &str, aliases: &[&str]) -> Arc<Host> {
        let alias = |text: &&str| match text.strip_prefix('~') {
            Some(pattern) => Alias::Pattern(Pattern::parse(pattern).unwrap()),
            None => Alias::Name(HostName::parse_with_suffix(text).unwrap()),
        };
        let (name, aliases) = (HostName::parse(name).unwrap(), aliases.iter().map(alias).collect());
        Arc::new(Host { name, aliases, tls: Arc::default(), routes: Vec::new(), wider: None })
    }

    #[test]
    fn a_host_answers_to_its_further_names() {
        let list = [
            with_aliases("a.test", &["b.test", "*.c.test", "~^[0-9]+\\.d\\.test$"]),
            with_aliases("b.test", &["x.c.test", "x.d.test", "1.d.test"]),
            with_aliases("*.d.test", &["*.x.c.test", "y.c.test"]),
            with_aliases("z.test", &["y.c.test"]),
        ];
        let hosts = Hosts::new(&Arc::new(list.to_vec()), &Hosts::default());
        let find = |name: &str| hosts.find(name.as_bytes()).map(|table| table.name().to_string());
        for (name, expected) in [
            ("b.test", "b.test"),
            ("x.c.test:80", "b.test"),
            ("X.Y.C.Test", "a.test"),
            ("x.x.c.test", "*.d.test"),
            ("y.c.test", "*.d.test"),
            ("1.d.test", "b.test"),
            ("2.d.test", "*.d.test"),
        ] {
            assert_eq!(find(name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!((find("c.test"), find("1.e.test")), (None, None));
        let wide = [
            with_aliases("a.test", &["*.test"]),
            with_aliases("*.shop.test", &[]),
            with_aliases("*.test", &[]),
        ];
        let hosts = Hosts::new(&Arc::new(wide.to_vec()), &Hosts::default());
        let taken = |name: &str| hosts.find(name.as_bytes()).map(|table| table.name().to_string());
        assert_eq!(taken("x.shop.test").as_deref(), Some("*.shop.test"), "the longest wildcard counts");
        assert_eq!(taken("x.test").as_deref(), Some("*.test"), "a host's own name comes first");
        assert_eq!(taken("x.y.test").as_deref(), Some("a.test"), "nobody else has it");
        let alone = Hosts::new(&Arc::new(list[..1].to_vec()), &hosts);
        let name = |name: &str| alone.find(name.as_bytes()).map(|table| table.name().to_string());
        assert_eq!(name("b.test").as_deref(), Some("a.test"), "nobody else has it now");
        assert_eq!(name("2.d.test").as_deref(), Some("a.test"));
    }

    proptest! {
        #[test]
        fn finds_what_a_linear_search_finds(
            names in proptest::sample::subsequence(&NAMES, 0..=NAMES.len()),
            host in "([abcABC]\\.){0,3}[abcABC]?(:[0-9]{0,3})?",
        ) {
            prop_assert_eq!(found(&hosts(&names), &host), find_naively(&names, &host));
        }

        /// For any added, removed and changed hosts: each host has its table, and an unchanged host keeps its
        /// allocation.
        #[test]
        fn tables_follow_the_hosts(
            before in proptest::sample::subsequence(&NAMES, 0..=NAMES.len()).prop_shuffle(),
            after in proptest::sample::subsequence(&NAMES, 0..=NAMES.len()).prop_shuffle(),
            kept in proptest::sample::subsequence(&NAMES, 0..=NAMES.len()),
        ) {
            let of = |name: &&str, version: bool| {
                let tls = HostTls { prefer_server_ciphers: Some(version), ..HostTls::default() };
                Arc::new(Host { name: parse(name), aliases: Vec::new(), tls: Arc::new(tls), routes: Vec::new(), wider: None })
            };
            let old: Vec<_> = before.iter().map(|name| of(name, false)).collect();
            let old_hosts = Hosts::new(&Arc::new(old.clone()), &Hosts::default());
            let is_same = |name: &&str| before.contains(name) && kept.contains(name);
            let old_at = |name: &&str| before.iter().position(|one| one == name).unwrap();
            let new: Vec<_> = after
                .iter()
                .map(|name| if is_same(name) { Arc::clone(&old[old_at(name)]) } else { of(name, true) })
                .collect();
            let hosts = Hosts::new(&Arc::new(new.clone()), &old_hosts);
            prop_assert_eq!(hosts.iter().count(), new.len());
            for (name, (table, host)) in after.iter().zip(hosts.iter().zip(&new)) {
                prop_assert!(Arc::ptr_eq(&table.host, host));
                prop_assert!(Arc::ptr_eq(hosts.get(&host.name).unwrap(), table));
                if is_same(name) {
                    prop_assert!(Arc::ptr_eq(table, &old_hosts.in_order[old_at(name)]));
                }
            }
            for gone in before.iter().filter(|name| !after.contains(name)) {
                prop_assert!(hosts.get(&parse(gone)).is_none());
            }
        }

        #[test]
        fn no_host_panics(host: Vec<u8>) {
            prop_assert!(hosts(&["_"]).find(&host).is_some());
        }
    }
}
