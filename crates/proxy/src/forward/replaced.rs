//! Responses whose content is changed on its way: texts are replaced, and the result is compressed.
//!
//! Never in here: how a content is changed.

use wire::h1::{Body, BodyDecoder, Response};

use crate::answer::deliver::Recipient;
use crate::answer::recode;
use crate::answer::replace::{self, Replaced};
use crate::body::Source;
use crate::forward::response::{Received, Receiver, ResponseFraming};
use crate::io::buffer::Buffer;
use crate::upstream::fault::Fault;

impl Receiver<'_, '_> {
    /// The replacements in a response; none where nothing is to be replaced.
    pub(super) fn replaced(&self, response: &Response, head: &[u8]) -> Option<Replaced> {
        replace::plan(self.attempted, self.policy(), response, head)
    }

    /// Delivers a response in whose content texts are replaced.
    pub(super) async fn deliver_replaced(
        &self,
        replaced: Replaced,
        response: &Response,
        buffer: &mut Buffer,
    ) -> Result<Received, Fault> {
        let way = ResponseFraming::of(self.attempted, response, buffer.data());
        let head = buffer.data()[..response.len].to_vec();
        buffer.consume(response.len);
        let mut decoder = BodyDecoder::new(way.body);
        let source = self.call.source(way.body, buffer, &mut decoder);
        let delivered = self.send_changed(Some(replaced), response, &head, source, way.body).await;
        self.call.note_source_left(decoder);
        Ok(way.received(delivered?, buffer.is_empty()))
    }

    /// Sends a response whose content is changed. True if the client's connection can take another request.
    pub(super) async fn send_changed(
        &self,
        mut replaced: Option<Replaced>,
        response: &Response,
        head: &[u8],
        source: Source<'_>,
        body: Body,
    ) -> Result<bool, Fault> {
        let (attempted, forward) = (self.attempted, self.forward);
        let timeout = forward.timeouts.read;
        let mut len = response.fields.content_length;
        let (source, body) = match &mut replaced {
            None => (source, body),
            Some(replaced) => {
                let changed = Box::pin(replaced.begin(attempted, source, body, timeout)).await?;
                len = replaced.len();
                changed
            }
        };
        let compression = self.policy().and_then(|policy| policy.compression.as_ref());
        let mut recode = compression.and_then(|it| recode::plan(attempted, it, response, head));
        let (source, framed) = match &mut recode {
            None => (source, body),
            Some(recode) => Box::pin(recode::begin(attempted, recode, (source, body), len, timeout)).await?,
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
