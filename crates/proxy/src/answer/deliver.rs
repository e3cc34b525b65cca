//! The way of every final response to the client, whoever made it: a head, and a body from any source.

use std::cell::Cell;
use std::time::Duration;

use model::ResponsePolicy;
use observe::Reason;
use wire::h1::InvalidBody;

use crate::body::{BodyStore, Framing, Incoming, Meter, Outgoing, RelayError, Source, Stages, relay};
use crate::io::boxed::boxed;
use crate::io::buffer::Buffer;
use crate::io::pace::Direction;
use crate::io::pipe::Pipes;
use crate::io::socket::Socket;
use crate::request::Request;
use crate::request::client::{self, Client, Timeout};
use crate::upstream::fault::Fault;

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
    /// The route's policy for responses, if it has one.
    pub(crate) policy: Option<&'d ResponsePolicy>,
}

impl<'d> Recipient<'d> {
    /// The client of a request.
    pub(crate) fn of(request: &'d Request<'_>) -> Self {
        let rate = request.config.settings().client.bounds.read_rate_min;
        if rate.is_some() && !request.has_grpc_content() {
            request.deadline.pace(Direction::Write, rate);
        }
        let (client, timeout) = (request.client, request.timeout());
        let (pipes, bodies) = (&request.worker.pipes, &*request.worker.bodies);
        Self { client, timeout, sent: &request.report.sent_body, pipes, bodies }
    }

    /// Sends a response to its end. What has come of the body leaves with the head; before the rest is
    /// waited for, `note_slow` is called. After a fault that allows another try, the client has been sent
    /// nothing.
    pub(crate) async fn deliver(
        &self,
        response: &mut Outcome<'_>,
        note_slow: impl FnOnce(),
    ) -> Result<(), Fault> {
        let is_done = match self.client {
            Client::Http1(socket) => self.send_first(socket, response).await?,
            Client::Stream(_) if !response.body.begins_well() => {
                return Err(Fault::sent(Reason::UpstreamBadResponse));
            }
            Client::Stream(stream) => {
                let is_done = response.body.is_done();
                let sent = stream.respond(response.status, response.head.data(), is_done);
                sent.map_err(|_| Fault::never(Reason::ClientAborted))?;
                let has_pace = response.policy.is_some_and(|policy| policy.pace.is_some());
                is_done
                    || (!has_pace
                        && response
                            .body
                            .send_now(stream, &self.meter())
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
        boxed(|| self.send_rest(incoming, response.framing, response.policy)).await
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
        RelayError::Processor(reason) => *reason,
        RelayError::Read | RelayError::Invalid(InvalidBody::Truncated) => Reason::UpstreamReset,
        RelayError::ReadTimeout | RelayError::ReadTooSlow => Reason::UpstreamReadTimeout,
        RelayError::Coding => Reason::UpstreamBadCoding,
        RelayError::File => Reason::FileUnreadable,
        RelayError::Invalid(_) | RelayError::TooLarge | RelayError::Store => Reason::UpstreamBadResponse,
        RelayError::Write => Reason::ClientAborted,
        RelayError::WriteTimeout => Reason::SendTimeout,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use reactor::TcpStream;
    use wire::h1::{Body, BodyDecoder};

    use super::*;
    use crate::testing::{TWO, World, rest, route_to};
    use crate::upstream::fault::Retry;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";

    struct Delivered {
        result: Result<(), Fault>,
        sent: String,
        body_bytes: u64,
        was_slow: bool,
    }

    /// Delivers a response whose body an endpoint has sent as far as `read`, before it closed the connection.
    fn delivered(body: Body, read: &str, framing: Framing) -> Delivered {
        let world = World::of(route_to(TWO));
        world.admitted("GET /", |admitted, _| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            drop(theirs);
            let socket = Socket::clear(TcpStream::from_std(OwnedFd::from(ours).into()).unwrap());
            let (mut buffer, mut decoder) = (rest(&world, read.as_bytes()), BodyDecoder::new(body));
            let source = Source::Http1 { socket: &socket, buffer: &mut buffer, decoder: &mut decoder };
            let head = rest(&world, HEAD);
            let read_timeout = Duration::from_secs(1);
            let mut response =
                Outcome { status: 200, head, body: source, framing, read_timeout, policy: None };
            let was_slow = Cell::new(false);
            let recipient = Recipient::of(&admitted);
            let result = world.block_on(recipient.deliver(&mut response, || was_slow.set(true)));
            let body_bytes = admitted.report.sent_body.get();
            Delivered { result, sent: world.sent(), body_bytes, was_slow: was_slow.get() }
        })
    }

    #[test]
    fn a_body_that_has_come_leaves_with_the_head() {
        for (body, read, framing, expected) in [
            (Body::Empty, "", Framing::Raw, ""),
            (Body::of_length(4), "body", Framing::Raw, "body"),
            (Body::Chunked, "4\r\nbody\r\n0\r\n\r\n", Framing::Chunked, "4\r\nbody\r\n0\r\n\r\n"),
        ] {
            let delivered = delivered(body, read, framing);
            assert!(delivered.result.is_ok() && !delivered.was_slow);
            assert_eq!(delivered.sent.as_bytes().strip_prefix(HEAD), Some(expected.as_bytes()));
        }
    }

    #[test]
    fn chunks_are_taken_off_for_clients_that_know_none() {
        let delivered = delivered(Body::Chunked, "2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n", Framing::Raw);
        assert!(delivered.result.is_ok() && delivered.sent.ends_with("\r\n\r\nbody"), "{}", delivered.sent);
    }

    #[test]
    fn what_is_announced_and_does_not_come_is_a_fault_that_the_client_sees() {
        let delivered = delivered(Body::of_length(8), "body", Framing::Raw);
        assert_eq!(delivered.result, Err(Fault::never(Reason::UpstreamReset)));
        assert!(delivered.sent.ends_with("\r\n\r\nbody") && delivered.was_slow);
        assert_eq!(delivered.body_bytes, 4);
    }

    #[test]
    fn of_a_body_that_begins_badly_the_client_sees_nothing() {
        let begins_badly = delivered(Body::Chunked, "x\r\n", Framing::Chunked);
        assert_eq!(begins_badly.result, Err(Fault::sent(Reason::UpstreamBadResponse)));
        assert_eq!(begins_badly.sent, "");
        let goes_on_badly = delivered(Body::Chunked, "4\r\nbody\r\nx\r\n", Framing::Chunked);
        assert_eq!(goes_on_badly.result.map_err(|fault| fault.retry), Err(Retry::Never));
        assert!(goes_on_badly.sent.contains("body"));
    }
}
