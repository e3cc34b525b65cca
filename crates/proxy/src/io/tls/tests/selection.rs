//! Selection of host and configuration in a handshake.

use model::{Alias, CipherSuite, HostList, TlsVersions};
use rustls::ProtocolVersion;
use rustls::pki_types::CertificateDer;
use x509::ClientCertificate;

use super::super::TlsListeners;
use super::super::provider::{suite_name, versions};
use super::*;

/// The same as [`client`], with one version and these suites of TLS 1.2.
fn client_of(version: TlsVersions, suites: &[CipherSuite]) -> Arc<ClientConfig> {
    let config = ClientConfig::builder_with_provider(provider(suites))
        .with_protocol_versions(&versions(version, suites))
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(&UpstreamTls::default())))
        .with_no_client_auth();
    Arc::new(config)
}

const V12: TlsVersions = TlsVersions { v12: true, v13: false };
const V13: TlsVersions = TlsVersions { v12: false, v13: true };

#[test]
fn the_name_picks_the_certificate() {
    let ca = Authority::new("ca");
    let (exact, wild, default) = (ca.issue("a.test"), ca.issue("*.test"), ca.issue("default.test"));
    let hosts = vec![
        host("a.test", shows(&exact)),
        host("*.test", shows(&wild)),
        host("bare.example", HostTls::default()),
    ];
    let settings = TlsSettings { default_certificate: Some(Arc::clone(&default)), ..TlsSettings::default() };
    let snapshot = compiled(hosts, settings);
    let server_configs = configured(&snapshot, &shared_tls(), None);
    let config = Arc::new(client());
    for (name, expected) in [
        (Some("a.test"), &exact),
        (Some("A.Test"), &exact),
        (Some("b.test"), &wild),
        (Some("c.b.test"), &default),
        (Some("bare.example"), &default),
        (Some("unknown.example"), &default),
        (None, &default),
    ] {
        let met = meet(&config, name, &server_configs).unwrap();
        assert_eq!(met.shown(), expected.chain[0], "{name:?}");
    }
}

#[test]
fn without_a_certificate_one_is_made_up_and_an_unusable_one_is_passed_over() {
    let shared_tls = shared_tls();
    let broken = certificate(vec![vec![1, 2, 3]], vec![4, 5, 6]);
    let snapshot = compiled(vec![host("a.test", shows(&broken))], TlsSettings::default());
    let server_configs = configured(&snapshot, &shared_tls, None);
    let config = Arc::new(client());
    let made_up = meet(&config, None, &server_configs).unwrap().shown().to_vec();
    let read = ClientCertificate::new(&[CertificateDer::from(made_up.clone())]).unwrap();
    assert_eq!(read.subject, "CN=fallback");
    assert_eq!(meet(&config, Some("a.test"), &server_configs).unwrap().shown(), made_up);
    let next = configured(&snapshot, &shared_tls, None);
    assert_eq!(meet(&config, None, &next).unwrap().shown(), made_up, "the same for every generation");
}

#[test]
fn the_host_of_last_resort_has_the_first_say_in_the_default() {
    let ca = Authority::new("ca");
    let (any, default) = (ca.issue("any.test"), ca.issue("default.test"));
    let settings = TlsSettings { default_certificate: Some(default), ..TlsSettings::default() };
    let snapshot = compiled(vec![host("", shows(&any)), host("a.test", HostTls::default())], settings);
    let server_configs = configured(&snapshot, &shared_tls(), None);
    let met = meet(&Arc::new(client()), Some("a.test"), &server_configs).unwrap();
    assert_eq!(met.shown(), any.chain[0]);
}

#[test]
fn names_that_the_certificate_is_not_for_are_shown_the_default_one() {
    let ca = Authority::new("ca");
    let (own, default) = (ca.issue("a.test"), ca.issue("default.test"));
    let settings = TlsSettings { default_certificate: Some(Arc::clone(&default)), ..TlsSettings::default() };
    let covered = ["a.test", "*.c.test"].map(|name| HostName::parse(name).unwrap());
    let tls = HostTls { shown_for: Some(covered.into()), ..shows(&own) };
    let aliases = ["b.test", "x.c.test"].map(|name| Alias::Name(HostName::parse(name).unwrap()));
    let with = |tls: HostTls| Host { aliases: aliases.to_vec().into(), ..host("a.test", tls) };
    let snapshot = compiled(vec![with(tls.clone())], settings.clone());
    let server_configs = configured(&snapshot, &shared_tls(), None);
    let shown = |name| meet(&Arc::new(client()), Some(name), &server_configs).unwrap().shown().to_vec();
    assert_eq!((shown("a.test"), shown("x.c.test")), (own.chain[0].clone(), own.chain[0].clone()));
    assert_eq!(shown("b.test"), default.chain[0]);

    let special = HostTls { prefer_server_ciphers: Some(true), ..tls };
    let server_configs = configured(&compiled(vec![with(special)], settings), &shared_tls(), None);
    let config = |name| server_configs.select(Some(name)).unwrap().server_config;
    let default_config = server_configs.select(Some("unknown.test")).unwrap().server_config;
    assert!(!Arc::ptr_eq(config("b.test"), default_config), "what else the host asks for holds all the same");
    assert!(!Arc::ptr_eq(config("b.test"), config("A.Test.")));
    assert!(Arc::ptr_eq(config("X.C.Test."), config("a.test")));
}

#[test]
fn names_that_are_not_served_can_be_refused() {
    let settings = TlsSettings { reject_unknown_names: true, ..TlsSettings::default() };
    let snapshot = compiled(vec![host("a.test", HostTls::default()), host("", HostTls::default())], settings);
    let server_configs = configured(&snapshot, &shared_tls(), None);
    assert!(server_configs.select(Some("a.test")).is_some());
    assert!(server_configs.select(Some("b.test")).is_none());
    assert!(server_configs.select(None).is_none());
}

#[test]
fn a_new_certificate_is_shown_from_the_next_generation_on_and_others_stay_ready() {
    let (ca, shared_tls) = (Authority::new("ca"), shared_tls());
    let (old, new, other) = (ca.issue("a.test"), ca.issue("a.test"), ca.issue("b.test"));
    let first =
        compiled(vec![host("a.test", shows(&old)), host("b.test", shows(&other))], TlsSettings::default());
    let second =
        compiled(vec![host("a.test", shows(&new)), host("b.test", shows(&other))], TlsSettings::default());
    let before = configured(&first, &shared_tls, None);
    let after = configured(&second, &shared_tls, Some(&before));
    let config = Arc::new(client());
    assert_eq!(meet(&config, Some("a.test"), &before).unwrap().shown(), old.chain[0]);
    assert_eq!(meet(&config, Some("a.test"), &after).unwrap().shown(), new.chain[0]);
    let server_config = |server_configs: &ServerConfigs, name: &str| {
        Arc::as_ptr(server_configs.select(Some(name)).unwrap().server_config)
    };
    assert_eq!(server_config(&before, "b.test"), server_config(&after, "b.test"));
    assert_ne!(server_config(&before, "a.test"), server_config(&after, "a.test"));
}

#[test]
fn names_are_looked_up_among_the_hosts_of_the_listener() {
    let ca = Authority::new("ca");
    let (one, other) = (ca.issue("a.test"), ca.issue("a.test"));
    let hosts = |certificate| Arc::new(vec![Arc::new(host("a.test", shows(certificate)))].into());
    let (shared, own) = (hosts(&one), hosts(&other));
    let https = |port, hosts: &HostList| Listener {
        address: None,
        port,
        protocol: Protocol::Https(Arc::clone(hosts)),
    };
    let clear = Listener { address: None, port: 80, protocol: Protocol::Http(Arc::clone(&shared)) };
    let listeners = vec![clear, https(443, &shared), https(444, &own), https(445, &shared)];
    let snapshot = routing::compile(&Model { listeners, ..Model::default() }, None, 1);
    let tls = TlsListeners::new(&snapshot, &shared_tls(), None);
    let at = |kind, port| tls.get(ListenerId { kind, port, address: None });
    let config = Arc::new(client());
    for (port, certificate) in [(443, &one), (444, &other), (445, &one)] {
        let met = meet(&config, Some("a.test"), at(ListenerKind::Https, port).unwrap()).unwrap();
        assert_eq!(met.shown(), certificate.chain[0], "{port}");
    }
    let same = |a, b| std::ptr::eq(at(ListenerKind::Https, a).unwrap(), at(ListenerKind::Https, b).unwrap());
    assert!(same(443, 445) && !same(443, 444), "what is shared is made once");
    assert!(at(ListenerKind::Http, 80).is_none() && at(ListenerKind::Https, 446).is_none());
}

#[test]
fn suites_and_versions_are_those_of_the_settings_and_of_the_host() {
    use CipherSuite::{EcdheEcdsaAes128Gcm, EcdheEcdsaAes256Gcm, EcdheEcdsaChaCha20};
    let ca = Authority::new("ca");
    let one = ca.issue("one.test");
    let special = HostTls { ciphers: Some(vec![EcdheEcdsaChaCha20]), ..shows(&one) };
    let settings =
        TlsSettings { ciphers: vec![EcdheEcdsaAes256Gcm, EcdheEcdsaAes128Gcm], ..TlsSettings::default() };
    let snapshot = compiled(vec![host("one.test", special), host("two.test", shows(&one))], settings.clone());
    let server_configs = configured(&snapshot, &shared_tls(), None);
    let suite = |version, name| {
        let met = meet(&client_of(version, CipherSuite::DEFAULT), Some(name), &server_configs).unwrap();
        suite_name(met.server.negotiated_cipher_suite())
    };
    assert_eq!(suite(V12, "one.test"), "ECDHE-ECDSA-CHACHA20-POLY1305");
    assert_eq!(suite(V12, "two.test"), "ECDHE-ECDSA-AES256-GCM-SHA384", "the server's order counts");
    assert_eq!(suite(V13, "one.test"), "TLS_AES_128_GCM_SHA256");
    let theirs = TlsSettings { prefer_server_ciphers: false, ..settings.clone() };
    let snapshot = compiled(Vec::new(), theirs);
    let server_configs = configured(&snapshot, &shared_tls(), None);
    let met = meet(&client_of(V12, CipherSuite::DEFAULT), None, &server_configs).unwrap();
    assert_eq!(suite_name(met.server.negotiated_cipher_suite()), "ECDHE-ECDSA-AES128-GCM-SHA256");
    let snapshot = compiled(Vec::new(), TlsSettings { versions: V12, ..settings });
    let server_configs = configured(&snapshot, &shared_tls(), None);
    let met = meet(&Arc::new(client()), None, &server_configs).unwrap();
    assert_eq!(met.server.protocol_version(), Some(ProtocolVersion::TLSv1_2));
    assert!(meet(&client_of(V13, CipherSuite::DEFAULT), None, &server_configs).is_err());
}

#[test]
fn http2_is_offered_where_it_is_on() {
    let protocol = |http2: bool, offered: &[&[u8]]| {
        let snapshot = compiled(Vec::new(), TlsSettings { http2, ..TlsSettings::default() });
        let server_configs = configured(&snapshot, &shared_tls(), None);
        let mut config = client();
        config.alpn_protocols = offered.iter().map(|one| one.to_vec()).collect();
        let met = meet(&Arc::new(config), None, &server_configs)?;
        Ok::<_, Error>(met.client.alpn_protocol().map(<[u8]>::to_vec))
    };
    assert_eq!(protocol(true, &[b"http/1.1", b"h2"]), Ok(Some(b"h2".to_vec())));
    assert_eq!(protocol(false, &[b"h2", b"http/1.1"]), Ok(Some(b"http/1.1".to_vec())));
    assert_eq!(protocol(true, &[]), Ok(None));
    assert!(protocol(true, &[b"smtp"]).is_err());
}

// === resumption ===

/// Makes two handshakes, the second on another thread with the next generation of the configuration. Returns
/// whether the second one was resumed.
fn resumes(version: TlsVersions, settings: &TlsSettings, first: Host, second: Host) -> bool {
    let shared_tls = shared_tls();
    let config = client_of(version, CipherSuite::DEFAULT);
    let name = first.name.to_string();
    let old = compiled(vec![first], settings.clone());
    let before = configured(&old, &shared_tls, None);
    assert!(!meet(&config, Some(&name), &before).unwrap().is_resumed());
    let new = compiled(vec![second], settings.clone());
    let after = configured(&new, &shared_tls, Some(&before));
    let next = move || meet(&config, Some(&name), &after).unwrap().is_resumed();
    std::thread::spawn(next).join().unwrap()
}

#[test]
fn a_session_is_resumed_by_another_worker_in_another_generation() {
    let one = Authority::new("ca").issue("a.test");
    let same = || host("a.test", shows(&one));
    let cache = TlsSettings::default();
    let tickets = TlsSettings { session_tickets: true, session_cache: false, ..TlsSettings::default() };
    let neither = TlsSettings { session_cache: false, ..TlsSettings::default() };
    for version in [V12, V13] {
        assert!(resumes(version, &cache, same(), same()), "{version:?}");
        assert!(resumes(version, &tickets, same(), same()), "{version:?}");
        assert!(!resumes(version, &neither, same(), same()), "{version:?}");
    }
}

#[test]
fn a_session_is_not_resumed_where_the_handshake_would_be_another() {
    let ca = Authority::new("ca");
    let (one, other) = (ca.issue("a.test"), ca.issue("a.test"));
    let trusted = ca.trusted();
    let tickets = TlsSettings { session_tickets: true, ..TlsSettings::default() };
    for settings in [TlsSettings::default(), tickets] {
        for version in [V12, V13] {
            let open = || host("a.test", shows(&one));
            assert!(!resumes(version, &settings, open(), host("a.test", shows(&other))), "{version:?}");
            let guarded = host("a.test", asks(&one, &trusted, 1));
            assert!(!resumes(version, &settings, open(), guarded), "{version:?}");
        }
    }
}
