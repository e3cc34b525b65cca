//! The modules of a crate, and the uses among them.
//!
//! Uses are read from paths in the source. A name that is re-exported counts for the module that defines it.
//! Items under `#[cfg(test)]` do not count. Must not be in here: a parser of Rust. Names that come by a glob
//! or from a macro are not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tokens::{Kind, Token, shipped, test_items, without_comments};

/// A module's path from the root of its crate, which is the empty one.
pub(super) type Module = Vec<String>;

/// The modules of a crate.
pub(super) type Modules = BTreeMap<Module, Source>;

/// The modules that each module uses.
pub(super) type Edges = BTreeMap<Module, BTreeSet<Module>>;

/// The names and paths in a module's file.
#[derive(Default)]
pub(super) struct Source {
    pub(super) file: PathBuf,
    /// All paths but those of re-exports.
    paths: BTreeSet<Vec<String>>,
    /// Paths of `pub use`, whose names the module itself does not use.
    re_exports: BTreeSet<Vec<String>>,
    /// Imported and re-exported names, and the path of each.
    imports: BTreeMap<String, Vec<String>>,
    /// Modules that are declared under `#[cfg(test)]`.
    tests: BTreeSet<String>,
}

/// The modules of files, each with its path below `folder`.
pub(super) fn from_files<'a>(
    folder: &Path,
    files: impl Iterator<Item = (&'a Path, &'a str)> + Clone,
) -> Modules {
    let has_lib = files.clone().any(|(file, _)| file == Path::new("lib.rs"));
    let mut modules = Modules::new();
    for (file, text) in files {
        modules.insert(module_of(file, has_lib), Source::read(&folder.join(file), text));
    }
    let tests: Vec<Module> = modules
        .iter()
        .flat_map(|(module, source)| source.tests.iter().map(|name| child(module, name)))
        .collect();
    modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    modules
}

/// The name of a module for messages.
pub(super) fn name(module: &Module) -> String {
    if module.is_empty() { "crate".into() } else { module.join("::") }
}

/// All uses of one module by another. A re-export of a child's item by its parent is no use.
pub(super) fn edges(modules: &Modules) -> Edges {
    modules.iter().map(|(module, source)| (module.clone(), neighbours(modules, module, source))).collect()
}

fn neighbours(modules: &Modules, module: &Module, source: &Source) -> BTreeSet<Module> {
    let used = source.paths.iter().filter_map(|path| resolve(modules, module, path));
    let re_exported = source.re_exports.iter().filter_map(|path| resolve(modules, module, path));
    let elsewhere = re_exported.filter(|used| !used.starts_with(module));
    used.chain(elsewhere).filter(|used| used != module).collect()
}

/// The module that a file holds. `main.rs` is the root of a crate without a library.
fn module_of(file: &Path, has_lib: bool) -> Module {
    let stem = file.with_extension("");
    let mut module: Module = stem.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.len() == 1 {
        module.pop_if(|last| last == "lib" || (last == "main" && !has_lib));
    }
    module.pop_if(|last| last == "mod");
    module
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

/// The module that a name in a module leads to; none where it is an item of the module itself, or another
/// crate.
fn step(modules: &Modules, from: &Module, name: &str) -> Option<Module> {
    let child = child(from, name);
    if modules.contains_key(&child) {
        return Some(child);
    }
    let import = modules.get(from)?.imports.get(name)?;
    (import.first().map(String::as_str) != Some(name)).then(|| resolve(modules, from, import)).flatten()
}

fn child(module: &[String], name: &str) -> Module {
    [module, &[name.to_owned()]].concat()
}

impl Source {
    fn read(file: &Path, text: &str) -> Self {
        let mut source = Self { file: file.to_path_buf(), tests: test_modules(text), ..Self::default() };
        let tokens = shipped(text);
        let mut re_exported = Vec::new();
        let mut names = BTreeSet::new();
        let mut at = 0;
        while at < tokens.len() {
            let mut found = Vec::new();
            if tokens[at].text == "use" {
                let is_public = at > 0 && matches!(tokens[at - 1].text, "pub" | ")");
                at += 1 + read_path(&tokens[at + 1..], &[], &mut found);
                source.imports.extend(found.iter().cloned());
                if is_public {
                    re_exported.extend(found);
                    continue;
                }
            } else if is_path(&tokens[at..]) {
                names.insert(tokens[at].text);
                at += read_path(&tokens[at..], &[], &mut found);
            } else {
                names.insert(tokens[at].text);
                at += 1;
            }
            source.paths.extend(found.into_iter().map(|(_, path)| path));
        }
        for (name, path) in re_exported {
            let is_used = names.contains(name.as_str());
            if is_used { &mut source.paths } else { &mut source.re_exports }.insert(path);
        }
        source
    }
}

/// The names that `mod NAME;` declares under `#[cfg(test)]`.
fn test_modules(text: &str) -> BTreeSet<String> {
    let code = without_comments(text);
    let items = test_items(&code).into_iter();
    let declared = items.filter_map(|item| match &code[item] {
        [.., module, name, end] if module.text == "mod" && end.text == ";" => Some(name.text.to_owned()),
        _ => None,
    });
    declared.collect()
}

fn is_path(tokens: &[Token]) -> bool {
    tokens[0].kind == Kind::Name && tokens.get(1).is_some_and(|next| next.text == "::")
}

/// Reads a path, or as many as its braces hold, each with the name that it is known by. Returns the number of
/// tokens read.
fn read_path(tokens: &[Token], prefix: &[String], found: &mut Vec<(String, Vec<String>)>) -> usize {
    let text = |at: usize| tokens.get(at).map(|token: &Token| token.text);
    let mut path = prefix.to_vec();
    let mut at = 0;
    loop {
        match tokens.get(at) {
            Some(token) if token.text == "{" => {
                at += 1;
                while text(at).is_some_and(|token| token != "}") {
                    at += if text(at) == Some(",") { 1 } else { read_path(&tokens[at..], &path, found) };
                }
                return at + 1;
            }
            Some(token) if token.kind == Kind::Name => path.push(token.text.to_owned()),
            _ => break,
        }
        at += 1;
        if text(at) != Some("::") {
            break;
        }
        at += 1;
    }
    path.pop_if(|last| last == "self" && !prefix.is_empty());
    let alias = text(at + 1).filter(|_| text(at) == Some("as")).map(ToOwned::to_owned);
    at += if alias.is_some() { 2 } else { 0 };
    if let Some(name) = alias.or_else(|| path.last().cloned()) {
        found.push((name, path));
    }
    at.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(files: &[(&str, &str)], from: &str) -> Vec<String> {
        let files = files.iter().map(|(file, text)| (Path::new(file), *text));
        let edges = edges(&from_files(Path::new(""), files));
        let (_, used) = edges.iter().find(|(module, _)| name(module) == from).unwrap();
        used.iter().map(name).collect()
    }

    #[test]
    fn a_re_export_of_a_child_is_no_use_of_it() {
        let files = |text| [("lib.rs", ""), ("a.rs", text), ("a/b.rs", "")];
        assert!(used(&files("mod b;\npub(crate) use b::B;"), "a").is_empty());
        assert_eq!(used(&files("mod b;\nuse b::B;"), "a"), ["a::b"]);
        assert_eq!(used(&files("mod b;\npub use b::B;\nfn f(_: B) {}"), "a"), ["a::b"]);
        assert_eq!(used(&files("mod b;\nfn f() { b::f() }"), "a"), ["a::b"]);
    }

    #[test]
    fn a_child_uses_its_parent() {
        let files =
            [("lib.rs", "struct Root;"), ("a.rs", "struct A;"), ("a/b.rs", "use super::A; use crate::Root;")];
        assert_eq!(used(&files, "a::b"), ["crate", "a"]);
    }

    #[test]
    fn tests_do_not_count_and_what_follows_them_does() {
        let files = [
            ("lib.rs", ""),
            ("a.rs", "#[cfg(test)]\nmod cases;\n#[cfg(test)]\nmod tests { use crate::b; }\nuse crate::c::C;"),
            ("a/cases.rs", "use crate::b::B;"),
            ("b.rs", ""),
            ("c.rs", ""),
        ];
        assert_eq!(used(&files, "a"), ["c"]);
        assert!(
            !from_files(Path::new(""), files.iter().map(|(file, text)| (Path::new(file), *text)))
                .contains_key(&vec!["a".to_owned(), "cases".to_owned()])
        );
    }

    #[test]
    fn a_binary_beside_a_library_is_a_module_of_its_own() {
        assert_eq!(module_of(Path::new("main.rs"), false), Module::new());
        assert_eq!(module_of(Path::new("main.rs"), true), ["main"]);
        assert_eq!(module_of(Path::new("a/main.rs"), false), ["a", "main"]);
        assert_eq!(module_of(Path::new("a/mod.rs"), false), ["a"]);
    }
}
