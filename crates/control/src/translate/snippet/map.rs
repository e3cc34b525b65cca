//! Tables of values (`map`), the only directive of a snippet for HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ValueMap;
use model::template::{Template, Variable};

use super::parse::Directive;
use super::{Fault, Faults, Names, Reader, Remark, is_new_name};

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
        if directive.name == "map" {
            faults.extend(tables.add(directive).err());
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
        let (name, map) = reader.map(directive)?;
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
        let name =
            name.strip_prefix('$').filter(|name| is_new_name(name) && !self.names.maps.contains_key(*name));
        let name = name.ok_or_else(|| directive.fault("makes no new variable"))?;
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
}
