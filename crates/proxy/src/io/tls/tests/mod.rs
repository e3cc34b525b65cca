//! Handshakes between this module and rustls' own clients and servers, with certificates that the tests make.

mod client_auth;
mod selection;
mod session;
mod upstream;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use model::{
    Authorities, Certificate, CertificateInfo, ClientAuth, Host, HostName, HostTls, KeyEncoding, Listener,
    ListenerId, ListenerKind, Model, PrivateKey, Protocol, TlsSettings, UpstreamTls,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use reactor::TcpStream;
use routing::Snapshot;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, Error, ServerConnection};

use super::certificate::certified_key;
use super::provider::provider;
use super::server_configs::{ServerConfigs, SharedTls};
use super::upstream::Verifier;
use crate::io::event_loop::EventLoop;

/// A time in the year 2027, at which certificates are valid unless they say otherwise.
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Vec<u8>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let (params, key) = (Self::params(name), KeyPair::generate().unwrap());
        let certificate = params.self_signed(&key).unwrap().der().to_vec();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// An intermediate authority, signed by this one.
    fn sub(&self, name: &str) -> Self {
        let (params, key) = (Self::params(name), KeyPair::generate().unwrap());
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().to_vec();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    fn issue(&self, name: &str) -> Arc<Certificate> {
        self.issue_as(name, |_| {})
    }

    fn issue_as(&self, name: &str, adjust: impl FnOnce(&mut CertificateParams)) -> Arc<Certificate> {
        let mut params = named(name);
        adjust(&mut params);
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        certificate(vec![leaf.der().to_vec()], key.serialize_der())
    }

    fn trusted(&self) -> Arc<Authorities> {
        Arc::new(Authorities { certificates: vec![self.certificate.clone()], revocations: Vec::new() })
    }

    fn trusted_but(&self, revoked: &[u64]) -> Arc<Authorities> {
        let revoked = revoked.iter().map(|&serial| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2126, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let revocations = vec![list.signed_by(&self.issuer).unwrap().der().to_vec()];
        Arc::new(Authorities { certificates: vec![self.certificate.clone()], revocations })
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

pub(super) fn certificate(chain: Vec<Vec<u8>>, key: Vec<u8>) -> Arc<Certificate> {
    let key = PrivateKey { encoding: KeyEncoding::Pkcs8, der: key };
    Arc::new(Certificate { chain, key, info: CertificateInfo::default() })
}

fn host(name: &str, tls: HostTls) -> Host {
    Host {
        name: HostName::parse(name).unwrap(),
        aliases: model::Rare::default(),
        tls: Arc::new(tls),
        routes: Vec::new(),
        wider: None,
    }
}

fn shows(certificate: &Arc<Certificate>) -> HostTls {
    HostTls { certificate: Some(Arc::clone(certificate)), ..HostTls::default() }
}

fn asks(certificate: &Arc<Certificate>, authorities: &Arc<Authorities>, depth: u32) -> HostTls {
    let verify = model::VerifyClient::On;
    let client_auth =
        Some(ClientAuth { authorities: Arc::clone(authorities), verify, depth, ends_handshake: false });
    HostTls { client_auth, ..shows(certificate) }
}

/// Where all hosts are served.
const HTTPS: ListenerId = ListenerId { kind: ListenerKind::Https, port: 443, address: None };

pub(super) fn compiled(hosts: Vec<Host>, tls: TlsSettings) -> Snapshot {
    let settings = model::Settings { tls, ..model::Settings::default() };
    let hosts = Arc::new(hosts.into_iter().map(Arc::new).collect());
    let listeners = vec![Listener { address: None, port: HTTPS.port, protocol: Protocol::Https(hosts) }];
    routing::compile(&Model { listeners, settings, ..Model::default() }, None, 1)
}

/// How handshakes are answered at the only listener.
pub(super) fn configured(
    snapshot: &Snapshot,
    shared_tls: &Arc<SharedTls>,
    previous: Option<&ServerConfigs>,
) -> Arc<ServerConfigs> {
    let hosts = snapshot.hosts_of(HTTPS).expect("it is a listener");
    ServerConfigs::new(hosts, &snapshot.settings.tls, shared_tls, previous)
}

pub(super) fn shared_tls() -> Arc<SharedTls> {
    let key = KeyPair::generate().unwrap();
    let shown = named("fallback").self_signed(&key).unwrap();
    let fallback = certificate(vec![shown.der().to_vec()], key.serialize_der());
    SharedTls::new(Clock::begin(), Some(&fallback)).expect("randomness")
}

/// A client that accepts any certificate.
pub(super) fn client() -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(provider(model::CipherSuite::DEFAULT))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(&UpstreamTls::default())))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.enable_secret_extraction = true;
    config
}

/// The same as [`client`], with a certificate.
fn client_with(certificate: &Certificate) -> ClientConfig {
    let key = certified_key(certificate, &provider(model::CipherSuite::DEFAULT)).unwrap();
    let mut config = client();
    config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(key));
    config
}

fn connect(config: &Arc<ClientConfig>, name: Option<&str>) -> Connection {
    Connection::Client(ClientConnection::new(Arc::clone(config), server_name(name)).unwrap())
}

pub(super) fn server_name(name: Option<&str>) -> ServerName<'static> {
    match name {
        Some(name) => ServerName::try_from(name.to_owned()).unwrap(),
        None => ServerName::from(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST)),
    }
}

/// Both ends of a connection after their handshake.
struct Met {
    client: Connection,
    server: Connection,
}

/// Makes a handshake with the host for this name.
fn meet(
    config: &Arc<ClientConfig>,
    name: Option<&str>,
    server_configs: &ServerConfigs,
) -> Result<Met, Error> {
    let selection = server_configs.select(name).expect("it is served");
    let server = ServerConnection::new(selection.server_config.config().unwrap()).unwrap();
    let mut met = Met { client: connect(config, name), server: Connection::Server(server) };
    while met.client.is_handshaking() || met.server.is_handshaking() {
        met.pass()?;
    }
    // Session tickets follow.
    met.pass()?;
    Ok(met)
}

impl Met {
    fn pass(&mut self) -> Result<(), Error> {
        carry(&mut self.client, &mut self.server)?;
        carry(&mut self.server, &mut self.client)
    }

    /// The certificate that the server has shown.
    fn shown(&self) -> &[u8] {
        &self.client.peer_certificates().expect("a server shows one")[0]
    }

    fn is_resumed(&self) -> bool {
        self.server.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }
}

fn carry(from: &mut Connection, to: &mut Connection) -> Result<(), Error> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets()?;
    }
    Ok(())
}

fn run<T>(test: impl Future<Output = T>) -> T {
    EventLoop::new(|| ()).expect("an event loop").run(test)
}

/// A connection over loopback.
fn loopback() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    let [near, far] = [near, far].map(|stream| {
        stream.set_nonblocking(true).unwrap();
        TcpStream::from_std(stream).unwrap()
    });
    (near, far)
}
