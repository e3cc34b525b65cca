//! Verification of client certificates.

use rcgen::ExtendedKeyUsagePurpose;
use rustls::pki_types::CertificateDer;

use super::super::client::{ClientTls, Misdirected, Verdict};
use super::*;
use x509::{Purpose, Trust};

/// An authority, a certificate of X.509 version 1 that it has signed, another one, and a list that revokes
/// the other, as made by `req -x509`, `x509 -req` and `ca -gencrl` of OpenSSL 3.0.
const VERSION_1: [&str; 4] = [
    "3082017130820117a003020102021421f90f691adec1e3bc8c416bd386c9e8708bd8f1300a06082a8648ce3d040302300d31\
     0b300906035504030c0263613020170d3236313132303134333331345a180f32313236313032373134333331345a300d310b\
     300906035504030c0263613059301306072a8648ce3d020106082a8648ce3d0301070342000423cb4006e87a8a952ef54f0c\
     8e53381704873a37b86c02c7069d0c29675ae9f3fb1fcdbc17cd1a70c70368a3ee2fe470d770f604a4e70a7ced3ed9f9b9c2\
     f396a3533051301d0603551d0e041604149e0f2dbab5c5fad4b0da51b5741e7016648de784301f0603551d23041830168014\
     9e0f2dbab5c5fad4b0da51b5741e7016648de784300f0603551d130101ff040530030101ff300a06082a8648ce3d04030203\
     480030450220693c236a3dc625de1d5a82a92eef4f18817f6bd4bc6ff1989762bd6a44c39ece022100f682b0a499c38d587b\
     9d808441f814c51594f2373ff7f5d40671675dc902165c",
    "308201133081ba020102300a06082a8648ce3d040302300d310b300906035504030c0263613020170d323631313230313433\
     3331345a180f32313236313032373134333331345a301d310f300d06035504030c06636c69656e74310a3008060355040a0c\
     01783059301306072a8648ce3d020106082a8648ce3d03010703420004a6407844891b8959787d2ed36b55abc8c44cb734c7\
     5a8d1fbfae48ff54dcb89722b3ec5325a7aaf0dc388f2632ba64c22ce6f96908d0f0d065527889f57f8fd4300a06082a8648\
     ce3d0403020348003045022100eaf7b534a04e384724e4f74c25a71cc96cdb2abdd8db00ed3eb2a9c08212a1ed0220231ed2\
     68a1c43aff03dba0fecfa0fd243c6fd9f3d41174c8d849b05b74e980c5",
    "308201143081ba020103300a06082a8648ce3d040302300d310b300906035504030c0263613020170d323631313230313433\
     3331345a180f32313236313032373134333331345a301d310f300d06035504030c06636c69656e74310a3008060355040a0c\
     01783059301306072a8648ce3d020106082a8648ce3d03010703420004a6407844891b8959787d2ed36b55abc8c44cb734c7\
     5a8d1fbfae48ff54dcb89722b3ec5325a7aaf0dc388f2632ba64c22ce6f96908d0f0d065527889f57f8fd4300a06082a8648\
     ce3d04030203490030460221009358503ac1b7d9f068a4c9fe243910a2335e43d63431b5687c4f560d356675620221009f6d\
     4c0ea9623216405d2cd747c789a1eb93616dad8c1dcf7972973d06046f9b",
    "3081bd3064020101300a06082a8648ce3d040302300d310b300906035504030c026361170d3236313132303134333331345a\
     180f32313236313032373134333331345a30143012020103170d3236313132303134333331345aa00e300c300a0603551d14\
     0403020101300a06082a8648ce3d0403020349003046022100a361abe6ea06e62a53141d0bc53f7589522a69669c08f5bf0c\
     874be03dce02c9022100e602852afd1108d404e856c7b43bdca65e24d7573d63d68207e6ae5463966293",
];

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn judge(authorities: &Authorities, depth: u32, chain: &[impl AsRef<[u8]>]) -> Result<(), webpki::Error> {
    let chain: Vec<_> = chain.iter().map(|der| CertificateDer::from(der.as_ref())).collect();
    Trust::new(authorities, depth).judge(&chain, Purpose::Client, NOW)
}

#[test]
fn chains_are_judged_as_openssl_judges_them() {
    let (ca, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let sub = ca.sub("sub");
    let below = sub.sub("below");
    let judged = |depth, chain: &[&[u8]]| judge(&ca.trusted(), depth, chain);
    let leaf = |authority: &Authority| authority.issue("client").chain[0].clone();
    assert_eq!(judged(0, &[&leaf(&ca)]), Ok(()));
    assert_eq!(judged(1, &[&leaf(&stranger)]), Err(webpki::Error::UnknownIssuer));
    assert_eq!(judged(1, &[&leaf(&sub)]), Err(webpki::Error::UnknownIssuer), "its issuer is not shown");
    assert_eq!(judged(1, &[&leaf(&sub), &sub.certificate]), Ok(()));
    let deep = leaf(&below);
    assert_eq!(judged(2, &[&deep, &below.certificate, &sub.certificate]), Ok(()));
    let too_deep = judged(1, &[&deep, &below.certificate, &sub.certificate]);
    assert_eq!(too_deep, Err(webpki::Error::MaximumPathDepthExceeded));
}

#[test]
fn time_usage_and_revocation_count() {
    let ca = Authority::new("ca");
    let leaf = |adjust: &dyn Fn(&mut CertificateParams)| ca.issue_as("client", adjust).chain.clone();
    let expired = leaf(&|params| params.not_after = date_time_ymd(2026, 1, 1));
    assert!(matches!(judge(&ca.trusted(), 1, &expired), Err(webpki::Error::CertExpired { .. })));
    let early = leaf(&|params| params.not_before = date_time_ymd(2030, 1, 1));
    assert!(matches!(judge(&ca.trusted(), 1, &early), Err(webpki::Error::CertNotValidYet { .. })));
    let server = leaf(&|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    let judged = judge(&ca.trusted(), 1, &server);
    assert!(matches!(judged, Err(webpki::Error::RequiredEkuNotFoundContext(_))), "{judged:?}");
    let numbered = |serial: u64| leaf(&|params| params.serial_number = Some(SerialNumber::from(serial)));
    let trusted = ca.trusted_but(&[7]);
    assert_eq!(judge(&trusted, 1, &numbered(7)), Err(webpki::Error::CertRevoked));
    assert_eq!(judge(&trusted, 1, &numbered(8)), Ok(()));
    let unreadable = Authorities { revocations: vec![vec![1, 2, 3]], ..(*ca.trusted()).clone() };
    assert_eq!(judge(&unreadable, 1, &numbered(8)), Err(webpki::Error::UnknownRevocationStatus));
}

#[test]
fn leaves_that_webpki_does_not_take_are_judged_too() {
    let [ca, good, revoked, list] = VERSION_1.map(bytes);
    let trusted = |revocations: &[Vec<u8>]| Authorities {
        certificates: vec![ca.clone()],
        revocations: revocations.to_vec(),
    };
    assert_eq!(judge(&trusted(&[]), 1, &[&good]), Ok(()));
    assert_eq!(judge(&trusted(&[]), 1, &[&revoked]), Ok(()));
    assert_eq!(judge(&trusted(std::slice::from_ref(&list)), 1, &[&good]), Ok(()));
    assert_eq!(judge(&trusted(&[list]), 1, &[revoked]), Err(webpki::Error::CertRevoked));
    let other = Authority::new("ca");
    assert_eq!(
        judge(&other.trusted(), 1, &[&good]),
        Err(webpki::Error::UnknownIssuer),
        "same name, other key"
    );
    let foreign_list = other.trusted_but(&[]).revocations.clone();
    assert_eq!(judge(&trusted(&foreign_list), 1, &[good]), Err(webpki::Error::UnknownRevocationStatus));
    // An authority shows its own certificate.
    assert_eq!(judge(&other.trusted(), 1, &[&other.certificate]), Ok(()));
    assert_eq!(judge(&trusted(&[]), 1, &[&other.certificate]), Err(webpki::Error::UnknownIssuer));
}

/// The server's knowledge of the client after a handshake.
fn told(config: ClientConfig, name: Option<&str>, server_configs: &ServerConfigs) -> ClientTls {
    let met = meet(&Arc::new(config), name, server_configs).unwrap();
    let selection = server_configs.select(name).unwrap();
    ClientTls::new(&met.server, name.map(Box::from), selection)
}

#[test]
fn whatever_a_client_shows_the_handshake_succeeds_and_the_verdict_follows() {
    let (ca, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let one = ca.issue("a.test");
    let snapshot = compiled(vec![host("a.test", asks(&one, &ca.trusted(), 1))], TlsSettings::default());
    let server_configs = configured(&snapshot, &shared_tls(), None);
    let name = HostName::parse("a.test").unwrap();
    let verdict = |config| told(config, Some("a.test"), &server_configs).verdict(&name, &server_configs, NOW);
    assert_eq!(verdict(client()), Ok(Verdict::None));
    assert_eq!(verdict(client_with(&ca.issue("client"))), Ok(Verdict::Good));
    let why = "unable to verify the first certificate";
    let untrusted = Verdict::Bad { why, is_untrusted: true };
    assert_eq!(verdict(client_with(&stranger.issue("client"))), Ok(untrusted));
    let expired = ca.issue_as("client", |params| params.not_after = date_time_ymd(2026, 1, 1));
    let bad = Verdict::Bad { why: "certificate has expired", is_untrusted: false };
    assert_eq!(verdict(client_with(&expired)), Ok(bad));
    let client = told(client_with(&ca.issue("client")), Some("a.test"), &server_configs);
    let certificate = client.certificate.as_ref().unwrap();
    assert_eq!((&*certificate.subject, &*certificate.issuer), ("CN=client", "CN=ca"));
}

#[test]
fn a_verdict_holds_for_one_host_and_as_long_as_it_asks_for_the_same() {
    let (ca, other, shared_tls) = (Authority::new("ca"), Authority::new("other"), shared_tls());
    let one = ca.issue("a.test");
    let (open, guarded) = (host("b.test", shows(&one)), host("a.test", asks(&one, &ca.trusted(), 1)));
    let snapshot = compiled(vec![open, guarded], TlsSettings::default());
    let server_configs = configured(&snapshot, &shared_tls, None);
    let name = HostName::parse("a.test").unwrap();
    let shown = || client_with(&ca.issue("client"));
    let strange = told(shown(), Some("b.test"), &server_configs);
    assert_eq!(strange.verdict(&name, &server_configs, NOW), Err(Misdirected));
    for unserved in [None, Some("c.test")] {
        let stranger = told(shown(), unserved, &server_configs);
        assert_eq!(stranger.verdict(&name, &server_configs, NOW), Ok(Verdict::None), "{unserved:?}");
    }
    let known = told(shown(), Some("a.test"), &server_configs);
    assert_eq!(known.verdict(&name, &server_configs, NOW), Ok(Verdict::Good));
    let stricter = compiled(vec![host("a.test", asks(&one, &other.trusted(), 1))], TlsSettings::default());
    let after = configured(&stricter, &shared_tls, Some(&server_configs));
    assert!(matches!(known.verdict(&name, &after, NOW), Ok(Verdict::Bad { .. })));
    let now_guarded = compiled(vec![host("b.test", asks(&one, &ca.trusted(), 1))], TlsSettings::default());
    let after = configured(&now_guarded, &shared_tls, Some(&server_configs));
    let name = HostName::parse("b.test").unwrap();
    assert_eq!(strange.verdict(&name, &after, NOW), Err(Misdirected), "it was not asked");
}

#[test]
fn a_certificate_whose_key_the_client_does_not_hold_is_no_certificate() {
    let ca = Authority::new("ca");
    let one = ca.issue("a.test");
    let snapshot = compiled(vec![host("a.test", asks(&one, &ca.trusted(), 1))], TlsSettings::default());
    let server_configs = configured(&snapshot, &shared_tls(), None);
    let (mine, theirs) = (ca.issue("mine"), ca.issue("theirs"));
    let provider = provider(model::CipherSuite::DEFAULT);
    let mut stolen = (*certified_key(&mine, &provider).unwrap()).clone();
    stolen.cert = certified_key(&theirs, &provider).unwrap().cert.clone();
    let mut config = client();
    config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(stolen));
    assert!(meet(&Arc::new(config), Some("a.test"), &server_configs).is_err());
}
