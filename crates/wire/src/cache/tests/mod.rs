//! Tables with the section of the RFC for each row. Decisions of several modules together are in `reuse`.

mod conditional;
mod directives;
mod heads;
mod reuse;
mod vary;

use super::*;

/// A moment; dates of the samples are relative to it: `Sun, 22 Nov 2026 00:00:00 GMT`.
const NOW: u64 = 1_795_305_600;

/// Text with `{N}` replaced by the date N seconds from the moment.
fn dated(text: &str) -> String {
    let mut parts = text.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (offset, rest) = part.split_once('}').unwrap();
        out += &crate::date::imf_fixdate(NOW.saturating_add_signed(offset.parse().unwrap()));
        out += rest;
    }
    out
}
