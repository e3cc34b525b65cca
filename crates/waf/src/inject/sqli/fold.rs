//! Folding: what attacks can vary at will is taken out of the tokens, until at most five are left.
//!
//! Rules look at the first two, three or five tokens of a window and shorten it. The order of the rules, and
//! where the window is put after each of them, decide what is left: shapes and vectors are made for this
//! order.

use super::scan::Scanner;
use super::token::Token;
use super::token::kind::{
    BARE_WORD, COLLATE, COMMENT, EVIL, EXPRESSION, FUNCTION, GROUP, KEYWORD, LOGIC, NUMBER, OPERATOR, STRING,
    TSQL, TYPE, VARIABLE,
};
use super::words;
use crate::inject::fingerprint::{Fingerprint, TOKENS_MAX};

/// Words that are functions before a parenthesis.
const FUNCTIONS: [&[u8]; 11] = [
    b"USER_ID",
    b"USER_NAME",
    b"DATABASE",
    b"PASSWORD",
    b"USER",
    b"CURRENT_USER",
    b"CURRENT_DATE",
    b"CURRENT_TIME",
    b"CURRENT_TIMESTAMP",
    b"LOCALTIME",
    b"LOCALTIMESTAMP",
];

/// The tokens of a text, folded.
pub(super) struct Folder<'a> {
    pub(super) scanner: Scanner<'a>,
    /// The tokens, and room for those that the types of the last ones depend on.
    pub(super) tokens: [Token; TOKENS_MAX + 3],
    /// The beginning of the window: tokens before it are folded.
    left: usize,
    /// The end of the window.
    end: usize,
    has_more: bool,
    last_comment: Option<Token>,
}

/// The result of a rule.
enum Rule {
    /// The window is looked at again from its beginning.
    Again,
    /// No rule for so few tokens has shortened the window.
    Next,
    /// The text is an attack, whatever comes.
    Evil,
}

// === impl Folder ===

impl<'a> Folder<'a> {
    pub(super) fn new(scanner: Scanner<'a>) -> Self {
        Self {
            scanner,
            tokens: [Token::EMPTY; TOKENS_MAX + 3],
            left: 0,
            end: 0,
            has_more: true,
            last_comment: None,
        }
    }

    /// Folds all tokens; returns how many are left.
    pub(super) fn fold(&mut self) -> usize {
        // Comments, parentheses, types and signs in front of everything have no meaning.
        loop {
            let Some(token) = self.scanner.next() else { return 0 };
            self.tokens[0] = token;
            if !matches!(token.kind, COMMENT | b'(' | TYPE) && !token.is_unary() {
                break;
            }
        }
        self.end = 1;
        loop {
            if self.end >= TOKENS_MAX {
                self.fold_five();
            }
            if !self.has_more || self.left >= TOKENS_MAX {
                break;
            }
            if !self.fill(2) {
                continue;
            }
            match self.fold_two() {
                Rule::Again => continue,
                Rule::Evil => return self.left + 2,
                Rule::Next => {}
            }
            if self.fill(3) {
                self.fold_three();
            }
        }
        let mut len = self.end;
        if let Some(comment) = self.last_comment.filter(|_| len < TOKENS_MAX) {
            self.tokens[len] = comment;
            len += 1;
        }
        len.min(TOKENS_MAX)
    }

    /// Fills the window up to a length; without so many tokens, all that are there count as folded.
    fn fill(&mut self, len: usize) -> bool {
        while self.has_more && self.end <= TOKENS_MAX && self.end - self.left < len {
            match self.scanner.next() {
                None => {
                    self.has_more = false;
                    self.tokens[self.end] = Token::EMPTY;
                }
                Some(token) if token.kind == COMMENT => self.last_comment = Some(token),
                Some(token) => {
                    self.last_comment = None;
                    self.tokens[self.end] = token;
                    self.end += 1;
                }
            }
        }
        let is_full = self.end - self.left >= len;
        if !is_full {
            self.left = self.end;
        }
        is_full
    }

    /// Takes tokens away at the end of the window, and puts its beginning elsewhere.
    fn shorten(&mut self, by: usize, left: usize) -> Rule {
        self.end -= by;
        self.left = left;
        Rule::Again
    }

    /// Sums and lists in parentheses at the beginning are taken out as a whole.
    fn fold_five(&mut self) {
        let kinds = [0, 1, 2, 3, 4].map(|at| self.tokens[at].kind);
        let is_folded = matches!(
            kinds,
            [NUMBER, OPERATOR | b',', b'(', NUMBER, b')']
                | [BARE_WORD, OPERATOR, b'(', BARE_WORD | NUMBER, b')']
                | [NUMBER, b')', b',', b'(', NUMBER]
                | [BARE_WORD, b')', OPERATOR, b'(', BARE_WORD]
        );
        if !is_folded {
            return;
        }
        if self.end > TOKENS_MAX {
            self.tokens[1] = self.tokens[TOKENS_MAX];
            (self.left, self.end) = (1, 2);
        } else {
            (self.left, self.end) = (0, 1);
        }
    }

    fn fold_two(&mut self) -> Rule {
        let left = self.left;
        let (first, second) = (self.tokens[left], self.tokens[left + 1]);
        match (first.kind, second.kind) {
            (STRING, STRING) | (b';', b';') => self.shorten(1, left),
            (OPERATOR | LOGIC, kind) if kind == TYPE || second.is_unary() => self.shorten(1, 0),
            (b'(', _) if second.is_unary() => self.shorten(1, left.saturating_sub(1)),
            _ if self.merge(first, second) => self.shorten(1, left.saturating_sub(1)),
            // `IF` is a function, but in Transact-SQL also a statement.
            (b';', FUNCTION)
                if second.value().get(..2).is_some_and(|begin| begin.eq_ignore_ascii_case(b"IF")) =>
            {
                self.tokens[left + 1].kind = TSQL;
                Rule::Again
            }
            (BARE_WORD | VARIABLE, b'(') if FUNCTIONS.iter().any(|word| first.is(word)) => {
                self.tokens[left].kind = FUNCTION;
                Rule::Again
            }
            (KEYWORD, kind) if first.is(b"IN") || first.is(b"NOT IN") => {
                self.tokens[left].kind = if kind == b'(' { OPERATOR } else { BARE_WORD };
                Rule::Again
            }
            (OPERATOR, kind) if first.is(b"LIKE") || first.is(b"NOT LIKE") => {
                if kind == b'(' {
                    self.tokens[left].kind = FUNCTION;
                }
                Rule::Next
            }
            (TYPE, BARE_WORD | NUMBER | TYPE | b'(' | FUNCTION | VARIABLE | STRING) => {
                self.tokens[left] = second;
                self.shorten(1, 0)
            }
            // There are too many collations to list; each has an underscore.
            (COLLATE, BARE_WORD) => {
                if second.value().contains(&b'_') {
                    self.tokens[left + 1].kind = TYPE;
                    self.left = 0;
                }
                Rule::Next
            }
            // Transact-SQL takes `\%1` for `0 % 1`, and a backslash for nothing elsewhere.
            (b'\\', _) if second.is_arithmetic() => {
                self.tokens[left].kind = NUMBER;
                self.shorten(0, 0)
            }
            (b'\\', _) => {
                self.tokens[left] = second;
                self.shorten(1, 0)
            }
            (b'(', b'(') | (b')', b')') | (_, b'}') => self.shorten(1, 0),
            // MySQL takes an empty name in braces for the current database.
            (b'{', BARE_WORD) if second.value().is_empty() => {
                self.tokens[left + 1].kind = EVIL;
                Rule::Evil
            }
            // ODBC's `{name expression}` is the expression.
            (b'{', BARE_WORD) => self.shorten(2, 0),
            _ => Rule::Next,
        }
    }

    /// Makes two words one phrase, if SQL knows it.
    fn merge(&mut self, first: Token, second: Token) -> bool {
        let is_word = |kind| {
            matches!(kind, KEYWORD | BARE_WORD | OPERATOR | b'U' | FUNCTION | EXPRESSION | TSQL | TYPE)
        };
        if !is_word(first.kind) || !(is_word(second.kind) || second.kind == LOGIC) {
            return false;
        }
        let Some((kind, phrase)) = words::kind_of_phrase(first.value(), second.value()) else { return false };
        let token = &mut self.tokens[self.left];
        token.replace(kind, &phrase);
        true
    }

    fn fold_three(&mut self) {
        let left = self.left;
        let [first, second, third] = [0, 1, 2].map(|at| self.tokens[left + at]);
        let is_cast = second.value() == b"::";
        let is_unary = second.is_unary();
        match (first.kind, second.kind, third.kind) {
            (NUMBER, OPERATOR, NUMBER)
            | (LOGIC, _, LOGIC)
            | (VARIABLE, OPERATOR, VARIABLE | NUMBER | BARE_WORD)
            | (BARE_WORD | NUMBER, OPERATOR, NUMBER | BARE_WORD)
            | (BARE_WORD | NUMBER | STRING | VARIABLE, b',', NUMBER | BARE_WORD | STRING | VARIABLE)
            | (BARE_WORD, b'.', BARE_WORD) => {
                self.shorten(2, 0);
            }
            (OPERATOR, kind, OPERATOR) if kind != b'(' => {
                self.shorten(2, 0);
            }
            (BARE_WORD | NUMBER | VARIABLE | STRING, OPERATOR, TYPE) if is_cast => {
                self.shorten(2, 0);
            }
            (EXPRESSION | GROUP | b',', _, b'(') if is_unary => self.skip_second(third, 1),
            (KEYWORD | EXPRESSION | GROUP, _, NUMBER | BARE_WORD | VARIABLE | STRING | FUNCTION)
                if is_unary =>
            {
                self.skip_second(third, 1);
            }
            // `1, -1` becomes `1`, for which the token before the comma is needed again.
            (b',', _, NUMBER | BARE_WORD | VARIABLE | STRING) if is_unary => self.skip_second(third, 3),
            (b',', _, FUNCTION) if is_unary => self.skip_second(third, 1),
            (EXPRESSION, b'.', BARE_WORD) => self.skip_second(third, 1),
            (FUNCTION, b'(', kind) => {
                // `USER()` is a function, and `USER(x)` is none.
                if kind != b')' && first.is(b"USER") {
                    self.tokens[left].kind = BARE_WORD;
                }
                self.left += 1;
            }
            _ => self.left += 1,
        }
    }

    /// Takes the second token of the window out, and shortens the window from its end on.
    fn skip_second(&mut self, third: Token, by: usize) {
        self.tokens[self.left + 1] = third;
        self.shorten(by, 0);
    }

    /// The shape of the first tokens.
    pub(super) fn fingerprint(&mut self, len: usize) -> Fingerprint {
        if len > 2 {
            // PHP's MySQL takes an open backtick at the end for a comment.
            let last = &mut self.tokens[len - 1];
            if last.kind == BARE_WORD && last.open == b'`' && last.value().is_empty() && last.close == 0 {
                last.kind = COMMENT;
            }
        }
        let mut fingerprint = Fingerprint::default();
        for token in &self.tokens[..len] {
            if token.kind == EVIL {
                let mut evil = Fingerprint::default();
                evil.push(EVIL);
                return evil;
            }
            fingerprint.push(token.kind);
        }
        fingerprint
    }
}
