//! A token of SQL.

/// The length of a token's value; the rest of a longer one is cut.
pub(super) const VALUE_BYTES_MAX: usize = 31;

/// The types of tokens, by the letters that shapes have for them.
pub(super) mod kind {
    /// The token has not been set.
    pub(crate) const NONE: u8 = 0;
    /// Words such as `FROM`.
    pub(crate) const KEYWORD: u8 = b'k';
    /// Words such as `GROUP BY`.
    pub(crate) const GROUP: u8 = b'B';
    /// Words such as `SELECT`, with which an expression begins.
    pub(crate) const EXPRESSION: u8 = b'E';
    /// Words such as `VARCHAR`.
    pub(crate) const TYPE: u8 = b't';
    /// The name of a function.
    pub(crate) const FUNCTION: u8 = b'f';
    /// A word that SQL does not know.
    pub(crate) const BARE_WORD: u8 = b'n';
    /// A number, or a word for one.
    pub(crate) const NUMBER: u8 = b'1';
    /// A variable such as `@version`.
    pub(crate) const VARIABLE: u8 = b'v';
    /// A string in any quotes.
    pub(crate) const STRING: u8 = b's';
    /// An operator such as `+`.
    pub(crate) const OPERATOR: u8 = b'o';
    /// An operator such as `AND`.
    pub(crate) const LOGIC: u8 = b'&';
    /// A comment of any form.
    pub(crate) const COMMENT: u8 = b'c';
    /// The word `COLLATE`.
    pub(crate) const COLLATE: u8 = b'A';
    /// Words of Transact-SQL such as `DECLARE`.
    pub(crate) const TSQL: u8 = b'T';
    /// A character that SQL does not know.
    pub(crate) const UNKNOWN: u8 = b'?';
    /// Something that only attacks have.
    pub(crate) const EVIL: u8 = b'X';
}

/// A token with the beginning of its value.
#[derive(Clone, Copy)]
pub(super) struct Token {
    /// The letter of its type.
    pub(super) kind: u8,
    len: u8,
    value: [u8; VALUE_BYTES_MAX],
    /// The quote with which a string began; 0 if it is before the text.
    pub(super) open: u8,
    /// The quote with which a string ended; 0 if it is behind the text.
    pub(super) close: u8,
    /// The number of `@` before a variable.
    pub(super) ats: u8,
}

// === impl Token ===

impl Token {
    pub(super) const EMPTY: Self =
        Self { kind: kind::NONE, len: 0, value: [0; VALUE_BYTES_MAX], open: 0, close: 0, ats: 0 };

    pub(super) fn new(kind: u8, value: &[u8]) -> Self {
        let len = value.len().min(VALUE_BYTES_MAX);
        let mut token = Self { kind, len: len as u8, ..Self::EMPTY };
        token.value[..len].copy_from_slice(&value[..len]);
        token
    }

    /// Gives the token another type and value; its quotes stay.
    pub(super) fn replace(&mut self, kind: u8, value: &[u8]) {
        let new = Self::new(kind, value);
        (self.kind, self.len, self.value) = (new.kind, new.len, new.value);
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value[..usize::from(self.len)]
    }

    /// Whether the value is a word, given in upper case.
    pub(super) fn is(&self, word: &[u8]) -> bool {
        self.value().eq_ignore_ascii_case(word)
    }

    pub(super) fn is_unary(&self) -> bool {
        self.kind == kind::OPERATOR
            && (matches!(self.value(), b"+" | b"-" | b"!" | b"~" | b"!!") || self.is(b"NOT"))
    }

    pub(super) fn is_arithmetic(&self) -> bool {
        self.kind == kind::OPERATOR && matches!(self.value(), b"*" | b"/" | b"+" | b"-" | b"%")
    }
}
