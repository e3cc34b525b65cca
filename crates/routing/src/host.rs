//! Look-up of the table of routes by the host that a client names.

use std::collections::HashSet;
use std::sync::Arc;

use model::{HostList, HostName, List};

use crate::aliases::Aliases;
use crate::names::{Names, text_of};
use crate::table::HostTable;

/// Longest host name in bytes (RFC 1035 section 2.3.4); a longer one cannot be configured.
const NAME_BYTES_MAX: usize = 253;

/// Host tables by name. Each server block is separate, as in nginx: if no path of the selected host matches,
/// wildcards and [`HostName::Any`] are not searched.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    exact: Names,
    one_label: Names,
    suffix: Names,
    any: Option<Arc<HostTable>>,
    /// None if no host has aliases, which is the usual case.
    aliases: Option<Arc<Aliases<HostTable>>>,
    in_order: List<Arc<HostTable>>,
    /// The special hosts in each part of the list; none for most parts.
    special: Vec<Option<Arc<[Arc<HostTable>]>>>,
    /// The hosts of the model.
    list: HostList,
}

impl Hosts {
    /// Builds the tables of these hosts. Tables of hosts that have not changed are reused from `previous`,
    /// and of lists that share parts only the other parts are visited.
    pub(crate) fn new(list: &HostList, previous: &Self) -> Self {
        let mut changed = Vec::new();
        let in_order = list.mapped(&previous.list, &previous.in_order, |host| {
            let known = previous.get(&host.name).filter(|table| table.is_of(host));
            known.cloned().unwrap_or_else(|| {
                let table = HostTable::new(host);
                changed.push(Arc::clone(&table));
                table
            })
        });
        let special = in_order.of_parts(&previous.in_order, &previous.special, |part| {
            let special: Arc<[_]> = part.iter().filter(|table| table.is_special()).cloned().collect();
            (!special.is_empty()).then_some(special)
        });
        let Self { exact, one_label, suffix, any, .. } = previous.clone();
        let list = Arc::clone(list);
        let mut hosts = Self { exact, one_label, suffix, any, aliases: None, in_order, special, list };
        if !previous.list.is_empty() {
            let present: HashSet<_> = hosts.list.unlike(&previous.list).map(|host| &host.name).collect();
            let gone = previous.list.unlike(&hosts.list).map(|host| &host.name);
            let gone: Vec<_> = gone.filter(|name| !present.contains(name)).collect();
            for name in gone {
                hosts.leave(name);
            }
        }
        for table in changed {
            hosts.enter(table);
        }
        if hosts.names() < hosts.in_order.len() {
            // A name occurs more than once: the last one is served, as if all tables were new.
            hosts.enter_all();
        }
        hosts.aliases = Aliases::of(hosts.special().map(|table| (table.aliases(), table)));
        hosts
    }

    /// The tables of hosts with TLS settings, with canaries that have steps, or with aliases. Most lists of
    /// hosts have few of them or consist of them.
    pub fn special(&self) -> impl Iterator<Item = &Arc<HostTable>> {
        self.special.iter().flatten().flat_map(|part| part.iter())
    }

    fn names(&self) -> usize {
        self.exact.len() + self.one_label.len() + self.suffix.len() + usize::from(self.any.is_some())
    }

    fn enter_all(&mut self) {
        (self.exact, self.one_label, self.suffix, self.any) = Default::default();
        for table in &self.in_order.clone() {
            self.enter(Arc::clone(table));
        }
    }

    /// Whether the tables were built from just this list.
    pub(crate) fn is_of(&self, list: &HostList) -> bool {
        Arc::ptr_eq(&self.list, list)
    }

    fn enter(&mut self, table: Arc<HostTable>) {
        match table.name() {
            HostName::Exact(_) => self.exact.insert(table),
            HostName::OneLabel(_) => self.one_label.insert(table),
            HostName::Suffix(_) => self.suffix.insert(table),
            HostName::Any => self.any = Some(table),
        }
    }

    fn leave(&mut self, name: &HostName) {
        match name {
            HostName::Exact(_) => self.exact.remove(text_of(name)),
            HostName::OneLabel(_) => self.one_label.remove(text_of(name)),
            HostName::Suffix(_) => self.suffix.remove(text_of(name)),
            HostName::Any => self.any = None,
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
            return Some(found);
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
            return Some(found);
        }
        let by_wildcard = || self.find_one_label(name).or_else(|| self.find_suffix(name));
        let Some(aliases) = self.aliases.as_deref() else { return by_wildcard() };
        aliases.find_name(name).or_else(|| {
            // Aliases rank as hosts do: the longest wildcard wins; of two equal ones, that of a host itself.
            let declared = by_wildcard();
            let longer = aliases.find_wildcard(name, declared.map(|table| table.name()));
            longer.or(declared).or_else(|| aliases.find_pattern(name))
        })
    }

    fn find_one_label(&self, name: &[u8]) -> Option<&Arc<HostTable>> {
        if self.one_label.is_empty() {
            return None;
        }
        self.one_label.get(after_label(name)?)
    }

    /// Drops one label at a time, so that the longest suffix is found first.
    fn find_suffix(&self, name: &[u8]) -> Option<&Arc<HostTable>> {
        if self.suffix.is_empty() {
            return None;
        }
        let mut suffixes = std::iter::successors(after_label(name), |suffix| after_label(suffix));
        suffixes.find_map(|suffix| self.suffix.get(suffix))
    }

    /// The table of a configured name.
    pub fn get(&self, name: &HostName) -> Option<&Arc<HostTable>> {
        match name {
            HostName::Exact(text) => self.exact.get(text.as_bytes()),
            HostName::OneLabel(suffix) => self.one_label.get(suffix.as_bytes()),
            HostName::Suffix(suffix) => self.suffix.get(suffix.as_bytes()),
            HostName::Any => self.any.as_ref(),
        }
    }

    /// The tables in the order of the model.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<HostTable>> {
        self.in_order.iter()
    }
}

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
    use model::{Alias, Host, HostTls, Pattern, Rare};
    use proptest::prelude::*;

    use super::*;

    fn host(name: HostName) -> Arc<Host> {
        Arc::new(Host {
            name,
            aliases: Rare::default(),
            tls: Arc::default(),
            routes: Vec::new(),
            wider: None,
        })
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
        let list: List<_> = names.iter().map(|name| host(parse(name))).collect();
        Hosts::new(&Arc::new(list), &Hosts::default())
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
        let hosts = Hosts::new(&Arc::new(list.to_vec().into()), &Hosts::default());
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
        let hosts = Hosts::new(&Arc::new(wide.to_vec().into()), &Hosts::default());
        let taken = |name: &str| hosts.find(name.as_bytes()).map(|table| table.name().to_string());
        assert_eq!(taken("x.shop.test").as_deref(), Some("*.shop.test"), "the longest wildcard counts");
        assert_eq!(taken("x.test").as_deref(), Some("*.test"), "a host's own name comes first");
        assert_eq!(taken("x.y.test").as_deref(), Some("a.test"), "nobody else has it");
        let alone = Hosts::new(&Arc::new(list[..1].to_vec().into()), &hosts);
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
                Arc::new(Host { name: parse(name), aliases: Rare::default(), tls: Arc::new(tls), routes: Vec::new(), wider: None })
            };
            let old: Vec<_> = before.iter().map(|name| of(name, false)).collect();
            let old_hosts = Hosts::new(&Arc::new(old.clone().into()), &Hosts::default());
            let is_same = |name: &&str| before.contains(name) && kept.contains(name);
            let old_at = |name: &&str| before.iter().position(|one| one == name).unwrap();
            let new: Vec<_> = after
                .iter()
                .map(|name| if is_same(name) { Arc::clone(&old[old_at(name)]) } else { of(name, true) })
                .collect();
            let hosts = Hosts::new(&Arc::new(new.clone().into()), &old_hosts);
            prop_assert_eq!(hosts.iter().count(), new.len());
            for (name, (table, host)) in after.iter().zip(hosts.iter().zip(&new)) {
                prop_assert!(Arc::ptr_eq(table.host(), host));
                prop_assert!(Arc::ptr_eq(hosts.get(&host.name).unwrap(), table));
                if is_same(name) {
                    prop_assert!(Arc::ptr_eq(table, old_hosts.in_order.get(old_at(name)).unwrap()));
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
