//! The firewall for the people who operate it: rules tried on recorded requests, explanations, the audit log,
//! variables of the access log, and what the console has.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Canned, Connection, Forebay, Setup};

use crate::commands::run;
use crate::{FOREBAY, setup};

/// Settings and rules: a score as the core rules have it, and a secret argument.
const RULES: &str = "SecRuleEngine On
SecRequestBodyAccess On
SecResponseBodyAccess On
SecAuditEngine RelevantOnly
SecAuditLogParts ABCEFHKZ
SecComponentSignature \"TESTS/1\"
SecAction \"id:5,phase:1,pass,nolog,sanitiseArg:secret\"
SecRule ARGS \"@contains evil\" \"id:100,phase:2,log,auditlog,pass,t:none,t:lowercase,msg:'Evil',severity:CRITICAL,\\
    setvar:tx.blocking_inbound_anomaly_score=+5\"
SecRule TX:BLOCKING_INBOUND_ANOMALY_SCORE \"@ge 5\" \"id:200,phase:2,log,auditlog,deny,status:406,msg:'Sum'\"
";

/// A form with an argument that the rules refuse.
const EVIL: &str = "POST /editor HTTP/1.1\r\nHost: web.test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                    Content-Length: 24\r\n\r\ns%65cret=1&comment=EVILx";
const GOOD: &str = "GET /?q=good HTTP/1.1\r\nHost: web.test\r\n\r\n";

/// A folder with files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("it is below the folder")).expect("folders");
        fs::write(path, text).expect("a file");
    }
    folder
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("a path of text").to_owned()
}

/// `web.test` behind the rules.
fn guarded(rules: &str) -> (Canned, Setup) {
    let canned = Canned::answering(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok",
    );
    let setup = setup()
        .endpoint(canned.address())
        .setting("annotations-risk-level", "Critical")
        .setting("allow-snippet-annotations", "true")
        .annotation("enable-modsecurity", "true")
        .annotation("modsecurity-snippet", rules);
    (canned, setup)
}

fn status(forebay: &Forebay, request: &str) -> u16 {
    let mut client = forebay.client();
    client.send(request);
    client.read_response().status
}

#[test]
fn rules_are_tried_on_recorded_requests() {
    let folder = folder(&[
        ("rules/a.conf", RULES),
        ("rules/b.conf", "Include more/*.conf\n"),
        (
            "rules/more/c.conf",
            "SecRule RESPONSE_BODY \"@contains leak\" \"id:300,phase:4,deny,status:502\"\n",
        ),
        ("requests/evil.http", EVIL),
        ("requests/good.http", GOOD),
        (
            "requests/leak.http",
            &format!("{GOOD}HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nleak"),
        ),
        ("exclusion.conf", "SecRuleUpdateTargetById 100 \"!ARGS:comment\"\n"),
    ]);
    let (rules, requests) = (path(&folder, "rules"), path(&folder, "requests"));
    let (code, stdout, stderr) = run(&["waf", "test", &rules, &requests]);
    let told = stdout.replace(&format!("{}/", folder.path().display()), "");
    assert_eq!(
        (code, &*told, &*stderr),
        (
            1,
            "blocked  requests/evil.http:1  POST /editor: 406 in phase 2, rule 200 (Sum), inbound score 5\n\
             passed   requests/good.http:1  GET /?q=good\n\
             blocked  requests/leak.http:1  GET /?q=good: 502 in phase 4, rule 300\n\
             3 requests: 1 passed, 0 detected, 2 blocked\n",
            ""
        )
    );
    let evil = path(&folder, "requests/evil.http");
    let (code, stdout, _) = run(&["waf", "test", &rules, &evil, "--expect", "blocked", "--verbose"]);
    let details = "         100 Evil (phase 2, critical; ";
    let value = "           ARGS:comment = \"evilx\" matches @contains evil, after lowercase\n";
    assert!(code == 0 && stdout.contains(details) && stdout.contains(value), "{code} {stdout}");
    let excluded = ["waf", "test", &rules, &evil, "--rules", &path(&folder, "exclusion.conf"), "-o", "json"];
    let (code, stdout, _) = run(&excluded);
    let told: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((code, &told["requests"][0]["verdict"]), (0, &Value::from("passed")), "{stdout}");
    let (code, stdout, _) = run(&["waf", "test", &rules, &evil, "--engine", "detection-only"]);
    assert!(code == 0 && stdout.starts_with("detected ") && stdout.contains("rule 200"), "{stdout}");
}

#[test]
fn what_cannot_be_tried_is_named_with_its_place() {
    let folder = folder(&[
        ("good.conf", RULES),
        ("bad.conf", "SecRuleEngine On\nSecNothing x\n"),
        ("good.http", GOOD),
        ("bad.http", "GET / HTTP/1.1\nHost: web.test\nX Y: 1\n\n"),
        ("bad.har", "{\n\"log\": 1}"),
    ]);
    for (rules, requests, said) in [
        ("bad.conf", "good.http", "bad.conf:2:1: there is no directive SecNothing"),
        ("good.conf", "bad.http", "bad.http:3:2: malformed header name"),
        ("good.conf", "bad.har", "bad.har:2:8: no HAR"),
        ("good.conf", "missing.http", "missing.http"),
        ("missing.conf", "good.http", "missing.conf"),
    ] {
        let (code, stdout, stderr) = run(&["waf", "test", &path(&folder, rules), &path(&folder, requests)]);
        assert_eq!((code, &*stdout), (2, ""), "{stderr}");
        assert!(stderr.contains(said), "{said}: {stderr}");
    }
}

#[test]
fn a_request_with_a_body_is_explained_and_leaves_nothing() {
    let counting = format!(
        "{RULES}SecAction \"id:6,phase:1,pass,nolog,initcol:ip=%{{REMOTE_ADDR}},setvar:ip.count=+1\"
SecRule IP:count \"@gt 1\" \"id:7,phase:1,deny,status:429\"
"
    );
    let (canned, setup) = guarded(&counting);
    let forebay = setup.start();
    let folder = folder(&[("body", "comment=EVILx")]);
    let explain = |more: &[&str]| {
        let admin = format!("http://{}", forebay.admin_address());
        let arguments = [
            &["explain", "http://web.test/editor", "--admin", &admin][..],
            &["--header", "Content-Type: application/x-www-form-urlencoded"],
            more,
        ];
        run(&arguments.concat())
    };
    let body = path(&folder, "body");
    for _ in 0..2 {
        let (code, stdout, stderr) = explain(&["--body", &body]);
        assert_eq!(code, 1, "{stdout}{stderr}");
        let said = "406: rule 200 refuses it in phase 2, inbound score 5\n";
        let value = "ARGS:comment = \"evilx\" matches @contains evil, after lowercase";
        assert!(stdout.contains(said) && stdout.contains(value), "{stdout}");
    }
    let (code, stdout, _) = explain(&["--method", "POST", "--header", "Content-Length: 5"]);
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.contains("the rules let it pass; they have not seen its body"), "{stdout}");
    assert_eq!(canned.connections(), 0, "nobody is asked");
    let mut admin = Connection::to(forebay.admin_address());
    let post = |fields: &str, len: usize| {
        format!(
            "POST /explain?url=http://web.test/ HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {len}\r\n\r\n"
        )
    };
    admin.send(post("", (1 << 20) + 1));
    assert_eq!(admin.read_response().status, 413);
    let mut admin = Connection::to(forebay.admin_address());
    admin.send(&(post("Origin: http://evil.test\r\n", 1) + "x"));
    assert_eq!(admin.read_response().status, 403);
}

#[test]
fn the_audit_log_has_its_own_file_with_the_parts_that_are_wanted() {
    let folder = folder(&[]);
    let file = path(&folder, "audit.log");
    let (_canned, setup) = guarded(RULES);
    let forebay = setup.arguments(["--waf-audit-log", &*file]).start();
    assert_eq!(status(&forebay, EVIL), 406);
    let late = format!("{RULES}SecRule RESPONSE_BODY \"@contains ok\" \"id:400,phase:4,log,auditlog,pass\"");
    let line = entry(&forebay, &file, "\"ruleId\":\"200\"");
    let entry_of = &line["transaction"];
    assert_eq!(entry_of["request"]["body"], "s%65cret=****&comment=EVILx");
    assert_eq!(entry_of["producer"]["secrules_engine"], "Enabled");
    assert_eq!(entry_of["producer"]["components"][0], "TESTS/1");
    assert_eq!(entry_of["matched_rules"], serde_json::json!(["5", "100", "200"]));
    assert_eq!(entry_of["response"]["http_code"], 406);
    assert!(!forebay.log().iter().any(|line| line.contains("\"transaction\"")), "it has a file of its own");
    let (_canned, setup) = guarded(&late);
    let forebay = setup.arguments(["--waf-audit-log", &*file]).start();
    assert_eq!(status(&forebay, GOOD), 200);
    let response = &entry(&forebay, &file, "\"ruleId\":\"400\"")["transaction"]["response"];
    assert_eq!(
        (&response["body"], &response["headers"]["Content-Type"]),
        (&"ok".into(), &"text/plain".into())
    );
}

/// The entry of the audit log with a text.
fn entry(forebay: &Forebay, file: &str, text: &str) -> Value {
    let find = || {
        let log = fs::read_to_string(file).unwrap_or_default();
        log.lines().find(|line| line.contains(text)).map(str::to_owned)
    };
    forebay.await_that("an entry in the audit log", || find().is_some());
    serde_json::from_str(&find().expect("it was there")).expect("JSON")
}

#[test]
fn an_audit_log_can_be_off_but_not_nowhere() {
    let (_canned, setup) = guarded(RULES);
    let forebay = setup.arguments(["--waf-audit-log=off"]).start();
    assert_eq!(status(&forebay, EVIL), 406);
    forebay.await_access_log("POST /editor");
    assert!(!forebay.log().iter().any(|line| line.contains("\"transaction\"")));
    let missing = "/nonexistent/audit.log";
    let output = Command::new(FOREBAY)
        .args(["serve", "--manifests", ".", "--http-port=0", "--healthz-port=0", "--waf-audit-log", missing])
        .current_dir(Path::new("/"))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("--waf-audit-log /nonexistent/audit.log"),
        "{said}"
    );
}

#[test]
fn verdicts_are_variables_of_the_access_log() {
    let (_canned, setup) = guarded(RULES);
    let format = "$uri|$forebay_waf_verdict|$forebay_waf_rule|$forebay_waf_score|$modsecurity_intervention|\
                  $modsecurity_triggered_rules|";
    let forebay = setup.setting("log-format-upstream", format).start();
    assert_eq!((status(&forebay, EVIL), status(&forebay, GOOD)), (406, 200));
    assert_eq!(forebay.await_access_log("/editor|"), "/editor|blocked|200|5|1|100,200|");
    assert_eq!(forebay.await_access_log("/|passed"), "/|passed|-|-|0|-|");
}

#[test]
fn a_request_that_uses_the_budget_of_rules_up_is_refused() {
    let (_canned, setup) =
        guarded("SecRuleEngine On\nSecRule ARGS \"@rx ^(?:a|aa)+(?=b)c$\" \"id:1,phase:1,deny\"\n");
    let forebay = setup.setting("log-format-upstream", "$uri|$forebay_reason|").start();
    let long = format!("GET /long?q={}c HTTP/1.1\r\nHost: web.test\r\n\r\n", "a".repeat(60));
    assert_eq!((status(&forebay, &long), status(&forebay, GOOD)), (403, 200));
    assert_eq!(forebay.await_access_log("/long|"), "/long|firewall_exhausted|");
    forebay.await_metric("forebay_waf_exhausted_total", &[], 1);
    let reason = [("side", "client"), ("reason", "firewall_exhausted")];
    forebay.await_metric("forebay_faults_total", &reason, 1);
}

#[test]
fn the_console_has_what_was_refused_with_its_exclusion() {
    let (_canned, setup) = guarded(RULES);
    let forebay = setup.start();
    assert_eq!((status(&forebay, EVIL), status(&forebay, GOOD)), (406, 200));
    let told =
        || -> Value { serde_json::from_slice(&forebay.admin("/console/firewall").body).expect("JSON") };
    forebay.await_that("the refused request", || told()["requests"] == 1);
    let told = told();
    let rules = told["rules"].as_array().expect("a list");
    assert_eq!((&rules[0]["rule"], &rules[1]["rule"], rules.len()), (&100.into(), &200.into(), 2));
    let found = &rules[0]["matches"][0];
    for (name, value) in [
        ("host", "web.test"),
        ("path", "/editor"),
        ("variable", "ARGS:comment"),
        ("value", "evilx"),
        ("object", "default/web"),
    ] {
        assert_eq!(found[name], value, "{told:#}");
    }
    assert_eq!((&found["isBlocked"], &found["decidedBy"]), (&true.into(), &200.into()));
    assert_eq!(rules[1]["matches"][0]["exclusion"], Value::Null, "the sum of scores is no argument");
    // The exclusion lets the request pass.
    let yaml = found["exclusion"]["ingress"].as_str().expect("YAML");
    let (_, exclusion) = yaml.split_once("|\n").expect("a block of text");
    let (_canned, setup) = guarded(RULES);
    assert_eq!(status(&setup.annotation("forebay.io/waf-exclusions", exclusion).start(), EVIL), 200);
}
