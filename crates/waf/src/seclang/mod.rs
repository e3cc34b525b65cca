//! SecLang as text: lines, words, directives, and the parts of a rule. What cannot be had is refused with its
//! place.
//!
//! Never in here: expressions that are compiled, values of a transaction.

pub(crate) mod directives;
pub(crate) mod lexer;
pub(crate) mod parts;

pub use directives::{DIRECTIVES, Entry as DirectiveEntry};

use std::fmt;

/// One text with rules.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name that problems and reports have.
    pub name: &'a str,
    /// The text with the rules.
    pub text: &'a str,
}

/// The content of files that rules name: `Include`, `@pmFromFile`, `@ipMatchFromFile`, `SecUnicodeMapFile`.
pub trait Files {
    /// The names of all files that a pattern of `Include` stands for, in their order. `from` is the name of
    /// the source that has the directive.
    fn expand(&self, pattern: &str, from: &str) -> Vec<String>;

    /// The content of one file.
    ///
    /// # Errors
    ///
    /// A sentence that says why there is none.
    fn read(&self, name: &str, from: &str) -> Result<Vec<u8>, String>;
}

/// Rules that may name no file.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn expand(&self, _pattern: &str, _from: &str) -> Vec<String> {
        Vec::new()
    }

    fn read(&self, name: &str, _from: &str) -> Result<Vec<u8>, String> {
        Err(format!("the file {name} is not available to these rules"))
    }
}

/// A fault of rules, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// The name of the source.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// The fault, as a sentence.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}
