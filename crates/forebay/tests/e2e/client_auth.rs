//! Certificates of clients: who is asked for one, who is let in, and what the endpoint is told.

use std::sync::Arc;

use testkit::manifest::{authority_secret, secret};
use testkit::{Authority, Certificate, H2Client, Response, Setup, TlsClient, Upstream};

use crate::{OK, setup};

struct House {
    authority: Authority,
    good: Arc<Certificate>,
    bad: Arc<Certificate>,
    upstream: Upstream,
}

impl House {
    fn new() -> Self {
        let authority = Authority::new("clients");
        let good = Arc::new(authority.client("alice"));
        let bad = Arc::new(Authority::new("others").client("mallory"));
        Self { authority, good, bad, upstream: Upstream::new() }
    }

    fn setup(&self) -> Setup {
        setup()
            .endpoint(self.upstream.address())
            .annotation("auth-tls-secret", "default/clients")
            .manifest("clients.yaml", authority_secret("clients", &self.authority, None))
    }

    /// The proxy's own answer to a client with this certificate.
    fn refusal(&self, setup: Setup, certificate: Option<&Arc<Certificate>>) -> Response {
        let forebay = setup.start();
        let response = forebay.tls_client(&client(certificate)).get("web.test", "/");
        assert!(self.upstream.is_left_alone());
        response
    }

    /// The head that the endpoint gets for a client with this certificate.
    fn passed(&self, setup: Setup, certificate: Option<&Arc<Certificate>>) -> String {
        let forebay = setup.start();
        let mut client = forebay.tls_client(&client(certificate));
        let forged =
            "ssl-client-verify: SUCCESS\r\nssl-client-subject-dn: CN=forged\r\nssl-client-cert: forged\r\n";
        client.send(format!("GET / HTTP/1.1\r\nHost: web.test\r\n{forged}\r\n"));
        let (mut peer, head) = self.upstream.accept_request();
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
        assert!(!head.contains("forged"), "what a client claims is not passed on: {head}");
        head.to_lowercase()
    }
}

fn client(certificate: Option<&Arc<Certificate>>) -> TlsClient {
    let client = TlsClient::new("web.test");
    if let Some(certificate) = certificate { client.certificate(certificate) } else { client }
}

#[test]
fn a_good_certificate_is_let_in_and_told_of() {
    let house = House::new();
    let head = house.passed(house.setup(), Some(&house.good));
    assert!(head.contains("\r\nssl-client-verify: success\r\n"), "{head}");
    assert!(head.contains("\r\nssl-client-subject-dn: cn=alice\r\n"), "{head}");
    assert!(head.contains("\r\nssl-client-issuer-dn: cn=clients\r\n"), "{head}");
    assert!(!head.contains("ssl-client-cert:"), "only where that is asked for: {head}");
}

#[test]
fn the_certificate_itself_is_passed_on_where_that_is_asked_for() {
    let house = House::new();
    let setup = house.setup().annotation("auth-tls-pass-certificate-to-upstream", "true");
    let head = house.passed(setup, Some(&house.good));
    assert!(head.contains("\r\nssl-client-cert: -----begin%20certificate-----%0a"), "{head}");
}

#[test]
fn a_certificate_that_is_missing_or_bad_is_answered_with_400() {
    let house = House::new();
    for (certificate, text) in
        [(None, "No required SSL certificate was sent"), (Some(&house.bad), "SSL certificate error")]
    {
        let response = house.refusal(house.setup(), certificate);
        assert_eq!(response.status, 400);
        assert!(response.text().to_lowercase().contains(&text.to_lowercase()), "{response:?}");
    }
}

#[test]
fn a_certificate_may_be_optional() {
    let house = House::new();
    let optional = || house.setup().annotation("auth-tls-verify-client", "optional");
    assert!(house.passed(optional(), None).contains("\r\nssl-client-verify: none\r\n"));
    assert!(house.passed(optional(), Some(&house.good)).contains("\r\nssl-client-verify: success\r\n"));
    assert_eq!(house.refusal(optional(), Some(&house.bad)).status, 400);
    let any = || house.setup().annotation("auth-tls-verify-client", "optional_no_ca");
    assert!(house.passed(any(), None).contains("\r\nssl-client-verify: none\r\n"));
    let head = house.passed(any(), Some(&house.bad));
    assert!(head.contains("\r\nssl-client-verify: failed"), "{head}");
    assert!(head.contains("\r\nssl-client-subject-dn: cn=mallory\r\n"), "{head}");
}

#[test]
fn a_subject_may_be_demanded() {
    let house = House::new();
    let matching = |pattern: &str| house.setup().annotation("auth-tls-match-cn", pattern);
    house.passed(matching("CN=al.*"), Some(&house.good));
    assert_eq!(house.refusal(matching("CN=bob"), Some(&house.good)).status, 403);
}

#[test]
fn clients_without_a_good_certificate_may_be_sent_elsewhere() {
    let house = House::new();
    let setup = house.setup().annotation("auth-tls-error-page", "https://help.test/certificates");
    let response = house.refusal(setup, None);
    assert_eq!(
        (response.status, response.header("location").as_deref()),
        (302, Some("https://help.test/certificates"))
    );
}

#[test]
fn what_is_revoked_is_not_believed() {
    let house = House::new();
    let revoked = Arc::new(house.authority.client("eve"));
    let list = house.authority.revoking(&[&revoked]);
    let setup =
        || house.setup().manifest("clients.yaml", authority_secret("clients", &house.authority, Some(&list)));
    assert_eq!(house.refusal(setup(), Some(&revoked)).status, 400);
    house.passed(setup(), Some(&house.good));
}

#[test]
fn chains_may_be_so_long() {
    let house = House::new();
    let between = house.authority.below("between");
    let (deep, deeper) = (Arc::new(between.client("carol")), Arc::new(between.below("lower").client("dave")));
    let depth = |depth: &str| house.setup().annotation("auth-tls-verify-depth", depth);
    house.passed(depth("1"), Some(&deep));
    assert_eq!(house.refusal(depth("1"), Some(&deeper)).status, 400);
    house.passed(depth("2"), Some(&deeper));
}

#[test]
fn a_host_whose_authorities_cannot_be_read_is_closed() {
    let house = House::new();
    let broken = secret("clients", "Opaque", &[("ca.crt", "nonsense")]);
    for manifest in [String::new(), broken, secret("clients", "Opaque", &[])] {
        let setup = house.setup().manifest("clients.yaml", manifest);
        assert_eq!(house.refusal(setup, Some(&house.good)).status, 403);
    }
    // Neither is there a way around.
    let forebay = house.setup().manifest("clients.yaml", "").start();
    assert_eq!(forebay.get("/").status, 403, "in clear");
}

/// The certificate that was asked for on behalf of one host is no pass to another (RFC 9110 section 15.5.20).
#[test]
fn another_host_than_the_handshake_was_for_is_misdirected() {
    let house = House::new();
    let other = testkit::manifest::Ingress::new("other").path("other.test", "Prefix", "/", "web").document();
    let forebay = house.setup().manifest("other.yaml", other).start();
    // The handshake for a host that asks for nothing, the request for one that does.
    let mut smuggler = forebay.tls_client(&TlsClient::new("other.test"));
    assert_eq!(smuggler.get("web.test", "/").status, 421);
    let smuggler = H2Client::tls(forebay.https_address(), &TlsClient::new("other.test"));
    assert_eq!(smuggler.get("web.test", "/").status, 421);
    let mut unknown = forebay.tls_client(&TlsClient::new("unknown.test"));
    assert_eq!(
        unknown.get("web.test", "/").status,
        400,
        "nobody serves that name: no certificate was asked for"
    );
    assert!(house.upstream.is_left_alone());
}

#[test]
fn http2_asks_for_certificates_alike() {
    let house = House::new();
    let forebay = house.setup().start();
    let refused = H2Client::tls(forebay.https_address(), &client(None));
    assert_eq!(refused.get("web.test", "/").status, 400);
    let welcome = H2Client::tls(forebay.https_address(), &client(Some(&house.good)));
    let mut call = welcome.call("GET", "web.test", "/", &[], true);
    let (mut peer, head) = house.upstream.accept_request();
    assert!(head.to_lowercase().contains("\r\nssl-client-verify: success\r\n"), "{head}");
    peer.send(OK);
    assert_eq!(call.read_response().said(), (200, "ok"));
}
