//! The head of a subrequest: with the client's fields, and without a body.

use model::HeaderNames;
use wire::Known;
use wire::h1::Request;
use wire::hop_by_hop::ends_here;

use super::request::is_left_out;
use super::{HeadEdits, HeadWriter};
use crate::io::buffer::Buffer;

/// Target and headers of a subrequest.
pub(crate) struct Subrequest<'a> {
    pub(crate) method: &'a [u8],
    /// Path and query.
    pub(crate) target: &'a [u8],
    pub(crate) host: &'a [u8],
    /// Names of fields that are passed on.
    pub(crate) names: HeaderNames,
}

/// Appends the head of a subrequest: the client's lines after those of the edits.
pub(crate) fn write_subrequest_head(
    head: &[u8],
    request: &Request,
    subrequest: &Subrequest<'_>,
    edits: &HeadEdits<'_>,
    out: &mut Buffer,
) {
    let Subrequest { method, target, host, names } = subrequest;
    let mut writer = HeadWriter::new(out, head.len());
    writer.write([method, b" ", target, b" HTTP/1.1\r\nHost: ", host, b"\r\n"]);
    writer.settings(edits);
    writer.pass(head, &request.fields, |field| {
        is_left_out(field, head, *names, edits, |known| {
            ends_here(known)
                || matches!(known, Known::Host | Known::Expect | Known::Proxy | Known::ContentLength)
        })
    });
    writer.additions(edits);
    writer.end();
}
