//! Regular expressions for paths, rewrites and redirects.

use testkit::manifest::{Ingress, service};
use testkit::{Canned, Connection, Forebay, H2Client, Response, Setup, TlsClient};

use crate::setup;

/// A Service `svc`, which is asked for what hosts of these Ingresses make of requests.
struct World {
    canned: Canned,
    forebay: Forebay,
}

impl World {
    fn serving(ingresses: &[Ingress]) -> Self {
        Self::serving_with(setup(), ingresses)
    }

    fn serving_with(setup: Setup, ingresses: &[Ingress]) -> Self {
        let canned = Canned::saying("svc");
        let documents: String = ingresses.iter().map(Ingress::document).collect();
        let forebay = setup.manifest("web.yaml", documents + &service("svc", &[canned.address()])).start();
        Self { canned, forebay }
    }

    /// The head that the Service is sent for a target.
    fn head(&self, host: &str, target: &str) -> String {
        let response = self.forebay.client().get(host, target);
        assert_eq!((response.status, response.text().trim_end()), (200, "svc"), "{host}{target}");
        self.canned.heads().pop().expect("the Service was asked")
    }

    /// The target that the Service is asked for.
    fn target(&self, host: &str, target: &str) -> String {
        self.head(host, target).split(' ').nth(1).expect("a request line").to_owned()
    }

    fn get(&self, host: &str, target: &str) -> Response {
        self.forebay.client().get(host, target)
    }

    /// Status and `Location`.
    fn redirect(&self, host: &str, target: &str) -> (u16, String) {
        let response = self.get(host, target);
        (response.status, response.header("Location").unwrap_or_default())
    }
}

fn web(path_type: &str, path: &str) -> Ingress {
    Ingress::new("web").path("web.test", path_type, path, "svc")
}

#[test]
fn paths_are_rewritten() {
    let world = World::serving(&[web("ImplementationSpecific", "/api(/|$)(.*)")
        .annotation("rewrite-target", "/$2")
        .annotation("x-forwarded-prefix", "/api$1")]);
    for (asked, expected) in [
        ("/api/v1/users?a=1&b=2", "/v1/users?a=1&b=2"),
        ("/api", "/"),
        ("/API/x", "/x"),
        ("/api/a%20b%2Fc//d/../e", "/a%20b/c/e"),
        ("/api/%7Bx%7D", "/%7Bx%7D"),
    ] {
        assert_eq!(world.target("web.test", asked), expected, "{asked}");
    }
    let head = world.head("web.test", "/api/x");
    assert!(head.contains("\r\nX-Forwarded-Prefix: /api/\r\n"), "{head}");
    assert_eq!(world.get("web.test", "/apis").status, 404);
}

#[test]
fn a_prefix_is_told_only_where_the_path_is_rewritten() {
    let world = World::serving(&[web("Prefix", "/").annotation("x-forwarded-prefix", "/other")]);
    let request = "GET /a HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-Prefix: /own\r\n\r\n";
    assert_eq!(world.forebay.client().ask(request).status, 200);
    let head = world.canned.heads().pop().unwrap();
    assert!(head.contains("\r\nX-Forwarded-Prefix: /own\r\n"), "{head}");
}

#[test]
fn a_host_with_one_expression_has_expressions_only() {
    let plain = Ingress::new("plain")
        .path("web.test", "Exact", "/exact", "svc")
        .path("web.test", "Prefix", "/prefix", "svc")
        .path("other.test", "Exact", "/exact", "svc");
    let world =
        World::serving(&[plain, web("ImplementationSpecific", "/x/[a-z]+$").annotation("use-regex", "true")]);
    for target in ["/EXACTLY", "/exact/below", "/prefixed", "/X/abc", "/prefix/%2e%2e/prefix"] {
        assert_eq!(world.target("web.test", target), target);
    }
    for (host, target) in [("web.test", "/x/1"), ("web.test", "/"), ("other.test", "/EXACT")] {
        assert_eq!(world.get(host, target).status, 404, "{host}{target}");
    }
}

#[test]
fn a_target_that_is_the_path_rewrites_what_lies_below() {
    let world = World::serving(&[web("Prefix", "/a").annotation("rewrite-target", "/a")]);
    for (asked, expected) in [("/a", "/a"), ("/a/b?c", "/a?c"), ("/a%2F", "/a"), ("/ab", "/ab")] {
        assert_eq!(world.target("web.test", asked), expected, "{asked}");
    }
}

#[test]
fn expressions_may_look_around() {
    let world = World::serving(&[
        web("ImplementationSpecific", "/(?!private)(.*)").annotation("rewrite-target", "/public/$1")
    ]);
    assert_eq!(world.target("web.test", "/a"), "/public/a");
    assert_eq!(world.get("web.test", "/Private/a").status, 404);
}

#[test]
fn absolute_targets_are_redirects() {
    let world = World::serving(&[
        web("ImplementationSpecific", "/old/(.*)").annotation("rewrite-target", "https://new.test/$1")
    ]);
    let expected = "https://new.test/a%20b?c=d";
    assert_eq!(world.redirect("web.test", "/old/a%20b?c=d"), (302, expected.to_owned()));
    assert!(world.canned.heads().is_empty());
}

#[test]
fn values_of_the_request_are_put_into_paths() {
    let world = World::serving(&[
        web("ImplementationSpecific", "/(.*)").annotation("rewrite-target", "/$host/$arg_a/$1")
    ]);
    assert_eq!(world.target("web.test", "/x?a=1"), "/web.test/1/x?a=1");
    let mut client: Connection = world.forebay.client();
    assert_eq!(client.get("web.test", "/x?a=..").status, 400, "no path that was looked at");
}

#[test]
fn redirects_go_where_they_are_told() {
    let ingress = |name: &str| Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/", "svc");
    let world = World::serving(&[
        ingress("url").annotation("permanent-redirect", "https://b.test/x?y=z").tls("url.test"),
        ingress("path").annotation("permanent-redirect", "/x").annotation("permanent-redirect-code", "308"),
        ingress("relative").annotation("permanent-redirect", "/x").annotation("relative-redirects", "true"),
        ingress("both")
            .annotation("permanent-redirect", "/x")
            .annotation("temporal-redirect", "http://b.test")
            .annotation("temporal-redirect-code", "307"),
    ]);
    for (host, status, location) in [
        ("url.test", 301, "https://b.test/x?y=z"),
        ("path.test:81", 308, "http://path.test/x"),
        ("relative.test", 301, "/x"),
        ("both.test", 307, "http://b.test"),
    ] {
        assert_eq!(world.redirect(host, "/a?b=c"), (status, location.to_owned()), "{host}");
    }
    assert!(world.canned.heads().is_empty());
}

#[test]
fn the_root_leads_to_the_application() {
    let world = World::serving(&[
        web("Prefix", "/").annotation("permanent-redirect", "https://b.test"),
        Ingress::new("app")
            .path("web.test", "Prefix", "/app", "svc")
            .annotation("app-root", "/app")
            .tls("web.test"),
    ]);
    assert_eq!(world.redirect("web.test:8080", "/?a=b"), (302, "http://web.test:8080/app".to_owned()));
    assert_eq!(world.redirect("web.test", "/x"), (301, "https://b.test".to_owned()));
    let client = H2Client::clear(world.forebay.address());
    let response = client.get("web.test", "/");
    assert_eq!((response.status, response.header("location").as_deref()), (302, Some("http://web.test/app")));
}

#[test]
fn names_with_and_without_www_lead_to_each_other() {
    let ingress = |name: &str, host: &str| {
        Ingress::new(name).path(host, "Prefix", "/", "svc").annotation("from-to-www-redirect", "true")
    };
    let world = World::serving(&[
        ingress("a", "a.test"),
        ingress("b", "www.b.test"),
        ingress("c", "c.test"),
        Ingress::new("other").path("www.c.test", "Prefix", "/", "svc"),
        Ingress::new("bare").rule("d.test").annotation("from-to-www-redirect", "true"),
    ]);
    let port = world.forebay.address().port();
    assert_eq!(world.redirect("www.a.test", "/x/?y=z"), (308, format!("http://a.test:{port}/x/?y=z")));
    assert_eq!(world.redirect("b.test", "/x/"), (308, format!("http://www.b.test:{port}/x")));
    let port = world.forebay.https_address().port();
    let response = world.forebay.tls_client(&TlsClient::new("b.test")).get("b.test", "/x/?y");
    let location = Some(format!("https://www.b.test:{port}/x/?y"));
    assert_eq!((response.status, response.header("location")), (308, location), "the port of the listener");
    for host in ["a.test", "www.b.test", "c.test", "www.c.test"] {
        assert_eq!(world.get(host, "/").status, 200, "{host}");
    }
    assert_eq!(world.get("www.d.test", "/").status, 404, "a rule without paths redirects nobody");
}

#[test]
fn a_missing_slash_is_added_in_the_form_that_is_asked_for() {
    let ingress = |name: &str| Ingress::new(name).path(&format!("{name}.test"), "Prefix", "/a b/", "svc");
    let world = World::serving(&[
        ingress("plain"),
        ingress("relative").annotation("relative-redirects", "true"),
        ingress("port").annotation("use-port-in-redirects", "true"),
        ingress("regex").annotation("use-regex", "true"),
    ]);
    let port = world.forebay.address().port();
    for (host, location) in [
        ("plain.test:1", "http://plain.test/a%20b/?q".to_owned()),
        ("relative.test", "/a%20b/?q".to_owned()),
        ("port.test:1", format!("http://port.test:{port}/a%20b/?q")),
    ] {
        assert_eq!(world.redirect(host, "/a%20b?q"), (301, location), "{host}");
    }
    assert_eq!(world.get("regex.test", "/a%20b").status, 404, "not where paths are expressions");
}

#[test]
fn endpoints_are_told_another_host() {
    let world = World::serving(&[web("ImplementationSpecific", "/(a+)")
        .annotation("use-regex", "true")
        .annotation("upstream-vhost", "$1.$service_name")]);
    let head = world.head("Web.test:81", "/aa");
    assert!(
        head.contains("\r\nHost: aa.svc\r\n") && head.contains("\r\nX-Forwarded-Host: Web.test:81\r\n"),
        "{head}"
    );
}

#[test]
fn hosts_have_further_names() {
    let world = World::serving(&[
        web("Prefix", "/")
            .annotation("server-alias", r"b.test, *.c.test, ~^[0-9]+\.d\.test$, own.test")
            .tls("web.test"),
        Ingress::new("own").path("own.test", "Prefix", "/only", "svc"),
        Ingress::new("force")
            .path("force.test", "Prefix", "/", "svc")
            .annotation("server-alias", "also.test")
            .annotation("force-ssl-redirect", "true"),
    ]);
    assert_eq!(world.redirect("web.test", "/x"), (308, "https://web.test/x".to_owned()));
    for host in ["b.test", "B.Test:80", "x.y.c.test", "17.d.test"] {
        assert_eq!(world.target(host, "/x"), "/x", "{host}: the certificate is not for it");
    }
    for host in ["c.test", "x.d.test", "own.test"] {
        assert_eq!(world.get(host, "/x").status, 404, "{host}");
    }
    assert_eq!(world.redirect("also.test", "/x"), (308, "https://also.test/x".to_owned()));
}
