//! Content codings of responses. Never in here: which codings a client accepts.

use std::sync::Arc;

use serde::Serialize;

use crate::Expression;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum ContentCoding {
    /// The `gzip` coding (RFC 1952).
    Gzip,
    /// The `br` coding (RFC 7932).
    Brotli,
    /// The `zstd` coding (RFC 8878).
    Zstd,
}

/// How the contents of responses are coded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compression {
    /// The codings on offer; of those that a client prefers equally, the first is used.
    pub offers: Vec<CodingOffer>,
    /// Codings of endpoints are taken away for clients that do not take them.
    pub decodes: bool,
}

/// A coding on offer, and the media types that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodingOffer {
    /// The content coding to offer.
    pub coding: ContentCoding,
    /// From 1 on, the more the smaller and slower; of brotli from 0 on.
    pub level: u8,
    /// Media types in lower case; `*` for all.
    pub media_types: Arc<[String]>,
    /// Bytes of the shortest content, where its length is announced.
    pub bytes_min: u64,
    /// Clients of HTTP/1.0 are not offered it.
    pub is_for_http_1_1: bool,
    /// User agents that are not offered it.
    pub excluded_agents: Option<Expression>,
}

impl CodingOffer {
    /// Whether the coding is for content of this type and, where the length is known, of this length.
    pub fn is_for(&self, media_type: &[u8], len: Option<u64>) -> bool {
        let is_type = |known: &String| known == "*" || known.as_bytes().eq_ignore_ascii_case(media_type);
        len.is_none_or(|len| len >= self.bytes_min) && self.media_types.iter().any(is_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_for_types_and_lengths() {
        let mut offer = CodingOffer {
            coding: ContentCoding::Gzip,
            level: 1,
            media_types: Arc::from(["text/html".to_owned(), "application/json".to_owned()]),
            bytes_min: 256,
            is_for_http_1_1: true,
            excluded_agents: None,
        };
        assert!(offer.is_for(b"Text/HTML", Some(256)) && offer.is_for(b"application/json", None));
        assert!(!offer.is_for(b"text/html", Some(255)) && !offer.is_for(b"text/htm", None));
        offer.media_types = Arc::from(["*".to_owned()]);
        assert!(offer.is_for(b"image/png", None));
    }
}
