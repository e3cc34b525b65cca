//! Lengths, module docs and forbidden words of the source files.
//!
//! Lines are read as rustfmt leaves them: an item ends at the brace that is indented as it is. Must not be in here: a parser.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Violation;

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;
/// Longer files open with a doc; so does every `lib.rs`, `main.rs` and `mod.rs`.
const UNDOCUMENTED_LINES_MAX: usize = 200;

/// What may be longer, and why. The list may only shrink: an entry that is not needed is a violation.
const EXCEPTIONS: &[Exception] = &[];

/// Words that do not belong in a part of the tree, and what to do instead.
const FORBIDDEN: &[Forbidden] = &[
    Forbidden {
        under: "crates/proxy/src",
        // Its plots are part of the documentation.
        except: Some("crates/proxy/src/upstream/limit/simulation_tests.rs"),
        word: "std::fs",
        instead: "control reads files",
    },
    Forbidden {
        under: "crates/proxy/src",
        except: None,
        word: "std::sync::Mutex",
        instead: "a worker owns its state",
    },
    Forbidden {
        under: "crates/proxy/src",
        except: Some("crates/proxy/src/clock.rs"),
        word: "Instant::now",
        instead: "the worker's clock is read once a turn",
    },
];

/// A file, the function in it (`None` for the file as a whole), and why it may be longer.
type Exception = (&'static str, Option<&'static str>, &'static str);

struct Forbidden {
    under: &'static str,
    except: Option<&'static str>,
    word: &'static str,
    instead: &'static str,
}

/// What is too long, before exceptions.
struct Excess {
    line: usize,
    function: Option<String>,
    lines: usize,
}

pub(super) fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    let mut long = Vec::new();
    for file in source_files(root)? {
        let text = fs::read_to_string(root.join(&file)).with_context(|| file.display().to_string())?;
        violations.extend(undocumented(&file, &text));
        violations.extend(forbidden_words(&file, &text));
        long.extend(excesses(&text).into_iter().map(|excess| (file.clone(), excess)));
    }
    violations.extend(without_exceptions(&long, EXCEPTIONS));
    Ok(violations)
}

/// What is too long without an exception, and the exceptions without need.
fn without_exceptions(long: &[(PathBuf, Excess)], exceptions: &[Exception]) -> Vec<Violation> {
    let applies = |(file, function, _): &Exception, (path, excess): &(PathBuf, Excess)| {
        Path::new(file) == path && *function == excess.function.as_deref()
    };
    let excesses = long
        .iter()
        .filter(|excess| !exceptions.iter().any(|exception| applies(exception, excess)))
        .map(|(file, excess)| excess.violation(file));
    let unused = exceptions
        .iter()
        .filter(|exception| !long.iter().any(|excess| applies(exception, excess)))
        .map(|(file, ..)| Violation {
            file: file.into(),
            line: 1,
            message: "is in tidy's list of exceptions without need: take it out".into(),
        });
    excesses.chain(unused).collect()
}

impl Excess {
    fn violation(&self, file: &Path) -> Violation {
        let message = match &self.function {
            Some(name) => format!("fn {name} has {} lines, more than {FUNCTION_LINES_MAX}", self.lines),
            None => format!("the file has {} lines, more than {FILE_LINES_MAX}", self.lines),
        };
        Violation { file: file.into(), line: self.line, message }
    }
}

fn excesses(text: &str) -> Vec<Excess> {
    let lines: Vec<_> = text.lines().collect();
    let file = Excess { line: 1, function: None, lines: lines.len() };
    let functions = lines.iter().enumerate().filter_map(|(index, line)| {
        let name = function_name(line)?;
        let length = item_lines(&lines[index..]);
        Some(Excess { line: index + 1, function: Some(name.into()), lines: length })
    });
    let long = functions.filter(|function| function.lines > FUNCTION_LINES_MAX);
    [file].into_iter().filter(|file| file.lines > FILE_LINES_MAX).chain(long).collect()
}

/// The function that the line begins, if it does.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) =
        line.trim_start().split_once("fn ").or_else(|| Some(("", line.strip_prefix("fn ")?)))?;
    let is_signature = before.split_whitespace().all(|word| {
        matches!(word, "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"") || word.starts_with("pub(")
    });
    let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    (is_signature && !name.is_empty()).then_some(name)
}

/// How many lines the item has that the first line begins: up to the closing line that is indented like it.
fn item_lines(lines: &[&str]) -> usize {
    let indent = &lines[0][..lines[0].len() - lines[0].trim_start().len()];
    let ends = |line: &str| line.strip_prefix(indent).is_some_and(|rest| rest == "}" || rest == "};");
    if lines[0].ends_with(['}', ';']) {
        1
    } else {
        lines.iter().position(|line| ends(line)).map_or(1, |end| end + 1)
    }
}

fn undocumented(file: &Path, text: &str) -> Option<Violation> {
    let name = file.file_name()?.to_str()?;
    let must =
        matches!(name, "lib.rs" | "main.rs" | "mod.rs") || text.lines().count() > UNDOCUMENTED_LINES_MAX;
    let message = "opens without `//!`: say what it is and what must not be in it".to_owned();
    (must && !text.starts_with("//!")).then(|| Violation { file: file.into(), line: 1, message })
}

fn forbidden_words(file: &Path, text: &str) -> Vec<Violation> {
    let rules = FORBIDDEN
        .iter()
        .filter(|rule| file.starts_with(rule.under) && rule.except.map(Path::new) != Some(file));
    let found = |rule: &Forbidden| {
        let message = format!("{} must not be here: {}", rule.word, rule.instead);
        // Tests are at a file's bottom, and may.
        let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").enumerate();
        lines
            .filter(|(_, line)| line.contains(rule.word) && !line.trim_start().starts_with("//"))
            .map(|(index, _)| Violation { file: file.into(), line: index + 1, message: message.clone() })
            .collect::<Vec<_>>()
    };
    rules.flat_map(found).collect()
}

/// Every Rust file of the workspace's crates, relative to its root.
fn source_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in ["crates", "testing", "xtask"] {
        for file in rust_files(&root.join(folder))? {
            files.push(file.strip_prefix(root)?.to_path_buf());
        }
    }
    files.sort();
    Ok(files)
}

/// Every Rust file in a folder and those inside it.
pub(super) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_from_what_looks_like_them() {
        assert_eq!(function_name("    pub(crate) async fn name<T>(x: T) {"), Some("name"));
        assert_eq!(function_name("fn main() {"), Some("main"));
        assert_eq!(function_name("    // the fn of this"), None);
        assert_eq!(function_name("    measure: fn(&Bench) -> u8,"), None);
    }

    #[test]
    fn a_long_function_is_found_where_it_begins() {
        let body = "        x();\n".repeat(FUNCTION_LINES_MAX - 1);
        let text = format!("mod a {{\n    fn long() {{\n{body}    }}\n    fn short() {{}}\n}}\n");
        let found = excesses(&text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].lines), (2, FUNCTION_LINES_MAX + 1));
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(excesses(&"\n".repeat(FILE_LINES_MAX)).len(), 0);
        assert_eq!(excesses(&"\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
    }

    #[test]
    fn an_exception_holds_as_long_as_it_is_needed() {
        let long = |function: Option<&str>| {
            (PathBuf::from("a.rs"), Excess { line: 1, function: function.map(Into::into), lines: 999 })
        };
        let exceptions: [Exception; 1] = [("a.rs", Some("f"), "a table")];
        assert_eq!(without_exceptions(&[long(Some("f"))], &exceptions), []);
        assert_eq!(without_exceptions(&[long(Some("f")), long(None)], &exceptions).len(), 1);
        assert!(without_exceptions(&[], &exceptions)[0].message.contains("without need"));
    }

    #[test]
    fn modules_open_with_a_doc() {
        assert!(undocumented(Path::new("a/mod.rs"), "mod b;\n").is_some());
        assert!(undocumented(Path::new("a/b.rs"), "struct B;\n").is_none());
        assert!(undocumented(Path::new("a/b.rs"), &"\n".repeat(UNDOCUMENTED_LINES_MAX + 1)).is_some());
    }

    #[test]
    fn words_are_forbidden_where_they_would_hurt() {
        let proxy = Path::new("crates/proxy/src/worker.rs");
        let text =
            "// Instant::now is not for us\nlet t = Instant::now();\n#[cfg(test)]\nlet t = Instant::now();\n";
        let lines: Vec<_> = forbidden_words(proxy, text).iter().map(|violation| violation.line).collect();
        assert_eq!(lines, [2]);
        assert!(forbidden_words(Path::new("crates/proxy/src/clock.rs"), text).is_empty());
    }
}
