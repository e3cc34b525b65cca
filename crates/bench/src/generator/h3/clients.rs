//! The settings of QUIC and TLS with which a thread's connections are opened.
//!
//! Must not be in here: sockets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem};

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, Endpoint, EndpointConfig, IdleTimeout, TransportConfig,
    VarInt,
};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme, Tls13CipherSuite};

use super::ALPN_H3;
use crate::tls::{SESSIONS_KEPT, Tls, TlsError, Version};

/// The same as those for HTTP/2.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

/// Time without a packet of the server after which a connection is lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Unidirectional streams that the server may open: one for control, two for QPACK, and some without meaning.
const SERVER_STREAMS: u32 = 16;

/// Clients of QUIC, each with its own sessions.
pub(crate) struct QuicClients {
    server_name: String,
    endpoint: Arc<EndpointConfig>,
    /// One for each client, or one for all if sessions are not resumed.
    clients: Vec<Client>,
    resumes: bool,
}

struct Client {
    config: ClientConfig,
    record: Arc<Record>,
}

/// The result of the verification of certificates, which `quinn-proto` does not pass on.
#[derive(Debug, Default)]
struct Record {
    /// A certificate was shown since this was last read, as in every full handshake.
    is_full: AtomicBool,
    /// Why the last certificate was rejected.
    error: Mutex<Option<rustls::Error>>,
}

#[derive(Debug)]
struct RecordingVerifier {
    inner: Arc<dyn ServerCertVerifier>,
    record: Arc<Record>,
}

impl QuicClients {
    /// Makes this number of clients, at least one.
    pub(crate) fn new(tls: &Tls, count: usize) -> Result<QuicClients, TlsError> {
        ServerName::try_from(tls.server_name.clone())
            .map_err(|_| TlsError::ServerName(tls.server_name.clone()))?;
        let count = if tls.resume { count.max(1) } else { 1 };
        // QUIC has no other version.
        let tls = &Tls { version: Version::V1_3, ..tls.clone() };
        Ok(QuicClients {
            server_name: tls.server_name.clone(),
            endpoint: Arc::new(EndpointConfig::default()),
            clients: (0..count).map(|_| Client::new(tls)).collect::<Result<_, _>>()?,
            resumes: tls.resume,
        })
    }

    /// Begins a connection of the client `index`. The endpoint is for this connection only.
    pub(super) fn begin(
        &self,
        index: usize,
        target: SocketAddr,
        discovers_mtu: bool,
    ) -> io::Result<(Endpoint, ConnectionHandle, Connection)> {
        let mut endpoint = Endpoint::new(Arc::clone(&self.endpoint), None, discovers_mtu, None);
        let config = self.client(index).config.clone();
        let (handle, connection) =
            endpoint.connect(Instant::now(), config, target, &self.server_name).map_err(io::Error::other)?;
        Ok((endpoint, handle, connection))
    }

    /// Whether the handshake of the client `index`, which has just succeeded, resumed a session.
    pub(super) fn has_resumed(&self, index: usize) -> bool {
        let is_full = self.client(index).record.is_full.swap(false, Ordering::Relaxed);
        self.resumes && !is_full
    }

    /// Why the client `index` has rejected the server's certificate; none if it has not.
    pub(super) fn distrust(&self, index: usize) -> Option<rustls::Error> {
        mem::take(&mut *self.client(index).record.error.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn client(&self, index: usize) -> &Client {
        &self.clients[index % self.clients.len()]
    }
}

impl Client {
    fn new(tls: &Tls) -> Result<Client, TlsError> {
        let mut config = tls.config()?;
        let record = Arc::new(Record::default());
        let inner = tls.verifier(config.crypto_provider())?;
        let verifier = RecordingVerifier { inner, record: Arc::clone(&record) };
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        config.alpn_protocols = vec![ALPN_H3.to_vec()];
        config.resumption =
            if tls.resume { Resumption::in_memory_sessions(SESSIONS_KEPT) } else { Resumption::disabled() };
        // Initial packets have this suite, whichever is agreed on for the rest (RFC 9001 section 5.2).
        let initial = TLS13_AES_128_GCM_SHA256.tls13().and_then(Tls13CipherSuite::quic_suite);
        let initial = initial.ok_or_else(|| rustls::Error::General("no suite for Initial packets".into()))?;
        let crypto = QuicClientConfig::with_initial(Arc::new(config), initial)
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport()));
        Ok(Client { config, record })
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(SERVER_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES))
        .max_idle_timeout(IdleTimeout::try_from(IDLE_TIMEOUT).ok())
        .datagram_receive_buffer_size(None);
    transport
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.record.is_full.store(true, Ordering::Relaxed);
        let result =
            self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        self.record.note(result)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.record.note(self.inner.verify_tls13_signature(message, certificate, signature))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

impl Record {
    fn note<T>(&self, result: Result<T, rustls::Error>) -> Result<T, rustls::Error> {
        if let Err(error) = &result {
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
        result
    }
}
