//! Circles among the modules of a crate: modules that import each other can be read and changed only together.
//!
//! What a module uses is read from its paths. A name that is re-exported counts for the module that defines it. A module and those
//! inside it do not count, nor do tests. Must not be in here: a parser of Rust. Names that come by a glob or from a macro are not seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Violation;
use super::source::rust_files;

/// The crates in which there are no circles.
const CRATES: &[&str] =
    &["files", "model", "wire", "routing", "observe", "proxy", "control", "doctor", "bench", "forebay"];

/// A module's path from the root of its crate, which is the empty one.
type Module = Vec<String>;

/// The modules of a crate.
type Modules = BTreeMap<Module, Source>;

/// What a module says.
#[derive(Default)]
struct Source {
    file: PathBuf,
    /// The paths in it, those of its imports included.
    paths: BTreeSet<Vec<String>>,
    /// What the names are that it imports or re-exports.
    imports: BTreeMap<String, Vec<String>>,
}

pub(super) fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for name in CRATES {
        let folder = Path::new("crates").join(name).join("src");
        let mut modules = Modules::new();
        for file in rust_files(&root.join(&folder))? {
            let within = file.strip_prefix(root.join(&folder))?;
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            if let Some(module) = module_of(within) {
                modules.insert(module, Source::read(&folder.join(within), &text));
            }
        }
        violations.extend(circles(&modules));
    }
    Ok(violations)
}

/// The module that a file is, if it is not one of tests.
fn module_of(file: &Path) -> Option<Module> {
    let stem = file.with_extension("");
    let mut module: Module = stem.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    module.pop_if(|last| matches!(last.as_str(), "lib" | "mod"));
    (!module.iter().any(|part| part == "tests")).then_some(module)
}

/// Violations that name, between them, every module that is part of a circle, each on a shortest way around.
fn circles(modules: &Modules) -> Vec<Violation> {
    let edges: BTreeMap<&Module, BTreeSet<Module>> =
        modules.iter().map(|(module, source)| (module, neighbours(modules, module, source))).collect();
    let mut violations = Vec::new();
    let mut known = BTreeSet::new();
    for (module, source) in modules {
        let Some(way) = way_around(&edges, module).filter(|_| !known.contains(module)) else { continue };
        let names: Vec<_> = way.iter().map(|module| module.join("::")).collect();
        known.extend(way);
        let message = format!("modules that import each other: {}", names.join(" -> "));
        violations.push(Violation { file: source.file.clone(), line: 1, message });
    }
    violations
}

/// The modules that a module uses.
fn neighbours(modules: &Modules, module: &Module, source: &Source) -> BTreeSet<Module> {
    let used = source.paths.iter().filter_map(|path| resolve(modules, module, path));
    used.filter(|used| !used.starts_with(module) && !module.starts_with(used)).collect()
}

/// The module that defines what a path names, if it is one of this crate.
fn resolve(modules: &Modules, from: &Module, path: &[String]) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    let begin = match first.as_str() {
        "crate" => Module::new(),
        "self" => from.clone(),
        "super" => from.split_last()?.1.to_vec(),
        name => step(modules, from, name)?,
    };
    rest.iter().try_fold(begin, |at, name| match name.as_str() {
        "super" => Some(at.split_last()?.1.to_vec()),
        name => Some(step(modules, &at, name).unwrap_or(at)),
    })
}

/// The module that a name in a module leads to; none where it is an item of the module itself, or another crate.
fn step(modules: &Modules, from: &Module, name: &str) -> Option<Module> {
    let child = [from.as_slice(), &[name.to_owned()]].concat();
    if modules.contains_key(&child) {
        return Some(child);
    }
    let import = modules.get(from)?.imports.get(name)?;
    (import.first().map(String::as_str) != Some(name)).then(|| resolve(modules, from, import)).flatten()
}

/// The shortest way from a module back to it.
fn way_around<'m>(
    edges: &'m BTreeMap<&'m Module, BTreeSet<Module>>,
    from: &'m Module,
) -> Option<Vec<&'m Module>> {
    let mut ways = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in edges.get(way.last()?).into_iter().flatten() {
            let longer = [way.as_slice(), &[next]].concat();
            if next == from {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push_back(longer);
            }
        }
    }
    None
}

impl Source {
    fn read(file: &Path, text: &str) -> Self {
        let mut source = Self { file: file.to_path_buf(), ..Self::default() };
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let tokens = tokens(code);
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at] == "use" {
                let mut found = Vec::new();
                at += 1 + read_path(&tokens[at + 1..], &[], &mut found);
                source.paths.extend(found.iter().map(|(_, path)| path.clone()));
                source.imports.extend(found);
            } else if is_name(tokens[at]) && tokens.get(at + 1) == Some(&"::") {
                let mut found = Vec::new();
                at += read_path(&tokens[at..], &[], &mut found);
                source.paths.extend(found.into_iter().map(|(_, path)| path));
            } else {
                at += 1;
            }
        }
        source
    }
}

/// Reads a path, or as many as its braces hold, each with the name that it is known by. Returns how many tokens that takes.
fn read_path(tokens: &[&str], prefix: &[String], found: &mut Vec<(String, Vec<String>)>) -> usize {
    let mut path = prefix.to_vec();
    let mut at = 0;
    loop {
        match tokens.get(at) {
            Some(&"{") => {
                at += 1;
                while tokens.get(at).is_some_and(|&token| token != "}") {
                    at += if tokens[at] == "," { 1 } else { read_path(&tokens[at..], &path, found) };
                }
                return at + 1;
            }
            Some(&name) if is_name(name) => path.push(name.to_owned()),
            _ => break,
        }
        at += 1;
        if tokens.get(at) != Some(&"::") {
            break;
        }
        at += 1;
    }
    path.pop_if(|last| last == "self" && !prefix.is_empty());
    let alias = tokens.get(at + 1).filter(|_| tokens.get(at) == Some(&"as")).map(|alias| (*alias).to_owned());
    at += if alias.is_some() { 2 } else { 0 };
    if let Some(name) = alias.or_else(|| path.last().cloned()) {
        found.push((name, path));
    }
    at.max(1)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single characters, without comments and texts.
fn tokens(mut text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    while !text.is_empty() {
        let name = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let len = match text.as_bytes()[0] {
            _ if text.starts_with("//") => text.find('\n').unwrap_or(text.len()),
            b'"' => text_literal(text),
            b'\'' if text.starts_with("'\"'") => 3,
            _ if name > 0 => name,
            _ if text.starts_with("::") => 2,
            _ => text.chars().next().map_or(1, char::len_utf8),
        };
        let (token, rest) = text.split_at(len);
        if name > 0 || token == "::" || matches!(token, "{" | "}" | "," | ";" | "*" | "<") {
            tokens.push(token);
        }
        text = rest;
    }
    tokens
}

/// How long the text is that begins here.
fn text_literal(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text[1..].find(|c: char| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let read = |(file, text): &(&str, &str)| {
            let module = module_of(Path::new(file)).unwrap();
            (module, Source::read(Path::new(file), text))
        };
        circles(&files.iter().map(read).collect()).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn modules_that_import_each_other_are_found() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::{c::{self, C}, d};"),
            ("c.rs", "fn c() { crate::a::a() }"),
            ("d.rs", "use crate::c::C;"),
        ];
        let expected = [
            "modules that import each other: a -> b -> c -> a",
            "modules that import each other: d -> c -> a -> b -> d",
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn what_is_re_exported_counts_where_it_is_defined() {
        let files = [
            ("lib.rs", ""),
            ("user.rs", "use crate::house;\nuse crate::other::Other;\nfn f() { house::Room }"),
            ("other.rs", ""),
            ("house/mod.rs", "mod room;\nmod cellar;\npub(crate) use room::Room;"),
            ("house/room.rs", "use super::cellar;"),
            ("house/cellar.rs", "use crate::other::Other;"),
        ];
        assert!(found(&files).is_empty());
        let cellar = ("house/room.rs", "use crate::user::User as _;");
        let files: Vec<_> = files.into_iter().filter(|(file, _)| *file != cellar.0).chain([cellar]).collect();
        assert_eq!(found(&files), ["modules that import each other: house::room -> user -> house::room"]);
    }

    #[test]
    fn comments_texts_tests_and_parents_do_not_count() {
        let files = [
            ("lib.rs", "use a::A;"),
            (
                "a.rs",
                "use crate::Root;\n// crate::b\nconst B: &str = \"crate::b::\\\"\";\n#[cfg(test)]\nmod tests { use crate::b; }",
            ),
            ("b.rs", "use crate::a::A;\nuse h2::A;"),
            ("a/inner.rs", "use super::A;"),
        ];
        assert!(found(&files).is_empty());
    }
}
