//! Where a record comes from: a folder, an exported file, or a running Forebay.
//!
//! Must not be in here: its judgement.

use std::path::PathBuf;

use anyhow::Context;
use http::Method;
use hyper::body::Bytes;
use record::Record;

use super::when::Range;
use crate::ask;

/// A record, and the time of it that is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The folder or file; none for a running Forebay.
    pub(crate) path: Option<PathBuf>,
    /// The admin server of that Forebay.
    pub(crate) admin: String,
    pub(crate) range: Range,
}

impl Asked {
    /// Opens the record.
    ///
    /// # Errors
    ///
    /// It cannot be read, or the admin server does not answer.
    pub(crate) fn open(&self) -> anyhow::Result<Record> {
        let Some(path) = &self.path else {
            let answer = ask::content(&self.admin, Method::GET, &target(self.range)).with_context(
                || "without --record, the record of a running Forebay is read from its admin server",
            )?;
            return read(&answer, &self.admin);
        };
        Record::open(path).context("cannot read the record")
    }
}

/// The target by which an admin server is asked for a part of its record.
pub(crate) fn target(range: Range) -> String {
    format!("/record?since={}&until={}", range.from_ms, range.until_ms)
}

/// Reads the answer of an admin server.
pub(crate) fn read(answer: &Bytes, whose: &str) -> anyhow::Result<Record> {
    Record::from_bytes(answer).with_context(|| format!("{whose} has sent no record"))
}
