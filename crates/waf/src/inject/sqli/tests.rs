//! Tokens in the form of libinjection's vectors.

use super::fold::Folder;
use super::scan::{Dialect, Quote, Scanner};
use super::token::{Token, kind};

/// All tokens of a text, a line for each.
pub(in crate::inject) fn tokens(text: &[u8]) -> Vec<u8> {
    let mut scanner = Scanner::new(text, Quote::None, Dialect::Ansi);
    let mut lines = Vec::new();
    while let Some(token) = scanner.next() {
        lines.extend(line(&token));
    }
    lines
}

/// The tokens that folding leaves.
pub(in crate::inject) fn folded(text: &[u8]) -> Vec<u8> {
    let mut folder = Folder::new(Scanner::new(text, Quote::None, Dialect::Ansi));
    let len = folder.fold();
    folder.tokens[..len].iter().flat_map(line).collect()
}

fn line(token: &Token) -> Vec<u8> {
    let mut line = vec![token.kind, b' '];
    let has_quotes = matches!(token.kind, kind::STRING | kind::VARIABLE);
    if token.kind == kind::VARIABLE {
        line.extend(vec![b'@'; usize::from(token.ats)]);
    }
    if has_quotes && token.open != 0 {
        line.push(token.open);
    }
    line.extend_from_slice(token.value());
    if has_quotes && token.close != 0 {
        line.push(token.close);
    }
    while matches!(line.last(), Some(b'\n' | b'\r')) {
        line.pop();
    }
    line.push(b'\n');
    line
}
