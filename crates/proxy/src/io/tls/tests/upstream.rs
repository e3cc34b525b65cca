//! TLS towards endpoints.

use std::future::poll_fn;
use std::net::IpAddr;

use model::{AlternativeName, AppProtocol};
use rcgen::SanType;
use wire::client_hello::Peek;

use super::super::negotiation::Negotiation;
use super::super::session::Handshake;
use super::super::upstream::{ConnectorConfigs, NoSession};
use super::*;

/// The name in the `ClientHello`, which is left to be read.
async fn sent_name(stream: &reactor::TcpStream) -> Option<String> {
    let mut hello = [0; 4096];
    let len = poll_fn(|cx| stream.poll_peek(cx, &mut hello)).await.unwrap();
    match wire::client_hello::server_name(&hello[..len]) {
        Peek::Hello { server_name } => server_name.map(|name| String::from_utf8(name.into_owned()).unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Makes two connections to an endpoint that shows `certificate`. Returns the server name that was sent, and
/// how many of the two handshakes were resumed.
fn dial(settings: UpstreamTls, certificate: &Arc<Certificate>) -> Result<(Option<String>, usize), NoSession> {
    run(async {
        let defaults =
            TlsSettings { default_certificate: Some(Arc::clone(certificate)), ..TlsSettings::default() };
        let snapshot = compiled(Vec::new(), defaults);
        let server_configs = configured(&snapshot, &shared_tls(), None);
        let profile = ConnectorConfigs::default().get(&Arc::new(settings), AppProtocol::Http1);
        let connector = profile.connector(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        let (mut name, mut resumed) = (None, 0);
        for _ in 0..2 {
            let (near, far) = loopback();
            let config = server_configs.select(None).unwrap().server_config.config().unwrap();
            let serving = async {
                name = sent_name(&far).await;
                let mut server = Handshake::new(far, Negotiation::server(config).unwrap());
                server.complete(async || {}).await.ok()?;
                let is_resumed = server.facts().handshake_kind() == Some(rustls::HandshakeKind::Resumed);
                let mut server = server.finish().expect("the handshake is over");
                // The ticket is sent before this byte.
                poll_fn(|cx| server.poll_write(cx, &[std::io::IoSlice::new(b"x")])).await.unwrap();
                Some(is_resumed)
            };
            let dialing = async {
                let mut client = connector.handshake(near).await?;
                poll_fn(|cx| client.poll_read(cx, &mut [0; 1])).await.unwrap();
                Ok(())
            };
            let (dialed, is_resumed) = tokio::join!(dialing, serving);
            dialed?;
            resumed += usize::from(is_resumed == Some(true));
        }
        Ok((name, resumed))
    })
}

#[test]
fn without_verification_any_certificate_will_do() {
    let anybody = Authority::new("anybody").issue("whoever");
    let (name, resumed) = dial(UpstreamTls::default(), &anybody).unwrap();
    assert_eq!((name, resumed), (None, 1));
    let named = UpstreamTls { name: "app.test".to_owned(), send_name: true, ..UpstreamTls::default() };
    assert_eq!(dial(named, &anybody).unwrap().0.as_deref(), Some("app.test"));
}

#[test]
fn with_verification_authority_and_name_count() {
    let (ca, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let demand = |authorities: Arc<Authorities>, name: &str| UpstreamTls {
        authorities,
        verify: true,
        depth: 1,
        name: name.to_owned(),
        ..UpstreamTls::default()
    };
    let one = ca.issue_as("app.test", |params| params.serial_number = Some(SerialNumber::from(7)));
    assert!(dial(demand(ca.trusted(), "app.test"), &one).is_ok());
    for (what, settings) in [
        ("another name", demand(ca.trusted(), "other.test")),
        ("no name", demand(ca.trusted(), "")),
        ("another authority", demand(stranger.trusted(), "app.test")),
        ("revoked", demand(ca.trusted_but(&[7]), "app.test")),
    ] {
        assert_eq!(dial(settings, &one), Err(NoSession::BadCertificate), "{what}");
    }
}

#[test]
fn of_alternative_names_one_will_do_and_the_name_that_is_sent_does_not_count() {
    let ca = Authority::new("ca");
    let uri = "spiffe://test/app";
    let shown = ca.issue_as("app.test", |params| {
        params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
    });
    let dial_for = |names: &[AlternativeName]| {
        let settings = UpstreamTls {
            authorities: ca.trusted(),
            verify: true,
            depth: 1,
            name: "sent.test".to_owned(),
            send_name: true,
            alternative_names: names.to_vec(),
            ..UpstreamTls::default()
        };
        dial(settings, &shown).map(|(sent, _)| sent)
    };
    let (dns, uri_of) =
        (|name: &str| AlternativeName::Dns(name.into()), |uri: &str| AlternativeName::Uri(uri.into()));
    let sent = Ok(Some("sent.test".to_owned()));
    for names in
        [vec![dns("app.test")], vec![dns("*.test")], vec![uri_of(uri)], vec![dns("b.test"), uri_of(uri)]]
    {
        assert_eq!(dial_for(&names), sent, "{names:?}");
    }
    for names in
        [vec![dns("sent.test")], vec![dns("*.app.test")], vec![uri_of("spiffe://test/app2"), dns("b.test")]]
    {
        assert_eq!(dial_for(&names), Err(NoSession::BadCertificate), "{names:?}");
    }
}

#[test]
fn equal_settings_are_one_profile_and_others_are_not() {
    let profiles = ConnectorConfigs::default();
    let get = |name: &str, version| {
        profiles.get(&Arc::new(UpstreamTls { name: name.to_owned(), ..UpstreamTls::default() }), version)
    };
    let one = get("a", AppProtocol::Http1);
    assert!(Arc::ptr_eq(&one, &get("a", AppProtocol::Http1)));
    assert!(!Arc::ptr_eq(&one, &get("b", AppProtocol::Http1)));
    assert!(!Arc::ptr_eq(&one, &get("a", AppProtocol::Http2)));
    profiles.sweep();
    assert!(Arc::ptr_eq(&one, &get("a", AppProtocol::Http1)), "it is in use");
}

#[test]
fn an_endpoint_that_speaks_no_tls_is_found_out() {
    run(async {
        let (near, far) = loopback();
        let profile = ConnectorConfigs::default().get(&Arc::default(), AppProtocol::Http1);
        let connector = profile.connector(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        far.try_write(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        assert_eq!(connector.handshake(near).await.err(), Some(NoSession::HandshakeFailed));
    });
}
