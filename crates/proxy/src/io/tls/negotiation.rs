//! A handshake by rustls, fed with bytes and asked for bytes: no socket.
//!
//! Records are passed to rustls one by one, and none after the handshake's last: what follows belongs to the
//! [`Records`] that the handshake ends in.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, Error, HandshakeKind, ProtocolVersion, ServerConfig};

use super::record::{Peer, Received, Records, record_len};

/// A handshake that is being made.
pub(super) struct Negotiation {
    side: Side,
    /// Bytes that were received and that rustls still needs, or has not seen.
    received: Vec<u8>,
    /// How many of them rustls has seen.
    offered: usize,
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// The outcome of a call of rustls.
enum Step {
    /// It has more to do with them.
    More,
    /// It needs more bytes, or the handshake is over.
    Blocked,
}

impl Negotiation {
    pub(super) fn server(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self::new(Side::Server(UnbufferedServerConnection::new(config)?)))
    }

    pub(super) fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        Ok(Self::new(Side::Client(UnbufferedClientConnection::new(config, name)?)))
    }

    fn new(side: Side) -> Self {
        Self { side, received: Vec::new(), offered: 0 }
    }

    /// The facts that the handshake has brought up to now.
    pub(super) fn facts(&self) -> &CommonState {
        match &self.side {
            Side::Server(server) => server,
            Side::Client(client) => client,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        !self.facts().is_handshaking()
    }

    /// Whether the next step takes much CPU time: the second half of a key exchange, or a second
    /// `ClientHello`.
    pub(super) fn is_next_step_costly(&self) -> bool {
        let facts = self.facts();
        let is_retried = facts.handshake_kind() == Some(HandshakeKind::FullWithHelloRetryRequest);
        let is_resumed = facts.handshake_kind() == Some(HandshakeKind::Resumed);
        is_retried || (facts.protocol_version() == Some(ProtocolVersion::TLSv1_2) && !is_resumed)
    }

    /// Keeps received bytes for the next step.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Goes as far as the received bytes allow, and appends what is to be sent: after an error, an alert.
    pub(super) fn advance(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        loop {
            match self.step(out) {
                Ok(Step::More) => {}
                Ok(Step::Blocked) if self.is_over() => return Ok(()),
                Ok(Step::Blocked) => match next_record(&self.received[self.offered..]) {
                    Some(len) => self.offered += len,
                    None => return Ok(()),
                },
                Err(error) => {
                    // The alert, and no more: rustls must not look at the faulty bytes again.
                    while self.facts().wants_write() && self.step(out).is_ok() {}
                    return Err(error);
                }
            }
        }
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, Error> {
        let offered = &mut self.received[..self.offered];
        let (discard, step) = match &mut self.side {
            Side::Server(server) => step(server.process_tls_records(offered), out),
            Side::Client(client) => step(client.process_tls_records(offered), out),
        };
        self.received.drain(..discard);
        self.offered -= discard;
        step
    }

    /// The records that follow the handshake, with the bytes that have come after it.
    pub(super) fn finish(self) -> Result<(Records, Received), Error> {
        let (secrets, peer) = match self.side {
            Side::Server(server) => {
                let (secrets, kernel) = server.dangerous_into_kernel_connection()?;
                (secrets, Peer::Client(kernel))
            }
            Side::Client(client) => {
                let (secrets, kernel) = client.dangerous_into_kernel_connection()?;
                (secrets, Peer::Server(kernel))
            }
        };
        let mut received = Received::default();
        received.keep(&self.received);
        Ok((Records::new(peer, &secrets)?, received))
    }
}

/// How many bytes rustls is given next: a record. Bytes that do not begin with one are for rustls to refuse.
fn next_record(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    if !RECORD_TYPES.contains(&first) {
        return Some(bytes.len());
    }
    record_len(bytes).filter(|&len| len <= bytes.len())
}

/// Types of content in a handshake, from `change_cipher_spec` to `application_data` (RFC 8446 section 5.1).
const RECORD_TYPES: std::ops::RangeInclusive<u8> = 20..=23;

/// Does what rustls asks for. Returns how many of its bytes are no longer needed as well.
fn step<Data>(status: UnbufferedStatus<'_, '_, Data>, out: &mut Vec<u8>) -> (usize, Result<Step, Error>) {
    let step = status.state.and_then(|state| match state {
        ConnectionState::EncodeTlsData(data) => encode(data, out).map(|()| Step::More),
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Step::More)
        }
        ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => Ok(Step::Blocked),
        _ => Err(Error::General("the peer has ended the handshake".to_owned())),
    });
    (status.discard, step)
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) -> Result<(), Error> {
    let len = match data.encode(&mut []) {
        Ok(len) => len,
        Err(EncodeError::InsufficientSize(short)) => short.required_size,
        Err(EncodeError::AlreadyEncoded) => 0,
    };
    let start = out.len();
    out.resize(start + len, 0);
    data.encode(&mut out[start..]).map(drop).map_err(|error| Error::General(error.to_string()))
}
