//! Results of TLS handshakes.

use rustls::{ClientConnection, CommonState, HandshakeKind, ProtocolVersion, ServerConnection};

use crate::Certificate;

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsInfo {
    /// The version is 1.3, not 1.2.
    pub is_13: bool,
    /// The suite's name, such as `TLS13_AES_256_GCM_SHA384` or `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`.
    pub suite: String,
    /// The protocol that was agreed upon.
    pub alpn: Option<String>,
    /// The certificates of the other end, the leaf first.
    pub peer_chain: Vec<Vec<u8>>,
    /// The session is one that was there before.
    pub is_resumed: bool,
    /// The name that the client requested, at the server.
    pub name: Option<String>,
}

impl TlsInfo {
    pub(crate) fn of(connection: &rustls::Connection) -> Self {
        match connection {
            rustls::Connection::Client(client) => Self::of_client(client),
            rustls::Connection::Server(server) => Self::of_server(server),
        }
    }

    pub(crate) fn of_client(connection: &ClientConnection) -> Self {
        Self::of_either(connection, None)
    }

    pub(crate) fn of_server(connection: &ServerConnection) -> Self {
        Self::of_either(connection, connection.server_name())
    }

    fn of_either(connection: &CommonState, name: Option<&str>) -> Self {
        let chain = connection.peer_certificates().unwrap_or_default();
        Self {
            is_13: connection.protocol_version() == Some(ProtocolVersion::TLSv1_3),
            suite: connection
                .negotiated_cipher_suite()
                .map_or_else(String::new, |one| format!("{:?}", one.suite())),
            alpn: connection.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            peer_chain: chain.iter().map(|one| one.to_vec()).collect(),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            name: name.map(str::to_owned),
        }
    }

    /// Whether the other end showed this certificate.
    pub fn shows(&self, certificate: &Certificate) -> bool {
        self.peer_chain.first().is_some_and(|leaf| leaf == certificate.der())
    }
}
