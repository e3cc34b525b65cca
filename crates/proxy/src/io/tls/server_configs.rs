//! The rustls configurations for handshakes with clients: one for each set of TLS settings among the hosts.
//!
//! They are made when a Snapshot is published, outside of the workers. Each is completed at the first
//! handshake that needs it, so that a hundred thousand hosts cost nothing before clients come.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, OnceLock};

use clock::Start;
use model::{
    Certificate, CertificateInfo, CipherSuite, ClientAuth, HostName, HostTls, TlsSettings, VerifyClient,
};
use observe::Handshake;
use routing::{HostTable, Hosts};
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, SignatureAlgorithm};
use x509::Trust;

use super::certificate::certified_key;
use super::client_auth::Certificates;
use super::provider::{provider, versions};
use super::resumption::{NoTickets, Resumption, Scope, Scoped};
use super::several::SeveralCertificates;
use crate::limits::SESSIONS_PER_HANDSHAKE;

/// The state that is kept from one generation of the configuration to the next.
pub(crate) struct SharedTls {
    resumption: Arc<Resumption>,
    fallback: Option<Arc<CertifiedKey>>,
}

/// The configurations for the hosts of a listener.
pub(crate) struct ServerConfigs {
    hosts: Arc<Hosts>,
    profile: Arc<Profile>,
    default: Arc<ServerConfig>,
    special: HashMap<Identity, Arc<ServerConfig>>,
    has_passthrough: bool,
    has_early_data: bool,
}

/// The settings that hold for all hosts of a listener.
struct Profile {
    shared_tls: Arc<SharedTls>,
    settings: TlsSettings,
    /// The certificate of the host for all names that no other host has.
    any: Option<Arc<Certificate>>,
    provider: Arc<CryptoProvider>,
    /// The certificate for hosts without their own; none where nothing is configured and there is no
    /// fallback.
    certificate: Option<Arc<CertifiedKey>>,
    /// Details of it; none if it is the fallback.
    info: Option<CertificateInfo>,
}

/// The configuration of one host, or of several with the same settings.
pub(crate) struct ServerConfig {
    profile: Arc<Profile>,
    certificate: Option<Arc<Certificate>>,
    more_certificates: Option<Arc<[Arc<Certificate>]>>,
    client_auth: Option<ClientAuth>,
    /// The connection is not HTTP, so that no HTTP version is offered.
    is_stream: bool,
    /// The handshake answers the challenge of an authority.
    is_challenge: bool,
    ciphers: Option<Vec<CipherSuite>>,
    prefer_server_ciphers: Option<bool>,
    /// Requests are taken before the handshake is complete; none for what the settings say.
    early_data: Option<bool>,
    config: OnceLock<Config>,
    /// The same for handshakes inside of QUIC.
    quic: OnceLock<Arc<rustls::ServerConfig>>,
    trust: OnceLock<Arc<Trust>>,
}

/// A completed configuration.
struct Config {
    rustls: Arc<rustls::ServerConfig>,
    /// How a full handshake with this configuration is counted.
    full: Handshake,
}

/// The identity of a configuration, by the addresses of its settings. The configuration holds the settings,
/// so that no others can have these addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Identity {
    certificate: usize,
    more_certificates: usize,
    authorities: usize,
    is_required: bool,
    ends_handshake: bool,
    is_stream: bool,
    is_challenge: bool,
    depth: u32,
    ciphers: Option<Vec<CipherSuite>>,
    prefer_server_ciphers: Option<bool>,
    early_data: Option<bool>,
}

/// The protocol that an authority offers, alone, when it verifies who serves a host (RFC 8737 section 3).
pub(super) const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The result of selecting a host for a handshake.
#[derive(Clone, Copy)]
pub(crate) struct Selection<'a> {
    /// Its TLS configuration.
    pub(crate) server_config: &'a Arc<ServerConfig>,
    /// The host; none if no host matches the server name.
    pub(crate) host: Option<&'a Arc<HostTable>>,
}

impl SharedTls {
    /// `fallback` is shown for hosts without their own certificate where no default one is configured.
    /// Without it, their handshakes fail.
    pub(crate) fn new(start: Start, fallback: Option<&Certificate>) -> io::Result<Arc<Self>> {
        let key = |certificate| certified_key(certificate, &provider(CipherSuite::DEFAULT));
        let fallback = fallback.map(key).transpose().map_err(io::Error::other)?;
        Ok(Arc::new(Self { resumption: Resumption::new(start), fallback }))
    }
}

impl ServerConfigs {
    /// The configurations of the same hosts with the same settings, which need not be made again.
    pub(super) fn of_same(self: &Arc<Self>, hosts: &Arc<Hosts>, settings: &TlsSettings) -> Option<Arc<Self>> {
        let is_same = self.is_of(hosts) && self.profile.settings == *settings;
        is_same.then(|| Arc::clone(self))
    }

    /// Unchanged configurations of the previous generation are reused.
    pub(crate) fn new(
        hosts: &Arc<Hosts>,
        settings: &TlsSettings,
        shared_tls: &Arc<SharedTls>,
        previous: Option<&Self>,
    ) -> Arc<Self> {
        let any = hosts.get(&HostName::Any).and_then(|host| host.tls().certificate.clone());
        let kept = previous.filter(|old| old.profile.is_same(settings, any.as_ref()));
        let profile =
            kept.map_or_else(|| Profile::new(shared_tls, settings, any), |old| Arc::clone(&old.profile));
        let default = kept
            .map_or_else(|| ServerConfig::new(&profile, &HostTls::default()), |old| Arc::clone(&old.default));
        let mut special = HashMap::new();
        let mut has_passthrough = false;
        for tls in hosts.special().filter(|host| !host.is_plain()).map(|host| host.tls()) {
            has_passthrough |= is_passed_through(tls);
            let mut add = |tls: &HostTls| {
                let identity = Identity::of(tls);
                if identity == Identity::default() {
                    return;
                }
                special.entry(identity).or_insert_with_key(|identity| {
                    let old = kept.and_then(|old| old.special.get(identity));
                    old.map_or_else(|| ServerConfig::new(&profile, tls), Arc::clone)
                });
            };
            add(tls);
            if tls.shown_for.is_some() {
                add(&HostTls { certificate: None, more_certificates: None, ..HostTls::clone(tls) });
            }
            if let Some(certificate) = &tls.challenge {
                let identity = Identity::of_challenge(certificate);
                let old = kept.and_then(|old| old.special.get(&identity)).map(Arc::clone);
                let made = || ServerConfig::of_challenge(&profile, certificate);
                special.entry(identity).or_insert_with(|| old.unwrap_or_else(made));
            }
        }
        let has_early_data = default.takes_early_data() || special.values().any(|one| one.takes_early_data());
        let hosts = Arc::clone(hosts);
        Arc::new(Self { hosts, profile, default, special, has_passthrough, has_early_data })
    }

    /// Whether the configurations are for these hosts.
    pub(super) fn is_of(&self, hosts: &Arc<Hosts>) -> bool {
        Arc::ptr_eq(&self.hosts, hosts)
    }

    /// Whether the connections of some host are passed through without being decrypted.
    pub(crate) fn has_passthrough(&self) -> bool {
        self.has_passthrough
    }

    /// Whether some host takes early data.
    pub(super) fn has_early_data(&self) -> bool {
        self.has_early_data
    }

    /// Selects the host for a server name, or for none. None if the settings refuse handshakes for names
    /// that are not served.
    pub(crate) fn select(&self, name: Option<&str>) -> Option<Selection<'_>> {
        let host = match name {
            Some(name) => self.hosts.find(name.as_bytes()),
            None => self.hosts.get(&HostName::Any),
        };
        // A Gateway's listener for all names serves all of them.
        let is_served =
            |host: &Arc<HostTable>| *host.name() != HostName::Any || host.tls().listener.is_some();
        let is_known = host.is_some_and(is_served);
        if self.profile.settings.reject_unknown_names && !is_known {
            return None;
        }
        let is_uncovered = |host: &&Arc<HostTable>| name.is_some_and(|name| !covers(host.tls(), name));
        let server_config = match host.filter(is_uncovered) {
            Some(host) => {
                self.of(&Identity { certificate: 0, more_certificates: 0, ..Identity::of(host.tls()) })
            }
            None => self.of_host(host),
        };
        Some(Selection { server_config, host })
    }

    /// The configuration for an authority that verifies who serves a host; none unless the host has an order
    /// in progress. Whatever else the host asks of its clients, it does not ask of the authority.
    pub(super) fn challenge(&self, name: Option<&str>) -> Option<Selection<'_>> {
        let host = self.hosts.find(name?.as_bytes())?;
        let certificate = host.tls().challenge.as_ref()?;
        let server_config = self.special.get(&Identity::of_challenge(certificate))?;
        Some(Selection { server_config, host: Some(host) })
    }

    /// TLS of the host for a server name, or for none, if its connections are passed through without being
    /// decrypted.
    pub(crate) fn passthrough(&self, name: Option<&[u8]>) -> Option<&Arc<HostTls>> {
        let host = match name {
            Some(name) => self.hosts.find(name),
            None => self.hosts.get(&HostName::Any),
        };
        host.map(|host| host.tls()).filter(|tls| is_passed_through(tls))
    }

    /// The configuration of a configured name.
    pub(super) fn of_name(&self, name: &HostName) -> &Arc<ServerConfig> {
        self.of_host(self.hosts.get(name))
    }

    /// The configuration of a host.
    fn of_host(&self, host: Option<&Arc<HostTable>>) -> &Arc<ServerConfig> {
        host.map_or(&self.default, |host| self.of(&Identity::of(host.tls())))
    }

    fn of(&self, identity: &Identity) -> &Arc<ServerConfig> {
        self.special.get(identity).unwrap_or(&self.default)
    }
}

/// Whether connections are not decrypted.
fn is_passed_through(tls: &HostTls) -> bool {
    tls.passthrough.is_some() || tls.stream.as_ref().is_some_and(|stream| !stream.is_terminated)
}

/// Whether a name that leads to a host is shown the host's certificate.
fn covers(tls: &HostTls, name: &str) -> bool {
    let Some(names) = &tls.shown_for else { return true };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    names.iter().any(|one| one.takes(&name))
}

impl Identity {
    fn of(tls: &HostTls) -> Self {
        let client_auth = tls.client_auth.as_ref().filter(|auth| auth.verify != VerifyClient::Off);
        Self {
            certificate: tls.certificate.as_ref().map_or(0, |one| Arc::as_ptr(one).addr()),
            more_certificates: tls.more_certificates.as_ref().map_or(0, |all| all.as_ptr().addr()),
            authorities: client_auth.map_or(0, |auth| Arc::as_ptr(&auth.authorities).addr()),
            is_required: client_auth.is_some_and(|auth| auth.verify == VerifyClient::On),
            ends_handshake: client_auth.is_some_and(|auth| auth.ends_handshake),
            is_stream: tls.stream.is_some(),
            is_challenge: false,
            depth: client_auth.map_or(0, |auth| auth.depth),
            ciphers: tls.ciphers.clone(),
            prefer_server_ciphers: tls.prefer_server_ciphers,
            early_data: tls.early_data,
        }
    }

    fn of_challenge(certificate: &Arc<Certificate>) -> Self {
        Self { certificate: Arc::as_ptr(certificate).addr(), is_challenge: true, ..Self::default() }
    }
}

impl Profile {
    fn new(shared_tls: &Arc<SharedTls>, settings: &TlsSettings, any: Option<Arc<Certificate>>) -> Arc<Self> {
        let provider = provider(&settings.ciphers);
        let configured = [any.as_ref(), settings.default_certificate.as_ref()];
        let usable = configured
            .into_iter()
            .flatten()
            .find_map(|certificate| Some((usable_key(certificate, &provider)?, certificate.info.clone())));
        let (certificate, info) =
            usable.map_or_else(|| (shared_tls.fallback.clone(), None), |(key, info)| (Some(key), Some(info)));
        Arc::new(Self {
            shared_tls: Arc::clone(shared_tls),
            settings: settings.clone(),
            any,
            provider,
            certificate,
            info,
        })
    }

    fn is_same(&self, settings: &TlsSettings, any: Option<&Arc<Certificate>>) -> bool {
        self.settings == *settings && self.any.as_ref().map(Arc::as_ptr) == any.map(Arc::as_ptr)
    }
}

/// The certificate in rustls' form. If rustls cannot use it, that is logged once, and the default
/// certificate is shown.
fn usable_key(certificate: &Certificate, provider: &CryptoProvider) -> Option<Arc<CertifiedKey>> {
    let key = certified_key(certificate, provider);
    key.inspect_err(|error| {
        let (namespace, object) = (&certificate.info.namespace, &certificate.info.object);
        tracing::warn!(%namespace, %object, %error, "a certificate cannot be used; the default one is shown");
    })
    .ok()
}

impl ServerConfig {
    fn new(profile: &Arc<Profile>, tls: &HostTls) -> Arc<Self> {
        Arc::new(Self::of(profile, tls))
    }

    fn of_challenge(profile: &Arc<Profile>, certificate: &Arc<Certificate>) -> Arc<Self> {
        let tls = HostTls { certificate: Some(Arc::clone(certificate)), ..HostTls::default() };
        Arc::new(Self { is_challenge: true, ..Self::of(profile, &tls) })
    }

    fn of(profile: &Arc<Profile>, tls: &HostTls) -> Self {
        Self {
            profile: Arc::clone(profile),
            certificate: tls.certificate.clone(),
            more_certificates: tls.more_certificates.clone(),
            is_stream: tls.stream.is_some(),
            is_challenge: false,
            client_auth: tls.client_auth.clone().filter(|auth| auth.verify != VerifyClient::Off),
            ciphers: tls.ciphers.clone(),
            prefer_server_ciphers: tls.prefer_server_ciphers,
            early_data: tls.early_data,
            config: OnceLock::new(),
            quic: OnceLock::new(),
            trust: OnceLock::new(),
        }
    }

    /// The rustls configuration, which is completed at the first call.
    pub(super) fn config(&self) -> Result<Arc<rustls::ServerConfig>, Error> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(&config.rustls));
        }
        let config = self.complete()?;
        Ok(Arc::clone(&self.config.get_or_init(|| config).rustls))
    }

    /// The same for handshakes inside of QUIC: without HTTP/1 and HTTP/2, and with sessions of its own.
    pub(super) fn quic(&self) -> Result<Arc<rustls::ServerConfig>, Error> {
        if let Some(config) = self.quic.get() {
            return Ok(Arc::clone(config));
        }
        let of_tcp = self.config()?;
        let mut config = rustls::ServerConfig::clone(&of_tcp);
        config.alpn_protocols = vec![super::quic::ALPN.to_vec()];
        let settings = &self.profile.settings;
        let scoped = Arc::new(self.quic_sessions()?);
        if settings.session_cache {
            config.session_storage = Arc::clone(&scoped) as _;
        }
        if settings.session_tickets {
            config.ticketer = scoped;
        }
        Ok(Arc::clone(self.quic.get_or_init(|| Arc::new(config))))
    }

    fn quic_sessions(&self) -> Result<Scoped, Error> {
        let scope = Scope::new(&self.leaf()?, self.client_auth.as_ref()).of_quic();
        let shared = Arc::clone(&self.profile.shared_tls.resumption);
        Ok(Scoped { shared, scope, timeout: self.profile.settings.session_timeout })
    }

    /// Whether requests are taken before a handshake inside of QUIC is complete. A host whose clients have to
    /// show a certificate waits for it, and without a cache of sessions a request could be repeated.
    pub(crate) fn takes_early_data(&self) -> bool {
        let settings = &self.profile.settings;
        let is_wanted = self.early_data.unwrap_or(settings.early_data);
        is_wanted && settings.session_cache && self.client_auth.is_none() && !self.is_stream
    }

    /// The configuration for one handshake inside of QUIC that may take early data. A session is resumed only
    /// with the same `binding`, and once: it is taken out of the cache (RFC 8446 section 8.1).
    pub(super) fn quic_with_early_data(&self, binding: &[u8]) -> Result<Arc<rustls::ServerConfig>, Error> {
        let mut config = rustls::ServerConfig::clone(&*self.quic()?);
        let sessions = self.quic_sessions()?;
        config.session_storage = Arc::new(Scoped { scope: sessions.scope.bound_to(binding), ..sessions });
        config.ticketer = Arc::new(NoTickets);
        // QUIC has bounds of its own (RFC 9001 section 4.6.1).
        config.max_early_data_size = u32::MAX;
        Ok(Arc::new(config))
    }

    /// How a completed handshake is counted. The configuration has been completed by then.
    pub(super) fn handshake(&self, is_resumed: bool) -> Handshake {
        let full = self.config.get().map_or(Handshake::Ecdsa, |config| config.full);
        if is_resumed { Handshake::Resumed } else { full }
    }

    /// Whether clients are asked for a certificate.
    pub(super) fn asks_clients(&self) -> bool {
        self.client_auth.is_some()
    }

    /// The authorities for client certificates; none if clients are not asked for one.
    pub(super) fn trust(&self) -> Option<&Arc<Trust>> {
        let ClientAuth { authorities, depth, .. } = self.client_auth.as_ref()?;
        Some(self.trust.get_or_init(|| Arc::new(Trust::new(authorities, *depth))))
    }

    /// Whether a client without a good certificate is refused in the handshake.
    fn ends_handshake(&self) -> bool {
        self.client_auth.as_ref().is_some_and(|auth| auth.ends_handshake && auth.verify == VerifyClient::On)
    }

    /// Details of the certificate that is shown; none if it is the fallback.
    pub(crate) fn shown(&self) -> Option<&CertificateInfo> {
        let own = self.certificate.as_ref().filter(|one| usable_key(one, &self.provider()).is_some());
        own.map(|certificate| &certificate.info).or(self.profile.info.as_ref())
    }

    fn provider(&self) -> Arc<CryptoProvider> {
        self.ciphers.as_ref().map_or_else(|| Arc::clone(&self.profile.provider), |suites| provider(suites))
    }

    /// The certificate that is shown, in DER.
    fn leaf(&self) -> Result<Vec<u8>, Error> {
        let own = self.certificate.as_ref().and_then(|certificate| usable_key(certificate, &self.provider()));
        let key = own.or_else(|| self.profile.certificate.clone()).ok_or(Error::NoCertificatesPresented)?;
        Ok(key.cert.first().map_or_else(Vec::new, |leaf| leaf.to_vec()))
    }

    fn complete(&self) -> Result<Config, Error> {
        let Profile { shared_tls, settings, certificate: default, .. } = &*self.profile;
        let provider = self.provider();
        let suites = self.ciphers.as_ref().unwrap_or(&settings.ciphers);
        let own = self.certificate.as_ref().and_then(|certificate| usable_key(certificate, &provider));
        let key = own.or_else(|| default.clone()).ok_or(Error::NoCertificatesPresented)?;
        let verifier = match self.trust() {
            Some(trust) if self.ends_handshake() => Arc::new(Certificates::good(trust)),
            Some(trust) => Arc::new(Certificates::any(trust)),
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let full = match key.key.algorithm() {
            SignatureAlgorithm::RSA => Handshake::Rsa,
            SignatureAlgorithm::ED25519 => Handshake::Ed25519,
            _ => Handshake::Ecdsa,
        };
        let leaf = key.cert.first().map_or(&[][..], |leaf| leaf);
        let scope = Scope::new(leaf, self.client_auth.as_ref());
        let more = self.more_certificates.iter().flat_map(|all| all.iter());
        let more: Vec<_> = more.filter_map(|certificate| usable_key(certificate, &provider)).collect();
        let resolver: Arc<dyn ResolvesServerCert> = if more.is_empty() {
            Arc::new(SingleCertAndKey::from(key))
        } else {
            Arc::new(SeveralCertificates(std::iter::once(key).chain(more).collect()))
        };
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(settings.versions, suites))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(resolver);
        config.enable_secret_extraction = true;
        config.ignore_client_order = self.prefer_server_ciphers.unwrap_or(settings.prefer_server_ciphers);
        config.alpn_protocols = if self.is_challenge {
            vec![CHALLENGE_PROTOCOL.to_vec()]
        } else if self.is_stream {
            Vec::new()
        } else if settings.http2 {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        } else {
            vec![b"http/1.1".to_vec()]
        };
        let scoped = Arc::new(Scoped {
            shared: Arc::clone(&shared_tls.resumption),
            scope,
            timeout: settings.session_timeout,
        });
        config.send_tls13_tickets =
            if settings.session_cache || settings.session_tickets { SESSIONS_PER_HANDSHAKE } else { 0 };
        config.session_storage = Arc::new(NoServerSessionStorage {});
        if settings.session_cache {
            config.session_storage = Arc::clone(&scoped) as _;
        }
        if settings.session_tickets {
            config.ticketer = scoped;
        }
        Ok(Config { rustls: Arc::new(config), full })
    }
}
