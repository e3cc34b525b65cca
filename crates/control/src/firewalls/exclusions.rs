//! Exclusions of a firewall, in the form that annotations and policies have for them.
//!
//! Never in here: `SecLang`. No text of an exclusion becomes part of a directive.

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::Value;
use waf::ExcludedPath;

/// The most exclusions of an object, and the most items of a list in one.
pub(crate) const EXCLUSIONS_MAX: usize = 256;
pub(crate) const ITEMS_MAX: usize = 64;

/// The most characters of a tag, a target and a path.
pub(crate) const TEXT_MAX: usize = 1024;

/// Rules that are left out, or that do not look at some targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Exclusion {
    /// Ids of rules, and ranges of ids. Without ids and tags, all rules are meant.
    rules: Vec<Ids>,
    tags: Vec<String>,
    /// The targets that the rules do not look at; empty if the rules are left out as a whole.
    targets: Vec<String>,
    /// The path on which it holds; none for all paths.
    path: Option<Path>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
struct Path {
    #[serde(default, rename = "type")]
    kind: PathKind,
    value: String,
}

/// The way to compare paths, as in an `HTTPRoute`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
enum PathKind {
    #[default]
    PathPrefix,
    Exact,
    RegularExpression,
}

/// An id of a rule, `942100`, or a range of ids, `942100-942199`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(untagged)]
enum Ids {
    One(u64),
    Text(String),
}

impl Ids {
    fn range(&self) -> Result<RangeInclusive<u64>, String> {
        let text = match self {
            Self::One(id) => return Ok(*id..=*id),
            Self::Text(text) => text.trim(),
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
            _ => Err(format!("{text:?} is no id of a rule, and no range such as 942100-942199")),
        }
    }
}

/// Reads a list of exclusions.
///
/// # Errors
///
/// The place of the first fault, and what it is.
pub(crate) fn read(value: &Value) -> Result<Vec<Exclusion>, String> {
    let Value::Array(items) = value else { return Err("a list of exclusions is needed".to_owned()) };
    if items.len() > EXCLUSIONS_MAX {
        return Err(format!("there are {} exclusions, and {EXCLUSIONS_MAX} are the most", items.len()));
    }
    let one = |(at, item): (usize, &Value)| {
        let exclusion = Exclusion::deserialize(item).map_err(|error| format!("[{at}]: {error}"))?;
        exclusion.compiled().map(|_| exclusion).map_err(|why| format!("[{at}]{why}"))
    };
    items.iter().enumerate().map(one).collect()
}

impl Exclusion {
    /// The exclusion for the engine, or the field with a fault and what it is.
    pub(super) fn compiled(&self) -> Result<waf::Exclusion, String> {
        let Self { rules, tags, targets, path } = self;
        if targets.is_empty() && path.is_none() && rules.is_empty() && tags.is_empty() {
            return Err(": without rules, tags, targets and path it would be about everything".to_owned());
        }
        for (name, count) in [("rules", rules.len()), ("tags", tags.len()), ("targets", targets.len())] {
            if count > ITEMS_MAX {
                return Err(format!(".{name}: {count} items, and {ITEMS_MAX} are the most"));
            }
        }
        let mut exclusion = waf::Exclusion::default();
        for (at, ids) in rules.iter().enumerate() {
            exclusion.add_ids(ids.range().map_err(|why| format!(".rules[{at}]: {why}"))?);
        }
        for (at, tag) in tags.iter().enumerate() {
            bounded(tag).map_err(|why| format!(".tags[{at}]: {why}"))?;
            exclusion.add_tag(tag);
        }
        for (at, target) in targets.iter().enumerate() {
            let added = bounded(target).and_then(|()| exclusion.add_target(target));
            added.map_err(|why| format!(".targets[{at}]: {why}"))?;
        }
        if let Some(path) = path {
            let set = path.compared().and_then(|path| exclusion.set_path(path));
            set.map_err(|why| format!(".path.value: {why}"))?;
        }
        Ok(exclusion)
    }
}

impl Path {
    fn compared(&self) -> Result<ExcludedPath<'_>, String> {
        let value = &self.value;
        bounded(value)?;
        if self.kind == PathKind::RegularExpression {
            return Ok(ExcludedPath::Expression(value));
        }
        let Some(rest) = value.strip_prefix('/') else {
            return Err(format!("{value:?} does not begin with /"));
        };
        let elements = rest.strip_suffix('/').unwrap_or(rest).split('/');
        if !rest.is_empty() && elements.into_iter().any(|element| ["", ".", ".."].contains(&element)) {
            return Err(format!("{value:?} has an empty element, . or ..: no normalised path has"));
        }
        Ok(match self.kind {
            PathKind::Exact => ExcludedPath::Exact(value),
            _ => ExcludedPath::Prefix(value),
        })
    }
}

fn bounded(text: &str) -> Result<(), String> {
    match text.chars().count() {
        0 => Err("it is empty".to_owned()),
        1..=TEXT_MAX => Ok(()),
        count => Err(format!("it has {count} characters, and {TEXT_MAX} are the most")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn exclusions_are_read_with_their_defaults() {
        let value = json!([
            {"rules": [942_100, "941000-941999"], "targets": ["ARGS:comment", "ARGS:/^x_[a,b]/"]},
            {"tags": ["attack-sqli"], "path": {"value": "/editor"}},
            {"path": {"type": "RegularExpression", "value": "/a[0-9]+"}},
        ]);
        let read = read(&value).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].rules[1].range(), Ok(941_000..=941_999));
        assert_eq!(read[1].path.as_ref().unwrap().kind, PathKind::PathPrefix);
    }

    #[test]
    fn faults_have_their_place() {
        for (value, expected) in [
            (json!({}), "a list of exclusions is needed"),
            (json!([{}]), "[0]: without rules, tags, targets and path"),
            (json!([{"rules": [1]}, {"rule": [1]}]), "[1]: unknown field `rule`"),
            (json!([{"rules": ["9-1"]}]), "[0].rules[0]: \"9-1\" is no id"),
            (json!([{"rules": ["1\" \"deny"]}]), "[0].rules[0]: "),
            (
                json!([{"rules": [1], "targets": ["ARGS", "ARGZ"]}]),
                "[0].targets[1]: there is no variable ARGZ",
            ),
            (json!([{"targets": ["ARGS:a\"|FILES"]}]), "[0].targets[0]: "),
            (json!([{"tags": [""]}]), "[0].tags[0]: it is empty"),
            (json!([{"path": {"value": "editor"}}]), "[0].path.value: \"editor\" does not begin with /"),
            (json!([{"path": {"value": "/a//b"}}]), "[0].path.value: "),
            (json!([{"path": {"type": "Regex", "value": "/a"}}]), "[0]: unknown variant `Regex`"),
            (json!([{"path": {"type": "RegularExpression", "value": "/(a"}}]), "[0].path.value: "),
        ] {
            let fault = read(&value).unwrap_err();
            assert!(fault.starts_with(expected), "{value}: {fault}");
        }
        let many = vec![json!({"rules": [1]}); EXCLUSIONS_MAX + 1];
        assert!(read(&many.into()).is_err());
    }
}
