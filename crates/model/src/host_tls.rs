//! TLS of one host: its certificate, and the certificates that its clients have to show.

use std::sync::Arc;

use crate::{Authorities, Certificate, CipherSuite, ClusterId, HostName};

/// How a host is served over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTls {
    /// What the host shows; none for the default certificate.
    pub certificate: Option<Arc<Certificate>>,
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
