//! TLS inside of QUIC (RFC 9001): rustls makes the handshake and the keys, `quinn-proto` carries them.
//!
//! The host, and with it certificate and demands on the client, is selected by the `ClientHello` as on TCP: a
//! session holds the bytes until the hello is whole, and begins with rustls then.

use std::any::Any;
use std::io::Cursor;
use std::net::IpAddr;
use std::sync::Arc;

use model::HostTls;
use observe::Reason;
use parking_lot::Mutex;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionError, ConnectionId, Side, TransportError, TransportErrorCode};
use routing::HostTable;
use rustls::AlertDescription;
use rustls::quic::{KeyChange, ServerConnection, Version};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use wire::client_hello::{Peek, server_name_in_message};
use wire::quic::limit_connection_ids;

use super::client::ClientTls;
use super::provider::provider;
use super::quic_keys::NextPhases;
use super::server_configs::{Selection, ServerConfig, ServerConfigs};
use crate::limits::QUIC_CONNECTION_IDS_MAX;

/// The protocol's name in ALPN (RFC 9114 section 3.1).
pub(super) const ALPN: &[u8] = b"h3";

/// The configurations of a listener, as QUIC uses them.
pub(crate) struct QuicConfigs {
    configs: Arc<ServerConfigs>,
    /// The keys of packets before there is a session.
    initial: Arc<QuicServerConfig>,
    /// The client's address and what it is promised, for the handshake of one client.
    binding: Option<Box<[u8]>>,
}

/// A handshake inside of QUIC, and the keys that it has led to.
struct QuicSession {
    configs: Arc<ServerConfigs>,
    initial: Arc<QuicServerConfig>,
    version: u32,
    /// Our transport parameters, as the extension has them.
    parameters: Vec<u8>,
    binding: Option<Box<[u8]>>,
    stage: Stage,
}

enum Stage {
    /// The `ClientHello`, as far as it has come.
    Hello(Vec<u8>),
    Begun(Box<Begun>),
    Complete(Complete),
}

/// The rest of a handshake that is complete: rustls's session, with its own keys and buffers, has been
/// dropped.
struct Complete {
    /// The result, until it is taken.
    client: Mutex<Option<Box<ClientTls>>>,
    next_phases: Option<NextPhases>,
}

/// A handshake with a selected host.
struct Begun {
    connection: ServerConnection,
    server_name: Option<Box<str>>,
    server_config: Arc<ServerConfig>,
    host: Option<Arc<HostTable>>,
    next_phases: Option<NextPhases>,
    is_known: bool,
    /// Requests are taken before the handshake is complete.
    takes_early_data: bool,
}

/// No certificate: a configuration with this one is asked for keys of Initial packets only.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

impl QuicConfigs {
    /// The configurations of a listener; none if the cryptography has no suite for Initial packets.
    pub(crate) fn new(configs: Arc<ServerConfigs>) -> Option<Arc<Self>> {
        let config = rustls::ServerConfig::builder_with_provider(provider(&[]))
            .with_protocol_versions(&[&TLS13])
            .ok()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(NoCertificate));
        let initial = Arc::new(QuicServerConfig::try_from(config).ok()?);
        Some(Arc::new(Self { configs, initial, binding: None }))
    }

    /// TLS of the host for a server name, or for none, if it is passed through.
    pub(crate) fn passthrough(&self, name: Option<&[u8]>) -> Option<&Arc<HostTls>> {
        self.configs.passthrough(name)
    }

    /// The same for a client at an address, which is promised these bounds of streams and heads. None where
    /// no host takes early data, so that this makes no difference.
    pub(crate) fn for_client(&self, address: IpAddr, promises: [u64; 2]) -> Option<Arc<Self>> {
        if !self.configs.has_early_data() {
            return None;
        }
        let address = match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mut binding = address.octets().to_vec();
        for promise in promises {
            binding.extend(promise.to_be_bytes());
        }
        let (configs, initial) = (Arc::clone(&self.configs), Arc::clone(&self.initial));
        Some(Arc::new(Self { configs, initial, binding: Some(binding.into()) }))
    }
}

impl crypto::ServerConfig for QuicConfigs {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.initial.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.initial.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let mut bytes = Vec::new();
        parameters.write(&mut bytes);
        Box::new(QuicSession {
            configs: Arc::clone(&self.configs),
            initial: Arc::clone(&self.initial),
            version,
            parameters: bytes,
            binding: self.binding.clone(),
            stage: Stage::Hello(Vec::new()),
        })
    }
}

/// A fault of the handshake, with the alert that names it (RFC 9001 section 4.8).
fn fault(alert: AlertDescription, reason: &str) -> TransportError {
    TransportError { code: TransportErrorCode::crypto(alert.into()), frame: None, reason: reason.to_owned() }
}

impl QuicSession {
    fn begun(&self) -> Option<&Begun> {
        match &self.stage {
            Stage::Begun(begun) => Some(begun),
            Stage::Hello(_) | Stage::Complete(_) => None,
        }
    }

    /// Begins the handshake, once the hello is whole.
    fn begin(&mut self) -> Result<(), TransportError> {
        let Stage::Hello(hello) = &self.stage else { return Ok(()) };
        let name = match server_name_in_message(hello) {
            Peek::Partial => return Ok(()),
            Peek::NotHello => return Err(fault(AlertDescription::DecodeError, "no ClientHello")),
            Peek::Hello { server_name } => server_name,
        };
        // The names that clients send are compared in lower case, as rustls has them on TCP.
        let name = name.as_deref().and_then(|name| std::str::from_utf8(name).ok());
        let name = name.map(|name| Box::<str>::from(name.to_ascii_lowercase()));
        let is_passed_through = self.configs.passthrough(name.as_deref().map(str::as_bytes)).is_some();
        let selection = self.configs.select(name.as_deref()).filter(|selection| {
            let is_stream = selection.host.is_some_and(|host| host.tls().stream.is_some());
            !is_passed_through && !is_stream
        });
        let Some(Selection { server_config, host }) = selection else {
            return Err(fault(AlertDescription::UnrecognisedName, "the name is not served over HTTP/3"));
        };
        let binding = self.binding.as_deref().filter(|_| server_config.takes_early_data());
        let config = match binding {
            Some(binding) => server_config.quic_with_early_data(binding),
            None => server_config.quic(),
        };
        let config = config.map_err(|error| {
            tracing::warn!(%error, "a handshake over QUIC cannot be answered");
            fault(AlertDescription::InternalError, "no configuration")
        })?;
        let connection = ServerConnection::new(config, Version::V1, std::mem::take(&mut self.parameters))
            .map_err(|error| fault(AlertDescription::ProtocolVersion, &error.to_string()))?;
        let mut begun = Box::new(Begun {
            connection,
            server_name: name,
            server_config: Arc::clone(server_config),
            host: host.cloned(),
            next_phases: None,
            is_known: false,
            takes_early_data: binding.is_some(),
        });
        begun.read(hello)?;
        self.stage = Stage::Begun(begun);
        Ok(())
    }

    /// Drops rustls's session once the handshake is complete and all of it has been written: no message of
    /// TLS may follow from a client, and only the secrets of later keys are needed.
    fn complete(&mut self) {
        let Stage::Begun(begun) = &mut self.stage else { return };
        if !begun.connection.is_handshaking() {
            let client = Mutex::new(Some(begun.client_tls()));
            let next_phases = begun.next_phases.take();
            self.stage = Stage::Complete(Complete { client, next_phases });
        }
    }
}

impl Begun {
    fn client_tls(&self) -> Box<ClientTls> {
        let selection = Selection { server_config: &self.server_config, host: self.host.as_ref() };
        Box::new(ClientTls::new(&self.connection, self.server_name.clone(), selection))
    }

    fn has_early_keys(&self) -> bool {
        self.takes_early_data && self.connection.zero_rtt_keys().is_some()
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        self.connection.read_hs(bytes).map_err(|error| {
            let alert = self.connection.alert().unwrap_or(AlertDescription::InternalError);
            fault(alert, &error.to_string())
        })
    }
}

impl crypto::Session for QuicSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, _: Side) -> Keys {
        use crypto::ServerConfig as _;
        match self.initial.initial_keys(self.version, dst_cid) {
            Ok(keys) => keys,
            Err(_) => unreachable!("a session begins with a version that has keys"),
        }
    }

    /// A [`ClientTls`] once the handshake is complete, or the client's early data is taken. It is there once
    /// after the handshake.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        match &self.stage {
            Stage::Hello(_) => None,
            Stage::Begun(begun) if begun.connection.is_handshaking() && !begun.has_early_keys() => None,
            Stage::Begun(begun) => Some(begun.client_tls()),
            Stage::Complete(complete) => Some(complete.client.lock().take()?),
        }
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.begun().filter(|begun| begun.takes_early_data)?.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        match &self.stage {
            Stage::Hello(_) => true,
            Stage::Begun(begun) => begun.connection.is_handshaking(),
            Stage::Complete(_) => false,
        }
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        match &mut self.stage {
            Stage::Hello(hello) => {
                hello.extend_from_slice(bytes);
                self.begin()?;
            }
            Stage::Begun(begun) => begun.read(bytes)?,
            Stage::Complete(_) => {
                return Err(fault(AlertDescription::UnexpectedMessage, "a message after the handshake"));
            }
        }
        let Stage::Begun(begun) = &mut self.stage else { return Ok(false) };
        let is_complete = !begun.connection.is_handshaking();
        Ok(is_complete && !std::mem::replace(&mut begun.is_known, true))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let bytes = self.begun().and_then(|begun| begun.connection.quic_transport_parameters());
        let Some(mut bytes) = bytes.map(<[u8]>::to_vec) else { return Ok(None) };
        limit_connection_ids(&mut bytes, QUIC_CONNECTION_IDS_MAX);
        Ok(Some(TransportParameters::read(Side::Server, &mut Cursor::new(bytes))?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let Stage::Begun(begun) = &mut self.stage else { return None };
        let Some(change) = begun.connection.write_hs(out) else {
            self.complete();
            return None;
        };
        let keys = match change {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                begun.next_phases = Some(NextPhases::new(next));
                keys
            }
        };
        Some(Keys {
            header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
            packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let phases = match &mut self.stage {
            Stage::Hello(_) => return None,
            Stage::Begun(begun) => begun.next_phases.as_mut()?,
            Stage::Complete(complete) => complete.next_phases.as_mut()?,
        };
        Some(phases.next_keys())
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        // Retry packets come to clients only.
        false
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        // Nobody asks for it.
        Err(ExportKeyingMaterialError)
    }
}

/// The reason by which a handshake over QUIC that has failed is counted.
pub(crate) fn quic_fault(error: &ConnectionError) -> Reason {
    tracing::debug!(%error, "a handshake over QUIC failed");
    let alert = |code: u64| u8::try_from(code.checked_sub(CRYPTO_ERROR)?).ok().map(AlertDescription::from);
    match error {
        ConnectionError::TransportError(error) => match alert(error.code.into()) {
            Some(AlertDescription::UnrecognisedName) => Reason::UnknownServerName,
            Some(AlertDescription::NoApplicationProtocol | AlertDescription::HandshakeFailure) => {
                Reason::NoCommonTlsParameters
            }
            _ => Reason::BadHandshake,
        },
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code.into()) {
            Some(
                AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired,
            ) => Reason::CertificateRefused,
            _ => Reason::HandshakeAborted,
        },
        ConnectionError::TimedOut => Reason::HandshakeTimeout,
        _ => Reason::HandshakeAborted,
    }
}

/// The first of the error codes that stand for alerts (RFC 9001 section 4.8).
const CRYPTO_ERROR: u64 = 0x100;
