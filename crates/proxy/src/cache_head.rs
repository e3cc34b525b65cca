//! What heads say because of a cache: to endpoints, conditions in place of the client's; to clients, what it did.
//!
//! Never in here: what is done for a request, which is `caching`'s.

use wire::cache::{CacheStatus, Head};

use crate::cache::{Passage, TAG_FIELDS, Told};
use crate::exchange::Exchange;
use crate::head::{HeadEdits, HeadWriter};

/// Who tells of it in `Cache-Status`.
const NAME: &str = "forebay";

/// What an endpoint is told otherwise than the client said, since the response is for others too: it is asked whether what is kept still
/// counts, or for all of it.
pub(crate) fn edit_request(exchange: &Exchange<'_>, edits: &mut HeadEdits<'_>) {
    let Some(passage) = exchange.passage().filter(|_| exchange.error_page.get().is_none()) else { return };
    edit_for(passage, Head::of_request(exchange.head, exchange.request), edits);
}

pub(crate) fn edit_for(passage: &Passage, request: Head<'_>, edits: &mut HeadEdits<'_>) {
    let conditions = ["If-None-Match", "If-Modified-Since", "If-Range"];
    match passage.validates() {
        Some(stale) => {
            conditions.iter().chain(&["Range"]).for_each(|name| edits.remove(name));
            let text = |value: &Option<Box<[u8]>>| value.as_ref().map(|value| value.to_vec());
            if let Some(etag) = text(&stale.validators.etag) {
                edits.set("If-None-Match", etag);
            }
            if let Some(modified) = text(&stale.validators.modified_text) {
                edits.set("If-Modified-Since", modified);
            }
        }
        None if passage.key.is_some() && !request.has(b"range") => {
            conditions.iter().filter(|name| request.has(name.to_ascii_lowercase().as_bytes())).for_each(
                |name| {
                    edits.remove(name);
                },
            );
        }
        None => {}
    }
}

/// Takes the tags from the head of a response that is not kept: they are for caches.
pub(crate) fn remove_tags(response: Head<'_>, edits: &mut HeadEdits<'_>) {
    for (name, _) in TAG_FIELDS.iter().filter(|(name, _)| response.has(name.as_bytes())) {
        edits.remove(name);
    }
}

/// Writes what the cache did with a request to the head of its response (RFC 9211).
pub(crate) fn tell(told: &Told, head: &mut HeadWriter<'_>) {
    if let (Told { hit: true, forward: None, detail: None, .. }, Some(ttl)) = (told, told.ttl) {
        // Most of them.
        let mut digits = itoa::Buffer::new();
        head.write([
            b"Cache-Status: ",
            NAME.as_bytes(),
            b"; hit; ttl=",
            digits.format(ttl).as_bytes(),
            b"\r\n",
        ]);
        return;
    }
    let status = CacheStatus {
        cache: NAME,
        hit: told.hit,
        forward: told.forward,
        forward_status: told.forward_status,
        ttl: told.ttl,
        stored: told.stored,
        collapsed: told.collapsed,
        key: None,
        detail: told.detail,
    };
    let mut value = Vec::with_capacity(64);
    status.write(&mut value);
    head.field("Cache-Status", &value);
}
