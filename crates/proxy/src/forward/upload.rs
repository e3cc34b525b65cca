//! A request's body on its way to an endpoint: what is kept of it beside the bytes that are sent at once,
//! and which of its trailers pass.

use wire::hop_by_hop::may_trail_request;

use crate::admit::Admitted;
use crate::io::buffer::Buffer;
use crate::request::head::{HeadEdits, passes_name};
use crate::worker::Worker;

/// Parts of a body that do not stand among the bytes that are sent at once.
pub(crate) struct Beside {
    /// Bytes sent during the present try; the next try sends them again.
    pub(crate) passed: Buffer,
    /// Lines of the trailers of a body that has come with its head, for an endpoint that speaks HTTP/2.
    pub(crate) trailers: Vec<u8>,
}

impl Beside {
    pub(crate) fn of<'s>(slot: &'s mut Option<Box<Self>>, worker: &Worker) -> &'s mut Self {
        let new = || Box::new(Self { passed: Buffer::empty(&worker.buffers), trailers: Vec::new() });
        slot.get_or_insert_with(new)
    }
}

/// The trailer fields that pass: none by which a client could say what its head is checked for. Names that
/// the route sets, removes, or has an auth service decide, are in `edits`, and do not pass.
pub(crate) fn passing<'e>(
    admitted: &Admitted<'_>,
    edits: impl FnOnce() -> HeadEdits<'e>,
    lines: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    if !lines.contains(&b':') {
        return out;
    }
    let (fields, names) = (&admitted.parsed.fields, admitted.config.settings().client.header_names);
    let edits = edits();
    for line in lines.split_inclusive(|&b| b == b'\n') {
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        // Applications take an underscore, or another sign, for a dash.
        let dashed = name.iter().map(|&b| if b.is_ascii_alphanumeric() { b } else { b'-' });
        let dashed: Vec<u8> = dashed.collect();
        let passes = name.len() < line.len()
            && may_trail_request(&dashed)
            && passes_name(name, names)
            && !edits.replaces_alike(name)
            && !fields.is_listed(admitted.head, name);
        if passes {
            out.extend_from_slice(line);
        }
    }
    out
}

/// Says in the log that there is no room to keep bodies.
#[cold]
pub(crate) fn tell_of_unheld(admitted: &Admitted<'_>) {
    let labels = admitted.route.map(|route| &*route.labels);
    let name = |label: fn(&model::Labels) -> &str| labels.map(label).unwrap_or_default();
    let (namespace, ingress) = (name(model::Labels::namespace), name(model::Labels::object));
    tracing::warn!(
        namespace,
        ingress,
        "a request's body is passed on as it comes: there is no room to read it whole; see --body-buffer-dir"
    );
}
