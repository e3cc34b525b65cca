//! Detection of SQL and HTML injection, which the operators `@detectSQLi` and `@detectXSS` ask for.
//!
//! The grammar, the tables and the vectors are libinjection's, whose results these are. Every text costs
//! time in proportion to its length. Never in here: rules, transformations.

mod fingerprint;
mod html;
mod sqli;
mod work;

pub use fingerprint::Fingerprint;

/// Makes the tables of both detectors now, which the first text would wait for otherwise.
pub fn prepare() {
    sqli::prepare();
    html::prepare();
}

/// Finds SQL that a text would add to a statement, wherever in the statement the text is put: plain, or
/// within single or double quotes.
pub fn detect_sqli(text: &[u8]) -> Option<Fingerprint> {
    sqli::detect(text, &mut 0)
}

/// As `detect_sqli`; the work is added: bytes that were read, and something for each token.
pub(crate) fn detect_sqli_with_work(text: &[u8], work: &mut usize) -> Option<Fingerprint> {
    sqli::detect(text, work)
}

/// Finds script that a text would add to a page, wherever in the page the text is put: between tags, or in
/// an attribute with any quotes.
pub fn detect_xss(text: &[u8]) -> bool {
    html::detect(text, &mut 0)
}

/// As `detect_xss`; the work is added as that of `detect_sqli_with_work`.
pub(crate) fn detect_xss_with_work(text: &[u8], work: &mut usize) -> bool {
    html::detect(text, work)
}

#[cfg(test)]
mod tests;
