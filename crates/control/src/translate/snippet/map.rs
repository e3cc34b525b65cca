//! Snippets for HTTP: tables of values (`map`, `geo`, `split_clients`), and zones of limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ValueMap;
use model::template::{Template, Variable};

use super::parse::Directive;
use super::{Fault, Faults, Names, Reader, Remark, is_new_name};
use crate::options::parse_network;

/// The most regular expressions of all tables.
const EXPRESSIONS_MAX: usize = 1000;

/// The longest chain of tables: a table may use another as its source.
const DEPTH_MAX: usize = 3;

pub(super) fn read(
    directives: &[Directive],
    passes_unenforced: bool,
) -> Result<(Names, Vec<Remark>), Faults> {
    let mut tables = Tables::default();
    tables.names.passes_unenforced = passes_unenforced;
    let (mut faults, mut remarks) = (Vec::new(), Vec::new());
    for directive in directives {
        if matches!(directive.name.as_str(), "map" | "geo" | "split_clients") {
            faults.extend(tables.add(directive).err());
            continue;
        }
        if matches!(directive.name.as_str(), "limit_req_zone" | "limit_conn_zone") {
            match Reader::new(&tables.names).zone(directive) {
                Ok((name, zone)) => _ = tables.names.zones.insert(name, zone),
                Err(fault) => faults.push(fault),
            }
            continue;
        }
        let reader = Reader::new(&tables.names);
        reader.setting(directive, false).unwrap_or_else(|fault| reader.note(fault));
        remarks.extend(reader.remarks.into_inner());
        faults.extend(reader.faults.into_inner());
    }
    if faults.is_empty() { Ok((tables.names, remarks)) } else { Err(Faults(faults)) }
}

/// The tables so far.
#[derive(Default)]
struct Tables {
    names: Names,
    depths: BTreeMap<String, usize>,
    expressions: usize,
}

impl Tables {
    fn add(&mut self, directive: &Directive) -> Result<(), Fault> {
        let Self { names, depths, expressions } = self;
        let reader = Reader {
            expressions: (*expressions).into(),
            expressions_max: EXPRESSIONS_MAX,
            ..Reader::new(names)
        };
        let (name, map) = match directive.name.as_str() {
            "geo" => reader.geo(directive)?,
            "split_clients" => reader.split_clients(directive)?,
            _ => reader.map(directive)?,
        };
        *expressions = reader.expressions.get();
        let map = Arc::new(map);
        let depth = 1 + depth_below(&map, names, depths);
        if depth > DEPTH_MAX {
            return Err(directive.fault(format!("is behind more than {DEPTH_MAX} others")));
        }
        depths.insert(name.clone(), depth);
        names.maps.insert(name, map);
        Ok(())
    }
}

/// The greatest depth of the tables that a table takes values from.
fn depth_below(map: &ValueMap, names: &Names, depths: &BTreeMap<String, usize>) -> usize {
    let used = map.templates().flat_map(Template::variables).filter_map(|variable| match variable {
        Variable::Mapped(used) => names.maps.iter().find(|(_, known)| Arc::ptr_eq(known, used)),
        _ => None,
    });
    used.filter_map(|(name, _)| depths.get(name).copied()).max().unwrap_or(0)
}

impl Reader<'_> {
    fn map(&self, directive: &Directive) -> Result<(String, ValueMap), Fault> {
        let [source, name] = directive.arguments()?;
        let name = self.new_name(directive, name)?;
        let (mut exact, mut patterns, mut default) = (BTreeMap::new(), Vec::new(), None);
        for entry in directive.inside()? {
            if matches!(entry.name.as_str(), "hostnames" | "include" | "volatile") || entry.block.is_some() {
                return Err(entry.unknown());
            }
            let [text] = entry.arguments()?;
            let value = self.template(entry, text)?;
            if value.has_captures() && !entry.name.starts_with('~') {
                return Err(entry.fault("has what a group has found as its value, and is no expression"));
            }
            let is_new = match entry.name.as_str() {
                "default" => default.replace(value).is_none(),
                key => match (key.strip_prefix("~*"), key.strip_prefix('~')) {
                    (Some(pattern), _) => {
                        patterns.push((self.expression(entry, pattern, true)?, value));
                        true
                    }
                    (None, Some(pattern)) => {
                        patterns.push((self.expression(entry, pattern, false)?, value));
                        true
                    }
                    (None, None) => {
                        let key = key.strip_prefix('\\').unwrap_or(key).to_ascii_lowercase();
                        exact.insert(key, value).is_none()
                    }
                },
            };
            if !is_new {
                return Err(entry.fault("is there twice"));
            }
        }
        let source = self.template(directive, source)?;
        let default = default.unwrap_or_default();
        Ok((name.to_owned(), ValueMap::new(source, exact, patterns, default)))
    }

    fn new_name<'d>(&self, directive: &Directive, name: &'d str) -> Result<&'d str, Fault> {
        let name =
            name.strip_prefix('$').filter(|name| is_new_name(name) && !self.names.maps.contains_key(*name));
        name.ok_or_else(|| directive.fault("makes no new variable"))
    }

    /// Reads `geo [$address] $variable { NETWORK VALUE; default VALUE; }`.
    fn geo(&self, directive: &Directive) -> Result<(String, ValueMap), Fault> {
        let (source, name) = match directive.words.as_slice() {
            [name] => ("$remote_addr", name),
            [source, name] => (source.as_str(), name),
            _ => {
                return Err(
                    directive.fault("needs a variable, and an address before it if it is another one")
                );
            }
        };
        let name = self.new_name(directive, name)?;
        let (mut networks, mut default) = (Vec::new(), Template::default());
        for entry in directive.inside()? {
            if matches!(entry.name.as_str(), "include" | "proxy" | "proxy_recursive" | "ranges" | "delete")
                || entry.block.is_some()
            {
                return Err(entry.unknown());
            }
            let [text] = entry.arguments()?;
            let value = self.template(entry, text)?;
            if entry.name == "default" {
                default = value;
            } else {
                networks.push((parse_network(&entry.name).map_err(|why| entry.fault(why))?, value));
            }
        }
        Ok((name.to_owned(), ValueMap::of_networks(self.template(directive, source)?, networks, default)))
    }

    /// Reads `split_clients TEXT $variable { SHARE% VALUE; * VALUE; }`.
    fn split_clients(&self, directive: &Directive) -> Result<(String, ValueMap), Fault> {
        let [source, name] = directive.arguments()?;
        let name = self.new_name(directive, name)?;
        let mut shares = Vec::new();
        let mut default = Template::default();
        let mut sum = 0_u64;
        for entry in directive.inside()? {
            let [text] = entry.arguments()?;
            let value = self.template(entry, text)?;
            if entry.name == "*" {
                default = value;
                continue;
            }
            let share = hundredths(&entry.name).filter(|share| *share > 0 && sum + share <= WHOLE);
            sum += share.ok_or_else(|| entry.fault("is no share, such as 0.5%, of what is left of 100%"))?;
            shares.push((u32::try_from(u64::from(u32::MAX) * sum / WHOLE).unwrap_or(u32::MAX), value));
        }
        Ok((name.to_owned(), ValueMap::of_shares(self.template(directive, source)?, shares, default)))
    }
}

/// All clients, in hundredths of a percent.
const WHOLE: u64 = 10_000;

/// Parses a share with up to two decimals, such as `0.5%`, in hundredths of a percent.
fn hundredths(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 2 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (whole, part): (u64, u64) = (whole.parse().ok()?, format!("{part:0<2}").parse().ok()?);
    whole.checked_mul(100)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_two_decimals() {
        assert_eq!(
            ["0.5%", "12.34%", "100%", "7%"].map(hundredths),
            [Some(50), Some(1234), Some(10_000), Some(700)]
        );
        assert_eq!(["5", "0.123%", "x%", "1.-%", "%"].map(hundredths), [None; 5]);
    }
}
