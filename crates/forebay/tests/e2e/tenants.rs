//! Limits of a tenant: a user who may write Ingresses and Services of one namespace, and nothing else.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

use testkit::manifest::{authority_secret, service, tls_secret};
use testkit::{Authority, Forebay, TlsClient, Upstream, left_out, serve_names, this_test};

use crate::namespace::in_own_network;
use crate::{OK, setup};

/// An address of the test's own network that is no loopback address.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// A Service of type `ExternalName` for a port, and an Ingress that leads there.
fn external(name: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\n\
         spec: {{type: ExternalName, externalName: {name}, ports: [{{port: 80, targetPort: {port}}}]}}\n---\n\
         apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: web}}\n\
         spec: {{rules: [{{host: web.test, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, \
         port: {{number: 80}}}}}}}}]}}}}]}}\n"
    )
}

/// The name servers of this machine, all of which are ours from now on; or why there are none.
fn take_over_names(names: &[(&str, Ipv4Addr)]) -> Result<(), &'static str> {
    let configuration = std::fs::read_to_string("/etc/resolv.conf").map_err(|_| "no /etc/resolv.conf")?;
    let servers = configuration.lines().filter_map(|line| line.trim().strip_prefix("nameserver "));
    let servers: Vec<IpAddr> = servers.filter_map(|server| server.trim().parse().ok()).collect();
    if servers.is_empty() {
        return Err("no name server in /etc/resolv.conf");
    }
    let names: BTreeMap<_, _> = names.iter().map(|(name, ip)| ((*name).to_owned(), vec![*ip])).collect();
    for server in servers {
        if !server.is_loopback() {
            add_address(server);
        }
        serve_names(server, names.clone());
    }
    Ok(())
}

fn add_address(ip: IpAddr) {
    let status = Command::new("ip").args(["addr", "add", &ip.to_string(), "dev", "lo"]).status();
    assert!(status.is_ok_and(|status| status.success()), "{ip} is no address of this network");
}

/// The machine's own names, as its hosts file has them.
fn own_names() -> Vec<String> {
    let text = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with("127."));
    let names = lines.flat_map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>());
    names.filter(|name| !name.starts_with("localhost")).collect()
}

/// Pages of the admin server are not available at the public port.
fn asserts_closed(forebay: &Forebay) {
    for path in ["/configuration", "/metrics"] {
        let response = forebay.get(path);
        assert_eq!(response.status, 503, "{path}: {}", response.text());
    }
}

#[test]
fn an_outside_name_that_leads_to_this_machine_is_refused() {
    in_own_network(|| {
        add_address(OWN.into());
        let names = [("loopback.test", Ipv4Addr::LOCALHOST), ("own.test", OWN)];
        if let Err(why) = take_over_names(&names) {
            left_out(&this_test(), why);
            return;
        }
        let forebay = setup().start();
        let port = forebay.admin_address().port();
        for (name, ip) in names {
            forebay.replace("web.yaml", &external(name, port));
            forebay.await_log(&format!(
                "externalName \"{name}\": {} is refused",
                SocketAddr::new(ip.into(), port)
            ));
            asserts_closed(&forebay);
        }
    });
}

#[test]
fn a_name_of_this_machine_is_no_outside_name() {
    in_own_network(|| {
        let Some(name) = own_names().into_iter().next() else {
            left_out(&this_test(), "this machine has no name but localhost in /etc/hosts");
            return;
        };
        // No name server knows it.
        if let Err(why) = take_over_names(&[]) {
            left_out(&this_test(), why);
            return;
        }
        let forebay = setup().start();
        forebay.replace("web.yaml", &external(&name, forebay.admin_address().port()));
        forebay.await_log(&format!("externalName \"{name}\" has no address"));
        asserts_closed(&forebay);
    });
}

#[test]
fn outside_names_can_be_turned_off() {
    let forebay = setup().arguments(["--disable-svc-external-name"]).start();
    forebay.replace("web.yaml", &external("example.com", 80));
    forebay.await_log("which --disable-svc-external-name refuses");
    forebay.await_that("the change to be in force", || forebay.get("/").status == 503);
}

/// An Ingress for `web.test` of a namespace, which was made in a year and leads to Service `web`.
fn ingress(namespace: &str, year: u16, path: &str, annotations: &str) -> String {
    format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\n\
         metadata: {{name: web, namespace: {namespace}, creationTimestamp: {year}-01-01T00:00:00Z, annotations: {{{annotations}}}}}\n\
         spec: {{tls: [{{hosts: [web.test], secretName: certificate}}], rules: [{{host: web.test, http: {{paths: [{{path: {path}, \
         pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}}}]}}\n"
    )
}

#[test]
fn passthrough_of_another_namespace_takes_no_host() {
    let (owner, thief) = (Upstream::new(), Upstream::new());
    let certificate = Authority::new("servers").server(&["web.test"]);
    let of_thief = service("web", &[thief.address()]).replace("\"default\"", "\"thief\"");
    let stolen = ingress("thief", 2021, "/", "nginx.ingress.kubernetes.io/ssl-passthrough: 'true'");
    let forebay = setup()
        .arguments(["--enable-ssl-passthrough"])
        .manifest(
            "web.yaml",
            ingress("default", 2020, "/", "") + "---\n" + &service("web", &[owner.address()]),
        )
        .manifest("certificate.yaml", tls_secret("certificate", &certificate))
        .manifest("thief.yaml", of_thief + &stolen)
        .start();
    let mut client = forebay.tls_client(&TlsClient::new("web.test"));
    client.send(crate::GET);
    let (mut peer, _) = owner.accept_request();
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
    assert!(thief.is_left_alone());
    forebay.await_log("ssl-passthrough of this one has no effect there");
}

/// A client's claim about a hop before us is no certificate.
#[test]
fn a_host_that_requires_certificates_is_not_served_in_clear() {
    let (upstream, authority) = (Upstream::new(), Authority::new("clients"));
    let solver = testkit::manifest::Ingress::new("solver")
        .path("web.test", "Prefix", "/.well-known/acme-challenge/token", "web")
        .document();
    let forebay = setup()
        .endpoint(upstream.address())
        .annotation("auth-tls-secret", "default/clients")
        .annotation("force-ssl-redirect", "true")
        .setting("use-forwarded-headers", "true")
        .manifest("clients.yaml", authority_secret("clients", &authority, None))
        .manifest("solver.yaml", solver)
        .start();
    let request =
        |path: &str| format!("GET {path} HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-Proto: https\r\n\r\n");
    let response = forebay.client().ask(&request("/"));
    assert_eq!(response.status, 308);
    let location = response.header("location").unwrap_or_default();
    assert!(location.starts_with("https://web.test"), "{location}");
    // The list of locations without a redirect names paths of rules, not of requests.
    assert_eq!(forebay.client().ask(&request("/.well-known/acme-challenge/other")).status, 308);
    assert!(upstream.is_left_alone());
    // The challenge of an authority comes in clear.
    let mut client = forebay.client();
    client.send(request("/.well-known/acme-challenge/token"));
    let (mut peer, head) = upstream.accept_request();
    assert!(head.starts_with("GET /.well-known/acme-challenge/token "), "{head}");
    peer.send(OK);
    assert_eq!(client.read_response().said(), (200, "ok"));
}
