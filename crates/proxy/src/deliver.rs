//! The way of every final response to the client, whoever made it: a head, and a body from any source.

use std::cell::Cell;
use std::time::Duration;

use model::ResponsePolicy;
use observe::Reason;
use wire::h1::InvalidBody;

use crate::body::{BodyStore, Framing, Incoming, Meter, Outgoing, RelayError, Source, Stages, relay};
use crate::buffer::Buffer;
use crate::client::{self, Client, Timeout};
use crate::fault::Fault;
use crate::pipe::Pipes;
use crate::socket::Socket;

/// Where a response goes, and what is needed for that.
pub(crate) struct Recipient<'d> {
    pub(crate) client: Client<'d>,
    pub(crate) timeout: Timeout<'d>,
    /// Bytes of the body that have been sent.
    pub(crate) sent: &'d Cell<u64>,
    pub(crate) pipes: &'d Pipes,
    /// Room for what is read ahead.
    pub(crate) bodies: &'d BodyStore,
}

/// A response as the client is to see it.
pub(crate) struct Outcome<'d> {
    pub(crate) status: u16,
    /// Its head as HTTP/1.
    pub(crate) head: Buffer,
    pub(crate) body: Source<'d>,
    /// How the client of HTTP/1 is told where the body ends.
    pub(crate) framing: Framing,
    /// For the body's source, between two reads.
    pub(crate) read_timeout: Duration,
    /// What the route asks for; none for nothing.
    pub(crate) policy: Option<&'d ResponsePolicy>,
}

impl Recipient<'_> {
    /// Sends a response to its end. What has come of the body leaves with the head; before the rest is waited for, `note_slow`
    /// is called. After a fault that allows another try, the client has been sent nothing.
    pub(crate) async fn deliver(
        &self,
        response: &mut Outcome<'_>,
        note_slow: impl FnOnce(),
    ) -> Result<(), Fault> {
        let is_done = match self.client {
            Client::Http1(socket) => self.send_first(socket, response).await?,
            Client::Http2(_) if !response.body.begins_well() => {
                return Err(Fault::sent(Reason::UpstreamBadResponse));
            }
            Client::Http2(stream) => {
                let is_done = response.body.is_done();
                let sent = stream.respond(response.status, response.head.data(), is_done);
                sent.map_err(|_| Fault::never(Reason::ClientAborted))?;
                let has_pace = response.policy.is_some_and(|policy| policy.pace.is_some());
                is_done
                    || (!has_pace
                        && response
                            .body
                            .send_now(stream.sender(), &self.meter())
                            .map_err(|error| response_fault(&error))?)
            }
        };
        response.head.clear();
        if is_done {
            return Ok(());
        }
        note_slow();
        let source = std::mem::replace(&mut response.body, Source::Bytes(&[]));
        let incoming = Incoming { source, timeout: response.read_timeout };
        Box::pin(self.send_rest(incoming, response.framing, response.policy)).await
    }

    /// Sends the head, and with it what has come of the body. True if that is all.
    async fn send_first(&self, socket: &Socket, response: &mut Outcome<'_>) -> Result<bool, Fault> {
        let Outcome { head, body, framing, policy, .. } = response;
        let has_pace = policy.is_some_and(|policy| policy.pace.is_some());
        let joined = if has_pace && !body.is_done() {
            Ok((0, false))
        } else {
            body.join(*framing, &self.meter(), head)
        };
        let (beside, is_done) = match joined {
            Ok(joined) => joined,
            // Nothing of the body is good, and nothing has been sent.
            Err(error @ RelayError::Invalid(_)) if self.sent.get() == 0 => {
                return Err(Fault::sent(response_fault(&error).reason));
            }
            Err(error) => {
                client::write(socket, &[head.data()], self.timeout).await?;
                return Err(response_fault(&error));
            }
        };
        client::write(socket, &[head.data(), body.front(beside)], self.timeout).await?;
        body.consume(beside);
        Ok(is_done)
    }

    async fn send_rest(
        &self,
        incoming: Incoming<'_>,
        framing: Framing,
        policy: Option<&ResponsePolicy>,
    ) -> Result<(), Fault> {
        let (sink, timeout) = (self.client.sink(framing), self.timeout.send_timeout);
        let outgoing = Outgoing { sink, timeout, passing_trailers: None };
        let (meter, deadline) = (self.meter(), self.timeout.deadline);
        let relayed = match Stages::of(policy) {
            None => relay(incoming, outgoing, meter, deadline, self.pipes).await,
            Some(stages) => Box::pin(stages.relay(incoming, outgoing, meter, deadline, self.bodies)).await,
        };
        relayed.map_err(|error| match error {
            RelayError::WriteTimeout => Fault::never(client::too_slow(deadline)),
            error => response_fault(&error),
        })
    }

    fn meter(&self) -> Meter<'_> {
        Meter { content: self.sent, max: None }
    }
}

/// The client has seen part of the response: nothing can be tried again.
#[cold]
#[inline(never)]
pub(crate) fn response_fault(error: &RelayError) -> Fault {
    Fault::never(match error {
        RelayError::Read | RelayError::Invalid(InvalidBody::Truncated) => Reason::UpstreamReset,
        RelayError::ReadTimeout | RelayError::ReadTooSlow => Reason::UpstreamReadTimeout,
        RelayError::Coding => Reason::UpstreamBadCoding,
        RelayError::File => Reason::FileUnreadable,
        RelayError::Invalid(_) | RelayError::TooLarge | RelayError::Store => Reason::UpstreamBadResponse,
        RelayError::Write => Reason::ClientAborted,
        RelayError::WriteTimeout => Reason::SendTimeout,
    })
}
