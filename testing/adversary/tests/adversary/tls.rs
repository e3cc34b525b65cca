//! TLS: certificates that prove nothing, sessions taken elsewhere, handshakes in crumbs.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use adversary::hello::client_hello;
use adversary::{Attack, Case, Run, binary};
use testkit::manifest::{Ingress, authority_secret, secret, service, tls_secret};
use testkit::{
    Authority, Canned, Certificate, Connection, Ending, Forebay, H2Client, Setup, TlsClient, TlsServer,
    Upstream,
};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "tls-clients", cases: 0, play: clients_that_prove_nothing },
    Attack { name: "tls-endpoints", cases: 0, play: endpoints_that_prove_nothing },
    Attack { name: "tls-misdirected", cases: 0, play: one_name_to_shake_hands_and_another_to_ask_for },
    Attack { name: "tls-sessions", cases: 0, play: sessions_taken_to_another_host },
    Attack { name: "tls-early-data", cases: 0, play: early_data },
    Attack { name: "tls-renegotiation", cases: 0, play: renegotiation },
    Attack { name: "tls-fragments", cases: 60, play: handshakes_in_crumbs },
];

const GUARDED: &str = "guarded.test";
const OPEN: &str = "open.test";

/// A host that wants a certificate of its clients, beside one that wants none.
struct House {
    clients: Authority,
    servers: Authority,
    inside: Canned,
    outside: Canned,
}

impl House {
    fn new() -> Self {
        let (clients, servers) = (Authority::new("clients"), Authority::new("servers"));
        Self { clients, servers, inside: Canned::saying("inside"), outside: Canned::saying("outside") }
    }

    fn setup(&self) -> Setup {
        let ingress = |name: &str, host: &str| {
            Ingress::new(name).path(host, "Prefix", "/", name).tls_from(&[host], name)
        };
        let guarded = ingress("guarded", GUARDED).annotation("auth-tls-secret", "default/clients").document()
            + &service("guarded", &[self.inside.address()])
            + &tls_secret("guarded", &self.servers.server(&[GUARDED]))
            + &authority_secret("clients", &self.clients, None);
        let open = ingress("open", OPEN).document()
            + &service("open", &[self.outside.address()])
            + &tls_secret("open", &self.servers.server(&[OPEN]));
        binary::setup().manifest("guarded.yaml", guarded).manifest("open.yaml", open)
    }
}

/// Asks the guarded host; `None` where the handshake is refused.
fn ask(forebay: &Forebay, client: &TlsClient) -> Option<u16> {
    let mut connection = client.try_connect(forebay.https_address()).ok()?;
    connection.try_send(format!("GET / HTTP/1.1\r\nHost: {GUARDED}\r\nConnection: close\r\n\r\n")).ok()?;
    // With TLS 1.3 a client learns after its handshake that it is refused.
    let line = connection.try_read_line().ok()?;
    line.split(' ').nth(1).and_then(|status| status.parse().ok())
}

fn clients_that_prove_nothing(_: &Run) {
    let house = House::new();
    let forebay = house.setup().start();
    let others = Authority::new("clients");
    let bad = [
        ("expired", house.clients.expired_client("alice")),
        ("a server's", house.clients.server(&["alice"])),
        ("of another authority of the same name", others.client("alice")),
        ("of one below another authority", others.below("clients").client("alice")),
        ("of the authority of servers", house.servers.client("alice")),
    ];
    for (what, certificate) in bad {
        let certificate = Arc::new(certificate);
        for client in [TlsClient::new(GUARDED).only_12(), TlsClient::new(GUARDED).only_13()] {
            let status = ask(&forebay, &client.certificate(&certificate));
            assert!(matches!(status, None | Some(400 | 403)), "{status:?} for a certificate that is {what}");
        }
    }
    assert_eq!(ask(&forebay, &TlsClient::new(GUARDED)), Some(400));
    assert_eq!(house.inside.connections(), 0);
    let good = Arc::new(house.clients.client("alice"));
    assert_eq!(ask(&forebay, &TlsClient::new(GUARDED).certificate(&good)), Some(200));
}

/// The endpoint's certificate is verified before the request is sent.
fn endpoints_that_prove_nothing(_: &Run) {
    let servers = Authority::new("servers");
    let name = "web.default.svc";
    let bad: [(&str, Certificate); 5] = [
        ("expired", servers.expired_server(&[name])),
        ("another's", servers.server(&["other.default.svc"])),
        ("of another authority of the same name", Authority::new("servers").server(&[name])),
        ("a client's", servers.client(name)),
        ("of no name", servers.server(&["127.0.0.1"])),
    ];
    for (what, certificate) in bad {
        let upstream = Upstream::new();
        let forebay = binary::setup()
            .endpoint(upstream.address())
            .annotation("backend-protocol", "HTTPS")
            .annotation("proxy-ssl-verify", "on")
            .annotation("proxy-ssl-secret", "default/authority")
            .annotation("proxy-ssl-name", name)
            .annotation("proxy-next-upstream", "off")
            .manifest("authority.yaml", secret("authority", "Opaque", &[("ca.crt", &servers.pem())]))
            .start();
        let mut client = forebay.client();
        client.send("GET / HTTP/1.1\r\nHost: web.test\r\nAuthorization: secret\r\n\r\n");
        if let Ok(mut peer) = upstream.try_accept_tls(&TlsServer::new(&certificate)) {
            let heard = peer.try_read_exactly(1);
            assert!(heard.is_err(), "an endpoint whose certificate is {what} hears of the request");
        }
        assert_eq!(client.read_response().status, 502, "an endpoint whose certificate is {what}");
    }
}

/// A handshake for one host is no authentication for another (RFC 9110 section 7.4).
fn one_name_to_shake_hands_and_another_to_ask_for(_: &Run) {
    let house = House::new();
    let forebay = house.setup().start();
    let https = forebay.https_address();
    for client in [TlsClient::new(OPEN), TlsClient::nameless(), TlsClient::new("elsewhere.test")] {
        let request = format!("GET / HTTP/1.1\r\nHost: {GUARDED}\r\n\r\n");
        let status = client.connect(https).ask(&request).status;
        // A client that named no host may have meant this one, but has presented no certificate for it.
        assert!(matches!(status, 400 | 421), "{status}");
        let absolute = format!("GET https://{GUARDED}/ HTTP/1.1\r\nHost: {OPEN}\r\n\r\n");
        let status = client.connect(https).ask(&absolute).status;
        assert!((400..500).contains(&status), "{status} for an absolute target");
        let status = H2Client::tls(https, &client).get(GUARDED, "/").status;
        assert!(matches!(status, 400 | 421), "{status} by HTTP/2");
    }
    assert_eq!(TlsClient::new(OPEN).connect(https).get(GUARDED, "/").status, 421);
    // A certificate that was shown to a host that wants none.
    let good = Arc::new(house.clients.client("alice"));
    let shown = TlsClient::new(OPEN).certificate(&good);
    assert_eq!(shown.connect(https).get(GUARDED, "/").status, 421);
    assert_eq!(house.inside.connections(), 0);
}

/// Runs OpenSSL's client, which does what other libraries refuse to; returns its output.
fn openssl(forebay: &Forebay, arguments: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &forebay.https_address().to_string()]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    // It may have ended already.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().ok()?;
    Some([output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
}

fn request(host: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

/// A session stands for what was shown when it began, to the host that it began with.
fn sessions_taken_to_another_host(_: &Run) {
    if !testkit::needs("openssl") {
        return;
    }
    let house = House::new();
    let forebay = house.setup().start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let certificate = house.clients.client("alice");
    std::fs::write(path("client.pem"), certificate.chain_pem() + &certificate.key_pem()).expect("a file");
    for version in ["-tls1_2", "-tls1_3"] {
        let session = path(&format!("session{version}"));
        // Of the open host, and taken to the guarded one.
        openssl(&forebay, &[version, "-servername", OPEN, "-sess_out", &session, "-ign_eof"], &request(OPEN));
        let taken = [version, "-servername", GUARDED, "-sess_in", &session, "-ign_eof"];
        let said = openssl(&forebay, &taken, &request(GUARDED)).expect("openssl runs");
        assert!(said.contains("HTTP/1.1 4") && !said.contains("inside"), "with {version}: {said}");
        // Of the guarded one, with a certificate, and taken there without it: that is what resumption is for.
        let guarded = path(&format!("guarded{version}"));
        let with = [
            version,
            "-servername",
            GUARDED,
            "-cert",
            &path("client.pem"),
            "-sess_out",
            &guarded,
            "-ign_eof",
        ];
        let said = openssl(&forebay, &with, &request(GUARDED)).expect("openssl runs");
        assert!(said.contains("inside"), "with {version}: {said}");
        // The session is then offered to the open host, and the other host is requested.
        let taken = [version, "-servername", OPEN, "-sess_in", &guarded, "-ign_eof"];
        let said = openssl(&forebay, &taken, &request(GUARDED)).expect("openssl runs");
        assert!(!said.contains("inside"), "with {version}: {said}");
    }
}

/// Early data can be replayed by whoever recorded it, and is refused (RFC 8446 section 8).
fn early_data(_: &Run) {
    if !testkit::needs("openssl") {
        return;
    }
    let house = House::new();
    let forebay = house.setup().start();
    let folder = tempfile::tempdir().expect("a folder");
    let (session, early) = (folder.path().join("session"), folder.path().join("early"));
    std::fs::write(&early, request(OPEN)).expect("a file");
    let (session, early) = (session.display().to_string(), early.display().to_string());
    openssl(&forebay, &["-tls1_3", "-servername", OPEN, "-sess_out", &session, "-ign_eof"], &request(OPEN));
    let asked = house.outside.heads().len();
    let arguments = ["-tls1_3", "-servername", OPEN, "-sess_in", &session, "-early_data", &early];
    let said = openssl(&forebay, &arguments, "").expect("openssl runs");
    assert!(!said.contains("Early data was accepted"), "{said}");
    assert_eq!(house.outside.heads().len(), asked, "a request in early data is passed on");
}

/// A handshake in the middle of a connection would change who is spoken to.
fn renegotiation(_: &Run) {
    if !testkit::needs("openssl") {
        return;
    }
    let house = House::new();
    let forebay = house.setup().setting("client-header-timeout", "1").start();
    let said = openssl(&forebay, &["-tls1_2", "-servername", OPEN], "R\n").expect("openssl runs");
    assert!(!said.contains("RENEGOTIATING") || said.contains("alert") || said.contains("error"), "{said}");
    let mut connection = TlsClient::new(OPEN).only_12().connect(forebay.https_address());
    assert_eq!(connection.get(OPEN, "/").said(), (200, "outside"));
    // A second ClientHello in clear is no part of a handshake, and does not bring it to an end.
    for hello in [client_hello(OPEN), client_hello(GUARDED)] {
        let mut raw = Connection::to(forebay.https_address());
        raw.send([hello.clone(), hello].concat());
        let (_, ending) = raw.read_to_end();
        assert!(matches!(ending, Ending::Closed | Ending::Reset));
    }
    assert_eq!(forebay.tls_client(&TlsClient::new(OPEN)).get(OPEN, "/").said(), (200, "outside"));
}

/// A `ClientHello` may come in as many records and segments as it likes: the name in it decides all the same,
/// or nobody gets it.
fn handshakes_in_crumbs(run: &Run) {
    let house = House::new();
    let passed = Upstream::new();
    let tunnel = Ingress::new("tunnel")
        .path("tunnel.test", "Prefix", "/", "tunnel")
        .annotation("ssl-passthrough", "true");
    let forebay = house
        .setup()
        .arguments(["--enable-ssl-passthrough"])
        .manifest("tunnel.yaml", tunnel.document() + &service("tunnel", &[passed.address()]))
        .setting("client-header-timeout", "2")
        .start();
    run.each(|case| {
        let name = *case.random.pick(&[OPEN, "tunnel.test"]);
        let hello = crumbs(case, &client_hello(name));
        let mut client = Connection::to(forebay.https_address());
        for piece in case.random.pieces(&hello, 6) {
            client.send(piece);
        }
        if name == OPEN {
            // A handshake record, which the answer begins with.
            assert_eq!(client.read_exactly(1), [22], "the answer to {name}");
        } else {
            assert!(
                passed.accept().read_exactly(hello.len()) == hello,
                "a ClientHello is changed on its way"
            );
        }
    });
}

/// The handshake message in several records (RFC 8446 section 5.1).
fn crumbs(case: &mut Case, hello: &[u8]) -> Vec<u8> {
    let (head, message) = hello.split_at(5);
    let most = *case.random.pick(&[1, 3, 50, 10_000]);
    let records = case.random.pieces(message, most);
    let record = |piece: &Vec<u8>| [&head[..3], &(piece.len() as u16).to_be_bytes(), piece].concat();
    let bytes: Vec<u8> = records.iter().flat_map(record).collect();
    case.sends(&bytes);
    bytes
}
