//! Configuration that is copied from ingress-nginx and nginx: variables, options of directives, lines that
//! ask for what is done anyway, and invalid values. The expectations were compared with nginx 1.22.1.

use testkit::manifest::{Ingress, authority_secret, service};
use testkit::{Authority, Canned, Connection, Forebay, Setup, TlsClient};

use crate::setup;

/// Snippets are allowed, as an operator has to say twice.
fn allowed() -> Setup {
    setup().setting("allow-snippet-annotations", "true").setting("annotations-risk-level", "Critical")
}

fn serving(canned: &Canned, snippet: &str) -> Forebay {
    allowed().endpoint(canned.address()).annotation("configuration-snippet", snippet).start()
}

/// The head of the last request that an endpoint got.
fn asked(canned: &Canned) -> String {
    canned.heads().pop().expect("a request")
}

/// The value of a header in such a head; none where there is none.
fn value<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (own, value) = line.split_once(':')?;
        own.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

#[test]
fn variables_of_addresses_and_ports() {
    let canned = Canned::saying("ok");
    let forebay = serving(
        &canned,
        r#"
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Full $full_x_forwarded_for;
        proxy_set_header X-Ports "$pass_server_port $pass_port";
        proxy_set_header X-Upstream "$proxy_host:$proxy_port";
        proxy_set_header X-Words "$connection_upgrade/$redirect_to_https/$nginx_version/$proxy_protocol_addr.";
        set $early "<$proxy_host>";
        proxy_set_header X-Early $early;
        "#,
    );
    let list = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\n";
    forebay.client().ask(&format!("GET / HTTP/1.1\r\nHost: web.test\r\n{list}\r\n"));
    let head = asked(&canned);
    let port = forebay.address().port();
    assert_eq!(value(&head, "x-forwarded-for"), Some("192.0.2.1, 192.0.2.2, 127.0.0.1"));
    assert_eq!(value(&head, "x-full"), Some("192.0.2.1, 192.0.2.2, 127.0.0.1"));
    assert_eq!(value(&head, "x-ports"), Some(format!("{port} {port}").as_str()));
    assert_eq!(value(&head, "x-upstream"), Some("upstream_balancer:80"));
    assert_eq!(value(&head, "x-words"), Some("/1/1.27.1/."));
    assert_eq!(value(&head, "x-early"), Some("<>"), "no endpoint has been chosen yet");
    forebay.get("/");
    assert_eq!(value(&asked(&canned), "x-forwarded-for"), Some("127.0.0.1"), "the client's address alone");
}

#[test]
fn variables_of_the_client_s_certificate() {
    let (canned, authority) = (Canned::saying("ok"), Authority::new("clients"));
    let snippet = r#"
        if ($ssl_client_verify != SUCCESS) { return 418; }
        proxy_set_header X-Names "$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_s_dn_legacy|$ssl_client_i_dn_legacy";
        proxy_set_header X-Numbers "$ssl_client_serial|$ssl_client_fingerprint|$ssl_client_v_remain";
        proxy_set_header X-Times "$ssl_client_v_start|$ssl_client_v_end";
        proxy_set_header X-Certificate $ssl_client_escaped_cert;
        proxy_set_header X-Lines "$ssl_client_raw_cert|$ssl_client_cert";
    "#;
    let forebay = allowed()
        .endpoint(canned.address())
        .annotation("configuration-snippet", snippet)
        .annotation("auth-tls-secret", "default/clients")
        .annotation("auth-tls-verify-client", "optional")
        .manifest("clients.yaml", authority_secret("clients", &authority, None))
        .start();
    let alice = std::sync::Arc::new(authority.client("alice"));
    let with = TlsClient::new("web.test").certificate(&alice);
    assert_eq!(forebay.tls_client(&with).get("web.test", "/").said(), (200, "ok"));
    let head = asked(&canned);
    assert_eq!(value(&head, "x-names"), Some("CN=alice|CN=clients|/CN=alice|/CN=clients"));
    let numbers: Vec<_> = value(&head, "x-numbers").unwrap().split('|').collect();
    let is_hexadecimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hexadecimal(numbers[0]) && is_hexadecimal(numbers[1]) && numbers[1].len() == 40, "{head}");
    assert!(numbers[2].parse::<u32>().is_ok(), "{head}");
    assert_eq!(value(&head, "x-times").unwrap().matches(" GMT").count(), 2, "{head}");
    assert!(value(&head, "x-certificate").unwrap().starts_with("-----BEGIN%20CERTIFICATE-----%0A"), "{head}");
    assert!(
        value(&head, "x-lines").unwrap().contains("-----BEGIN CERTIFICATE-----%0A"),
        "no line is ended: {head}"
    );
    assert_eq!(forebay.tls_client(&TlsClient::new("web.test")).get("web.test", "/").status, 418);
}

#[test]
fn the_body_of_a_request_is_logged_where_the_format_asks_for_it() {
    let canned = Canned::saying("ok");
    let forebay = setup()
        .endpoint(canned.address())
        .setting("log-format-upstream", "body=[$request_body] from=$proxy_add_x_forwarded_for")
        .start();
    let mut client = forebay.client();
    let post = |length: usize, body: &str| {
        format!("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    assert_eq!(client.ask(&post(7, "a=1\r\nb!")).status, 200);
    forebay.await_access_log("body=[a=1\\x0D\\x0Ab!] from=127.0.0.1");
    let long = "x".repeat(100_000);
    assert_eq!(client.ask(&post(long.len(), &long)).status, 200);
    forebay.await_access_log("body=[-] from=127.0.0.1");
}

#[test]
fn options_of_directives_about_headers() {
    let canned = Canned::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nLink: </a>\r\nX-Debug-A: 1\r\nx-debug-b: 2\r\nX-Debugger: 3\r\n\r\nok",
    );
    let forebay = serving(
        &canned,
        r#"
        more_set_headers -a "Link: </b>";
        more_set_headers "X-Debug-Own: 1";
        more_clear_headers "X-Debug-*" "Content-L*";
        more_set_headers "X-Debug-Later: 1";
        more_set_input_headers -r "X-Team: changed" "X-None: changed";
        more_clear_input_headers "X-Internal-*" "X-Forwarded-*";
        "#,
    );
    let fields = "X-Team: a\r\nX-Internal-Id: 1\r\nX-Internal: 2\r\n";
    let found = forebay.client().ask(&format!("GET / HTTP/1.1\r\nHost: web.test\r\n{fields}\r\n"));
    assert_eq!(found.said(), (200, "ok"), "the length stays");
    assert_eq!(found.header("link").as_deref(), Some("</a>, </b>"));
    assert_eq!(
        [found.header("x-debug-a"), found.header("x-debug-b"), found.header("x-debug-own")],
        [None, None, None]
    );
    assert_eq!(found.header("x-debugger").as_deref(), Some("3"));
    assert_eq!(found.header("x-debug-later").as_deref(), Some("1"));
    let head = asked(&canned);
    assert_eq!((value(&head, "x-team"), value(&head, "x-none")), (Some("changed"), None));
    assert_eq!((value(&head, "x-internal-id"), value(&head, "x-internal")), (None, Some("2")));
    assert_eq!(value(&head, "x-forwarded-for"), Some("127.0.0.1"), "what the proxy says itself stays");
}

#[test]
fn how_long_responses_may_be_kept() {
    let canned = Canned::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: private\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\nok",
    );
    let told = |expires: &str, target: &str| {
        let snippet = format!("if ($arg_gone) {{ return 404; }} {expires}");
        let found = serving(&canned, &snippet).get(target);
        (found.header("expires"), found.header("cache-control").unwrap_or_default())
    };
    assert_eq!(told("expires 1h30m;", "/").1, "max-age=5400");
    assert_eq!(told("expires 0;", "/").1, "max-age=0");
    assert_eq!(told("expires -1;", "/").1, "no-cache");
    let (epoch, max) = (told("expires epoch;", "/"), told("expires max;", "/"));
    assert_eq!((epoch.0.as_deref(), epoch.1.as_str()), (Some("Thu, 01 Jan 1970 00:00:01 GMT"), "no-cache"));
    assert_eq!(
        (max.0.as_deref(), max.1.as_str()),
        (Some("Thu, 31 Dec 2037 23:55:55 GMT"), "max-age=315360000")
    );
    let modified = told("expires modified +1h;", "/");
    assert_eq!(
        (modified.0.as_deref(), modified.1.as_str()),
        (Some("Mon, 01 Jan 2024 01:00:00 GMT"), "no-cache")
    );
    assert!(told("expires @15h30m;", "/").1.starts_with("max-age="));
    assert_eq!(told("expires off;", "/"), (None, "private".to_owned()));
    assert_eq!(told("expires 1h;", "/?gone=1"), (None, String::new()), "for usual statuses alone");
}

#[test]
fn lines_for_websockets_say_what_is_done_anyway() {
    let canned = Canned::saying("ok");
    let forebay = serving(
        &canned,
        r#"
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection "upgrade";
        proxy_set_header X-After 1;
        "#,
    );
    assert_eq!(forebay.get("/").said(), (200, "ok"));
    let head = asked(&canned);
    assert_eq!((value(&head, "connection"), value(&head, "x-after")), (None, Some("1")), "{head}");
}

/// A route behind an auth service with a snippet.
fn asking(canned: &Canned, auth: &Canned, snippet: &str) -> Forebay {
    let ingress = Ingress::new("web")
        .path("web.test", "Prefix", "/", "web")
        .annotation("auth-url", "http://auth.default.svc/check")
        .annotation("auth-snippet", snippet)
        .document();
    let services = service("web", &[canned.address()]) + &service("auth", &[auth.address()]);
    allowed().manifest("web.yaml", ingress + &services).start()
}

#[test]
fn a_snippet_answers_for_the_auth_service() {
    let (canned, auth) =
        (Canned::saying("ok"), Canned::answering("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"));
    let forebay = asking(
        &canned,
        &auth,
        r#"
        proxy_method $request_method;
        set $team "$http_x_team";
        if ($request_uri = "/open") { return 200 "never seen"; }
        if ($team = bad) { return 403; }
        if ($team = elsewhere) { return 302 https://other.test/; }
        if ($arg_let = me) { return 204; }
        if ($team = two) { more_set_input_headers "X-Input: $team" "X-Original-Method: forged"; }
        more_set_input_headers -r "X-Team: known";
        proxy_set_header X-Asked "$team of $uri$is_args$args";
        add_header X-Seen 1;
        "#,
    );
    let ask = |target: &str, team: &str| {
        let field = if team.is_empty() { String::new() } else { format!("X-Team: {team}\r\n") };
        forebay.client().ask(&format!("PUT {target} HTTP/1.1\r\nHost: web.test\r\n{field}\r\n")).status
    };
    assert_eq!((ask("/open", ""), auth.heads().len()), (200, 0), "the service is not asked");
    assert_eq!((ask("/", "bad"), ask("/", "elsewhere")), (403, 500));
    assert!(auth.heads().is_empty());
    assert_eq!(ask("/?let=me", ""), 401, "the question has no query, as in nginx");
    assert_eq!(ask("/?x=1", "two"), 401);
    let head = asked(&auth);
    assert!(head.starts_with("PUT /check HTTP/1.1\r\n"), "{head}");
    assert_eq!(value(&head, "x-asked"), Some("two of /_external-auth"));
    assert_eq!((value(&head, "x-input"), value(&head, "x-team")), (Some("two"), Some("known")));
    assert_eq!(value(&head, "x-original-method"), Some("PUT"), "what the proxy says itself stays");
    assert_eq!(canned.heads().len(), 1);
}

#[test]
fn a_refusal_of_a_snippet_leads_to_the_sign_in() {
    let (canned, auth) = (Canned::saying("ok"), Canned::saying("yes"));
    let ingress = Ingress::new("web")
        .path("web.test", "Prefix", "/", "web")
        .annotation("auth-url", "http://auth.default.svc/check")
        .annotation("auth-signin", "https://sign.test/in")
        .annotation("auth-snippet", "if ($cookie_session = \"\") { return 401; }")
        .document();
    let services = service("web", &[canned.address()]) + &service("auth", &[auth.address()]);
    let forebay = allowed().manifest("web.yaml", ingress + &services).start();
    let sent = forebay.get("/a");
    assert_eq!(sent.status, 302);
    assert_eq!(sent.header("location").as_deref(), Some("https://sign.test/in?rd=http://web.test%2Fa"));
    let let_in = forebay.client().ask("GET / HTTP/1.1\r\nHost: web.test\r\nCookie: session=1\r\n\r\n");
    assert_eq!(let_in.said(), (200, "ok"));
}

#[test]
fn an_app_root_with_variables() {
    let canned = Canned::saying("ok");
    let forebay = setup().endpoint(canned.address()).annotation("app-root", "/login$is_args$args").start();
    let location = |target: &str| forebay.get(target).header("location").expect("a redirect");
    assert_eq!(location("/?a=1&b=2"), "http://web.test/login?a=1&b=2");
    assert_eq!(location("/"), "http://web.test/login");
    assert_eq!(forebay.get("/x").said(), (200, "ok"));
}

#[test]
fn values_that_ingress_nginx_passes_over_are_served() {
    let canned = Canned::saying("ok");
    let with =
        |size: &str| setup().endpoint(canned.address()).annotation("client-body-buffer-size", size).start();
    let forebay = with("8 k");
    assert_eq!(forebay.get("/").said(), (200, "ok"));
    forebay.await_log("the default is used, as by ingress-nginx");
    assert_eq!(with("much").get("/").status, 404);
}

#[test]
fn a_subject_that_is_no_common_name_has_the_ingress_ignored() {
    let (canned, authority) = (Canned::saying("ok"), Authority::new("clients"));
    let forebay = setup()
        .endpoint(canned.address())
        .annotation("auth-tls-secret", "default/clients")
        .annotation("auth-tls-match-cn", "alice")
        .manifest("clients.yaml", authority_secret("clients", &authority, None))
        .start();
    assert_eq!(forebay.get("/").status, 404);
    forebay.await_log("does not begin with CN=");
}

#[test]
fn health_is_told_under_any_name_and_nothing_else_is() {
    let forebay = setup().arguments(["--health-check-path", "/alive"]).start();
    let ask = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: web.test\r\n\r\n");
        Connection::to(forebay.admin_address()).ask(&request).status
    };
    assert_eq!(["/healthz", "/readyz", "/livez", "/alive"].map(ask), [200; 4]);
    assert_eq!(["/metrics", "/status", "/configuration", "/console/", "/healthz/x", "/"].map(ask), [421; 6]);
}

#[test]
fn of_files_too_only_the_namespace_that_is_watched_is_served() {
    let canned = Canned::saying("ok");
    let forebay = setup()
        .endpoint(canned.address())
        .annotation("x", "y")
        .arguments(["--watch-namespace", "elsewhere"])
        .start();
    assert_eq!(forebay.get("/").status, 404);
}

#[test]
fn in_files_an_auth_service_may_be_on_this_machine() {
    let (canned, auth) = (Canned::saying("ok"), Canned::saying("yes"));
    let with = |url: String| setup().endpoint(canned.address()).annotation("auth-url", &url).start();
    let forebay = with(format!("http://{}/check", auth.address()));
    assert_eq!(forebay.get("/").said(), (200, "ok"));
    assert!(asked(&auth).starts_with("GET /check HTTP/1.1\r\n"));
    forebay.await_log("is on this machine, which is allowed in files");
    let link_local = with("http://169.254.169.254/".to_owned());
    assert_eq!(link_local.get("/").status, 500);
}
