//! Transactions from rules and requests: verdicts, matches, values.

use super::*;
use crate::seclang::{NoFiles, Source};

/// Compiles rules for tests; the engine is on.
fn compiled(text: &str) -> Arc<Rules> {
    let text = format!("SecRuleEngine On\nSecRequestBodyAccess On\nSecResponseBodyAccess On\n{text}");
    match Rules::compile(&[Source { name: "test", text: &text }], &NoFiles) {
        Ok(rules) => Arc::new(rules),
        Err(problems) => panic!("{problems:?}"),
    }
}

fn transaction(rules: &Arc<Rules>, collections: &Arc<Collections>) -> Transaction {
    let connection = Connection {
        client: "192.0.2.7:4711".parse().expect("an address"),
        server: "192.0.2.1:443".parse().expect("an address"),
        unique_id: "id-1".to_owned(),
        unix_time: 1_700_000_000_000_000,
        seed: 1,
    };
    Transaction::new(Arc::clone(rules), Arc::clone(collections), connection)
}

/// The head of a GET with some headers, and its verdict.
fn get(tx: &mut Transaction, target: &str, headers: &[(&str, &str)]) -> Verdict {
    let line = RequestLine { method: b"GET", target: target.as_bytes(), protocol: "HTTP/1.1" };
    tx.request_head(line, headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
}

/// A whole exchange without a body: the ids of all rules that matched.
fn ids(text: &str, target: &str, headers: &[(&str, &str)]) -> Vec<u64> {
    let rules = compiled(text);
    let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
    get(&mut tx, target, headers);
    tx.request_end();
    tx.response_head(200, "HTTP/1.1", [(&b"Content-Type"[..], &b"text/html"[..])]);
    tx.response_end();
    tx.finish().matches.iter().map(|matched| matched.rule).collect()
}

#[test]
fn a_rule_that_denies_stops_the_exchange() {
    let rules = compiled(
        "SecRule ARGS:q \"@contains evil\" \"id:1,phase:1,deny,status:418,t:lowercase,msg:'no %{MATCHED_VAR}'\"",
    );
    let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
    assert_eq!(get(&mut tx, "/?q=EviL", &[]), Verdict::Deny { status: 418, rule: 1 });
    let report = tx.finish();
    assert_eq!(report.stopped_by, Some(1));
    assert_eq!(report.matches[0].message, b"no evil");
    assert_eq!(report.matches[0].variables[0].name, b"ARGS:q");
}

#[test]
fn chains_skips_and_markers_are_followed() {
    let cases: &[(&str, &str, &[u64])] = &[
        (
            "SecRule ARGS:a \"@eq 1\" \"id:1,phase:1,chain\"\nSecRule ARGS:b \"@eq 2\" \"t:none\"",
            "/?a=1&b=2",
            &[1],
        ),
        (
            "SecRule ARGS:a \"@eq 1\" \"id:1,phase:1,chain\"\nSecRule ARGS:b \"@eq 2\" \"t:none\"",
            "/?a=1&b=3",
            &[],
        ),
        (
            "SecAction \"id:1,phase:1,nolog,skip:1\"\nSecAction \"id:2,phase:1\"\nSecAction \"id:3,phase:1\"",
            "/",
            &[3],
        ),
        (
            "SecAction \"id:1,phase:1,nolog,skipAfter:END\"\nSecAction \"id:2,phase:1\"\nSecMarker END\nSecAction \"id:3,phase:1\"",
            "/",
            &[3],
        ),
        (
            "SecAction \"id:1,phase:1,nolog,skipAfter:2\"\nSecAction \"id:2,phase:1\"\nSecAction \"id:3,phase:1\"",
            "/",
            &[3],
        ),
        (
            "SecAction \"id:1,phase:1,nolog,skipAfter:NONE\"\nSecAction \"id:2,phase:1\"\nSecAction \"id:3,phase:2\"",
            "/",
            &[3],
        ),
        (
            "SecAction \"id:1,phase:1,allow\"\nSecAction \"id:2,phase:3\"\nSecAction \"id:3,phase:5\"",
            "/",
            &[1, 3],
        ),
        (
            "SecAction \"id:1,phase:1,allow:request\"\nSecAction \"id:2,phase:2\"\nSecAction \"id:3,phase:3\"",
            "/",
            &[1, 3],
        ),
        (
            "SecAction \"id:1,phase:1,allow:phase\"\nSecAction \"id:4,phase:1\"\nSecAction \"id:2,phase:2\"",
            "/",
            &[1, 2],
        ),
        (
            "SecDefaultAction \"phase:1,deny,nolog\"\nSecAction \"id:1,phase:1,block\"\nSecAction \"id:2,phase:1\"",
            "/",
            &[1],
        ),
    ];
    for (text, target, expected) in cases {
        assert_eq!(ids(text, target, &[]), *expected, "{text}");
    }
}

#[test]
fn selectors_counts_and_exclusions_choose_values() {
    let cases: &[(&str, &str, bool)] = &[
        ("ARGS:Q|!ARGS:x \"@streq 1\"", "/?q=1", true),
        ("ARGS|!ARGS:q \"@streq 1\"", "/?q=1", false),
        ("ARGS|!ARGS:/^q/ \"@streq 1\"", "/?q2=1", false),
        ("ARGS:/^q[0-9]$/ \"@streq 1\"", "/?q2=1", true),
        ("ARGS_NAMES \"@streq q2\"", "/?q2=1", true),
        ("&ARGS \"@eq 2\"", "/?a=1&b=2", true),
        ("&ARGS:a \"@eq 2\"", "/?a=1&a=2&b=3", true),
        ("&ARGS:c \"@eq 0\"", "/?a=1", true),
        ("ARGS:c \"!@eq 1\"", "/?a=1", false),
        ("ARGS:a \"!@eq 2\"", "/?a=1", true),
        ("ARGS_COMBINED_SIZE \"@eq 5\"", "/?ab=123", true),
        ("QUERY_STRING \"@streq a=%31\"", "/?a=%31", true),
        ("REQUEST_FILENAME \"@streq /a b\"", "/a%20b?c", true),
        ("REQUEST_BASENAME \"@streq c.php\"", "/a/c.php?x", true),
        ("REQUEST_URI \"@streq /a?b\"", "http://h.example/a?b", true),
        ("REQUEST_URI \"@streq /a b?c=<d>+e\"", "/a%20b?c=%3Cd%3E+e#f", true),
        ("REQUEST_URI_RAW \"@streq http://h.example/a?b\"", "http://h.example/a?b", true),
        ("REQUEST_LINE \"@streq GET /a HTTP/1.1\"", "/a", true),
        ("REQUEST_METHOD \"@within GET HEAD\"", "/", true),
        ("REMOTE_ADDR \"@ipMatch 192.0.2.0/24\"", "/", true),
        ("REMOTE_PORT \"@eq 4711\"", "/", true),
        ("SERVER_NAME \"@streq h.example\"", "/", true),
        ("TIME_YEAR \"@eq 2023\"", "/", true),
        ("TIME \"@streq 22:13:20\"", "/", true),
        ("TIME_WDAY \"@eq 2\"", "/", true),
        ("REQUEST_COOKIES:b \"@streq 2=3\"", "/", true),
        ("REQUEST_COOKIES_NAMES \"@streq c\"", "/", true),
        ("REMOTE_USER \"@streq ada\"", "/", true),
        ("AUTH_TYPE \"@streq Basic\"", "/", true),
        ("UNIQUE_ID \"@streq id-1\"", "/", true),
        ("URLENCODED_ERROR \"@eq 1\"", "/?a=%zz", true),
        ("REQUEST_HEADERS_NAMES \"@streq Cookie\"", "/", true),
        ("FULL_REQUEST \"@contains Cookie: a=1\"", "/", true),
    ];
    let headers =
        [("Host", "h.example:81"), ("Cookie", "a=1; b=2=3; c"), ("Authorization", "Basic YWRhOnB3")];
    for (rule, target, expected) in cases {
        let text = format!("SecRule {rule} \"id:1,phase:1\"");
        assert_eq!(ids(&text, target, &headers), if *expected { vec![1] } else { vec![] }, "{rule}");
    }
}

#[test]
fn variables_are_set_and_read_within_a_transaction() {
    let cases: &[(&str, bool)] = &[
        ("setvar:tx.a=5\"\nSecRule TX:A \"@eq 5\"", true),
        ("setvar:tx.a=5,setvar:tx.a=+3,setvar:tx.a=-1\"\nSecRule TX:a \"@eq 7\"", true),
        ("setvar:tx.a\"\nSecRule TX:a \"@eq 1\"", true),
        ("setvar:tx.a=1,setvar:!tx.a\"\nSecRule TX:a \"@eq 1\"", false),
        ("setvar:tx.a=1,setvar:!tx.a\"\nSecRule &TX:a \"@eq 0\"", true),
        ("setvar:tx.b=2,setvar:tx.a=+%{tx.b}\"\nSecRule TX:a \"@eq %{tx.b}\"", true),
        ("setvar:'tx.x_%{REQUEST_METHOD}=%{REQUEST_METHOD}!'\"\nSecRule TX:/^x_/ \"@streq GET!\"", true),
        ("setvar:tx.05=05\"\nSecRule TX:05 \"@streq 05\"", true),
        ("setenv:a=b\"\nSecRule ENV:a \"@streq b\"", true),
        ("setvar:ip.a=1\"\nSecRule IP:a \"@eq 1\"", false),
        (
            "initcol:ip=%{REMOTE_ADDR}\"\nSecAction \"id:3,phase:1,nolog,setvar:ip.a=+2\"\nSecRule IP:a \"@eq 2\"",
            true,
        ),
        ("setsid:s1\"\nSecRule SESSIONID \"@streq s1\"", true),
        ("tag:x\"\nSecRule RULE:id \"@eq 2\"", true),
        ("msg:x\"\nSecRule HIGHEST_SEVERITY \"@eq 255\"", true),
        ("severity:3\"\nSecRule HIGHEST_SEVERITY \"@eq 3\"", true),
    ];
    for (text, expected) in cases {
        let text = format!("SecAction \"id:1,phase:1,nolog,{text} \"id:2,phase:1\"");
        assert_eq!(ids(&text, "/", &[]), if *expected { vec![2] } else { vec![] }, "{text}");
    }
}

#[test]
fn matches_are_captured_and_named() {
    let text = "SecRule ARGS \"@rx (a)(b)?(c)\" \"id:1,phase:1,capture,msg:'%{MATCHED_VAR_NAME}',logdata:'%{TX.0}|%{tx.1}|%{tx.2}|%{tx.3}|%{TX.4}',chain\"\n\
                SecRule MATCHED_VARS \"@streq xacx\" \"chain\"\n\
                SecRule MATCHED_VARS_NAMES \"@streq ARGS:n\"";
    let rules = compiled(text);
    let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
    get(&mut tx, "/?n=xacx", &[]);
    let report = tx.finish();
    assert_eq!(report.matches[0].data, b"ac|a||c|");
}

#[test]
fn multi_match_sees_each_stage() {
    let rule = "SecRule ARGS:a \"@streq A%20B\" \"id:1,phase:1,t:lowercase,t:urlDecode";
    assert_eq!(ids(&format!("{rule}\""), "/?a=A%2520B", &[]), []);
    assert_eq!(ids(&format!("{rule},multiMatch\""), "/?a=A%2520B", &[]), [1]);
}

#[test]
fn ctl_removes_rules_and_targets_for_the_transaction() {
    let rule = "SecRule ARGS \"@streq 1\" \"id:7,phase:1,tag:'attack/x',msg:'found'\"";
    let cases: &[(&str, bool)] = &[
        ("ruleRemoveById=7", false),
        ("ruleRemoveById=5-9", false),
        ("ruleRemoveById=8", true),
        ("ruleRemoveByTag=attack/x", false),
        ("ruleRemoveByTag=attack", true),
        ("ruleRemoveByTag=^attack", false),
        ("ruleRemoveByMsg=found", false),
        ("ruleRemoveTargetById=7;ARGS:a", false),
        ("ruleRemoveTargetById=7;ARGS", false),
        ("ruleRemoveTargetById=7;ARGS:b", true),
        ("ruleRemoveTargetByTag=attack/x;ARGS:/^a/", false),
        ("ruleEngine=Off", false),
    ];
    for (ctl, expected) in cases {
        let text = format!("SecAction \"id:1,phase:1,nolog,pass,ctl:{ctl}\"\n{rule}");
        assert_eq!(ids(&text, "/?a=1", &[]), if *expected { vec![7] } else { vec![] }, "{ctl}");
    }
}

#[test]
fn rules_are_changed_by_directives() {
    let rule = "SecRule ARGS \"@streq 1\" \"id:7,phase:1,tag:'attack/x',msg:'found'\"";
    let cases: &[(&str, &[u64])] = &[
        ("SecRuleRemoveById 7", &[]),
        ("SecRuleRemoveById \"1-3 6-8\"", &[]),
        ("SecRuleRemoveByTag attack/x", &[]),
        ("SecRuleRemoveByMsg found", &[]),
        ("SecRuleUpdateTargetById 7 !ARGS:a", &[]),
        ("SecRuleUpdateTargetByTag attack/x \"!ARGS:a\"", &[]),
        ("SecRuleUpdateTargetByMsg found \"!ARGS:a\"", &[]),
        ("SecRuleUpdateTargetById 7 REQUEST_METHOD ARGS", &[]),
        ("SecRuleUpdateActionById 7 \"deny,status:401\"", &[7]),
        ("SecRuleUpdateActionById 7 \"nolog\"", &[]),
    ];
    for (directive, expected) in cases {
        assert_eq!(ids(&format!("{rule}\n{directive}"), "/?a=1", &[]), *expected, "{directive}");
        assert_eq!(ids(&format!("{directive}\n{rule}"), "/?a=1", &[]), *expected, "first: {directive}");
    }
}

#[test]
fn bodies_are_arguments_and_limits_are_kept() {
    let rules = compiled(
        "SecRequestBodyLimit 20\nSecRule ARGS_POST:b \"@streq x y\" \"id:1,phase:2\"\n\
         SecRule REQUEST_BODY \"@streq a=1&b=x+y\" \"id:2,phase:2\"\nSecRule REQBODY_PROCESSOR \"@streq URLENCODED\" \"id:3,phase:1\"",
    );
    let post = |body: &[u8]| {
        let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
        let line = RequestLine { method: b"POST", target: b"/", protocol: "HTTP/1.1" };
        let kind: (&[u8], &[u8]) = (b"Content-Type", b"application/x-www-form-urlencoded");
        tx.request_head(line, [kind]);
        assert_eq!(tx.request_body_limit(), Some(20));
        let mut verdict = Verdict::Pass;
        for piece in body.chunks(3) {
            verdict = tx.request_body(piece);
        }
        if verdict.passes() {
            verdict = tx.request_end();
        }
        let ids: Vec<u64> = tx.finish().matches.iter().map(|matched| matched.rule).collect();
        assert_eq!(verdict.passes(), body.len() <= 20);
        ids
    };
    assert_eq!(post(b"a=1&b=x+y"), [3, 1, 2]);
    assert_eq!(post(&[b'a'; 21]), [3]);
}

/// A whole exchange with a body: the ids of all rules that matched, and the verdict.
fn posted(text: &str, kind: &str, body: &[u8]) -> (Vec<u64>, Verdict) {
    let rules = compiled(text);
    let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
    let line = RequestLine { method: b"POST", target: b"/", protocol: "HTTP/1.1" };
    tx.request_head(line, [(&b"Content-Type"[..], kind.as_bytes())]);
    tx.request_body(body);
    let verdict = tx.request_end();
    (tx.finish().matches.iter().map(|matched| matched.rule).collect(), verdict)
}

#[test]
fn any_body_but_xml_is_request_body() {
    let rules = "SecRule REQUEST_HEADERS:Content-Type \"@contains json\" \"id:1,phase:1,nolog,ctl:requestBodyProcessor=JSON\"
        SecRule REQUEST_HEADERS:Content-Type \"@contains xml\" \"id:2,phase:1,nolog,ctl:requestBodyProcessor=XML\"
        SecRule REQUEST_HEADERS:Content-Type \"@contains forced\" \"id:3,phase:1,nolog,ctl:forceRequestBodyVariable=On\"
        SecRule REQUEST_BODY \"@contains evil\" \"id:9,phase:2\"";
    let part = b"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nevil\r\n--B--\r\n";
    let cases: [(&str, &[u8], bool); 6] = [
        ("application/json", b"{\"a\":\"evil\"}", true),
        ("text/plain", b"evil", true),
        ("application/x-www-form-urlencoded", b"evil", true),
        ("multipart/form-data; boundary=B", part, true),
        ("text/xml", b"<evil/>", false),
        ("text/xml; forced", b"<evil/>", true),
    ];
    for (kind, body, expected) in cases {
        assert_eq!(posted(rules, kind, body).0.contains(&9), expected, "{kind}");
    }
}

#[test]
fn nodes_of_xml_are_chosen_by_path() {
    let body = b"<s:Envelope xmlns:s='u'><s:Body id='7'><a>one<b k='v'>two</b></a><a>three</a></s:Body></s:Envelope>";
    let cases = [
        ("XML:/s:Envelope \"@streq onetwothree\"", true),
        ("XML://a \"@streq three\"", true),
        ("XML://a \"@streq onetwo\"", true),
        ("XML://a/text() \"@streq one\"", true),
        ("XML:/Envelope/Body/@id \"@eq 7\"", true),
        ("XML://b/@k \"@streq v\"", true),
        ("&XML://a \"@eq 2\"", true),
        ("XML:/a \"@streq three\"", false),
        ("XML://@* \"@streq v\"", true),
        ("XML:/* \"@streq onetwothree\"", true),
    ];
    let processor = "SecAction \"id:1,phase:1,nolog,ctl:requestBodyProcessor=XML\"\n";
    for (rule, expected) in cases {
        let text = format!("{processor}SecRule {rule} \"id:9,phase:2,log\"");
        assert_eq!(posted(&text, "text/xml", body).0.contains(&9), expected, "{rule}");
    }
}

#[test]
fn a_search_without_a_result_refuses_the_exchange() {
    let rule = "SecRule ARGS:a \"@rx ^(?:x|xx)+(?!z)c$\" \"id:9,phase:2,deny,status:418\"";
    let (kind, body) = ("application/x-www-form-urlencoded", |text: &str| format!("a={text}").into_bytes());
    assert_eq!(posted(rule, kind, &body("xxc")).1, Verdict::Deny { status: 418, rule: 9 });
    assert_eq!(posted(rule, kind, &body(&"x".repeat(60))).1, Verdict::Pass);
    let (ids, verdict) = posted(rule, kind, &body(&("x".repeat(60) + "zc\nxc")));
    assert_eq!((ids, verdict), (vec![9], Verdict::Deny { status: 418, rule: 9 }), "the second line matches");
    let rule = rule.replace("c$", "(?<=y)c$");
    let unknown = posted(&rule, kind, &body(&("x".repeat(60) + "c"))).1;
    assert_eq!(unknown, Verdict::Deny { status: 403, rule: 0 });
}

#[test]
fn macros_in_an_expression_have_the_values_of_the_exchange() {
    let rules = "SecAction \"id:1,phase:1,nolog,setvar:tx.allowed=utf-8|latin1\"
        SecRule ARGS:charset \"!@rx ^(?:%{tx.allowed})$\" \"id:2,phase:1\"";
    for (target, expected) in [("/?charset=utf-8", 0), ("/?charset=latin1", 0), ("/?charset=ibm037", 1)] {
        assert_eq!(ids(rules, target, &[]).iter().filter(|id| **id == 2).count(), expected, "{target}");
    }
}

#[test]
fn responses_are_seen_by_type() {
    let rules = compiled(
        "SecRule RESPONSE_STATUS \"@eq 500\" \"id:1,phase:3\"\nSecRule RESPONSE_HEADERS:Server \"@streq x\" \"id:2,phase:3\"\n\
         SecRule RESPONSE_BODY \"@contains secret\" \"id:3,phase:4,deny\"",
    );
    for (kind, expected) in [("text/html; charset=utf-8", vec![1, 2, 3]), ("image/png", vec![1, 2])] {
        let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
        get(&mut tx, "/", &[]);
        tx.request_end();
        let headers = [("Content-Type", kind), ("Server", "x")];
        tx.response_head(
            500,
            "HTTP/1.1",
            headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        );
        assert_eq!(tx.response_body_limit().is_some(), expected.len() == 3);
        tx.response_body(b"a sec");
        tx.response_body(b"ret");
        assert_eq!(tx.response_end().passes(), expected.len() != 3);
        let ids: Vec<u64> = tx.finish().matches.iter().map(|matched| matched.rule).collect();
        assert_eq!(ids, expected);
    }
}

#[test]
fn detection_only_reports_and_lets_pass() {
    let rules = compiled(
        "SecRuleEngine DetectionOnly\nSecAction \"id:1,phase:1,deny\"\nSecAction \"id:2,phase:1,drop\"",
    );
    let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
    assert_eq!(get(&mut tx, "/", &[]), Verdict::Pass);
    let report = tx.finish();
    assert_eq!((report.stopped_by, report.matches.len()), (Some(1), 2));
}

#[test]
fn persistent_values_reach_the_next_transaction() {
    let rules = compiled(
        "SecAction \"id:1,phase:1,nolog,initcol:ip=%{REMOTE_ADDR}\"\nSecAction \"id:2,phase:1,nolog,setvar:ip.n=+1,expirevar:ip.n=60\"\n\
         SecRule IP:n \"@gt 2\" \"id:3,phase:1,deny\"",
    );
    let collections = Arc::new(Collections::new(1));
    let verdicts: Vec<bool> =
        (0..4).map(|_| get(&mut transaction(&rules, &collections), "/", &[]).passes()).collect();
    assert_eq!(verdicts, [true, true, false, false]);
}

#[test]
fn an_extended_set_has_the_rules_of_its_base_and_its_own() {
    let base =
        compiled("SecRule ARGS \"@rx a+b\" \"id:1,phase:1\"\nSecRule ARGS \"@contains xy\" \"id:2,phase:1\"");
    let before = [Source {
        name: "b",
        text: "SecRule ARGS:skip \"@eq 1\" \"id:10,phase:1,nolog,ctl:ruleRemoveById=1\"\nSecRuleUpdateTargetById 1 !ARGS:t",
    }];
    let after = [Source {
        name: "a",
        text: "SecRule ARGS \"@rx cd\" \"id:11,phase:1\"\nSecRuleUpdateTargetById 2 !ARGS:q",
    }];
    let around = crate::Around { before: &before, after: &after, ..crate::Around::default() };
    let rules = Arc::new(Rules::extend(&base, around, &NoFiles).expect("rules"));
    let run = |rules: &Arc<Rules>, target: &str| {
        let mut tx = transaction(rules, &Arc::new(Collections::new(1)));
        get(&mut tx, target, &[]);
        tx.finish().matches.iter().map(|matched| matched.rule).collect::<Vec<u64>>()
    };
    assert_eq!(run(&rules, "/?p=aab&r=xy&s=cd"), [1, 2, 11]);
    assert_eq!(run(&rules, "/?t=aab&r=xy"), [2], "a change holds for rules that come later, too");
    assert_eq!(run(&rules, "/?p=aab&q=xy&skip=1"), []);
    assert_eq!(run(&base, "/?p=aab&q=xy&skip=1"), [1, 2]);
}

#[test]
fn exclusions_hold_everywhere_or_on_their_paths() {
    let base = compiled(
        "SecRule ARGS \"@contains x\" \"id:1,phase:1,pass,tag:'a'\"\nSecRule ARGS:q \"@contains x\" \"id:2,phase:1,pass\"",
    );
    let run = |exclusion: &crate::Exclusion, path: &str| {
        let around =
            crate::Around { exclusions: std::slice::from_ref(exclusion), ..crate::Around::default() };
        let rules = Arc::new(Rules::extend(&base, around, &NoFiles).expect("rules"));
        let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
        tx.exclude_on(path.as_bytes());
        get(&mut tx, &format!("{path}?q=x"), &[]);
        tx.finish().matches.iter().map(|matched| matched.rule).collect::<Vec<u64>>()
    };
    let mut rule = crate::Exclusion::default();
    rule.add_ids(1..=1);
    assert_eq!(run(&rule, "/"), [2]);
    let mut tag = crate::Exclusion::default();
    tag.add_tag("a");
    assert_eq!(run(&tag, "/"), [2]);
    tag.set_path(crate::ExcludedPath::Prefix("/free")).expect("a path");
    assert_eq!((run(&tag, "/free/b"), run(&tag, "/freedom")), (vec![2], vec![1, 2]));
    let mut target = crate::Exclusion::default();
    target.add_target("ARGS:Q").expect("a target");
    assert_eq!(run(&target, "/"), [], "it is about all rules");
    target.set_path(crate::ExcludedPath::Exact("/free")).expect("a path");
    assert_eq!((run(&target, "/free"), run(&target, "/")), (vec![], vec![1, 2]));
}

#[test]
fn rules_inside_a_base_run_in_front_of_their_file() {
    let source = |name, text| Source { name, text };
    let base = [
        source("setup", "SecRuleEngine On\nSecAction \"id:1,phase:1,pass,setvar:tx.level=1\""),
        source("rules", "SecRule TX:level \"@eq 2\" \"id:2,phase:1,pass\""),
    ];
    let base = Arc::new(Rules::compile(&base, &NoFiles).expect("rules"));
    let own = [source("own", "SecAction \"id:3,phase:1,pass,setvar:tx.level=2\"")];
    let inside = Some(crate::Inside { file: "rules", sources: &own });
    let around = crate::Around { inside, ..crate::Around::default() };
    let rules = Arc::new(Rules::extend(&base, around, &NoFiles).expect("rules"));
    let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
    get(&mut tx, "/", &[]);
    assert_eq!(tx.finish().matches.iter().map(|matched| matched.rule).collect::<Vec<_>>(), [1, 3, 2]);
}

#[test]
fn an_exchange_that_costs_too_much_is_refused() {
    let rule = |id| format!("SecRule ARGS \"@rx [a-z]+[x{id}]?$\" \"id:{id}1,phase:1,pass,nolog,t:none\"");
    let rules = (0..400).map(rule).collect::<Vec<_>>().join("\n");
    let target = format!("/?q={}", "a".repeat(80_000));
    for (mode, passes) in [("On", false), ("DetectionOnly", true)] {
        let rules = compiled(&format!("{rules}\nSecRuleEngine {mode}"));
        let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
        let verdict = get(&mut tx, &target, &[]);
        let report = tx.finish();
        assert_eq!(verdict.passes(), passes, "{mode} {}", report.work);
        assert!(report.exhausted && report.work < (16 << 20), "{}", report.work);
        let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
        assert!(get(&mut tx, "/?q=aaaa", &[]).passes());
        assert!(!tx.finish().exhausted);
    }
}

#[test]
fn every_variable_can_be_looked_at_counted_and_named_by_a_macro() {
    for entry in crate::VARIABLES {
        let name = entry.name;
        let selector = if entry.shape == crate::Shape::Single || name == "XML" { "" } else { ":a" };
        let text = format!(
            "SecRule {name}{selector} \"@rx nothing has this\" \"id:1,phase:5\"\n\
             SecRule &{name}{selector} \"@ge 0\" \"id:2,phase:5,msg:'%{{{name}.a}}'\""
        );
        assert_eq!(ids(&text, "/a?a=1", &[("Cookie", "a=1"), ("Host", "h")]), [2], "{name}");
    }
}

#[test]
fn values_of_the_response_and_of_the_body_have_their_variables() {
    let wanted = [
        ("FILES", "a.txt"),
        ("FILES:f", "a.txt"),
        ("FILES_NAMES", "f"),
        ("FILES_SIZES", "5"),
        ("FILES_COMBINED_SIZE", "5"),
        ("MULTIPART_NAME", "f"),
        ("MULTIPART_FILENAME", "a.txt"),
        ("MULTIPART_STRICT_ERROR", "0"),
        ("MULTIPART_UNMATCHED_BOUNDARY", "0"),
        ("ARGS_POST:p", "v"),
        ("ARGS_POST_NAMES", "p"),
        ("REQBODY_PROCESSOR", "MULTIPART"),
        ("REQBODY_ERROR", "0"),
        ("REQUEST_BODY_LENGTH", "133"),
        ("RESPONSE_STATUS", "404"),
        ("RESPONSE_PROTOCOL", "HTTP/1.1"),
        ("STATUS_LINE", "HTTP/1.1 404"),
        ("RESPONSE_CONTENT_TYPE", "text/html"),
        ("RESPONSE_CONTENT_LENGTH", "4"),
        ("RESPONSE_BODY", "body"),
        ("RESPONSE_HEADERS:X", "y"),
        ("RESPONSE_HEADERS_NAMES", "X"),
        ("DURATION", "1500"),
    ];
    let rule = |(id, (variable, value)): (usize, &(&str, &str))| {
        format!("SecRule {variable} \"@streq {value}\" \"id:{},phase:5\"", id + 1)
    };
    let rules = wanted.iter().enumerate().map(rule).collect::<Vec<_>>().join("\n");
    let rules = compiled(&format!("SecAction \"id:1000,phase:4,nolog\"\n{rules}"));
    let body = "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\r\nhello\r\n\
                --B\r\nContent-Disposition: form-data; name=\"p\"\r\n\r\nv\r\n--B--\r\n";
    let mut tx = transaction(&rules, &Arc::new(Collections::new(1)));
    let line = RequestLine { method: b"POST", target: b"/", protocol: "HTTP/1.1" };
    tx.request_head(line, [(&b"Content-Type"[..], &b"multipart/form-data; boundary=B"[..])]);
    tx.request_body(body.as_bytes());
    tx.request_end();
    tx.response_head(404, "HTTP/1.1", [(&b"Content-Type"[..], &b"text/html"[..]), (b"X", b"y")]);
    tx.response_body(b"body");
    tx.response_end();
    tx.set_time(1_700_000_001_500_000);
    let found: Vec<u64> = tx.finish().matches.iter().map(|matched| matched.rule).collect();
    let missing: Vec<_> =
        wanted.iter().enumerate().filter(|(index, _)| !found.contains(&(*index as u64 + 1))).collect();
    assert!(missing.is_empty(), "{missing:?} of a body of {} bytes", body.len());
}
