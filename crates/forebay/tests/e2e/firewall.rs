//! The web application firewall: attacks are refused wherever they stand in a request, ordinary requests
//! pass, and rules come from annotations, folders and the `ConfigMap`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;
use testkit::manifest::{Ingress, service};
use testkit::{Canned, Forebay, H2Client, Setup, Upstream, needs};

use crate::commands::run;
use crate::{GET, OK, setup};

/// Settings of the tests' own rules.
const ENGINE: &str = "SecRuleEngine On
SecRequestBodyAccess On
SecResponseBodyAccess On
SecRule REQUEST_HEADERS:Content-Type \"@contains json\" \\
    \"id:200001,phase:1,pass,nolog,ctl:requestBodyProcessor=JSON\"
";

/// An injection of SQL, as a value of a query or a form.
pub(crate) const INJECTION: &str = "1%27%20OR%20%271%27%3D%271";

/// A rules folder like that of the core rules, with few rules.
pub(crate) fn rules() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("it is below the folder")).expect("folders");
        fs::write(path, text).expect("a file");
    };
    write("crs-setup.conf", "SecDefaultAction \"phase:1,log,pass\"\nSecDefaultAction \"phase:2,log,pass\"\n");
    write(
        "rules/REQUEST-942-SQLI.conf",
        "SecRule ARGS|ARGS_NAMES|REQUEST_COOKIES \"@detectSQLi\" \\
    \"id:942100,phase:2,deny,msg:'SQL injection by libinjection',tag:'attack-sqli',severity:'CRITICAL',\\
    logdata:'%{MATCHED_VAR}'\"
SecRule REQUEST_HEADERS:User-Agent \"@pmFromFile scanners.data\" \"id:913100,phase:1,deny,status:406\"
",
    );
    write("rules/scanners.data", "nikto\n");
    write(
        "rules/RESPONSE-951-LEAKS.conf",
        "SecRule RESPONSE_BODY \"@contains secret-token\" \"id:951100,phase:4,deny\"
SecRule RESPONSE_HEADERS:X-Leak \"@rx .\" \"id:950100,phase:3,deny,status:502\"
",
    );
    folder
}

/// An endpoint that gets one request on a connection: it reads no bodies.
fn endpoint() -> Canned {
    Canned::answering("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
}

fn allowed(folder: &Path) -> Setup {
    setup()
        .setting("annotations-risk-level", "Critical")
        .setting("allow-snippet-annotations", "true")
        .arguments(["--waf-rules".into(), folder.as_os_str().to_owned()])
}

/// `web.test` behind the core rules, with further rules in front of them.
fn guarded(folder: &Path, endpoint: SocketAddr, own: &str) -> Forebay {
    allowed(folder)
        .endpoint(endpoint)
        .annotation("enable-modsecurity", "true")
        .annotation("enable-owasp-core-rules", "true")
        .annotation("modsecurity-snippet", &format!("{ENGINE}{own}"))
        .start()
}

fn post(content_type: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\n\r\n{body}"
    )
}

fn multipart(value: &str) -> String {
    let body = format!("--b\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\n{value}\r\n--b--\r\n");
    post("multipart/form-data; boundary=b", &body)
}

fn chunked(body: &str) -> String {
    let chunk = |part: &[u8]| format!("{:x}\r\n{}\r\n", part.len(), String::from_utf8_lossy(part));
    let chunks = body.as_bytes().chunks(3).map(chunk).collect::<Vec<_>>().concat();
    format!(
        "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
    )
}

fn status(forebay: &Forebay, request: &str) -> u16 {
    let mut client = forebay.client();
    client.send(request);
    client.read_response().status
}

#[test]
fn an_injection_is_refused_wherever_it_stands() {
    let (folder, canned) = (rules(), endpoint());
    let forebay = guarded(folder.path(), canned.address(), "");
    let form = "application/x-www-form-urlencoded";
    let plain = "1' OR '1'='1";
    for (request, expected) in [
        (GET.to_owned(), 200),
        ("GET /?q=shoes HTTP/1.1\r\nHost: web.test\r\n\r\n".to_owned(), 200),
        (format!("GET /?q={INJECTION} HTTP/1.1\r\nHost: web.test\r\n\r\n"), 403),
        (format!("GET / HTTP/1.1\r\nHost: web.test\r\nCookie: a={plain}\r\n\r\n"), 403),
        ("GET / HTTP/1.1\r\nHost: web.test\r\nUser-Agent: Nikto/2\r\n\r\n".to_owned(), 406),
        (post(form, "q=shoes&page=2"), 200),
        (post(form, &format!("a=1&q={INJECTION}")), 403),
        (chunked("q=shoes"), 200),
        (chunked(&format!("a=1&q={INJECTION}")), 403),
        (post("application/json", "{\"a\":{\"b\":[\"shoes\"]}}"), 200),
        (post("application/json", &format!("{{\"a\":{{\"b\":[\"{plain}\"]}}}}")), 403),
        (multipart("shoes"), 200),
        (multipart(plain), 403),
    ] {
        assert_eq!(status(&forebay, &request), expected, "{request}");
    }
    let line = forebay.await_access_log("\"ruleId\":\"942100\"");
    for part in ["SQL injection by libinjection", "\"ingress\":\"web\"", "\"http_code\":403"] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[test]
fn a_body_reaches_its_endpoint_whole_and_with_its_length() {
    let (folder, upstream) = (rules(), Upstream::new());
    let forebay = guarded(folder.path(), upstream.address(), "");
    let long = format!("q={}", "a".repeat(300_000));
    for (request, body) in [
        (post("application/x-www-form-urlencoded", "q=shoes"), "q=shoes"),
        (chunked("q=shoes"), "q=shoes"),
        (post("application/x-www-form-urlencoded", &long), &*long),
    ] {
        let mut client = forebay.client();
        client.send(&request);
        let (mut peer, head) = upstream.accept_request();
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
        assert!(peer.read_exactly(body.len()) == body.as_bytes(), "{head}");
        peer.send(OK);
        assert_eq!(client.read_response().said(), (200, "ok"));
    }
}

#[test]
fn a_body_beyond_the_limit_is_refused_or_seen_in_part() {
    let (folder, canned) = (rules(), endpoint());
    let body = post("application/x-www-form-urlencoded", &"a=1&".repeat(100));
    let limit = "SecRequestBodyLimit 100\n";
    let forebay = guarded(folder.path(), canned.address(), limit);
    assert_eq!(status(&forebay, &body), 413);
    let partly = format!("{limit}SecRequestBodyLimitAction ProcessPartial");
    let forebay = guarded(folder.path(), canned.address(), &partly);
    assert_eq!(status(&forebay, &body), 200);
    let early = post("application/x-www-form-urlencoded", &format!("q={INJECTION}&{}", "a=1&".repeat(100)));
    assert_eq!(status(&forebay, &early), 403);
}

#[test]
fn responses_are_looked_at_before_the_client_gets_any_of_them() {
    let folder = rules();
    let long = "a".repeat(100_000);
    let answer = move |head: &str| {
        let (fields, body) = match head.split(' ').nth(1) {
            Some("/leak") => ("", "a secret-token"),
            Some("/header") => ("X-Leak: 1\r\n", "ok"),
            Some("/long") => ("", &*long),
            _ => ("", "ok"),
        };
        let len = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}Content-Length: {len}\r\n\r\n{body}")
            .into_bytes()
    };
    let canned = Canned::choosing(answer);
    let forebay = guarded(folder.path(), canned.address(), "");
    assert_eq!(forebay.get("/").said(), (200, "ok"));
    assert_eq!(forebay.get("/long").text().len(), 100_000);
    let refused = forebay.get("/leak");
    assert_eq!(refused.status, 403);
    assert!(!refused.text().contains("secret"), "{}", refused.text());
    assert_eq!(forebay.get("/header").status, 502);
    let partly = "SecResponseBodyLimit 10\nSecResponseBodyLimitAction ProcessPartial";
    let forebay = guarded(folder.path(), canned.address(), partly);
    assert_eq!(forebay.get("/long").text().len(), 100_000, "the rest follows");
    assert_eq!(forebay.get("/leak").status, 200, "the rules see ten bytes");
}

#[test]
fn http2_is_looked_at_too() {
    let (folder, canned) = (rules(), endpoint());
    let forebay = guarded(folder.path(), canned.address(), "");
    let client = H2Client::clear(forebay.address());
    assert_eq!(client.get("web.test", "/?q=shoes").said(), (200, "ok"));
    assert_eq!(client.get("web.test", &format!("/?q={INJECTION}")).status, 403);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(client.post("web.test", "/", &form, b"q=shoes").said(), (200, "ok"));
    assert_eq!(client.post("web.test", "/", &form, format!("q={INJECTION}").as_bytes()).status, 403);
}

#[test]
fn exclusions_and_own_rules_hold_for_one_ingress() {
    let (folder, canned) = (rules(), endpoint());
    let own = "SecRuleUpdateTargetById 942100 \"!ARGS:sql\"
SecRule REQUEST_URI \"@beginsWith /admin\" \"id:1,phase:1,redirect:'http://login.test/',status:302\"
SecRule REQUEST_URI \"@beginsWith /free\" \"id:2,phase:1,pass,nolog,ctl:ruleRemoveByTag=attack-sqli\"
SecRule REMOTE_ADDR \"@rbl list.example\" \"id:3,phase:1,deny\"";
    let forebay = guarded(folder.path(), canned.address(), own);
    let line = forebay.await_log("@rbl never matches");
    assert!(line.contains("modsecurity-snippet:"), "{line}");
    let injected = |path: &str| forebay.get(&format!("{path}={INJECTION}")).status;
    assert_eq!((injected("/?q"), injected("/?sql"), injected("/free?q")), (403, 200, 200));
    let sent_on = forebay.get("/admin");
    assert_eq!((sent_on.status, sent_on.header("Location").as_deref()), (302, Some("http://login.test/")));
}

#[test]
fn the_rule_sets_in_use_are_in_the_status_and_in_a_check() {
    let (folder, canned) = (rules(), endpoint());
    let version = "SecComponentSignature \"OWASP_CRS/4.0.1\"";
    fs::write(folder.path().join("rules/REQUEST-901-VERSION.conf"), version).expect("a file");
    let forebay = guarded(folder.path(), canned.address(), "SecAction \"id:1,phase:1,pass\"\n");
    let told: serde_json::Value = serde_json::from_str(forebay.admin("/status").text()).expect("JSON");
    let firewall = &told["firewall"];
    assert_eq!((&firewall["coreRules"], &firewall["count"]), (&"4.0.1".into(), &1.into()), "{told}");
    assert_eq!(firewall["rules"], 6, "the core rules are four: {told}");
    assert!(firewall["loaded"].as_str().is_some_and(|time| time.ends_with('Z')), "{told}");
    let ingress = Ingress::new("web")
        .path("web.test", "Prefix", "/", "web")
        .annotation("forebay.io/waf-mode", "On")
        .annotation("enable-owasp-core-rules", "true");
    let file = folder.path().join("web.yaml");
    fs::write(&file, ingress.document() + &service("web", &[canned.address()])).expect("a file");
    let path = |path: &Path| path.to_str().expect("it is text").to_owned();
    let (_, said, _) = run(&["check", &path(&file), "--waf-rules", &path(folder.path())]);
    assert!(said.ends_with("\nweb application firewall: core rules 4.0.1, 1 rule set, 10 rules\n"), "{said}");
}

#[test]
fn the_default_settings_only_report() {
    let (folder, canned) = (rules(), endpoint());
    let forebay = allowed(folder.path())
        .endpoint(canned.address())
        .annotation("enable-modsecurity", "true")
        .annotation("enable-owasp-core-rules", "true")
        .start();
    assert_eq!(forebay.get(&format!("/?q={INJECTION}")).said(), (200, "ok"));
    let line = forebay.await_access_log("\"ruleId\":\"942100\"");
    assert!(line.contains("\"http_code\":200") && line.contains("\"result\":\"passed\""), "{line}");
}

#[test]
fn rules_of_all_ingresses_come_from_the_configmap() {
    let (folder, canned) = (rules(), endpoint());
    let forebay = allowed(folder.path())
        .endpoint(canned.address())
        .setting("enable-modsecurity", "true")
        .setting("enable-owasp-modsecurity-crs", "true")
        .setting("modsecurity-snippet", ENGINE)
        .start();
    assert_eq!(forebay.get("/").status, 200);
    assert_eq!(forebay.get(&format!("/?q={INJECTION}")).status, 403);
}

#[test]
fn a_change_is_served_and_broken_rules_leave_the_last_good_ones() {
    let (folder, canned) = (rules(), endpoint());
    let forebay = guarded(folder.path(), canned.address(), "");
    let with = |own: &str| {
        let ingress = Ingress::new("web")
            .path("web.test", "Prefix", "/", "web")
            .annotation("enable-modsecurity", "true")
            .annotation("modsecurity-snippet", own);
        ingress.document() + &service("web", &[canned.address()])
    };
    let mark = "SecRule ARGS:mark \"@streq 1\" \"id:1,phase:1,deny,status:418\"";
    forebay.replace("web.yaml", &with(&format!("SecRuleEngine On\n{mark}")));
    forebay.await_that("the new rule", || forebay.get("/?mark=1").status == 418);
    assert_eq!(forebay.get(&format!("/?q={INJECTION}")).status, 200, "the core rules are gone");
    forebay.replace("web.yaml", &with("SecRuleEngine On\nSecNothing a"));
    let line = forebay.await_log("there is no directive SecNothing");
    assert!(line.contains("line 2, column 1"), "{line}");
    assert_eq!(forebay.get("/?mark=1").status, 418, "the rules before it stay in force");
    let new = Ingress::new("other")
        .path("other.test", "Prefix", "/", "web")
        .annotation("enable-modsecurity", "true")
        .annotation("modsecurity-snippet", "SecNothing a");
    forebay.replace("other.yaml", &new.document());
    let other = "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n";
    forebay.await_that("the closed host", || status(&forebay, other) == 503);
}

#[test]
fn the_core_rules_of_the_package_refuse_attacks() {
    if !needs("/usr/share/modsecurity-crs/rules") {
        return;
    }
    let canned = endpoint();
    let forebay = setup()
        .setting("annotations-risk-level", "Critical")
        .setting("allow-snippet-annotations", "true")
        .endpoint(canned.address())
        .annotation("enable-modsecurity", "true")
        .annotation("enable-owasp-core-rules", "true")
        .annotation("modsecurity-snippet", ENGINE)
        .start();
    let agent = "User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: */*\r\n";
    let get =
        |target: &str| status(&forebay, &format!("GET {target} HTTP/1.1\r\nHost: web.test\r\n{agent}\r\n"));
    assert_eq!(get("/?q=shoes"), 200);
    for target in ["/?q=%3Cscript%3Ealert(1)%3C/script%3E", "/?f=../../../../etc/passwd"] {
        assert_eq!(get(target), 403, "{target}");
    }
    assert_eq!(get(&format!("/?q={INJECTION}")), 403);
    // Rules of version 3 that need look-around, and macros in an expression.
    let content = |kind: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: web.test\r\n{agent}Content-Type: {kind}\r\nContent-Length: 3\r\n\r\na=b"
        )
    };
    let form = "application/x-www-form-urlencoded; charset=";
    assert_eq!(status(&forebay, &content(&format!("{form}utf-8"))), 200);
    assert_eq!(status(&forebay, &content(&format!("{form}ibm037"))), 403);
    let accept = |kind: &str| {
        let agent = agent.replace("*/*", kind);
        status(&forebay, &format!("GET / HTTP/1.1\r\nHost: web.test\r\n{agent}\r\n"))
    };
    assert_eq!(accept("text/html, application/json;q=0.9"), 200);
    assert_eq!(accept("text/html; charset=ibm037"), 403);
}
