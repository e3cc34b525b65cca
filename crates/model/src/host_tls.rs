//! TLS of one host: its certificate, and the certificates that its clients have to show.

use std::sync::Arc;

use serde::Serialize;

use crate::{Authorities, Certificate, CipherSuite, ClusterId, HostName, TlsStream};

/// How a host is served over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostTls {
    /// The host's certificate; none for the default certificate.
    pub certificate: Option<Arc<Certificate>>,
    /// Further ones, beside the first; none for none. A client is shown the first of all that is for the name
    /// that it asks for and that it can verify, or else the first that it can verify. The same allocation for
    /// as long as they stay the same.
    pub more_certificates: Option<Arc<[Arc<Certificate>]>>,
    /// The names for which the certificate is used, of those that lead to the host; none for all. For other
    /// names the default certificate is used.
    pub shown_for: Option<Arc<[HostName]>>,
    /// The certificate for a client that offers `acme-tls/1` alone: an authority that verifies who serves the
    /// host (RFC 8737). None while no order is in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<Arc<Certificate>>,
    /// Client certificates that the host requests.
    pub client_auth: Option<ClientAuth>,
    /// TLS 1.2 suites on offer; none for those of the settings.
    pub ciphers: Option<Vec<CipherSuite>>,
    /// Whether the server's order of suites decides; none for what the settings say.
    pub prefer_server_ciphers: Option<bool>,
    /// Whether requests are taken before the handshake is complete (0-RTT), over HTTP/3; none for what the
    /// settings say.
    pub early_data: Option<bool>,
    /// Connections are not decrypted but passed on to this cluster.
    pub passthrough: Option<ClusterId>,
    /// Passes the bytes of connections on instead of serving HTTP. The same allocation for as long as it
    /// stays the same.
    pub stream: Option<Arc<TlsStream>>,
    /// The number of the Gateway's listener that the host belongs to, among those of one port; none where
    /// that makes no difference. A connection made for a host of one listener must not be used for a host of
    /// another: such a request is answered with 421 (Gateway API, `Listener.hostname`).
    pub listener: Option<u32>,
}

/// The certificates that clients of a host have to present. [`ClientCertificate`](crate::ClientCertificate)
/// decides on requests without a valid one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientAuth {
    /// Authorities that may have signed the certificate.
    pub authorities: Arc<Authorities>,
    /// Whether one has to be shown.
    pub verify: VerifyClient,
    /// Most certificates between the client's and an authority's (nginx: `ssl_verify_depth`).
    pub depth: u32,
    /// Refuses a client without a valid certificate in the handshake (Gateway API: `AllowValidOnly`).
    /// Otherwise the client gets an HTTP error, as with nginx.
    pub ends_handshake: bool,
}

/// Whether clients have to show a certificate (nginx: `ssl_verify_client`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum VerifyClient {
    /// One that an authority has signed.
    #[default]
    On,
    /// No certificate is requested.
    Off,
    /// None, or one that an authority has signed.
    Optional,
    /// No certificate or any; the endpoint learns whether an authority has signed it.
    OptionalNoCa,
}
