//! Rust source as tokens, each with its line.
//!
//! The lexer is the compiler's. Must not be in here: a parser of Rust; users search the tokens for items and
//! paths.

use std::collections::BTreeSet;
use std::ops::Range;

use ra_ap_rustc_lexer::{FrontmatterAllowed, TokenKind, tokenize};

/// A token, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or a keyword.
    Name,
    /// `::`, `->`, `=>`, and every other sign as a single character.
    Mark,
    /// A string, a character, a number or a lifetime.
    Literal,
    /// A comment, a doc comment included; one line, or a whole block between `/*` and `*/`.
    Comment,
}

/// First words of items, by which a field or a match arm after `#[cfg(test)]` is told from an item.
const ITEMS: &[&str] = &[
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "let",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "unsafe",
    "use",
    "macro_rules",
];

/// Signs that are one token although the compiler's lexer has two.
const PAIRS: [&str; 3] = ["::", "->", "=>"];

/// All tokens of a file.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut end = 0;
    let mut line = 1;
    for token in tokenize(text, FrontmatterAllowed::No) {
        let begin = end;
        end += token.len as usize;
        let written = &text[begin..end];
        let pair = begin.checked_sub(1).and_then(|before| text.get(before..end));
        match (kind(token.kind), tokens.last_mut(), pair) {
            (Some(Kind::Mark), Some(last), Some(pair)) if last.text.len() == 1 && PAIRS.contains(&pair) => {
                last.text = pair;
            }
            (kind, ..) => tokens.extend(kind.map(|kind| Token { text: written, line, kind })),
        }
        line += written.matches('\n').count();
    }
    tokens
}

fn kind(of: TokenKind) -> Option<Kind> {
    Some(match of {
        TokenKind::Whitespace => return None,
        TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => Kind::Comment,
        TokenKind::Ident | TokenKind::RawIdent => Kind::Name,
        TokenKind::Literal { .. } | TokenKind::Lifetime { .. } => Kind::Literal,
        _ => Kind::Mark,
    })
}

/// The tokens of a file without comments and without items under `#[cfg(test)]`.
pub(super) fn shipped(text: &str) -> Vec<Token<'_>> {
    let mut code = without_comments(text);
    for tests in test_items(&code).into_iter().rev() {
        code.drain(tests);
    }
    code
}

/// The tokens of a file without comments.
pub(super) fn without_comments(text: &str) -> Vec<Token<'_>> {
    tokens(text).into_iter().filter(|token| token.kind != Kind::Comment).collect()
}

/// Items under `#[cfg(test)]`, as ranges of tokens, the attribute included. The tokens are without comments.
pub(super) fn test_items(code: &[Token]) -> Vec<Range<usize>> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < code.len() {
        if is_test_attribute(&code[at..]) {
            let end = item_end(code, at);
            items.push(at..end);
            at = end;
        } else {
            at += 1;
        }
    }
    items
}

/// The lines of items under `#[cfg(test)]`.
pub(super) fn test_lines(text: &str) -> BTreeSet<usize> {
    let code = without_comments(text);
    let items = test_items(&code).into_iter();
    items.flat_map(|item| code[item.start].line..=code[item.end - 1].line).collect()
}

/// The position behind the bracket that closes the one at `open`; the end where none does.
pub(super) fn closed(code: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in code.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth <= 1 => return at + 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn is_test_attribute(code: &[Token]) -> bool {
    let starts = |with: &[&str]| {
        code.len() >= with.len() && code.iter().zip(with).all(|(token, with)| token.text == *with)
    };
    starts(&["#", "[", "cfg", "(", "test", ")", "]"]) || starts(&["#", "[", "cfg", "(", "all", "(", "test"])
}

/// The position behind the item that begins with the attribute at `start`.
fn item_end(code: &[Token], start: usize) -> usize {
    let mut at = start;
    while code.get(at).is_some_and(|token| token.text == "#") {
        at = closed(code, at + 1);
    }
    if code.get(at).is_some_and(|token| token.text == "pub") {
        at += 1;
        at = if code.get(at).is_some_and(|token| token.text == "(") { closed(code, at) } else { at };
    }
    let is_item = code.get(at).is_some_and(|token| ITEMS.contains(&token.text));
    while let Some(token) = code.get(at) {
        match token.text {
            ")" | "]" | "}" => return at,
            "(" | "[" => at = closed(code, at),
            "{" => {
                let end = closed(code, at);
                let is_followed = code.get(end).is_some_and(|next| matches!(next.text, ";" | ","));
                return end + usize::from(is_followed);
            }
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            _ => at += 1,
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(tokens: &[Token]) -> Vec<String> {
        tokens.iter().map(|token| token.text.to_owned()).collect()
    }

    #[test]
    fn literals_and_comments_are_one_token_each() {
        let text = r##"f("a\"b", r#"c " // d"#, b'\'', '"', 'x, 1_0u8); // e "f"
/* g /* h */ i */ k"##;
        let expected = [
            "f",
            "(",
            r#""a\"b""#,
            ",",
            r##"r#"c " // d"#"##,
            ",",
            r"b'\''",
            ",",
            "'\"'",
            ",",
            "'x",
            ",",
            "1_0u8",
            ")",
            ";",
            "// e \"f\"",
            "/* g /* h */ i */",
            "k",
        ];
        let found = tokens(text);
        assert_eq!(texts(&found), expected);
        assert_eq!(found.last().map(|token| token.line), Some(2));
    }

    #[test]
    fn raw_identifiers_are_no_strings() {
        assert_eq!(texts(&tokens("r#type::x")), ["r#type", "::", "x"]);
    }

    #[test]
    fn only_the_items_of_tests_are_left_out() {
        let text = "#[cfg(test)]\nmod early;\nfn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests { fn b() { {} } }\n\
            struct S { #[cfg(test)] c: u8, d: u8 }\n#[cfg(test)]\nuse e::{f, g};\n#[cfg(not(test))]\nfn h() {}\n";
        let found = texts(&shipped(text)).join(" ");
        assert_eq!(found, "fn a ( ) { } struct S { d : u8 } # [ cfg ( not ( test ) ) ] fn h ( ) { }");
        assert_eq!(test_lines(text).into_iter().collect::<Vec<_>>(), [1, 2, 4, 5, 6, 7, 8, 9]);
    }
}
