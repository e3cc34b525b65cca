//! One health check of one endpoint: what is sent, and which answers pass.

use std::net::SocketAddr;

use model::{AppProtocol, HealthCheck, HealthProbe, Timeouts};
use observe::{CheckFault, Reason};
use wire::h1::{BodyDecoder, Response};

use crate::body::{BodyEvent, Framing, Incoming, Outgoing};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::limits::HEALTH_RESPONSE_BYTES_MAX;
use crate::upstream::fault::Fault;
use crate::upstream::h1::keep_alive_hint;
use crate::upstream::subrequest::{drain, final_head};
use crate::upstream::{Call, Endpoint, LivenessCheck, Message, ResponseTimer};
use crate::worker::Worker;

/// The outcome of a check; none where it says nothing about the endpoint, since this process is short of
/// something.
pub(super) type Outcome = Option<Result<(), CheckFault>>;

/// A check of one endpoint, made once and sent again and again.
pub(super) struct Probe {
    /// None where the check is a connection.
    request: Option<Request>,
    timeouts: Timeouts,
}

/// The request of a check: its head, and its content in gRPC.
struct Request {
    bytes: Vec<u8>,
    head_len: usize,
}

impl Probe {
    /// The check of this endpoint.
    pub(super) fn new(endpoint: &Endpoint, check: &HealthCheck) -> Self {
        let HealthCheck { timeout, .. } = *check;
        let timeouts = Timeouts { connect: timeout, read: timeout, send: timeout, ..Timeouts::default() };
        let (address, version) = (endpoint.address, endpoint.protocol.version);
        let request = match &check.probe {
            HealthProbe::Http { path, host, .. } if version != AppProtocol::FastCgi => {
                let bytes = head("GET", path, host.as_deref(), address, "");
                Some(Request { head_len: bytes.len(), bytes })
            }
            HealthProbe::Grpc { service, host } if version == AppProtocol::Http2 => {
                let fields = "Content-Type: application/grpc\r\nTE: trailers\r\n";
                let mut bytes =
                    head("POST", "/grpc.health.v1.Health/Check", host.as_deref(), address, fields);
                let head_len = bytes.len();
                bytes.extend(grpc_request(service));
                Some(Request { bytes, head_len })
            }
            // An application that speaks FastCGI has no path of its own for checks.
            HealthProbe::Http { .. } | HealthProbe::Grpc { .. } | HealthProbe::Connect => None,
        };
        Self { request, timeouts }
    }
}

/// Checks an endpoint, within the time of the check, over a connection that is there already unless
/// `is_fresh`. Sessions of HTTP/2 are shared in any case.
pub(super) async fn run(
    worker: &Worker,
    endpoint: &Endpoint,
    check: &HealthCheck,
    probe: &Probe,
    is_fresh: bool,
) -> Outcome {
    let result = tokio::select! {
        // A response that has come in time counts, even where this task has its turn too late.
        biased;
        result = Box::pin(make(worker, endpoint, check, probe, is_fresh)) => result,
        () = reactor::sleep(check.timeout) => Err(Failed::Check(CheckFault::Timeout)),
    };
    match result {
        Ok(()) => Some(Ok(())),
        Err(Failed::Check(fault)) => Some(Err(fault)),
        Err(Failed::Request(fault)) => reason_of(fault.reason).map(Err),
    }
}

/// Why a check has not passed.
enum Failed {
    Check(CheckFault),
    Request(Fault),
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Request(fault)
    }
}

/// The fault of the endpoint for the reason of a failed request; none where it is not the endpoint's.
fn reason_of(reason: Reason) -> Option<CheckFault> {
    Some(match reason {
        Reason::PortsExhausted | Reason::DescriptorsExhausted => return None,
        Reason::ConnectRefused | Reason::ConnectFailed => CheckFault::Unreachable,
        Reason::ConnectTimeout | Reason::UpstreamReadTimeout | Reason::UpstreamSendTimeout => {
            CheckFault::Timeout
        }
        Reason::UpstreamHandshakeFailed | Reason::UpstreamCertificateBad => CheckFault::Handshake,
        _ => CheckFault::Broken,
    })
}

async fn make(
    worker: &Worker,
    endpoint: &Endpoint,
    check: &HealthCheck,
    probe: &Probe,
    is_fresh: bool,
) -> Result<(), Failed> {
    let Probe { request, timeouts } = probe;
    let Some(Request { bytes, head_len }) = request else {
        let opened = worker.pool.open(endpoint, LivenessCheck::EventLoop).await;
        return opened.map(drop).map_err(|error| Fault::unsent(error.reason()).into());
    };
    let deadline = Deadline::new(&worker.deadlines);
    let asking = Asking { worker, endpoint, timeouts, deadline: &deadline, is_fresh };
    if matches!(check.probe, HealthProbe::Grpc { .. }) {
        let message = Message {
            head_len: *head_len,
            has_body: true,
            takes_trailers: true,
            ..Message::bodiless(bytes, timeouts)
        };
        return asking.call(&message).await;
    }
    let status = asking.status(&Message::bodiless(bytes, timeouts)).await?;
    let passes = check.probe.passes(status);
    if passes { Ok(()) } else { Err(Failed::Check(CheckFault::Status(status))) }
}

/// The head of a check.
fn head(method: &str, path: &str, host: Option<&str>, address: SocketAddr, fields: &str) -> Vec<u8> {
    let address = address.to_string();
    let host = host.unwrap_or(&address);
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: forebay-health-check\r\nAccept: */*\r\n{fields}\r\n"
    )
    .into_bytes()
}

// === gRPC ===

/// The number of `SERVING` in `HealthCheckResponse`.
const SERVING: u8 = 1;
/// Bytes before a message: a flag for compression, and the length.
const PREFIX: usize = 5;
/// The longest name of a service whose length fits into one byte of a varint.
pub(super) const SERVICE_BYTES_MAX: usize = 127;

/// `HealthCheckRequest { service }` with its prefix.
fn grpc_request(service: &str) -> Vec<u8> {
    let service = &service.as_bytes()[..service.len().min(SERVICE_BYTES_MAX)];
    let message_len = if service.is_empty() { 0 } else { 2 + service.len() };
    let mut out = vec![0, 0, 0, 0, message_len as u8];
    if !service.is_empty() {
        // Field 1, with a length.
        out.extend([0x0a, service.len() as u8]);
        out.extend(service);
    }
    out
}

/// Whether the content of a response is `HealthCheckResponse { status: SERVING }`.
fn is_serving(content: &[u8]) -> bool {
    let Some((prefix, message)) = content.split_at_checked(PREFIX) else { return false };
    // Field 1, a varint. A status of zero, `UNKNOWN`, is left out of the message.
    prefix == [0, 0, 0, 0, message.len() as u8] && message == [0x08, SERVING]
}

/// A request on behalf of a check.
struct Asking<'a> {
    worker: &'a Worker,
    endpoint: &'a Endpoint,
    timeouts: &'a Timeouts,
    deadline: &'a Deadline,
    is_fresh: bool,
}

impl<'a> Asking<'a> {
    /// Sends a request, over an idle connection if there is one and it may be used, and waits for the head of
    /// the response, which stays in `buffer`.
    async fn converse(
        &self,
        message: &Message<'_>,
        response: &mut Response,
        buffer: &mut Buffer,
    ) -> Result<Call<'a>, Fault> {
        let Self { worker, endpoint, timeouts, deadline, is_fresh } = *self;
        let mut converse = async |call: &mut Call<'_>| {
            // The endpoint's requests are those of clients.
            endpoint.cells.requests.dec();
            call.send(message, deadline).await?;
            if let Some(content) = call.unsent(message) {
                let sink = call.sink(Framing::Raw);
                let outgoing = Outgoing { sink, timeout: timeouts.send, passing_trailers: None };
                let sent = outgoing.write(content, true, deadline).await;
                sent.map_err(|_| Fault::sent(Reason::UpstreamReset))?;
            }
            let timer = ResponseTimer::new(deadline, timeouts.read, true);
            final_head(call, response, buffer, &timer).await
        };
        let pool = &worker.pool;
        if is_fresh && endpoint.protocol.version == AppProtocol::Http1 {
            let mut call = Call::open(pool, endpoint, true, true, timeouts.connect, deadline).await?;
            converse(&mut call).await?;
            return Ok(call);
        }
        Ok(Call::converse(pool, endpoint, timeouts.connect, deadline, converse).await?.0)
    }

    /// Requests a status. The connection is used again where that is possible.
    async fn status(&self, message: &Message<'_>) -> Result<u16, Failed> {
        let worker = self.worker;
        let (mut buffer, mut response) = (Buffer::empty(&worker.buffers), worker.responses.take());
        let call = self.converse(message, &mut response, &mut buffer).await?;
        let idle_max = keep_alive_hint(buffer.data(), &response);
        buffer.consume(response.len);
        let is_past = drain(&call, response.body(false), &mut buffer, *self.timeouts, self.deadline).await;
        call.finish(is_past && response.is_persistent(), idle_max, false);
        let status = response.status;
        worker.responses.keep(response);
        Ok(status)
    }

    /// Calls `grpc.health.v1.Health/Check` of the endpoint, which passes if it says that it serves.
    async fn call(&self, message: &Message<'_>) -> Result<(), Failed> {
        let (mut buffer, mut response) = (Buffer::empty(&self.worker.buffers), Response::default());
        let call = self.converse(message, &mut response, &mut buffer).await?;
        if response.status != 200 {
            return Err(Failed::Check(CheckFault::Status(response.status)));
        }
        let of_head = status_among(buffer.data());
        buffer.consume(response.len);
        let body = response.body(false);
        let mut decoder = BodyDecoder::new(body);
        let source = call.source(body, &mut buffer, &mut decoder);
        let (content, trailers) =
            read(Incoming { source, timeout: self.timeouts.read }, self.deadline).await?;
        match status_among(&trailers).or(of_head) {
            Some(0) if is_serving(&content) => Ok(()),
            Some(0) => Err(Failed::Check(CheckFault::NotServing)),
            Some(status) => Err(Failed::Check(CheckFault::GrpcStatus(status))),
            None => Err(Failed::Check(CheckFault::Broken)),
        }
    }
}

/// Reads the content and the trailers of a response.
async fn read(mut incoming: Incoming<'_>, deadline: &Deadline) -> Result<(Vec<u8>, Vec<u8>), Failed> {
    let mut content = Vec::new();
    loop {
        let event = incoming.next(None, deadline).await.map_err(|_| Failed::Check(CheckFault::Broken))?;
        match event {
            BodyEvent::Content { skip, len } => {
                content.extend_from_slice(incoming.content(skip, len));
                incoming.source.consume(skip + len);
                if content.len() > HEALTH_RESPONSE_BYTES_MAX {
                    return Err(Failed::Check(CheckFault::Broken));
                }
            }
            BodyEvent::End { skip, trailers } => {
                return Ok((content, incoming.content(trailers, skip - trailers).to_vec()));
            }
            BodyEvent::Large { .. } => return Err(Failed::Check(CheckFault::Broken)),
        }
    }
}

/// The value of `grpc-status` among lines of a head or of trailers.
fn status_among(lines: &[u8]) -> Option<u8> {
    let mut lines = lines.split(|byte| *byte == b'\n');
    lines.find_map(|line| {
        let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
        let value = std::str::from_utf8(value.get(1..)?).ok()?;
        name.eq_ignore_ascii_case(b"grpc-status").then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_request_names_the_service() {
        assert_eq!(grpc_request(""), [0, 0, 0, 0, 0]);
        assert_eq!(grpc_request("a.B"), [0, 0, 0, 0, 5, 0x0a, 3, b'a', b'.', b'B']);
    }

    #[test]
    fn only_serving_passes() {
        assert!(is_serving(&[0, 0, 0, 0, 2, 8, 1]));
        for other in [&[][..], &[0], &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 2, 8, 2], &[1, 0, 0, 0, 2, 8, 1]] {
            assert!(!is_serving(other), "{other:?}");
        }
    }

    #[test]
    fn the_status_of_a_call_is_found_in_trailers_or_in_the_head() {
        assert_eq!(status_among(b"grpc-status: 0\r\ngrpc-message: \r\n"), Some(0));
        assert_eq!(status_among(b"HTTP/1.1 200 OK\r\nGrpc-Status:5\r\n\r\n"), Some(5));
        assert_eq!(status_among(b"grpc-status: many\r\n"), None);
        assert_eq!(status_among(b""), None);
    }

    #[test]
    fn a_check_says_who_asks() {
        let head = head("GET", "/healthz", None, SocketAddr::from(([10, 0, 0, 1], 8080)), "");
        let expected = "GET /healthz HTTP/1.1\r\nHost: 10.0.0.1:8080\r\nUser-Agent: forebay-health-check\r\nAccept: */*\r\n\r\n";
        assert_eq!(String::from_utf8(head).unwrap(), expected);
    }

    #[test]
    fn what_this_process_lacks_is_no_fault_of_the_endpoint() {
        assert_eq!(reason_of(Reason::DescriptorsExhausted), None);
        assert_eq!(reason_of(Reason::ConnectRefused), Some(CheckFault::Unreachable));
        assert_eq!(reason_of(Reason::UpstreamReset), Some(CheckFault::Broken));
    }
}
