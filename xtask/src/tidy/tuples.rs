//! Tuples that only pack values together: a parameter whose parts have no names at the call, and a `let` of
//! several variables.
//!
//! A `let` that destructures a result packs nothing, and one of two names is allowed. Functions that are
//! excepted are in `xtask/tidy.yaml`, without the folders that they are in, so that files may move; the list
//! may only shrink.

use std::collections::BTreeSet;
use std::path::Path;

use super::Violation;
use super::files::File;
use super::settings::unneeded;
use super::tokens::{Kind, Token, closed, without_comments};

/// Least number of names in a `let` that packs.
const NAMES_MIN: usize = 3;

/// A tuple that packs values, and the function that has it.
#[derive(Debug, PartialEq, Eq)]
struct Packing {
    line: usize,
    function: String,
    message: &'static str,
}

/// Violations of one package, some functions of which are excepted, each by the name of its file and its own:
/// `axis::map`.
pub(super) fn check(package: &str, files: &[File], excepted: &[String]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut found = BTreeSet::new();
    for File { path, text } in files {
        for packing in packings(text) {
            let function = format!("{}::{}", stem(path), packing.function);
            if !excepted.contains(&function) {
                let message = format!("fn {function}: {}", packing.message);
                violations.push(Violation::new(path, packing.line, message));
            }
            found.insert(function);
        }
    }
    violations.extend(
        excepted
            .iter()
            .filter(|excepted| !found.contains(*excepted))
            .map(|excepted| unneeded(format!("tuples of {package}: fn {excepted} packs none, take it out"))),
    );
    violations
}

/// The name of a file, or that of its folder for `mod.rs`.
fn stem(file: &Path) -> String {
    let file = if file.ends_with("mod.rs") { file.parent().unwrap_or(file) } else { file };
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn packings(text: &str) -> Vec<Packing> {
    let code = without_comments(text);
    let mut packings = Vec::new();
    let mut function = String::new();
    for (at, token) in code.iter().enumerate() {
        let rest = &code[at..];
        let message = match token.text {
            "fn" if rest.get(1).is_some_and(|name| name.kind == Kind::Name) => {
                rest[1].text.clone_into(&mut function);
                let has_tuple = parameters(&rest[2..]).into_iter().any(is_tuple);
                has_tuple.then_some("a parameter is a tuple: give each part a name where it is called")
            }
            "let" if packs_values(&rest[1..]) => Some("a `let` packs values: a line for each of them"),
            _ => None,
        };
        packings.extend(message.map(|message| Packing {
            line: token.line,
            function: function.clone(),
            message,
        }));
    }
    packings
}

/// The parameters of the signature whose generics or parenthesis begins here.
fn parameters<'t, 'a>(code: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let open = if code.first().is_some_and(|token| token.text == "<") { angles(code) } else { 0 };
    if code.get(open).is_none_or(|token| token.text != "(") {
        return Vec::new();
    }
    let end = closed(code, open).saturating_sub(1);
    split(&code[open + 1..end.max(open + 1)])
}

/// The position behind the `>` that closes the `<` at the beginning.
fn angles(code: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in code.iter().enumerate() {
        match token.text {
            "<" => depth += 1,
            ">" if depth <= 1 => return at + 1,
            ">" => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The parts between commas that are inside no bracket.
fn split<'t, 'a>(code: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut depth = 0_usize;
    let parts = code.split(|token| {
        match token.text {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" | ">" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Whether a parameter is a tuple, by its pattern or by its type.
fn is_tuple(parameter: &[Token]) -> bool {
    let open = |part: &[Token]| {
        let first =
            part.iter().position(|token| !matches!(token.text, "&" | "mut") && !is_lifetime(token))?;
        (part[first].text == "(").then_some(first)
    };
    let whole = |part: &[Token]| {
        open(part).is_some_and(|at| {
            let end = closed(part, at);
            end == part.len() && split(&part[at + 1..end - 1]).len() > 1
        })
    };
    let colon = parameter.iter().position(|token| token.text == ":");
    open(parameter).is_some() || colon.is_some_and(|colon| whole(&parameter[colon + 1..]))
}

fn is_lifetime(token: &Token) -> bool {
    token.kind == Kind::Literal && token.text.starts_with('\'')
}

/// Whether the `let` before is one of a tuple of names and a tuple of values.
fn packs_values(code: &[Token]) -> bool {
    if code.first().is_none_or(|token| token.text != "(") {
        return false;
    }
    let pattern = closed(code, 0);
    let names = split(&code[1..pattern - 1]).len();
    let Some(equals) = code[pattern..].iter().position(|token| matches!(token.text, "=" | ";")) else {
        return false;
    };
    let value = pattern + equals + 1;
    if names < NAMES_MIN || code.get(value).is_none_or(|token| token.text != "(") {
        return false;
    }
    code.get(closed(code, value)).is_some_and(|end| end.text == ";")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, excepted: &[&str]) -> Vec<String> {
        let excepted: Vec<_> = excepted.iter().map(|&excepted| excepted.to_owned()).collect();
        let violations = check("a", &[File { path: "a.rs".into(), text: text.to_owned() }], &excepted);
        violations.into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn a_parameter_that_is_a_tuple_is_found() {
        for parameters in ["(a, b): (u8, u8)", "x: u8, &(a, _): &(u8, u8)", "&self, pair: &'a (u8, Vec<u8>)"]
        {
            for generics in ["", "<F: Fn(u8) -> u8>"] {
                let text = format!("fn f{generics}({parameters}) {{}}");
                assert_eq!(found(&text, &[]).len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn other_parameters_are_none() {
        let texts = [
            "fn f(a: [(u8, u8); 2], b: &[(u8, u8)], c: Vec<(u8, u8)>, d: (), e: impl Fn((u8, u8))) {}",
            "fn f() -> (u8, u8) {}",
            "type F = fn((u8, u8));",
            "fn f() { x.map(|(a, b): (u8, u8)| a) }",
        ];
        for text in texts {
            assert!(found(text, &[]).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_let_that_packs_is_found() {
        assert_eq!(found("fn f() { let (a, mut b, c) = (1, g(2, 3), 4); }", &[]).len(), 1);
        assert_eq!(found("fn f() { let (a, b, c): (u8, u8, u8) = (1, 2, 3); }", &[]).len(), 1);
    }

    #[test]
    fn what_takes_a_result_apart_packs_nothing() {
        for value in
            ["(a, b, c) = f()", "(a, b) = (1, 2)", "(a, b, c) = (f)(1)", "(a, b, c) = if x { y } else { z }"]
        {
            assert!(found(&format!("fn f() {{ let {value}; }}"), &[]).is_empty(), "{value}");
        }
    }

    #[test]
    fn an_exception_holds_as_long_as_it_is_needed() {
        let text = "fn f((a, b): (u8, u8)) {}";
        assert!(found(text, &["a::f"]).is_empty());
        assert_eq!(found(text, &["a::f", "a::g"]), ["tuples of a: fn a::g packs none, take it out"]);
    }
}
