//! Further names of hosts (ingress-nginx: `server-alias`). A name that is a host's own is never asked for here.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use model::{Alias, HostName, Pattern};

use crate::host::HostTable;

/// All further names. Of two hosts with the same the first has it.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    exact: HashMap<Vec<u8>, Arc<HostTable>, RandomState>,
    /// The longest first.
    wildcards: Vec<(HostName, Arc<HostTable>)>,
    patterns: Vec<(Pattern, Arc<HostTable>)>,
}

impl Aliases {
    /// Those of these hosts; none if they have none.
    pub(crate) fn of(tables: &[Arc<HostTable>]) -> Option<Arc<Self>> {
        let mut aliases = Self::default();
        for table in tables {
            for alias in table.aliases() {
                aliases.add(alias, table);
            }
        }
        aliases.wildcards.sort_by_key(|(name, _)| Reverse(name.to_string().len()));
        let Self { exact, wildcards, patterns } = &aliases;
        let has_some = !exact.is_empty() || !wildcards.is_empty() || !patterns.is_empty();
        has_some.then(|| Arc::new(aliases))
    }

    fn add(&mut self, alias: &Alias, table: &Arc<HostTable>) {
        let table = Arc::clone(table);
        match alias {
            Alias::Name(HostName::Exact(name)) => {
                self.exact.entry(name.clone().into_bytes()).or_insert(table);
            }
            Alias::Name(wildcard) => self.wildcards.push((wildcard.clone(), table)),
            Alias::Pattern(pattern) => self.patterns.push((pattern.clone(), table)),
        }
    }

    /// The host that has a name, or the longest wildcard for it.
    pub(crate) fn find_name(&self, name: &[u8]) -> Option<&Arc<HostTable>> {
        let by_wildcard = || {
            let name = std::str::from_utf8(name).ok()?;
            self.wildcards.iter().find(|(wildcard, _)| wildcard.takes(name)).map(|(_, table)| table)
        };
        self.exact.get(name).or_else(by_wildcard)
    }

    /// The first host with a pattern that is found in a name.
    pub(crate) fn find_pattern(&self, name: &[u8]) -> Option<&Arc<HostTable>> {
        let name = std::str::from_utf8(name).ok()?;
        self.patterns.iter().find(|(pattern, _)| pattern.is_match(name)).map(|(_, table)| table)
    }
}

#[cfg(test)]
mod tests {
    use model::Host;

    use super::*;
    use crate::Hosts;

    fn host(name: &str, aliases: &[&str]) -> Arc<Host> {
        let alias = |text: &&str| match text.strip_prefix('~') {
            Some(pattern) => Alias::Pattern(Pattern::parse(pattern).unwrap()),
            None => Alias::Name(HostName::parse_with_suffix(text).unwrap()),
        };
        let (name, aliases) = (HostName::parse(name).unwrap(), aliases.iter().map(alias).collect());
        Arc::new(Host { name, aliases, tls: Arc::default(), routes: Vec::new() })
    }

    #[test]
    fn a_host_answers_to_its_further_names() {
        let list = [
            host("a.test", &["b.test", "*.c.test", "~^[0-9]+\\.d\\.test$"]),
            host("b.test", &["x.c.test", "x.d.test", "1.d.test"]),
            host("*.d.test", &["*.x.c.test", "y.c.test"]),
            host("z.test", &["y.c.test"]),
        ];
        let hosts = Hosts::new(&list, &Hosts::default());
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
        let alone = Hosts::new(&list[..1], &hosts);
        let name = |name: &str| alone.find(name.as_bytes()).map(|table| table.name().to_string());
        assert_eq!(name("b.test").as_deref(), Some("a.test"), "nobody else has it now");
        assert_eq!(name("2.d.test").as_deref(), Some("a.test"));
    }
}
