//! Attacks of a tenant on another's host, and on the machine.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adversary::names::NameServer;
use adversary::tenant::{
    OLD, TenantIngress, YOUNG, external_name, tenant_certificate, tenant_secret, tenant_service,
};
use adversary::{Attack, Run, binary};
use testkit::{Authority, Canned, Certificate, Connection, Forebay, Setup, TlsClient};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "tenants-passthrough", cases: 0, play: passthrough },
    Attack { name: "tenants-server-snippet", cases: 0, play: server_snippet },
    Attack { name: "tenants-missing-authority", cases: 0, play: missing_authority },
    Attack { name: "tenants-foreign-authority", cases: 0, play: foreign_authority },
    Attack { name: "tenants-certificate", cases: 0, play: another_certificate },
    Attack { name: "tenants-mtls-in-clear", cases: 0, play: client_certificates_in_clear },
    Attack { name: "tenants-mtls-other-path", cases: 0, play: client_certificates_hold_for_the_whole_host },
    Attack { name: "tenants-external-name", cases: 0, play: names_that_lead_back_here },
    Attack { name: "tenants-rebinding", cases: 0, play: names_that_change_their_mind },
    Attack { name: "tenants-paths", cases: 0, play: paths_of_the_owner },
    Attack { name: "tenants-kinds", cases: 0, play: objects_of_other_kinds },
    Attack { name: "tenants-kinds-mtls", cases: 0, play: routes_at_a_host_with_client_certificates },
    Attack { name: "tenants-alias", cases: 0, play: further_names_of_others },
    Attack { name: "tenants-heads", cases: 0, play: lines_in_heads },
    Attack { name: "tenants-templates", cases: 0, play: texts_that_grow },
    Attack { name: "tenants-endpoint-slices", cases: 0, play: slices_for_services_of_others },
];

const HOST: &str = "shop.test";

/// Where clouds tell a machine its secrets. Nothing is sent there.
const METADATA: &str = "169.254.169.254";

/// A host whose owner serves `/` over TLS, and what a younger tenant adds to it.
struct Street {
    certificate: Certificate,
    /// Of the younger tenant.
    other: Certificate,
    authority: Authority,
    owners: Canned,
    youngers: Canned,
}

impl Street {
    fn new() -> Self {
        let servers = Authority::new("servers");
        Self {
            certificate: servers.server(&[HOST]),
            other: servers.server(&[HOST]),
            authority: Authority::new("clients"),
            owners: Canned::saying("owner"),
            youngers: Canned::saying("younger"),
        }
    }

    fn owner() -> TenantIngress {
        TenantIngress::new("first", HOST, OLD).path("/", "web").tls("certificate")
    }

    fn younger() -> TenantIngress {
        TenantIngress::new("second", HOST, YOUNG).path("/second", "web")
    }

    /// The younger one's file is read first, which must make no difference.
    fn setup(&self, owner: &TenantIngress, younger: &TenantIngress) -> Setup {
        let clients = self.authority.pem();
        let of_owner = owner.document()
            + &tenant_service("first", "web", &[self.owners.address()])
            + &tenant_certificate("first", "certificate", &self.certificate)
            + &tenant_secret("first", "clients", &[("ca.crt", &clients)]);
        let of_younger = younger.document()
            + &tenant_service("second", "web", &[self.youngers.address()])
            + &tenant_certificate("second", "certificate", &self.other)
            + &tenant_secret("second", "clients", &[("ca.crt", &Authority::new("others").pem())]);
        binary::setup().manifest("b.yaml", of_owner).manifest("a.yaml", of_younger)
    }

    /// The owner's part of the host still behaves, to a client without a certificate, as if there were no
    /// other tenant.
    fn is_untouched(&self, forebay: &Forebay) {
        let mut client = TlsClient::new(HOST).connect(forebay.https_address());
        assert!(client.tls_info().shows(&self.certificate), "another certificate is shown");
        assert_eq!(client.get(HOST, "/").said(), (200, "owner"));
        assert_eq!(client.get(HOST, "/deeper").said(), (200, "owner"));
    }
}

/// Status of a path of the host, asked for over TLS.
fn status(forebay: &Forebay, path: &str) -> u16 {
    TlsClient::new(HOST).connect(forebay.https_address()).get(HOST, path).status
}

fn passthrough(_: &Run) {
    let street = Street::new();
    let younger = Street::younger().path("/", "web").annotation("ssl-passthrough", "true");
    let forebay = street.setup(&Street::owner(), &younger).arguments(["--enable-ssl-passthrough"]).start();
    let connected = TlsClient::new(HOST).try_connect(forebay.https_address());
    let taken = street.youngers.connections();
    assert!(connected.is_ok() && taken == 0, "the younger tenant gets {taken} of the owner's connections");
    street.is_untouched(&forebay);
}

fn server_snippet(_: &Run) {
    let street = Street::new();
    let younger = Street::younger().annotation("server-snippet", "return 418;");
    let setup = street.setup(&Street::owner(), &younger);
    let setup =
        setup.setting("allow-snippet-annotations", "true").setting("annotations-risk-level", "Critical");
    let forebay = setup.start();
    street.is_untouched(&forebay);
    assert_eq!(status(&forebay, "/second"), 503, "what was to be guarded is closed");
}

fn missing_authority(_: &Run) {
    let street = Street::new();
    let younger = Street::younger().annotation("auth-tls-secret", "second/missing");
    let forebay = street.setup(&Street::owner(), &younger).start();
    street.is_untouched(&forebay);
    let status = status(&forebay, "/second");
    assert!(matches!(status, 403 | 503), "what was to be guarded answers {status}");
}

/// A demand that only the owner may make.
fn foreign_authority(_: &Run) {
    let street = Street::new();
    let younger = Street::younger().annotation("auth-tls-secret", "second/clients");
    let forebay = street.setup(&Street::owner(), &younger).start();
    street.is_untouched(&forebay);
    let status = status(&forebay, "/second");
    assert!(status >= 400, "what was to be guarded answers {status}");
}

fn another_certificate(_: &Run) {
    let street = Street::new();
    let forebay = street.setup(&Street::owner(), &Street::younger().tls("certificate")).start();
    street.is_untouched(&forebay);
    assert_eq!(status(&forebay, "/second"), 200);
}

/// A client's claim about its connection is no certificate.
fn client_certificates_in_clear(_: &Run) {
    let street = Street::new();
    let owner = Street::owner()
        .annotation("auth-tls-secret", "first/clients")
        .annotation("force-ssl-redirect", "true");
    for trusted in ["192.0.2.0/24", "0.0.0.0/0"] {
        let forebay = street
            .setup(&owner, &Street::younger())
            .setting("use-forwarded-headers", "true")
            .setting("proxy-real-ip-cidr", trusted)
            .start();
        for claim in [
            "X-Forwarded-Proto: https",
            "X-Forwarded-Scheme: https",
            "X-Forwarded-Proto: https\r\nssl-client-verify: SUCCESS",
        ] {
            for path in ["/", "/second"] {
                let request = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{claim}\r\n\r\n");
                let response = forebay.client().ask(&request);
                assert_ne!(
                    response.status, 200,
                    "{path} in clear with {claim:?}, peers of {trusted} trusted"
                );
            }
        }
    }
}

fn client_certificates_hold_for_the_whole_host(_: &Run) {
    let street = Street::new();
    let owner = Street::owner().annotation("auth-tls-secret", "first/clients");
    for younger in [Street::younger(), Street::younger().annotation("auth-tls-verify-client", "off")] {
        let forebay = street.setup(&owner, &younger).start();
        for path in ["/", "/second"] {
            assert!(matches!(status(&forebay, path), 400..500), "{path} without a certificate");
        }
        let good = Arc::new(street.authority.client("alice"));
        let mut client = TlsClient::new(HOST).certificate(&good).connect(forebay.https_address());
        assert_eq!(client.get(HOST, "/").said(), (200, "owner"));
    }
}

/// However a guest spells a path of the owner's, and by whatever expression: the owner answers, as if it were
/// alone.
fn paths_of_the_owner(_: &Run) {
    let street = Street::new();
    let owner = TenantIngress::new("first", HOST, OLD)
        .path("/app", "web")
        .path("/im", "web")
        .path("/admin", "web")
        .path("/", "web")
        .tls("certificate");
    let youngers = [
        TenantIngress::new("second", HOST, YOUNG)
            .path("/app/", "web")
            .path("/APP", "web")
            .path("/im/", "web")
            .path("/%61dmin", "web")
            .path("/x/../admin", "web")
            .path("//admin", "web"),
        TenantIngress::new("second", HOST, YOUNG)
            .path("/a.*", "web")
            .path("/(.*)", "web")
            .path("/[a-z]+", "web")
            .annotation("use-regex", "true"),
        TenantIngress::new("second", HOST, YOUNG)
            .path("/app(/|$)(.*)", "web")
            .annotation("rewrite-target", "/$2"),
    ];
    for younger in youngers {
        let forebay = street.setup(&owner, &younger).start();
        let mut client = TlsClient::new(HOST).connect(forebay.https_address());
        for path in [
            "/", "/app", "/app/", "/app/x", "/APP", "/im", "/im/", "/im/x", "/admin", "/ADMIN", "/admin/",
            "/%61dmin",
        ] {
            assert_eq!(client.get(HOST, path).said(), (200, "owner"), "{path}");
        }
        assert_eq!(street.youngers.connections(), 0);
    }
}

/// A class, a Gateway of the namespace at the port of HTTP for a host, and a route at it with these matches.
fn gateway_and_route(namespace: &str, created: &str, host: &str, route: &str, matches: &str) -> String {
    let meta = |name: &str, namespace: &str| {
        format!("metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: {created:?}}}")
    };
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: forebay}}\n\
         spec: {{controllerName: forebay.io/gateway-controller}}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n{}\nspec:\n  \
         gatewayClassName: forebay\n  listeners:\n  - {{name: http, port: 80, protocol: HTTP, hostname: {host}, allowedRoutes: {{namespaces: {{from: All}}}}}}\n\
         ---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n{}\nspec:\n  parentRefs: [{{name: web, namespace: {namespace}}}]\n  \
         hostnames: [{host}]\n  rules:\n  - matches: [{matches}]\n    backendRefs: [{{name: web, port: 80}}]\n",
        meta("web", namespace),
        meta("web", route),
    )
}

/// A Gateway's host is its own, at its own ports only, whatever Ingress is made later.
fn objects_of_other_kinds(_: &Run) {
    let street = Street::new();
    let of_owner = gateway_and_route(
        "first",
        OLD,
        HOST,
        "first",
        "{path: {value: /app}}, {path: {value: /form}, method: POST}",
    ) + &tenant_service("first", "web", &[street.owners.address()]);
    let younger = TenantIngress::new("second", HOST, YOUNG)
        .path("/app", "web")
        .path("/APP/", "web")
        .path("/form", "web")
        .path("/second", "web")
        .tls("certificate")
        .annotation("ssl-redirect", "false");
    let of_younger = younger.document()
        + &tenant_service("second", "web", &[street.youngers.address()])
        + &tenant_certificate("second", "certificate", &street.other);
    let forebay = binary::setup().manifest("b.yaml", of_owner).manifest("a.yaml", of_younger).start();
    let ask = |path: &str| Connection::to(forebay.address()).get(HOST, path);
    for path in ["/app", "/app/", "/app/x"] {
        assert_eq!(ask(path).said(), (200, "owner"), "{path}");
    }
    for path in ["/APP", "/form"] {
        assert_ne!(ask(path).said(), (200, "younger"), "{path}");
    }
    assert_eq!(ask("/second").said(), (200, "younger"), "a path of its own");
    let mut client = TlsClient::new(HOST).connect(forebay.https_address());
    assert!(!client.tls_info().shows(&street.other), "the owner serves nothing over TLS there");
    assert_ne!(client.get(HOST, "/app").status, 200);
}

/// A route of another namespace at an Ingress' host is under the terms of the host, and takes none of its
/// paths by a condition.
fn routes_at_a_host_with_client_certificates(_: &Run) {
    let street = Street::new();
    let owner = Street::owner().path("/app", "web").annotation("auth-tls-secret", "first/clients");
    let matches = "{path: {value: /app}, method: GET}, {path: {type: RegularExpression, value: \"/a.*\"}}, {path: {value: /second}}, \
                   {path: {value: /app}, headers: [{name: a, value: b}]}";
    let of_route = gateway_and_route("infra", YOUNG, HOST, "second", matches);
    let forebay = street.setup(&owner, &Street::younger()).manifest("c.yaml", of_route).start();
    for path in ["/", "/app", "/second"] {
        for field in ["a: b", "a: c"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{field}\r\n\r\n");
            assert_ne!(forebay.client().ask(&request).status, 200, "{path} in clear");
        }
        assert!(matches!(status(&forebay, path), 400..500), "{path} without a certificate");
    }
    let good = Arc::new(street.authority.client("alice"));
    let mut client = TlsClient::new(HOST).certificate(&good).connect(forebay.https_address());
    assert_eq!(client.get(HOST, "/app").said(), (200, "owner"));
    assert_eq!(street.youngers.connections(), 0);
}

/// A further name is a host like others: it takes none that another declares, in clear and over TLS.
fn further_names_of_others(_: &Run) {
    let street = Street::new();
    let younger = TenantIngress::new("second", "other.test", YOUNG)
        .path("/", "web")
        .tls("certificate")
        .annotation("server-alias", "*.test, shop.test, *.shop.test");
    let wildcard = TenantIngress::new("first", "*.shop.test", OLD).path("/", "web").named("wildcard");
    let setup = street.setup(&Street::owner(), &younger).manifest("c.yaml", wildcard.document());
    let forebay = setup.start();
    street.is_untouched(&forebay);
    for host in [HOST, "a.shop.test"] {
        let mut client = TlsClient::new(host).connect(forebay.https_address());
        assert!(!client.tls_info().shows(&street.other), "{host}");
        assert_eq!(client.get(host, "/").said(), (200, "owner"), "{host}");
    }
}

/// No string of an object adds a line to a head that clients or endpoints read.
fn lines_in_heads(_: &Run) {
    let street = Street::new();
    let injected = r"\r\nX-Injected: 1";
    let hosts = ["a.test", "b.test", "c.test", "d.test", "e.test"];
    let rules = [
        format!("sessionPersistence: {{sessionName: \"a{injected}\"}}"),
        "sessionPersistence: {sessionName: \"a; Domain=test; X-Injected: 1\"}".to_owned(),
        format!("filters: [{{type: URLRewrite, urlRewrite: {{hostname: \"a.test{injected}\"}}}}]"),
        format!("filters: [{{type: RequestRedirect, requestRedirect: {{hostname: \"a.test{injected}\"}}}}]"),
        format!(
            "filters: [{{type: CORS, cors: {{allowOrigins: [\"*\"], exposeHeaders: [\"a{injected}\"]}}}}]"
        ),
    ];
    let mut documents = gateway_and_route("first", OLD, "\"*.test\"", "first", "{path: {value: /}}")
        + &tenant_service("first", "web", &[street.owners.address()]);
    for (number, (host, rule)) in hosts.iter().zip(&rules).enumerate() {
        let _ = write!(
            documents,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r{number}, namespace: first}}\nspec:\n  \
             parentRefs: [{{name: web}}]\n  hostnames: [{host}]\n  rules:\n  - backendRefs: [{{name: web, port: 80}}]\n    {rule}\n"
        );
    }
    documents += &TenantIngress::new("second", "f.test", OLD)
        .path(&format!("\"/x{injected}/\""), "web")
        .path("\"/x; Domain=test/\"", "web")
        .annotation("affinity", "cookie")
        .document();
    documents += &tenant_service("second", "web", &[street.owners.address()]);
    let forebay = binary::setup().manifest("a.yaml", documents).start();
    for host in hosts.iter().chain(&["f.test"]) {
        for path in [
            "/",
            "/x%0d%0aX-Injected:%201",
            "/x%0d%0aX-Injected:%201/y",
            "/x;%20Domain=test",
            "/x;%20Domain=test/",
        ] {
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: https://b.test\r\nConnection: close\r\n\r\n"
            );
            let response = forebay.client().ask(&request);
            assert!(response.header("X-Injected").is_none(), "{host}{path}: {response:?}");
            let cookie = response.header("Set-Cookie").unwrap_or_default();
            assert!(!cookie.contains("Domain"), "{host}{path}: {cookie}");
        }
    }
}

/// The result of a template has a bound.
fn texts_that_grow(_: &Run) {
    let street = Street::new();
    let target = |times: usize| format!("/{}", "$1".repeat(times));
    // A template with too many parts is ignored, like any bad value; one that becomes too long is a fault.
    for (times, expected) in [(500, 500), (20_000, 200)] {
        let younger = TenantIngress::new("second", "other.test", YOUNG)
            .path("/(.*)", "web")
            .annotation("use-regex", "true")
            .annotation("rewrite-target", &target(times));
        let setup =
            street.setup(&Street::owner(), &younger).arguments(["--enable-annotation-validation=false"]);
        let forebay = setup.start();
        let before = peak_memory_bytes(&forebay);
        let long = format!("/{}", "a".repeat(7000));
        for _ in 0..20 {
            assert_eq!(forebay.client().get("other.test", &long).status, expected, "{times} times");
        }
        let grown = peak_memory_bytes(&forebay).saturating_sub(before);
        assert!(grown < 32 << 20, "{times} times: {grown} bytes more");
        street.is_untouched(&forebay);
    }
}

/// The most memory that the process has had.
fn peak_memory_bytes(forebay: &Forebay) -> u64 {
    let status = format!("/proc/{}/status", forebay.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(status).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("there is such a line");
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    kilobytes << 10
}

/// Whatever a tenant calls it, this machine is not an endpoint.
fn names_that_lead_back_here(run: &Run) {
    let inside = Canned::saying_at(IpAddr::V4(Ipv4Addr::UNSPECIFIED), "inside");
    let mut names: Vec<String> = [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "127.1",
        "0x7f000001",
        "2130706433",
        "localhost.localdomain",
        "ip6-localhost",
        "::ffff:7f00:1",
        "[::1]",
        "0177.0.0.1",
    ]
    .map(str::to_owned)
    .into();
    names.push(rustix::system::uname().nodename().to_string_lossy().into_owned());
    match own_address() {
        Some(address) => names.push(address.to_string()),
        None => run.pass_over("this machine has no address but loopback's"),
    }
    let port = inside.address().port();
    let mut manifests = String::new();
    for (number, name) in names.iter().enumerate() {
        let host: &'static str = format!("n{number}.test").leak();
        let namespace: &'static str = format!("tenant{number}").leak();
        manifests += &TenantIngress::new(namespace, host, OLD).path("/", "web").document();
        manifests += &external_name(namespace, "web", name, port);
    }
    let setup = binary::setup().manifest("tenants.yaml", manifests).setting("proxy-connect-timeout", "1");
    let forebay = setup.start();
    let mut reached = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let response = Connection::to(forebay.address()).get(&format!("n{number}.test"), "/");
        if response.status == 200 {
            reached.push(name);
        }
    }
    assert!(reached.is_empty() && inside.connections() == 0, "a tenant reaches this machine by {reached:?}");
}

/// The address of a name is checked after each lookup, in every form of answer.
fn names_that_change_their_mind(run: &Run) {
    let inside = Canned::saying_at(IpAddr::V4(Ipv4Addr::UNSPECIFIED), "inside");
    let later = Arc::new(AtomicBool::new(false));
    let own = own_address().unwrap_or(Ipv4Addr::LOCALHOST.into());
    let is_later = Arc::clone(&later);
    let answer = move |name: &str, _| -> Vec<IpAddr> {
        let address = match name.split('.').next().unwrap_or_default() {
            "loopback" => "127.0.0.1",
            "further" => "127.8.9.10",
            "unspecified" => "0.0.0.0",
            "mapped" => "::ffff:127.0.0.1",
            "compatible" => "::127.0.0.1",
            "six" => "::1",
            "nowhere" => "::",
            "metadata" => METADATA,
            "own" => return vec![own],
            "turning" if is_later.load(Ordering::SeqCst) => "127.0.0.1",
            _ => return Vec::new(),
        };
        address.parse().into_iter().collect()
    };
    let names =
        ["loopback", "further", "unspecified", "mapped", "compatible", "six", "nowhere", "own", "turning"];
    let server = match NameServer::start(&mut run.random(), answer) {
        Ok(server) => server,
        Err(error) => return run.pass_over(format!("no server of names: {error}")),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let resolv_conf = folder.path().join("resolv.conf");
    std::fs::write(&resolv_conf, server.resolv_conf()).expect("a file");
    let setup = match binary::setup_with_names(&resolv_conf) {
        Ok(setup) => setup,
        Err(error) => return run.pass_over(format!("no namespace for another resolv.conf: {error:#}")),
    };
    let mut manifests = String::new();
    for name in names {
        let host: &'static str = format!("{name}.test").leak();
        manifests += &TenantIngress::new(name, host, OLD).path("/", "web").document();
        manifests += &external_name(name, "web", &format!("{name}.evil.example"), inside.address().port());
    }
    manifests += &TenantIngress::new("metadata", "metadata.test", OLD).path("/", "web").document();
    manifests += &external_name("metadata", "web", "metadata.evil.example", 80);
    manifests += &TenantIngress::new("literal", "literal.test", OLD).path("/", "web").document();
    manifests += &external_name("literal", "web", METADATA, 80);
    let forebay = setup.manifest("tenants.yaml", manifests).setting("proxy-connect-timeout", "1").start();
    let ask_all = || {
        names
            .iter()
            .filter(|name| Connection::to(forebay.address()).get(&format!("{name}.test"), "/").status == 200)
    };
    let at_once: Vec<_> = ask_all().collect();
    assert!(at_once.is_empty(), "a tenant reaches this machine by {at_once:?}");
    assert!(server.questions() > 0, "nobody asked for the names");
    later.store(true, Ordering::SeqCst);
    // Answers hold for a second; a name without an address may be remembered for longer.
    let (asked, end) = (server.questions(), Instant::now() + Duration::from_secs(4));
    while Instant::now() < end {
        let reached: Vec<_> = ask_all().collect();
        assert!(
            reached.is_empty(),
            "a tenant reaches this machine by {reached:?}, after {} questions",
            server.questions() - asked
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(inside.connections(), 0);
    // Addresses that are only for the machine are looked up, and never connected to.
    let configuration = forebay.configuration()["clusters"].to_string();
    assert!(!configuration.contains(METADATA), "endpoints are {configuration}");
}

/// An `EndpointSlice` is about the Services of its own namespace, whatever it calls itself; what is no
/// address is left out.
fn slices_for_services_of_others(_: &Run) {
    let street = Street::new();
    let stolen = street.youngers.address();
    let addresses = [
        "\"\"",
        "\"evil.example\"",
        "\"127.0.0.1:80\"",
        "\"::1\"",
        "\"0x7f.1\"",
        "\"127.0.0.1\\n\"",
        "\"300.1.1.1\"",
        "7",
        "null",
    ];
    let slice = |namespace: &str, name: &str, address: &str, port: &str| {
        format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nmetadata:\n  namespace: {namespace}\n  name: {name}\n  \
             labels: {{kubernetes.io/service-name: web}}\nendpoints:\n- {{addresses: [{address}], conditions: {{ready: true}}}}\n\
             ports: [{{port: {port}}}]\n"
        )
    };
    let port = stolen.port().to_string();
    let mut setup = street
        .setup(&Street::owner(), &Street::younger())
        .manifest("c.yaml", slice("second", "web-stolen", &stolen.ip().to_string(), &port))
        .manifest("d.yaml", slice("second", "first-web-0", "\"127.0.0.1\"", &port));
    for (number, address) in addresses.iter().enumerate() {
        setup = setup
            .manifest(&format!("e{number}.yaml"), slice("second", &format!("odd-{number}"), address, &port));
    }
    for (number, port) in ["0", "-1", "65536", "99999999999", "null", "\"80\""].iter().enumerate() {
        setup = setup.manifest(
            &format!("f{number}.yaml"),
            slice("second", &format!("port-{number}"), "\"127.0.0.1\"", port),
        );
    }
    let forebay = setup.start();
    for _ in 0..20 {
        street.is_untouched(&forebay);
    }
    assert_eq!(
        street.youngers.connections(),
        0,
        "requests of the owner's go to the younger tenant's endpoints"
    );
}

/// The address from which this machine would speak to others. Nothing is sent.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback())
}
