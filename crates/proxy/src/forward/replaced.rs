//! Responses whose content is changed on its way: texts are replaced, and the result gets another coding.
//!
//! Never in here: how a content is changed.

use wire::h1::{Body, BodyDecoder, Response};

use crate::answer::deliver::Recipient;
use crate::answer::recode::{self, Recode};
use crate::answer::replace::{self, Replaced};
use crate::body::Source;
use crate::forward::response::{Changes, Received, Receiver, ResponseFraming};
use crate::io::buffer::Buffer;
use crate::upstream::fault::Fault;

impl Receiver<'_, '_> {
    /// The replacements in a response; none where nothing is to be replaced.
    pub(super) fn replaced(&self, response: &Response, head: &[u8]) -> Option<Replaced> {
        replace::plan(self.attempted, self.policy(), response, head)
    }

    /// The plan for the coding of a response; none where its content is the same for all clients.
    pub(super) fn recode(&self, response: &Response, head: &[u8]) -> Option<Recode> {
        let compression = self.policy()?.compression.as_ref()?;
        recode::plan(self.attempted, compression, response, head)
    }

    /// Delivers a response whose content is changed.
    pub(super) async fn deliver_changed(
        &self,
        changes: Changes,
        response: &Response,
        buffer: &mut Buffer,
    ) -> Result<Received, Fault> {
        let way = ResponseFraming::of(self.attempted, response, buffer.data());
        // The content that has come is read before the head is written.
        let head = buffer.data()[..response.len].to_vec();
        buffer.consume(response.len);
        let mut decoder = BodyDecoder::new(way.body);
        let source = self.call.source(way.body, buffer, &mut decoder);
        let delivered = self.send_changed(changes, response, &head, source, way.body).await;
        self.call.note_source_left(decoder);
        Ok(way.received(delivered?, buffer.is_empty()))
    }

    /// Sends a response whose content is changed. True if the client's connection can take another request.
    pub(super) async fn send_changed(
        &self,
        changes: Changes,
        response: &Response,
        head: &[u8],
        source: Source<'_>,
        body: Body,
    ) -> Result<bool, Fault> {
        let (attempted, timeout) = (self.attempted, self.forward.timeouts.read);
        let Changes { mut replaced, mut recode } = changes;
        let mut len = response.fields.content_length;
        let (source, body) = match &mut replaced {
            None => (source, body),
            Some(replaced) => {
                let changed = Box::pin(replaced.begin(attempted, source, body, timeout)).await?;
                len = replaced.len();
                changed
            }
        };
        let (source, framed) = match &mut recode {
            None => (source, body),
            Some(recode) => recode::begin(attempted, recode, (source, body), len, timeout).await?,
        };
        let own = self.own(response, head, framed, recode);
        let change = |edits: &mut _| {
            if let Some(replaced) = &replaced {
                replaced.edit(edits);
            }
        };
        let presented = attempted.present(&own, change, |_, _| ());
        let keep_alive = presented.delivery.keep_alive;
        let mut outcome = presented.with(source, timeout, self.policy());
        let delivered = Recipient::of(attempted).deliver(&mut outcome, || self.note_long()).await;
        drop(outcome);
        delivered.map_err(|fault| self.undelivered(fault))?;
        Ok(keep_alive)
    }
}
