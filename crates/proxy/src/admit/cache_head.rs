//! Changes to heads for a cache: endpoints get its conditions in place of the client's; clients learn what it
//! did.
//!
//! Never in here: whether a request takes a response from the cache, which room `cache` decides.

use wire::cache::{CacheStatus, Head};

use crate::admit::Admitted;
use crate::request::head::{HeadEdits, HeadWriter};
use crate::store::{CacheMiss, CacheReport, TAG_FIELDS};

/// The name of this cache in `Cache-Status`.
const NAME: &str = "forebay";

/// Changes the head for an endpoint, since the response is for other clients too: the endpoint is
/// asked whether what is kept still counts, or for all of it.
pub(crate) fn edit_request(admitted: &Admitted<'_>, edits: &mut HeadEdits<'_>) {
    let Some(miss) = admitted.miss().filter(|_| admitted.error_page.is_none()) else { return };
    edit_for(miss, Head::of_request(admitted.head, admitted.parsed), edits);
}

pub(crate) fn edit_for(miss: &CacheMiss, request: Head<'_>, edits: &mut HeadEdits<'_>) {
    let conditions = ["If-None-Match", "If-Modified-Since", "If-Range"];
    match miss.validates() {
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
        None if miss.key.is_some() && !request.has(b"range") => {
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
pub(crate) fn tell(report: &CacheReport, head: &mut HeadWriter<'_>) {
    if let (CacheReport { hit: true, forward: None, detail: None, .. }, Some(ttl)) = (report, report.ttl) {
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
        hit: report.hit,
        forward: report.forward,
        forward_status: report.forward_status,
        ttl: report.ttl,
        stored: report.stored,
        collapsed: report.collapsed,
        key: None,
        detail: report.detail,
    };
    let mut value = Vec::with_capacity(64);
    status.write(&mut value);
    head.field("Cache-Status", &value);
}
