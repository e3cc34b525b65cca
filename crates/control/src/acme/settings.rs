//! The settings of ACME, as the `ConfigMap` has them.

use std::fmt;
use std::sync::Arc;

/// How certificates are obtained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The authorities, the preferred one first.
    pub directories: Vec<Directory>,
    /// Address that the authorities may write to.
    pub email: Option<String>,
    /// Kinds of challenges, the preferred one first.
    pub challenges: Vec<ChallengeKind>,
    /// Most orders per hour at each authority.
    pub orders_per_hour: u32,
    /// Profile of the certificates; none for the authority's default.
    pub profile: Option<String>,
}

/// An authority, and the settings for it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// URL of its directory.
    pub url: String,
    /// Binds the account to one that exists outside of ACME.
    pub binding: Option<Binding>,
    /// Certificates of authorities as PEM that the directory's own certificate is verified with, in place of
    /// the machine's.
    pub trusted: Option<Arc<[u8]>>,
}

/// A key of an account outside of ACME (RFC 8555 section 7.3.4). The key is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Binding {
    /// Name of the key.
    pub id: String,
    /// The key for the signature.
    pub key: Vec<u8>,
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A way in which an authority verifies that a host is served here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// By a request to port 80 (RFC 8555 section 8.3).
    Http01,
    /// By a handshake on port 443 (RFC 8737).
    TlsAlpn01,
}

impl ChallengeKind {
    /// All kinds, in the order in which they are tried by default.
    pub const ALL: [Self; 2] = [Self::Http01, Self::TlsAlpn01];

    /// The name of the kind in ACME.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Names that stand for the directories of well-known authorities.
const NAMED: &[(&str, &str)] = &[
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    ("letsencrypt-staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
    ("zerossl", "https://acme.zerossl.com/v2/DV90"),
    ("google", "https://dv.acme-v02.api.pki.goog/directory"),
];

/// The URL of a directory, which may be given by name.
pub(crate) fn directory_url(text: &str) -> &str {
    NAMED.iter().find(|(name, _)| *name == text).map_or(text, |(_, url)| url)
}
