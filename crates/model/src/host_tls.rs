//! TLS of one host: its certificate, and the certificates that its clients have to show.

use std::sync::Arc;

use crate::{Authorities, Certificate, CipherSuite, ClusterId, HostName, TlsStream};

/// How a host is served over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTls {
    /// What the host shows; none for the default certificate.
    pub certificate: Option<Arc<Certificate>>,
    /// Further ones, beside the first; none for none. A client is shown the first of all that is for the name that it asks for and that
    /// it can verify, or else the first that it can verify. The same allocation for as long as they stay the same.
    pub more_certificates: Option<Arc<[Arc<Certificate>]>>,
    /// The names for which it is shown, of those that lead to the host; none for all. The others are shown the default certificate.
    pub shown_for: Option<Arc<[HostName]>>,
    /// What clients have to show.
    pub client_auth: Option<ClientAuth>,
    /// TLS 1.2 suites that are offered; none for those of the settings.
    pub ciphers: Option<Vec<CipherSuite>>,
    /// Whether their order counts; none for what the settings say.
    pub prefer_server_ciphers: Option<bool>,
    /// Connections are not decrypted but passed on to this cluster.
    pub passthrough: Option<ClusterId>,
    /// No HTTP is spoken: what becomes of the bytes. The same allocation for as long as it stays the same.
    pub stream: Option<Arc<TlsStream>>,
    /// The number of the Gateway's listener that the host belongs to, among those of one port; none where that makes no difference. A
    /// connection that was made for a host of one listener is no way to the hosts of another: such a request is answered with 421
    /// (Gateway API, `Listener.hostname`).
    pub listener: Option<u32>,
}

/// What certificates the clients of a host have to show. What is done with those that do not is up to
/// [`ClientCertificate`](crate::ClientCertificate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuth {
    /// Whom to believe.
    pub authorities: Arc<Authorities>,
    /// Whether one has to be shown.
    pub verify: VerifyClient,
    /// Most certificates between the client's and an authority's (nginx: `ssl_verify_depth`).
    pub depth: u32,
    /// Where one has to be shown, a client without a good one is refused in the handshake (Gateway API: `AllowValidOnly`). Otherwise it is
    /// told so in HTTP, as nginx does.
    pub ends_handshake: bool,
}

/// Whether clients have to show a certificate (nginx: `ssl_verify_client`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyClient {
    /// One that an authority has signed.
    #[default]
    On,
    /// None is asked for.
    Off,
    /// None, or one that an authority has signed.
    Optional,
    /// None or any; whether an authority has signed it is told to the endpoint.
    OptionalNoCa,
}
