//! Lists of tests that fail, with reasons.
//!
//! Must not be in here: what a suite does with a list.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};

/// The names in a list of exceptions: lines of `NAME: REASON.`, and comments.
pub(super) fn exceptions(list: &str) -> Result<BTreeSet<String>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let names = lines.map(|line| {
        let (name, reason) = line.split_once(": ").with_context(|| format!("no reason: {line}"))?;
        ensure!(reason.ends_with('.'), "a reason is a sentence: {line}");
        Ok(name.to_owned())
    });
    names.collect()
}
