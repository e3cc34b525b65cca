//! Descriptions of external processors, in words.

use model::{ProcessedBody, ProcessedParts, Processor};

use crate::admit::Admitted;

/// The parts that an external processor gets.
pub(super) fn in_words(admitted: &Admitted<'_>, processor: &Processor) -> String {
    let part = |name: &str, parts: ProcessedParts| {
        let body = match parts.body {
            ProcessedBody::None => None,
            ProcessedBody::Streamed => Some("the body piece by piece"),
            ProcessedBody::Buffered => Some("the whole body"),
            ProcessedBody::BufferedPartial => Some("the beginning of the body"),
        };
        let (head, trailers) = (parts.headers.then_some("the head"), parts.trailers.then_some("trailers"));
        let said: Vec<_> = head.into_iter().chain(body).chain(trailers).collect();
        if said.is_empty() {
            format!("nothing of the {name}")
        } else {
            format!("{} of the {name}", said.join(", "))
        }
    };
    let Processor { cluster, policy } = processor;
    let service = &admitted.config.snapshot.cluster(*cluster).name;
    let otherwise = if policy.fails_open { "they pass unchanged" } else { "the client gets 500 or 504" };
    format!(
        "{service} gets {}, and {}; without an answer {otherwise}",
        part("request", policy.request),
        part("response", policy.response)
    )
}
