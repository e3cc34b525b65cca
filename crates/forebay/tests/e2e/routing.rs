//! The Service that gets a request, and the answers to requests that no route matches.

use testkit::manifest::{Ingress, service};
use testkit::{Canned, Connection, Forebay, Setup};

use crate::setup;

/// Services that answer with their names, in place of the default one.
struct Services(Vec<(&'static str, Canned)>);

impl Services {
    fn named<const N: usize>(names: [&'static str; N]) -> Self {
        Self(names.map(|name| (name, Canned::saying(name))).into())
    }

    fn setup(&self, ingresses: &[Ingress]) -> Setup {
        let services = self.0.iter().map(|(name, canned)| service(name, &[canned.address()]));
        let documents: String = ingresses.iter().map(Ingress::document).chain(services).collect();
        setup().manifest("web.yaml", documents)
    }

    fn serve(&self, ingresses: &[Ingress]) -> Forebay {
        self.setup(ingresses).start()
    }

    fn heads(&self, name: &str) -> Vec<String> {
        self.0.iter().find(|(other, _)| *other == name).expect("a Service").1.heads()
    }
}

/// Asks for each host and path, and compares status and text.
fn expect(forebay: &Forebay, cases: &[(&str, &str, u16, &str)]) {
    let mut client: Connection = forebay.client();
    for &(host, path, status, text) in cases {
        let response = client.get(host, path);
        let said = (response.status, response.text().trim_end());
        assert_eq!(said, (status, text), "{host} {path}");
    }
}

const NO_HOST: &str = "404 Not Found: no Ingress or route matches this host";
const NO_PATH: &str = "404 Not Found: no Ingress or route matches this path of the host";

#[test]
fn load_balancers_are_answered_on_hosts_that_are_not_served_by_name() {
    let services = Services::named(["a", "rest"]);
    let named = Ingress::new("named").path("a.test", "Prefix", "/", "a");
    expect(
        &services.serve(std::slice::from_ref(&named)),
        &[("10.1.2.3", "/healthz", 200, ""), ("a.test", "/healthz", 200, "a"), ("b.test", "/", 404, NO_HOST)],
    );
    let with_rest = services.serve(&[named, Ingress::new("rest").path("", "Prefix", "/", "rest")]);
    expect(&with_rest, &[("10.1.2.3", "/healthz", 200, ""), ("10.1.2.3", "/", 200, "rest")]);
}

#[test]
fn hosts_are_told_apart() {
    let services = Services::named(["a", "b", "wild"]);
    let forebay = services.serve(&[Ingress::new("hosts")
        .path("a.test", "Prefix", "/", "a")
        .path("b.test", "Prefix", "/", "b")
        .path("*.a.test", "Prefix", "/", "wild")
        .path("b.a.test", "Prefix", "/", "b")]);
    expect(
        &forebay,
        &[
            ("a.test", "/", 200, "a"),
            ("A.Test", "/", 200, "a"),
            ("a.test:8080", "/", 200, "a"),
            ("b.test", "/", 200, "b"),
            ("x.a.test", "/", 200, "wild"),
            ("X.A.TEST:1", "/", 200, "wild"),
            ("b.a.test", "/", 200, "b"),
            ("y.x.a.test", "/", 404, NO_HOST),
            (".a.test", "/", 404, NO_HOST),
            ("c.test", "/", 404, NO_HOST),
            ("127.0.0.1", "/", 404, NO_HOST),
            ("", "/", 404, NO_HOST),
        ],
    );
}

#[test]
fn paths_are_matched_by_their_types() {
    let services = Services::named(["exact", "prefix", "plain"]);
    let forebay = services.serve(&[Ingress::new("paths")
        .path("a.test", "Exact", "/exact", "exact")
        .path("a.test", "Prefix", "/prefix", "prefix")
        .path("a.test", "ImplementationSpecific", "/plain", "plain")]);
    expect(
        &forebay,
        &[
            ("a.test", "/exact", 200, "exact"),
            ("a.test", "/exact?q", 200, "exact"),
            ("a.test", "/exact/", 404, NO_PATH),
            ("a.test", "/Exact", 404, NO_PATH),
            ("a.test", "/prefix", 200, "prefix"),
            ("a.test", "/prefix/", 200, "prefix"),
            ("a.test", "/prefix/a/b?q", 200, "prefix"),
            ("a.test", "/prefixed", 404, NO_PATH),
            ("a.test", "/plain", 200, "plain"),
            ("a.test", "/plain/er", 200, "plain"),
            ("a.test", "/plainer", 404, NO_PATH),
            ("a.test", "/", 404, NO_PATH),
        ],
    );
}

#[test]
fn the_most_specific_path_wins_whatever_their_order() {
    let services = Services::named(["root", "a", "ab", "exact"]);
    let forebay = services.serve(&[Ingress::new("paths")
        .path("a.test", "Prefix", "/", "root")
        .path("a.test", "Prefix", "/a", "a")
        .path("a.test", "Exact", "/a/b", "exact")
        .path("a.test", "Prefix", "/a/b", "ab")]);
    expect(
        &forebay,
        &[
            ("a.test", "/", 200, "root"),
            ("a.test", "/ab", 200, "root"),
            ("a.test", "/a", 200, "a"),
            ("a.test", "/a/c", 200, "a"),
            ("a.test", "/a/b", 200, "exact"),
            ("a.test", "/a/b/", 200, "ab"),
            ("a.test", "/a/b/c", 200, "ab"),
        ],
    );
}

#[test]
fn paths_are_compared_in_their_normal_form_and_passed_on_as_they_came() {
    let services = Services::named(["inner", "root"]);
    let forebay = services.serve(&[Ingress::new("paths")
        .path("a.test", "Prefix", "/in", "inner")
        .path("a.test", "Prefix", "/", "root")]);
    let targets = ["//in//x", "/x/../in", "/%69n/a%2Fb?q=%2F", "/./in/."];
    let mut client = forebay.client();
    for target in targets {
        assert_eq!(client.get("a.test", target).text(), "inner", "{target}");
    }
    assert_eq!(client.get("a.test", "/in/../secret").text(), "root");
    let seen = services.heads("inner");
    let seen: Vec<_> = seen.iter().map(|head| head.split(' ').nth(1).expect("a target")).collect();
    assert_eq!(seen, targets);
}

#[test]
fn a_slash_that_is_missing_is_added_by_a_redirect() {
    let services = Services::named(["dir"]);
    let forebay = services.serve(&[Ingress::new("slash").path("a.test", "Prefix", "/dir/", "dir")]);
    let mut client = forebay.client();
    for (host, target, location) in [
        ("a.test", "/dir", "http://a.test/dir/"),
        ("a.test:8080", "/dir?q=1", "http://a.test/dir/?q=1"),
        ("A.Test", "//dir", "http://a.test/dir/"),
    ] {
        let response = client.get(host, target);
        assert_eq!((response.status, response.header("location").as_deref()), (301, Some(location)));
    }
    expect(&forebay, &[("a.test", "/dir/", 200, "dir"), ("a.test", "/dirs", 404, NO_PATH)]);
}

#[test]
fn who_asks_for_nothing_that_is_there_learns_nothing_of_what_is() {
    let services = Services::named(["secret"]);
    let forebay =
        services.serve(&[Ingress::new("internal").path("internal.test", "Prefix", "/admin", "secret")]);
    let mut client = forebay.client();
    for (host, path) in [("elsewhere.test", "/admin"), ("internal.test", "/"), ("", "/")] {
        let response = client.get(host, path);
        assert_eq!(response.status, 404);
        let all = format!("{:?}{}", response.headers, response.text());
        for name in ["internal", "admin", "secret", "default"] {
            assert!(!all.contains(name), "{name} shows in {all}");
        }
    }
    forebay.await_metric("forebay_faults_total", &[("reason", "unknown_host")], 2);
    forebay.await_metric("forebay_faults_total", &[("reason", "unknown_path")], 1);
}

#[test]
fn default_backends_take_what_is_left() {
    let services = Services::named(["a", "rest", "everything"]);
    let with_rules = Ingress::new("with-rules").path("a.test", "Prefix", "/a", "a").default_backend("rest");
    let without = Ingress::new("without-rules").default_backend("everything");
    let forebay = services.serve(&[with_rules, without]);
    expect(
        &forebay,
        &[
            ("a.test", "/a", 200, "a"),
            ("a.test", "/other", 200, "rest"),
            ("elsewhere.test", "/x", 200, "everything"),
            ("", "/", 200, "everything"),
        ],
    );
}

#[test]
fn the_default_backend_of_the_command_line_comes_last() {
    let services = Services::named(["a", "fallback"]);
    let forebay = services
        .setup(&[Ingress::new("a").path("a.test", "Prefix", "/a", "a")])
        .arguments(["--default-backend-service=default/fallback"])
        .start();
    expect(
        &forebay,
        &[
            ("a.test", "/a", 200, "a"),
            ("a.test", "/b", 200, "fallback"),
            ("elsewhere.test", "/", 200, "fallback"),
        ],
    );
}

#[test]
fn an_ingress_for_any_host_takes_what_no_host_takes() {
    let services = Services::named(["a", "any"]);
    let forebay = services
        .serve(&[Ingress::new("a").path("a.test", "Prefix", "/", "a").path("", "Prefix", "/any", "any")]);
    expect(
        &forebay,
        &[("a.test", "/any", 200, "a"), ("b.test", "/any", 200, "any"), ("b.test", "/", 404, NO_PATH)],
    );
}

#[test]
fn the_first_of_two_ingresses_that_want_the_same_gets_it() {
    let services = Services::named(["first", "second"]);
    let forebay = services.serve(&[
        Ingress::new("one").path("a.test", "Prefix", "/", "first"),
        Ingress::new("two").path("a.test", "Prefix", "/", "second"),
    ]);
    expect(&forebay, &[("a.test", "/", 200, "first")]);
    forebay.await_log("default/two");
}

#[test]
fn a_host_with_a_certificate_sends_clients_there() {
    let services = Services::named(["a"]);
    let challenge = "/.well-known/acme-challenge/own";
    let forebay = services.serve(&[
        // Any entry makes it a host with TLS, whichever hosts it lists.
        Ingress::new("a").path("a.test", "Prefix", "/", "a").path("c.test", "Prefix", "/", "a").tls("a.test"),
        Ingress::new("b").path("b.test", "Prefix", "/", "a"),
        Ingress::new("solver").path("a.test", "Exact", challenge, "a"),
    ]);
    let mut client = forebay.client();
    for (host, target, location) in [
        ("a.test", "/", "https://a.test"),
        ("a.test:8080", "/x/", "https://a.test/x"),
        ("a.test", "/x?a=b/", "https://a.test/x?a=b"),
        ("A.test", "/x?a='b'&c=%20", "https://A.test/x?a='b'&c=%20"),
        ("c.test", "/x", "https://c.test/x"),
        ("a.test", "/.well-known/acme-challenge/other", "https://a.test/.well-known/acme-challenge/other"),
    ] {
        let response = client.get(host, target);
        assert_eq!((response.status, response.header("location").as_deref()), (308, Some(location)));
    }
    expect(&forebay, &[("a.test", challenge, 200, "a"), ("b.test", "/", 200, "a")]);
}

#[test]
fn redirects_to_tls_do_as_they_are_told() {
    let services = Services::named(["a"]);
    let ingress = |name: &str, host: &str| Ingress::new(name).path(host, "Prefix", "/", "a");
    let forebay = services
        .setup(&[
            ingress("off", "off.test").tls("off.test").annotation("ssl-redirect", "false"),
            ingress("force", "force.test").annotation("force-ssl-redirect", "true"),
            ingress("keep", "keep.test").tls("keep.test").annotation("preserve-trailing-slash", "true"),
        ])
        .setting("use-forwarded-headers", "true")
        .start();
    expect(&forebay, &[("off.test", "/", 200, "a")]);
    let mut client = forebay.client();
    let force = client.get("force.test", "/a/");
    assert_eq!((force.status, force.header("location").as_deref()), (308, Some("https://force.test/a")));
    let keep = client.get("keep.test", "/a/");
    assert_eq!((keep.status, keep.header("location").as_deref()), (308, Some("https://keep.test/a/")));
    let behind = client.ask("GET / HTTP/1.1\r\nHost: force.test\r\nX-Forwarded-Proto: https\r\n\r\n");
    assert_eq!(behind.said(), (200, "a"), "it has come by TLS already");
}

/// A route with an unsupported guard is closed, never open.
#[test]
fn what_cannot_be_guarded_is_not_served() {
    let services = Services::named(["open", "guarded"]);
    for (annotation, status) in [
        (("auth-url", "/check"), 503),
        (("auth-type", "basic"), 503),
        (("whitelist-source-range", "10.0.0.0/99"), 503),
        (("denylist-source-range", "10.0.0.0/99"), 503),
        // As ingress-nginx has it: the host is closed.
        (("auth-tls-secret", "default/ca"), 403),
    ] {
        let guarded = Ingress::new("guarded")
            .path("guarded.test", "Prefix", "/", "guarded")
            .annotation(annotation.0, annotation.1);
        let open = Ingress::new("open").path("open.test", "Prefix", "/", "open");
        let forebay = services.serve(&[guarded, open]);
        let text = if status == 403 { "403 Forbidden" } else { "503 Service Unavailable" };
        expect(
            &forebay,
            &[
                ("guarded.test", "/", status, text),
                ("guarded.test", "/x", status, text),
                ("open.test", "/", 200, "open"),
            ],
        );
        forebay.await_log(annotation.0);
        let reason = if status == 403 { "forbidden" } else { "unavailable" };
        forebay.await_metric("forebay_faults_total", &[("reason", reason)], 2);
    }
    assert!(services.heads("guarded").is_empty());
}
