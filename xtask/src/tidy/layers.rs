//! The order of the folders of a crate: a module uses its own folder and those further down, never one
//! further up.
//!
//! The orders are in `xtask/tidy.yaml`. Modules in none of the listed folders have no place in the order: the
//! root of `src` holds what all folders share.

use super::Violation;
use super::modules::{Edges, Module, Modules, name};

/// Violations of one package whose folders have this order, the highest first.
pub(super) fn check(modules: &Modules, edges: &Edges, order: &[String]) -> Vec<Violation> {
    let level = |module: &Module| {
        let folder = module.first()?;
        order.iter().position(|listed| listed == folder)
    };
    let mut violations = Vec::new();
    for (user, used) in edges {
        let Some(own) = level(user) else { continue };
        for used in used {
            if level(used).is_some_and(|other| other < own) {
                let message = format!(
                    "{} imports {}, which is above it in the order of folders",
                    name(user),
                    name(used)
                );
                violations.push(Violation::new(&modules[user].file, 1, message));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::modules;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(file, text)| (Path::new(file), *text));
        let modules = modules::from_files(Path::new(""), files);
        let order = ["drive", "route", "io"].map(str::to_owned);
        let violations = check(&modules, &modules::edges(&modules), &order);
        violations.into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn an_import_upwards_is_found() {
        let files = [
            ("lib.rs", "use drive::D;"),
            ("drive/mod.rs", "use crate::route::R;\nuse crate::io::I;\nuse crate::clock::C;"),
            ("route.rs", "use crate::drive::D;"),
            ("io/mod.rs", "use crate::route::R;"),
            ("clock.rs", "use crate::io::I;"),
        ];
        let expected = [
            "io imports route, which is above it in the order of folders",
            "route imports drive, which is above it in the order of folders",
        ];
        assert_eq!(found(&files), expected);
    }
}
