//! Lengths, module docs and forbidden words of the source files.
//!
//! Lines are read as rustfmt leaves them: an item ends at the brace that is indented as it is. Must not be in
//! here: a parser.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Violation;
use super::files::File;
use super::tokens::test_lines;

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;
/// Longer files open with a doc; so does every `lib.rs`, `main.rs` and `mod.rs`.
const UNDOCUMENTED_LINES_MAX: usize = 200;

/// A word that does not belong in a part of the tree, and what to do instead.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forbidden {
    under: PathBuf,
    word: String,
    instead: String,
}

/// A function or file that is too long.
struct Excess {
    line: usize,
    function: Option<String>,
    lines: usize,
}

pub(super) fn check(files: &[File], words: &[Forbidden]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for File { path, text } in files {
        violations.extend(undocumented(path, text));
        violations.extend(forbidden_words(path, text, words));
        violations.extend(excesses(text).into_iter().map(|excess| excess.violation(path)));
    }
    violations
}

impl Excess {
    fn violation(&self, file: &Path) -> Violation {
        let message = match &self.function {
            Some(name) => format!("fn {name} has {} lines, more than {FUNCTION_LINES_MAX}", self.lines),
            None => format!("the file has {} lines, more than {FILE_LINES_MAX}", self.lines),
        };
        Violation::new(file, self.line, message)
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
    let message = "opens without `//!`: say what it is and what must not be in it";
    (must && !text.starts_with("//!")).then(|| Violation::new(file, 1, message))
}

fn forbidden_words(file: &Path, text: &str, words: &[Forbidden]) -> Vec<Violation> {
    let tests = test_lines(text);
    let mut violations = Vec::new();
    for rule in words.iter().filter(|rule| file.starts_with(&rule.under)) {
        let message = format!("{} must not be here: {}", rule.word, rule.instead);
        for (number, line) in (1..).zip(text.lines()).filter(|(number, _)| !tests.contains(number)) {
            if line.contains(&rule.word) && !line.trim_start().starts_with("//") {
                violations.push(Violation::new(file, number, &*message));
            }
        }
    }
    violations
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
    fn modules_open_with_a_doc() {
        assert!(undocumented(Path::new("a/mod.rs"), "mod b;\n").is_some());
        assert!(undocumented(Path::new("a/b.rs"), "struct B;\n").is_none());
        assert!(undocumented(Path::new("a/b.rs"), &"\n".repeat(UNDOCUMENTED_LINES_MAX + 1)).is_some());
    }

    #[test]
    fn words_are_forbidden_where_they_would_hurt() {
        let proxy = Path::new("crates/proxy/src/worker.rs");
        let rule = Forbidden {
            under: "crates/proxy/src".into(),
            word: "Instant::now".into(),
            instead: "the worker's clock is read once a turn".into(),
        };
        let words = [rule];
        let text = "// Instant::now is not for us\nlet t = Instant::now();\n#[cfg(test)]\nmod tests { Instant::now() }\nlet t = Instant::now();\n";
        let lines: Vec<_> =
            forbidden_words(proxy, text, &words).iter().map(|violation| violation.line).collect();
        assert_eq!(lines, [2, 5]);
        assert!(forbidden_words(Path::new("crates/clock/src/lib.rs"), text, &words).is_empty());
    }
}
