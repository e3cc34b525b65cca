//! Replacements of texts in the content of a response (nginx: `sub_filter`): which responses have any, the
//! source of the changed content, and what the head says of it.
//!
//! Never in here: the search, which is `body`'s.

use std::time::Duration;

use model::{Replacements, ResponsePolicy};
use wire::coding::{self, Coded};
use wire::h1::{Body, Response};

use crate::answer::deliver::response_fault;
use crate::answer::recode::weaken_tag;
use crate::body::{self, Incoming, Replacer, Source};
use crate::io::buffer::Buffer;
use crate::request::Request;
use crate::request::head::HeadEdits;
use crate::route::values::{self, HasValues};
use crate::upstream::fault::Fault;

/// A response in whose content texts are replaced.
pub(crate) struct Replaced {
    /// Taken when the content begins.
    replacer: Option<Replacer>,
    keeps_last_modified: bool,
    /// Bytes of the changed content, where they are known.
    len: Option<u64>,
}

/// The replacements in a response; none where nothing is to be replaced. As in nginx, a content that is coded
/// passes unchanged, and so does a part of one.
pub(crate) fn plan(
    at: &impl HasValues,
    policy: Option<&ResponsePolicy>,
    response: &Response,
    head: &[u8],
) -> Option<Replaced> {
    let replacements = policy?.replacements.as_ref()?;
    let fields = &response.fields;
    let is_whole = !matches!(response.status, 206 | 304);
    if !is_whole || !matches!(coding::coded(head, fields), Coded::Plain) {
        return None;
    }
    let media_type = coding::media_type(head, fields)?;
    if !replacements.are_for(media_type) {
        return None;
    }
    let text = |one: &model::Replacement| (one.from.clone().into_bytes(), values::expand(at, &one.to));
    let replacer = Replacer::new(replacements.texts.iter().map(text), replacements.once);
    let keeps_last_modified = replacements.keeps_last_modified;
    Some(Replaced { replacer: Some(replacer), keeps_last_modified, len: None })
}

/// The replacements in words.
pub(crate) fn in_words(replacements: &Replacements) -> String {
    let Replacements { texts, media_types, once, .. } = replacements;
    let pairs: Vec<_> =
        texts.iter().map(|one| format!("{:?} by {:?}", one.from, one.to.to_string())).collect();
    let times = if *once { "each once" } else { "each time" };
    let is_any = media_types.iter().any(|known| known == "*");
    let types = if is_any { "of any type".to_owned() } else { media_types.join(", ") };
    format!("replaces {}, {times}, in contents that are {types} and not compressed", pairs.join(", "))
}

impl Replaced {
    /// The source of the changed content, and how that is framed. What has come of the content is searched at
    /// once: if that is all, its length is known.
    pub(crate) async fn begin<'s>(
        &mut self,
        request: &Request<'_>,
        source: Source<'s>,
        framed: Body,
        timeout: Duration,
    ) -> Result<(Source<'s>, Body), Fault> {
        let Some(replacer) = self.replacer.take().filter(|_| framed != Body::Empty) else {
            return Ok((source, framed));
        };
        let (incoming, out) = (Incoming { source, timeout }, Buffer::empty(&request.worker.buffers));
        let mut coded = Box::new(body::Coded::replacing(incoming, replacer, out));
        let prepared = coded.prepare(request.deadline).await;
        // Nothing has been sent: the client is told of the fault.
        self.len = prepared.map_err(|error| Fault::sent(response_fault(&error).reason))?;
        Ok((Source::Coded(coded), self.len.map_or(Body::Chunked, Body::of_length)))
    }

    /// Bytes of the changed content, where they are known.
    pub(crate) fn len(&self) -> Option<u64> {
        self.len
    }

    /// Takes from a head what is no longer true of the content.
    pub(crate) fn edit(&self, edits: &mut HeadEdits<'_>) {
        match self.len {
            Some(len) => edits.set("Content-Length", len.to_string().into_bytes()),
            None => edits.remove("Content-Length"),
        }
        edits.remove("Accept-Ranges");
        if !self.keeps_last_modified {
            edits.remove("Last-Modified");
            edits.remove("ETag");
            return;
        }
        weaken_tag(edits);
    }
}
