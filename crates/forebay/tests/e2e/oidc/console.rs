//! The sign-in in front of the console and the admin pages (`--console-oidc-issuer-url`), behind a route of
//! Forebay itself.

use serde_json::json;
use tempfile::TempDir;
use testkit::{CLIENT, Forebay, Provider, Response};

use super::browser::{Browser, HTML, KEY};
use super::setup;
use crate::commands::run;

/// Seconds of the provider's tokens.
const LIFETIME: u64 = 300;

struct House {
    provider: Provider,
    _folder: TempDir,
    forebay: Forebay,
}

/// A Forebay whose route leads to its own admin server.
fn console(rules: &[&str]) -> House {
    let (provider, folder) = (Provider::start(), tempfile::tempdir().unwrap());
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let forebay = setup()
        .endpoint("127.0.0.1:1".parse().unwrap())
        .arguments(["--admin-host=web.test".to_owned()])
        .arguments([format!("--console-oidc-issuer-url={}", provider.issuer())])
        .arguments([format!("--console-oidc-client-id={}", CLIENT.0)])
        .arguments([format!("--console-oidc-client-secret-file={}", file("client", CLIENT.1))])
        .arguments([format!("--console-oidc-cookie-secret-file={}", file("cookie", KEY))])
        .arguments(["--console-oidc-scope=openid,email"])
        .arguments(["--console-oidc-redirect-url=http://web.test/console/oauth2/callback"])
        .arguments(rules.iter().map(|rule| format!("--console-oidc-rule={rule}")))
        .start();
    forebay.set_endpoints(&[forebay.admin_address()]);
    House { provider, _folder: folder, forebay }
}

fn signed_in(house: &House) -> Browser<'_> {
    let mut browser = Browser::of_console(&house.forebay, "web.test");
    browser.sign_in(&house.provider, "/console/");
    browser
}

#[test]
fn people_sign_in_for_the_console() {
    let house = console(&["/cache when claims.groups has \"nobody\"", "* when claims.groups has \"staff\""]);
    let mut browser = Browser::of_console(&house.forebay, "web.test");
    for path in ["/console/state", "/console/main.js", "/configuration", "/status", "/console/events"] {
        let told = browser.get(path, HTML);
        assert_eq!((told.status, told.header("www-authenticate").as_deref()), (401, Some("OpenIDConnect")));
    }
    assert_eq!([browser.get("/metrics", "").status, browser.get("/livez", "").status], [200, 200]);
    let script = browser.get("/console/", "Sec-Fetch-Mode: cors\r\nAccept: text/html\r\n");
    assert_eq!(script.status, 401);
    browser.sign_in(&house.provider, "/console/");
    for cookie in browser.set_cookies() {
        for attribute in ["__Host-console-", "; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
    }
    let told = browser.get("/console/changes", "");
    assert_eq!(
        (told.status, told.header("forebay-user").as_deref()),
        (200, Some("ann%40a.test")),
        "{told:?}"
    );
    assert_eq!([browser.get("/console/", HTML).status, browser.get("/configuration", "").status], [200, 200]);
    assert_eq!(browser.get("/cache/status", "").status, 403, "a rule");
    assert_eq!(browser.at("localhost").get("/console/", HTML).status, 404, "no route");
    house.provider.set_claims(json!({"sub": "u-2", "groups": ["guests"]}));
    assert_eq!(signed_in(&house).get("/console/", HTML).status, 403, "no rule is for guests");
    let labels = [("issuer", house.provider.issuer())];
    let labels = labels.each_ref().map(|(name, value)| (*name, value.as_str()));
    house.forebay.await_metric("forebay_oidc_provider_up", &labels, 1);
}

#[test]
fn this_machine_needs_no_sign_in_unless_a_proxy_asks_for_others() {
    let house = console(&["*"]);
    let ask = |headers: &str| -> Response {
        let head = format!("GET /status HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
        testkit::Connection::to(house.forebay.admin_address()).ask(&head)
    };
    assert_eq!(ask("").status, 200);
    for header in ["X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "X-Real-IP: ::1"] {
        assert_eq!(ask(&format!("{header}\r\n")).status, 401, "{header}");
    }
}

#[test]
fn sessions_of_the_console_are_renewed_and_end() {
    let house = console(&["*"]);
    let mut browser = signed_in(&house);
    browser.age(&house.provider, LIFETIME + 10);
    assert_eq!((browser.get("/status", "").status, house.provider.renewals()), (200, 1));
    let mut copy = browser.at("web.test");
    let mut other = signed_in(&house);
    let told = browser.get("/console/oauth2/sign_out", "");
    let location = told.header("location").unwrap();
    assert!(location.starts_with(&format!("{}/end?id_token_hint=ey", house.provider.issuer())), "{location}");
    assert!(browser.cookies().is_empty());
    assert_eq!(copy.get("/status", "").status, 401, "a copy of the cookie");
    assert_eq!(copy.get("/console/", HTML).status, 302);
    let session = other.session(&house.provider).unwrap();
    let token = house.provider.logout_token(session.text("sid").unwrap());
    let path = "/console/oauth2/backchannel_logout";
    assert_eq!(other.get("/status", "").status, 200);
    assert_eq!(other.post(path, "logout_token=a.b.c").status, 400);
    assert_eq!(other.post(path, &format!("logout_token={token}")).status, 200);
    assert_eq!([other.get("/status", "").status, other.get(path, "").status], [401, 405]);
    house.provider.end_sessions();
    let mut ended = signed_in(&house);
    house.provider.end_sessions();
    ended.age(&house.provider, LIFETIME + 10);
    assert_eq!(ended.get("/status", "").status, 401, "the provider has ended it");
}

#[test]
fn forged_answers_of_the_provider_are_refused() {
    let house = console(&["*"]);
    let mut browser = Browser::of_console(&house.forebay, "web.test");
    let callback = "/console/oauth2/callback";
    for query in ["", "?code=a", "?state=b", "?code=a&state=b", "?code=a&state=b&state=b"] {
        let told = browser.get(&format!("{callback}{query}"), HTML);
        assert_eq!(told.status, 400, "{query}");
    }
    let told = browser.get("/console/", HTML);
    let back = house.provider.sign_in(&told.header("location").unwrap());
    let back = back.strip_prefix("http://web.test").unwrap().to_owned();
    let mut other = Browser::of_console(&house.forebay, "web.test");
    assert_eq!(other.get(&back, HTML).status, 400, "another browser has begun it");
    let cross = format!("{HTML}Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(browser.get(&back, &cross).status, 302);
    assert_eq!(browser.get(&back, HTML).status, 400, "a code counts once");
    assert_eq!(browser.get("/console/oauth2/sign_out", &cross).status, 403, "another site's link");
    assert_eq!(browser.get("/status", "").status, 200);
    house.provider.set_away(true);
    assert_eq!(browser.get("/status", "").status, 200);
    browser.age(&house.provider, LIFETIME + 301);
    assert_eq!(browser.get("/status", "").status, 503);
}

/// The flags of a sign-in for everybody, and one more.
fn all<'a>(issuer: &[&'a str], rest: &'a str) -> Vec<&'a str> {
    [issuer, &["--console-oidc-rule=*", rest]].concat()
}

#[test]
fn flags_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("short");
    std::fs::write(&short, "short").unwrap();
    let issuer = ["--console-oidc-issuer-url=https://issuer.test", "--console-oidc-client-id=c"];
    let short = format!("--console-oidc-cookie-secret-file={}", short.display());
    for (arguments, expected) in [
        (issuer.to_vec(), "--console-oidc-rule"),
        (vec!["--console-oidc-rule=*"], "--console-oidc-issuer-url"),
        ([&issuer[..], &["--console-oidc-rule=x"]].concat(), "--console-oidc-rule: rule in line 1"),
        (all(&issuer, "--console-oidc-scope=email"), "--console-oidc-scope email"),
        (all(&issuer, "--console-oidc-redirect-url=https://a.test/"), "--console-oidc-redirect-url"),
        (all(&issuer, "--console-oidc-ca-file=/nowhere"), "--console-oidc-ca-file /nowhere"),
        (
            all(&issuer, "--console-oidc-client-secret-file=/nowhere"),
            "--console-oidc-client-secret-file /nowhere",
        ),
        (all(&issuer, &short), "5 bytes are too few"),
    ] {
        let manifests = format!("--manifests={}", folder.path().display());
        let line: Vec<_> = ["serve", &manifests, "--healthz-port=0"].into_iter().chain(arguments).collect();
        let (status, _, text) = run(&line);
        assert!(status != 0 && text.contains(expected), "{expected}: {text}");
    }
    let clear = ["--console-oidc-issuer-url=http://issuer.test", "--console-oidc-client-id=c"];
    let manifests = format!("--manifests={}", folder.path().display());
    let line = [&["serve", &manifests, "--console-oidc-rule=*"], &clear[..]].concat();
    assert!(run(&line).2.contains("--console-oidc-issuer-url http://issuer.test: "));
}
