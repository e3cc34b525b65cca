//! A cached response, or one that arrives and will be stored.

use std::sync::Arc;

use bytes::Bytes;
use wire::Field;
use wire::cache::{Freshness, Head, Validators, Vary};
use wire::h1::{Fields, Response};

use super::labels::Labels;
use crate::body::{SharedBody, Stored};
use crate::store::forms::ContentId;

/// A cached response, as the endpoint sent it, before any change by the route.
pub(crate) struct Object {
    /// The response head as HTTP/1.
    pub(crate) head: Box<[u8]>,
    pub(crate) response: Response,
    pub(crate) freshness: Freshness,
    pub(crate) validators: Validators,
    pub(crate) vary: Vary,
    /// The request's values of the fields that `vary` names.
    pub(crate) vary_key: Box<[u8]>,
    /// Labels by which the response can be purged.
    pub(crate) labels: Labels,
    pub(crate) body: Body,
    /// Identity of the body, under which its compressed forms are stored.
    pub(crate) content: ContentId,
}

/// The parts of a request that decide which cached response answers it.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) head: Head<'a>,
    /// The request has headers that are not known to be harmless.
    pub(crate) has_unknown: bool,
    /// Names of headers that the route declares harmless.
    pub(crate) harmless: &'a [String],
}

impl<'a> Asking<'a> {
    /// Names of headers that are not known to be harmless.
    fn unknown_names(self) -> impl Iterator<Item = &'a [u8]> {
        let is_said =
            move |name: &[u8]| self.harmless.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        self.head.unknown_names().filter(move |name| !is_said(name))
    }

    /// The fields by which a response is selected: those in its `Vary`, and the request's headers that may
    /// have changed it. None where the response answers no other request.
    pub(crate) fn vary(&self, response: Head<'_>) -> Option<Vary> {
        let vary = Vary::of(response)?;
        Some(if self.has_unknown { vary.with_implied(self.unknown_names()) } else { vary })
    }
}

/// The body of a cached response.
#[derive(Clone)]
pub(crate) enum Body {
    Here {
        pieces: Arc<[Bytes]>,
        len: u64,
    },
    /// The body still arrives.
    Coming(Arc<SharedBody>),
}

impl Object {
    /// Parses a head that was written here. None if it is malformed after all.
    pub(crate) fn parse(head: &[u8]) -> Option<Response> {
        let mut response = wire::h1::parse_response(head, Fields::default()).ok().flatten()?;
        response.fields.shrink();
        Some(response)
    }

    /// The head as `wire::cache` reads it.
    pub(crate) fn head(&self) -> Head<'_> {
        Head::of_response(&self.head, &self.response)
    }

    /// Whether the response answers a request. Headers that are not known to be harmless must be those of
    /// the request that it was made for.
    pub(crate) fn answers(&self, request: Asking<'_>) -> bool {
        let head = request.head;
        if request.has_unknown && !request.unknown_names().all(|name| self.vary.has(name)) {
            return false;
        }
        self.vary.is_empty() || self.vary.matches(head, &self.vary_key, &mut Vec::new())
    }

    /// Bytes of memory that the response takes.
    pub(crate) fn weight(&self) -> u64 {
        let validators = [&self.validators.etag, &self.validators.modified_text];
        let texts: usize = validators.into_iter().flatten().map(|text| text.len()).sum();
        let names: usize = self.vary.names().map(|name| name.len() + 16).sum();
        let head =
            size_of::<Self>() + self.head.len() + self.response.fields.iter().len() * size_of::<Field>();
        let body = match &self.body {
            Body::Here { pieces, len } => *len + (pieces.len() * size_of::<Bytes>()) as u64,
            Body::Coming(_) => 0,
        };
        (head + texts + names + self.vary_key.len() + self.labels.bytes().len()) as u64 + body
    }
}

impl Body {
    /// A part of the body; all of it while it still arrives. None if the part is not available any more.
    pub(crate) fn read(&self, first: u64, len: u64) -> Option<Stored> {
        match self {
            Self::Here { pieces, .. } => Some(Stored::here(pieces, first, len)),
            Self::Coming(body) => body.reader().map(Stored::coming),
        }
    }
}
