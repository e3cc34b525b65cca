use rcgen::{
    CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
};

use super::*;

fn owner() -> NsName {
    NsName::new("default", "web")
}

fn parse(chain: &str, key: &str) -> Result<Pair, String> {
    Pair::parse(&owner(), chain.as_bytes(), key.as_bytes())
}

fn made(names: &[&str], key: &KeyPair) -> String {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, "common.test");
    params.distinguished_name.push(DnType::OrganizationName, "Test keys only");
    params.serial_number = Some(4711.into());
    params.self_signed(key).unwrap().pem()
}

#[test]
fn a_pair_tells_what_is_in_it() {
    for (algorithm, name) in
        [(&PKCS_ECDSA_P256_SHA256, "ECDSA"), (&PKCS_ECDSA_P384_SHA384, "ECDSA"), (&PKCS_ED25519, "Ed25519")]
    {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let pair = parse(&made(&["a.test", "*.b.test"], &key), &key.serialize_pem()).unwrap();
        let info = &pair.certificate.info;
        assert_eq!((info.namespace.as_str(), info.object.as_str()), ("default", "web"));
        assert_eq!((info.serial_number.as_str(), info.public_key_algorithm.as_str()), ("4711", name));
        assert_eq!(
            (info.issuer_common_name.as_str(), info.issuer_organization.as_str()),
            ("common.test", "Test keys only")
        );
        assert_eq!(pair.certificate.chain.len(), 1);
        assert!(pair.not_before() < pair.not_after());
        assert!(pair.is_for("a.test") && pair.is_for("x.b.test") && !pair.is_for("common.test"));
        assert_eq!(pair.names().to_string(), "a.test, *.b.test");
    }
}

#[test]
fn the_common_name_counts_where_there_is_no_other() {
    let key = KeyPair::generate().unwrap();
    let pair = parse(&made(&[], &key), &key.serialize_pem()).unwrap();
    assert!(pair.is_for("common.test"));
}

/// Keys in the two older encodings, made by openssl. The certificates serve only as owners of these keys.
#[test]
fn older_encodings_are_read() {
    let sec1 = parse(include_str!("test-keys/sec1.crt"), include_str!("test-keys/sec1.key")).unwrap();
    assert_eq!(sec1.certificate.key.encoding, model::KeyEncoding::Sec1);
    let pkcs1 = parse(include_str!("test-keys/pkcs1.crt"), include_str!("test-keys/pkcs1.key")).unwrap();
    assert_eq!(pkcs1.certificate.key.encoding, model::KeyEncoding::Pkcs1);
    assert_eq!(pkcs1.certificate.info.public_key_algorithm, "RSA");
    let error = parse(include_str!("test-keys/pkcs1.crt"), include_str!("test-keys/sec1.key")).unwrap_err();
    assert_eq!(error, "tls.key is no RSA key that can be used");
}

#[test]
fn what_does_not_fit_is_told() {
    let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let (chain, key) = (made(&["a.test"], &key), key.serialize_pem());
    let error = |chain: &str, key: &str| parse(chain, key).unwrap_err();
    assert_eq!(error("", &key), "tls.crt holds no certificate in PEM");
    assert_eq!(error(&key, &key), "tls.crt holds no certificate in PEM");
    assert_eq!(error(&chain[..chain.len() / 2], &key), "tls.crt is broken PEM");
    let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(error(junk, &key), "tls.crt holds something that is no X.509 certificate");
    assert_eq!(error(&chain, ""), "tls.key holds no private key in PEM without a passphrase");
    assert_eq!(error(&chain, &other.serialize_pem()), "tls.key does not belong to the certificate");
}

#[test]
fn authorities_are_certificates_and_revocation_lists() {
    let chain = made(&[], &KeyPair::generate().unwrap());
    let found = authorities(chain.repeat(2).as_bytes(), None).unwrap();
    assert_eq!((found.certificates.len(), found.revocations.len()), (2, 0));
    let error = |crl: &str| authorities(chain.as_bytes(), Some(crl.as_bytes())).unwrap_err();
    assert_eq!(error(""), "ca.crl holds no revocation list in PEM");
    let junk = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    assert_eq!(error(junk), "ca.crl holds something that is no revocation list");
    assert_eq!(authorities(b"", None).unwrap_err(), "ca.crt holds no certificate in PEM");
}

#[test]
fn dates_are_told_in_utc() {
    assert_eq!(date(1_700_000_000), "2023-11-14 22:13 UTC");
}
