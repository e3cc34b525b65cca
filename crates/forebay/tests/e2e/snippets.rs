//! nginx configuration in snippets: what its directives do to requests and responses, sentence by sentence of
//! the reference.

use testkit::manifest::{Ingress, service};
use testkit::{Canned, Forebay, H2Client, Setup};

use crate::setup;

/// Snippets are allowed, as an operator has to say twice.
fn allowed() -> Setup {
    setup().setting("allow-snippet-annotations", "true").setting("annotations-risk-level", "Critical")
}

/// An endpoint with headers of its own.
fn endpoint() -> Canned {
    Canned::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Powered-By: php\r\nX-Old: 1\r\nX-Both: theirs\r\n\r\nok",
    )
}

fn serving(canned: &Canned, snippet: &str) -> Forebay {
    allowed().endpoint(canned.address()).annotation("configuration-snippet", snippet).start()
}

fn of_host(canned: &Canned, snippet: &str) -> Forebay {
    allowed().endpoint(canned.address()).annotation("server-snippet", snippet).start()
}

fn asked(canned: &Canned) -> String {
    canned.heads().pop().expect("a request")
}

const GET: &str = "GET /a/b%20c?q=1 HTTP/1.1\r\nHost: Web.test:81\r\n";

#[test]
fn headers_of_responses() {
    let canned = endpoint();
    let forebay = serving(
        &canned,
        r#"
        more_set_headers "X-Old: $http_x_a" "X-Empty: $http_x_none";
        more_clear_headers X-Both;
        more_set_headers -s 404 "X-Only: 404";
        proxy_hide_header X-Powered-By;
        add_header X-Usual "$uri";
        add_header X-Always 1 always;
        if ($arg_deny) { return 403; }
        "#,
    );
    let mut client = forebay.client();
    let found = client.ask(&format!("{GET}X-A: new\r\n\r\n"));
    assert_eq!(found.said(), (200, "ok"));
    let header = |name: &str| found.header(name);
    assert_eq!(header("x-old").as_deref(), Some("new"), "replaced, with a variable");
    assert_eq!((header("x-both"), header("x-empty"), header("x-powered-by")), (None, None, None));
    assert_eq!((header("x-usual").as_deref(), header("x-always").as_deref()), (Some("/a/b c"), Some("1")));
    assert_eq!(header("x-only"), None, "another status");
    let refused = client.get("web.test", "/?deny=1");
    assert_eq!(refused.status, 403);
    assert_eq!(refused.header("x-old"), None, "what comes to nothing is no header");
    assert_eq!((refused.header("x-usual"), refused.header("x-always").as_deref()), (None, Some("1")));
}

#[test]
fn no_value_makes_a_line() {
    let canned = endpoint();
    let forebay = serving(
        &canned,
        r#"more_set_headers "X-Path: $uri"; add_header X-More "$uri"; proxy_set_header X-Up "$uri"; if ($arg_r) { return 302 "/x$uri"; }"#,
    );
    let mut client = forebay.client();
    let found = client.get("web.test", "/a%0d%0aX-Evil:%201");
    assert_eq!(found.header("x-evil"), None);
    assert_eq!(found.header("x-path").as_deref(), Some("/a%0D%0AX-Evil: 1"));
    assert_eq!(found.header("x-more").as_deref(), Some("/a%0D%0AX-Evil: 1"));
    assert!(asked(&canned).contains("X-Up: /a%0D%0AX-Evil: 1\r\n"), "{}", asked(&canned));
    let sent = client.get("web.test", "/a%0d%0aX-Evil:%201?r=1");
    assert_eq!((sent.status, sent.header("x-evil")), (302, None));
    assert_eq!(sent.header("location").as_deref(), Some("http://web.test/x/a%0D%0AX-Evil:%201"));
}

#[test]
fn headers_of_requests() {
    let canned = endpoint();
    let forebay = serving(
        &canned,
        r#"
        set $team "$http_x_team-1";
        proxy_set_header X-Team $team;
        proxy_set_header X-Gone "";
        proxy_set_header X-Forwarded-Proto https;
        proxy_set_header Host inner.test;
        more_set_input_headers "X-In: $request_method" "X-Real-IP: 1.2.3.4";
        "#,
    );
    forebay
        .client()
        .ask("GET / HTTP/1.1\r\nHost: web.test\r\nX-Team: a\r\nX-Gone: x\r\nX-In: theirs\r\n\r\n");
    let head = asked(&canned);
    for line in
        ["X-Team: a-1", "X-Forwarded-Proto: https", "X-In: GET", "Host: inner.test", "X-Real-IP: 127.0.0.1"]
    {
        assert!(head.contains(&format!("{line}\r\n")), "{line} in {head}");
    }
    for name in ["X-Team:", "X-Forwarded-Proto:", "X-In:", "Host:", "X-Real-IP:", "X-Forwarded-Scheme:"] {
        assert_eq!(head.matches(&format!("\n{name}")).count(), 1, "{name} in {head}");
    }
    assert!(!head.contains("X-Gone"), "{head}");
}

#[test]
fn conditions_and_answers() {
    let canned = endpoint();
    let forebay = serving(
        &canned,
        r#"
        if ($arg_zero) { return 418; }
        if ($request_method = PURGE) { return 405; }
        if ($http_user_agent ~* "(curl|wget)/([0-9]+)") { return 200 "$1 $2"; }
        if ($http_x_case ~ ^A) { return 204; }
        if ($cookie_fine) { return 200; }
        if ($http_x_twice = "a, b") { return 402; }
        if ($http_x_lang != "") { return 302 /$http_x_lang/; }
        if ($uri !~ ^/) { return 500; }
        if ($arg_go) { return https://other.test$request_uri; }
        if ($arg_moved) { return 301 https://other.test/; }
        if ($arg_drop) { return 444; }
        "#,
    );
    let mut client = forebay.client();
    let mut ask = |target: &str, field: &str| {
        client.ask(&format!("GET {target} HTTP/1.1\r\nHost: web.test\r\n{field}\r\n\r\n"))
    };
    assert_eq!(ask("/?zero=0", "X-A: b").said(), (200, "ok"), "0 is as good as nothing");
    assert_eq!(ask("/?zero=1", "X-A: b").status, 418);
    let text = ask("/", "User-Agent: CURL/8");
    assert_eq!((text.said(), text.header("content-type").as_deref()), ((200, "CURL 8"), Some("text/html")));
    assert_eq!(ask("/", "X-Case: Ab").status, 204);
    assert_eq!(ask("/", "X-Case: ab").said(), (200, "ok"), "~ minds the letter case");
    let empty = ask("/", "Cookie: a=b; Fine=1");
    assert_eq!((empty.said(), empty.header("content-type").as_deref()), ((200, ""), Some("text/html")));
    assert_eq!(ask("/?ZERO=1", "X-A: b").status, 418, "names of parameters and cookies have no letter case");
    assert_eq!(ask("/", "X-Twice: a\r\nX-Twice: b").status, 402, "lines of a header are joined");
    let sent = ask("/", "X-Lang: en");
    assert_eq!((sent.status, sent.header("location").as_deref()), (302, Some("http://web.test/en/")));
    let sent = ask("/x?go=1", "X-A: b");
    assert_eq!((sent.status, sent.header("location").as_deref()), (302, Some("https://other.test/x?go=1")));
    let sent = ask("/x?moved=1", "X-A: b");
    assert_eq!((sent.status, sent.header("location").as_deref()), (301, Some("https://other.test/")));
    let mut dropped = forebay.client();
    dropped.send("GET /?drop=1 HTTP/1.1\r\nHost: web.test\r\n\r\n");
    assert!(dropped.read_to_end().0.is_empty(), "no answer at all");
}

#[test]
fn clients_of_http_2_are_served_alike() {
    let canned = endpoint();
    let forebay = serving(
        &canned,
        r#"more_set_headers "X-Old: $uri"; if ($arg_a) { return 200 "$arg_a"; } if ($arg_drop) { return 444; } rewrite ^/b /c break;"#,
    );
    let client = H2Client::clear(forebay.address());
    assert_eq!(client.get("web.test", "/?a=1").said(), (200, "1"));
    let found = client.get("web.test", "/b");
    assert_eq!((found.said(), found.header("x-old").as_deref()), ((200, "ok"), Some("/c")));
    assert!(asked(&canned).starts_with("GET /c HTTP/1.1\r\n"), "{}", asked(&canned));
}

#[test]
fn the_headers_of_the_last_condition_hold() {
    let canned = endpoint();
    let forebay = serving(
        &canned,
        r#"
        more_set_headers "X-All: 1";
        add_header X-Outer 1;
        if ($arg_a) { more_set_headers "X-A: 1"; add_header X-Inner 1; }
        if ($arg_b) { more_set_headers "X-B: 1"; }
        "#,
    );
    let mut client = forebay.client();
    let mut names = |target: &str| {
        let found = client.get("web.test", target);
        ["x-all", "x-outer", "x-a", "x-inner", "x-b"].map(|name| found.header(name).is_some())
    };
    assert_eq!(names("/"), [true, true, false, false, false]);
    assert_eq!(names("/?a=1"), [true, false, true, true, false], "add_header within replaces that outside");
    assert_eq!(names("/?a=1&b=1"), [true, true, false, false, true]);
}

#[test]
fn rewriting() {
    let canned = endpoint();
    let forebay = allowed()
        .endpoint(canned.address())
        .annotation(
            "configuration-snippet",
            r"
            rewrite ^/old/(.*)$ /new/$1 permanent;
            rewrite ^/found/(.*)$ /new/$1? redirect;
            rewrite ^/away/(.*)$ https://other.test/$1?a=b;
            rewrite ^/stay/(.*)$ /to/$1?x=1 break;
            rewrite ^/Case /no break;
            rewrite ^/last/(.*)$ /other/$1 last;
            rewrite ^/on/(.*)$ /on2/$1;
            rewrite ^/on2/(.*)$ /other/$1;
            rewrite ^/loop /loop last;
            return 200 $uri;
            ",
        )
        .manifest("other.yaml", Ingress::new("other").path("web.test", "Prefix", "/other", "web").document())
        .start();
    let mut client = forebay.client();
    let mut location = |target: &str| {
        let sent = client.get("web.test", target);
        (sent.status, sent.header("location").unwrap_or_default())
    };
    let to = |status: u16, url: &str| (status, url.to_owned());
    assert_eq!(location("/old/a%20b?q=1"), to(301, "http://web.test/new/a%20b?q=1"));
    assert_eq!(location("/found/a?q=1"), to(302, "http://web.test/new/a"), "the query ends at a ?");
    assert_eq!(location("/away/a?q=1"), to(302, "https://other.test/a?a=b&q=1"));
    assert_eq!(location("/old//a/../b"), to(301, "http://web.test/new/b"), "the normalised path");
    let mut line = |target: &str| {
        assert_eq!(client.get("web.test", target).said(), (200, "ok"), "{target}");
        asked(&canned).lines().next().expect("a line").to_owned()
    };
    assert_eq!(line("/stay/a%20b?q=1"), "GET /to/a%20b?x=1&q=1 HTTP/1.1");
    assert_eq!(line("/last/a?q=1"), "GET /other/a?q=1 HTTP/1.1", "another route has it");
    assert_eq!(forebay.get("/case").said(), (200, "/case"), "the letter case counts");
    // Without a flag the steps go on, and the return answers.
    assert_eq!(forebay.get("/on/a").said(), (200, "/other/a"));
    assert_eq!(forebay.get("/loop").status, 500);
}

/// R3: "CORS preflight, snippets' return, permanent redirect, rewrite, https redirect, 503 if no endpoints,
/// lists".
#[test]
fn the_order_is_that_of_ingress_nginx() {
    let canned = endpoint();
    let guarded = |setup: Setup| {
        setup
            .annotation("allowlist-source-range", "10.0.0.0/8")
            .annotation("force-ssl-redirect", "true")
            .annotation("enable-cors", "true")
    };
    let snippet = "if ($arg_a) { return 410; } if ($arg_b) { rewrite ^ /b break; }";
    let setup = guarded(allowed().endpoint(canned.address())).annotation("configuration-snippet", snippet);
    let forebay = setup.annotation("permanent-redirect", "https://moved.test").start();
    let mut client = forebay.client();
    assert_eq!(client.get("web.test", "/?a=1").status, 410, "before redirects and lists");
    assert_eq!(
        client.ask("OPTIONS /?a=1 HTTP/1.1\r\nHost: web.test\r\n\r\n").status,
        204,
        "behind preflights"
    );
    assert_eq!(client.get("web.test", "/").status, 301);
    assert_eq!(client.get("web.test", "/?b=1").status, 308, "break ends nginx's own steps, but for TLS");
    let none = setup_without_endpoints();
    assert_eq!(none.get("/?a=1").status, 410, "before 503");
    assert_eq!(none.get("/").status, 503);
}

/// The snippet of an Ingress, then what its locations ask of the server, then the `ConfigMap`'s.
#[test]
fn a_snippet_of_the_host_comes_before_app_root_and_the_config_map_s_behind_it() {
    let canned = endpoint();
    let setup = allowed().setting("server-snippet", "if ($arg_b) { return 402; }").endpoint(canned.address());
    let snippet = "if ($arg_a) { return 410; } if ($arg_c) { break; }";
    let forebay = setup.annotation("server-snippet", snippet).annotation("app-root", "/app").start();
    let mut client = forebay.client();
    let mut status = |target: &str| client.get("web.test", target).status;
    assert_eq!([status("/?a=1"), status("/?b=1"), status("/")], [410, 302, 302]);
    assert_eq!([status("/x?b=1"), status("/?c=1&b=1"), status("/x")], [402, 200, 200]);
}

fn setup_without_endpoints() -> Forebay {
    let ingress = Ingress::new("web").path("web.test", "Prefix", "/", "none");
    let ingress = ingress.annotation("configuration-snippet", "if ($arg_a) { return 410; }");
    allowed().manifest("web.yaml", ingress.document() + &service("none", &[])).start()
}

#[test]
fn addresses() {
    let canned = endpoint();
    let denied = serving(&canned, "allow 10.0.0.0/8; deny all; if ($arg_r) { return 302 /x; }");
    assert_eq!(denied.get("/").status, 403);
    assert_eq!(denied.get("/?r=1").status, 302, "a return needs no permission");
    let first = serving(&canned, "allow 127.0.0.1; deny 127.0.0.0/8;");
    assert_eq!(first.get("/").status, 200, "the first rule counts");
    let any = allowed()
        .endpoint(canned.address())
        .annotation("satisfy", "any")
        .annotation("auth-type", "basic")
        .annotation("auth-secret", "users")
        .annotation("configuration-snippet", "deny all;")
        .manifest("users.yaml", testkit::manifest::secret("users", "Opaque", &[("auth", "a:{PLAIN}b")]))
        .start();
    assert_eq!(any.get("/").status, 401);
    let known = any.client().ask("GET / HTTP/1.1\r\nHost: web.test\r\nAuthorization: Basic YTpi\r\n\r\n");
    assert_eq!(known.status, 200);
}

#[test]
fn hosts() {
    let canned = endpoint();
    let forebay = of_host(
        &canned,
        r#"
        set $where host;
        add_header X-Where $where always;
        more_set_headers "X-Set: 1";
        if ($arg_gone) { return 410; }
        rewrite ^/moved$ /to redirect;
        rewrite ^/inside/(.*) /$1 last;
        location ~* \.(php|asp)$ { deny all; }
        location = /robots.txt { default_type text/plain; return 200 "no\n"; }
        location ^~ /static/ { allow all; }
        location /api/ { return 404; }
        "#,
    );
    let mut client = forebay.client();
    let mut get = |target: &str| client.get("web.test", target);
    let found = get("/");
    assert_eq!((found.said(), found.header("x-where").as_deref()), ((200, "ok"), Some("host")));
    assert_eq!(found.header("x-set").as_deref(), Some("1"));
    let gone = get("/?gone=1");
    assert_eq!((gone.status, gone.header("x-where").as_deref()), (410, Some("host")));
    assert_eq!(get("/moved").header("location").as_deref(), Some("http://web.test/to"));
    assert_eq!(get("/a.PHP").status, 403);
    let robots = get("/robots.txt");
    assert_eq!(
        (robots.said(), robots.header("content-type").as_deref()),
        ((200, "no\n"), Some("text/plain"))
    );
    assert_eq!(robots.header("x-set").as_deref(), Some("1"));
    assert_eq!(get("/static/a.php").status, 404, "no file is served");
    assert_eq!(get("/api/x").status, 404);
    assert_eq!(get("/inside/x").said(), (200, "ok"));
    assert!(asked(&canned).starts_with("GET /x HTTP/1.1\r\n"), "{}", asked(&canned));
}

#[test]
fn the_config_map_s_own_need_no_permission() {
    let canned = endpoint();
    let forebay = setup()
        .endpoint(canned.address())
        .setting("http-snippet", "map $http_x_tenant $tenant { default none; '1' one; ~*^b(.) \"$host b\"; ~^c(.)(.)? \"$2-$1\"; }")
        .setting("server-snippet", "if ($tenant = one) { return 200 one; }")
        .setting("location-snippet", "more_set_headers \"X-Tenant: $tenant\";")
        .start();
    let mut client = forebay.client();
    let mut tenant = |value: &str| {
        let found = client.ask(&format!("GET / HTTP/1.1\r\nHost: web.test\r\nX-Tenant: {value}\r\n\r\n"));
        (found.text().to_owned(), found.header("x-tenant"))
    };
    assert_eq!(tenant("2"), ("ok".to_owned(), Some("none".to_owned())));
    assert_eq!(tenant("1"), ("one".to_owned(), None), "the host answers before its locations");
    assert_eq!(tenant("BX"), ("ok".to_owned(), Some("web.test b".to_owned())));
    assert_eq!(tenant("cde"), ("ok".to_owned(), Some("e-d".to_owned())));
    assert_eq!(
        tenant("cd"),
        ("ok".to_owned(), Some("-d".to_owned())),
        "a group that has found nothing is empty"
    );
}

#[test]
fn the_auth_service_is_told_otherwise() {
    let (canned, auth) = (endpoint(), Canned::saying("yes"));
    let ingress = Ingress::new("web")
        .path("web.test", "Prefix", "/", "web")
        .annotation("auth-url", "http://auth.default.svc/check")
        .annotation(
            "auth-snippet",
            "proxy_set_header Cookie \"a=$cookie_a\"; proxy_set_header X-Real-IP \"\";",
        )
        .document();
    let services = service("web", &[canned.address()]) + &service("auth", &[auth.address()]);
    let forebay = allowed().manifest("web.yaml", ingress + &services).start();
    let found = forebay.client().ask("GET / HTTP/1.1\r\nHost: web.test\r\nCookie: a=1; b=2\r\n\r\n");
    assert_eq!(found.said(), (200, "ok"));
    let head = asked(&auth);
    assert!(
        head.contains("Cookie: a=1\r\n") && !head.contains("b=2") && !head.contains("X-Real-IP"),
        "{head}"
    );
    assert!(asked(&canned).contains("Cookie: a=1; b=2\r\n"), "the endpoint gets the client's");
}

/// nginx's `auth_request_set`: headers of the service's response become variables of the snippet, and no
/// client can forge them.
#[test]
fn headers_of_the_auth_service_become_variables() {
    let canned = endpoint();
    let auth = Canned::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Auth-Request-User: alice\r\nX-Token: t\r\n\r\n",
    );
    let snippet = "auth_request_set $user $upstream_http_x_auth_request_user;
                   auth_request_set $token $upstream_http_x_token;
                   auth_request_set $role $upstream_http_x_role;
                   proxy_set_header X-User $user;
                   proxy_set_header X-Role $role;
                   proxy_set_header Authorization \"Bearer $token\";
                   add_header X-Seen $user;";
    let ingress = Ingress::new("web")
        .path("web.test", "Prefix", "/", "web")
        .annotation("auth-url", "http://auth.default.svc/check")
        .annotation("configuration-snippet", snippet)
        .document();
    let services = service("web", &[canned.address()]) + &service("auth", &[auth.address()]);
    let forebay = allowed().manifest("web.yaml", ingress + &services).start();
    let forged =
        "GET / HTTP/1.1\r\nHost: web.test\r\nX-User: eve\r\nX-Role: root\r\nAuthorization: Basic x\r\n\r\n";
    let found = forebay.client().ask(forged);
    assert_eq!((found.status, found.header("x-seen").as_deref()), (200, Some("alice")));
    let head = asked(&canned);
    for line in ["\r\nX-User: alice\r\n", "\r\nAuthorization: Bearer t\r\n"] {
        assert!(head.contains(line), "{line} in {head}");
    }
    assert!(!["eve", "root", "Basic"].iter().any(|text| head.contains(text)), "{head}");
}

#[test]
fn lines_that_annotations_have_too_are_obeyed() {
    let canned = endpoint();
    let forebay = serving(&canned, "client_max_body_size 4;\nlimit_except GET POST { deny all; }\netag on;");
    let mut client = forebay.client();
    assert_eq!(client.get("web.test", "/").said(), (200, "ok"));
    let delete = "DELETE / HTTP/1.1\r\nHost: web.test\r\n\r\n";
    assert_eq!(client.ask(delete).status, 403);
    let post = "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(forebay.client().ask(post).status, 413);
}

#[test]
fn lines_that_restrict_nobody_are_passed_over_where_that_is_wanted() {
    let canned = endpoint();
    let with = |argument: &'static str, snippet: &str| {
        let setup = allowed().arguments([argument]).endpoint(canned.address());
        setup.annotation("configuration-snippet", snippet).start()
    };
    let closed = with("--snippets-unenforced=close", "ssi on;\nerror_page 404 /x;");
    assert_eq!(closed.get("/").status, 503);
    closed.await_log("line 2: ");
    let served = with("--snippets-unenforced=serve", "ssi on;");
    assert_eq!(served.get("/").said(), (200, "ok"));
    served.await_log("passed over, since it restricts nobody");
    let guarded = with("--snippets-unenforced=serve", "ssi on;\nauth_basic x;");
    assert_eq!(guarded.get("/").status, 503);
}

#[test]
fn what_is_not_understood_is_closed() {
    let canned = endpoint();
    for (name, snippet) in [
        ("configuration-snippet", "more_set_headers \"X: y\";\nproxy_pass http://x;"),
        ("server-snippet", "return 200;\nlisten 81;"),
        ("auth-snippet", "\nx;"),
    ] {
        let forebay = allowed().endpoint(canned.address()).annotation(name, snippet).start();
        assert_eq!(forebay.get("/").status, 503, "{name}");
        forebay.await_log("line 2: ");
    }
    let global = setup().endpoint(canned.address()).setting("http-snippet", "gzip on;").start();
    assert_eq!(global.get("/").status, 503);
    assert!(canned.heads().is_empty());
}

/// Test case O9.
#[test]
fn snippets_need_leave() {
    let canned = endpoint();
    let with = |setup: Setup| {
        setup.endpoint(canned.address()).annotation("configuration-snippet", "return 410;").start()
    };
    let by_default = with(setup());
    assert_eq!(by_default.get("/").status, 404, "the Ingress is ignored");
    let risky = with(setup().setting("allow-snippet-annotations", "true"));
    assert_eq!(risky.get("/").status, 404, "its risk is too high still");
    let dropped = with(setup().setting("annotations-risk-level", "Critical"));
    assert_eq!(dropped.get("/").said(), (200, "ok"), "the snippet alone is ignored");
    assert_eq!(with(allowed()).get("/").status, 410);
}

#[test]
fn core_rules_that_are_not_there_close_or_are_done_without() {
    let canned = endpoint();
    let empty = tempfile::tempdir().expect("a folder");
    let with = |setup: Setup| {
        let setup = setup.arguments(["--waf-rules".into(), empty.path().as_os_str().to_owned()]);
        let setup = setup.endpoint(canned.address()).annotation("enable-modsecurity", "true");
        setup.annotation("enable-owasp-core-rules", "true").start()
    };
    assert_eq!(with(setup()).get("/").status, 503);
    let served = with(setup().arguments(["--waf-unenforced=serve"]));
    assert_eq!(served.get("/").said(), (200, "ok"));
    served.await_log("requests are served without it");
}
