//! A response that passes a web application firewall: as much of its body as the rules look at is read before
//! the client is given any of it.
//!
//! Never in here: rules.

use observe::Reason;
use wire::h1::{Body, BodyDecoder, Response};

use crate::admit::firewall;
use crate::answer::deliver::response_fault;
use crate::body::{Incoming, Source, begin};
use crate::cache::receive::{self, Arrived, Taken};
use crate::forward::response::Changes;
use crate::forward::response::{Received, Receiver, ResponseFraming};
use crate::io::buffer::Buffer;
use crate::request::inspection::Inspection;
use crate::upstream::fault::Fault;

impl Receiver<'_, '_> {
    /// Delivers a response that the rules let pass.
    pub(super) async fn deliver_inspected(
        &self,
        inspection: &Inspection,
        response: &Response,
        buffer: &mut Buffer,
    ) -> Result<Received, Fault> {
        let head = buffer.data()[..response.len].to_vec();
        if !firewall::response::head(inspection, response, &head) {
            return Err(Fault::never(Reason::FirewallDenied));
        }
        let way = ResponseFraming::of(self.attempted, response, &head);
        buffer.consume(response.len);
        let mut decoder = BodyDecoder::new(way.body);
        let source = self.call.source(way.body, buffer, &mut decoder);
        let source = self.look_at_body(inspection, source, way.body).await?;
        let delivered = self.deliver_from(response, &head, way.body, source).await;
        self.call.note_source_left(decoder);
        match delivered? {
            Delivered::Filled { keep_alive, is_read } => {
                Ok(way.filled(keep_alive, is_read && response.is_persistent() && buffer.is_empty()))
            }
            Delivered::Sent { keep_alive } => Ok(way.received(keep_alive, buffer.is_empty())),
        }
    }

    /// Gives the body to the rules, as far as they look at it. Returns the same body.
    pub(super) async fn look_at_body<'b>(
        &self,
        inspection: &Inspection,
        source: Source<'b>,
        body: Body,
    ) -> Result<Source<'b>, Fault> {
        let stopped = Fault::never(Reason::FirewallDenied);
        let wanted = firewall::response::body_bytes(inspection).filter(|_| body != Body::Empty);
        let Some(bytes_max) = wanted else {
            let passes = firewall::response::body(inspection, &[]);
            return if passes { Ok(source) } else { Err(stopped) };
        };
        let (attempted, timeout) = (self.attempted, self.forward.timeouts.read);
        // One byte more says whether the body is longer than the rules look at.
        let begun =
            begin(Incoming { source, timeout }, bytes_max.saturating_add(1), attempted.deadline).await;
        // Nothing has been sent: the client is told of the fault.
        let begun = begun.map_err(|error| Fault::sent(response_fault(&error).reason))?;
        if firewall::response::body(inspection, begun.ready()) {
            Ok(Source::Begun(Box::new(begun)))
        } else {
            Err(stopped)
        }
    }

    pub(super) async fn deliver_from(
        &self,
        response: &Response,
        head: &[u8],
        body: Body,
        source: Source<'_>,
    ) -> Result<Delivered, Fault> {
        let (attempted, forward) = (self.attempted, self.forward);
        let mut source = source;
        if attempted.miss().is_some() && attempted.error_page.is_none() {
            let arrived = Arrived { response, head, source };
            match receive::take_inspected(attempted, forward, arrived).await? {
                Taken::Filled { keep_alive, is_read } => {
                    return Ok(Delivered::Filled { keep_alive, is_read });
                }
                Taken::Unused(unused) => source = unused,
            }
        }
        let changes =
            Changes { replaced: self.replaced(response, head), recode: self.recode(response, head) };
        let keep_alive = self.send_changed(changes, response, head, source, body).await?;
        Ok(Delivered::Sent { keep_alive })
    }
}

/// The end of a delivery.
pub(super) enum Delivered {
    /// The client has the response, and may send another request.
    Sent { keep_alive: bool },
    /// The cache has it, and the client got it from there, or has gone away meanwhile.
    Filled { keep_alive: Result<bool, Fault>, is_read: bool },
}
