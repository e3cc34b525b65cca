//! Circles among the modules of a crate: modules that import each other can be read and changed only
//! together.
//!
//! A use of a parent by its child counts like any other. Excepted uses are listed in `xtask/tidy.yaml`; that
//! list may only shrink.

use std::collections::{BTreeSet, VecDeque};

use super::Violation;
use super::modules::{Edges, Module, Modules, name};
use super::settings::unneeded;

/// Violations of one package, whose excepted uses are each written as `user -> used`.
pub(super) fn check(package: &str, modules: &Modules, edges: &Edges, excepted: &[String]) -> Vec<Violation> {
    let mut counted = edges.clone();
    for (module, used) in &mut counted {
        used.retain(|used| !excepted.contains(&written(module, used)));
    }
    let mut violations = circles(modules, &counted);
    violations.extend(
        excepted
            .iter()
            .filter(|excepted| !is_needed(edges, excepted))
            .map(|excepted| unneeded(format!("circles of {package}: `{excepted}` is in none, take it out"))),
    );
    violations
}

fn written(user: &Module, used: &Module) -> String {
    format!("{} -> {}", name(user), name(used))
}

/// Whether the excepted use exists, and a path leads back from the used module to its user.
fn is_needed(edges: &Edges, excepted: &str) -> bool {
    let mut uses = edges.iter().flat_map(|(user, used)| used.iter().map(move |used| (user, used)));
    uses.find(|(user, used)| written(user, used) == excepted)
        .is_some_and(|(user, used)| way(edges, used, user).is_some())
}

/// Violations that name, between them, every module that is part of a circle, each on a shortest way around.
fn circles(modules: &Modules, edges: &Edges) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut known = BTreeSet::new();
    for (module, source) in modules {
        let Some(way) = way(edges, module, module).filter(|_| !known.contains(module)) else { continue };
        let names: Vec<_> = way.iter().map(|module| name(module)).collect();
        known.extend(way);
        let message = format!("modules that import each other: {}", names.join(" -> "));
        violations.push(Violation::new(&source.file, 1, message));
    }
    violations
}

/// The shortest path from one module to another, or to itself.
fn way<'m>(edges: &'m Edges, from: &'m Module, to: &Module) -> Option<Vec<&'m Module>> {
    let mut ways = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in edges.get(*way.last()?).into_iter().flatten() {
            let longer = [way.as_slice(), &[next]].concat();
            if next == to {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::modules;
    use super::*;

    fn found(files: &[(&str, &str)], excepted: &[&str]) -> Vec<String> {
        let files = files.iter().map(|(file, text)| (Path::new(file), *text));
        let modules = modules::from_files(Path::new(""), files);
        let excepted: Vec<_> = excepted.iter().map(|&excepted| excepted.to_owned()).collect();
        let violations = check("a", &modules, &modules::edges(&modules), &excepted);
        violations.into_iter().map(|violation| violation.message).collect()
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
        assert_eq!(found(&files, &[]), expected);
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
        assert!(found(&files, &[]).is_empty());
        let cellar = ("house/room.rs", "use crate::user::User as _;");
        let files: Vec<_> = files.into_iter().filter(|(file, _)| *file != cellar.0).chain([cellar]).collect();
        assert_eq!(
            found(&files, &[]),
            ["modules that import each other: house::room -> user -> house::room"]
        );
    }

    #[test]
    fn comments_texts_and_tests_do_not_count() {
        let files = [
            ("lib.rs", "use a::A;"),
            (
                "a.rs",
                "// crate::b\nconst B: &str = \"crate::b::\\\"\";\n#[cfg(test)]\nmod tests { use crate::b; }",
            ),
            ("b.rs", "use crate::a::A;\nuse h2::A;"),
        ];
        assert!(found(&files, &[]).is_empty());
    }

    #[test]
    fn parents_and_children_make_circles() {
        let pair = [("lib.rs", ""), ("a.rs", "mod b;\nuse b::f;"), ("a/b.rs", "use super::A;")];
        assert_eq!(found(&pair, &[]), ["modules that import each other: a -> a::b -> a"]);
        let far = [("lib.rs", ""), ("cli.rs", "use crate::demo;"), ("demo.rs", "fn f() { cases::f() }")];
        let cases = ("demo/cases.rs", "use crate::cli::Cli;");
        let far: Vec<_> = far.into_iter().chain([cases]).collect();
        assert_eq!(found(&far, &[]), ["modules that import each other: cli -> demo -> demo::cases -> cli"]);
    }

    #[test]
    fn an_exception_holds_as_long_as_it_is_needed() {
        let pair = [("lib.rs", ""), ("a.rs", "mod b;\nuse b::f;"), ("a/b.rs", "use super::A;")];
        assert!(found(&pair, &["a::b -> a"]).is_empty());
        let unneeded = ["circles of a: `a::c -> a` is in none, take it out"];
        assert_eq!(found(&pair, &["a::b -> a", "a::c -> a"]), unneeded);
        let mended = [("lib.rs", ""), ("a.rs", "mod b;"), ("a/b.rs", "use super::A;")];
        let unneeded = ["circles of a: `a::b -> a` is in none, take it out"];
        assert_eq!(found(&mended, &["a::b -> a"]), unneeded);
    }
}
