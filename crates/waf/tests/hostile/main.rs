//! Requests that are meant to cost much end within the work that an exchange may take, and large ones that
//! people send are not refused for it. The rules have expressions of the families that the core rules have;
//! `cargo xtask waf` plays the same requests to the core rules themselves.

mod corpus;

use std::fmt::Write as _;
use std::sync::Arc;

use waf::{Collections, Connection, NoFiles, Report, RequestLine, Rules, Source, Transaction};

/// Work that is counted when it has been done: a search over the longest text.
const WORK_MAX: u64 = 20 << 20;

const HEAD: &str = r#"
SecRuleEngine On
SecRequestBodyAccess On
SecRequestBodyJsonDepthLimit 512
SecRule REQUEST_HEADERS:Content-Type "@contains xml" "id:1,phase:1,pass,nolog,ctl:requestBodyProcessor=XML"
SecRule REQUEST_HEADERS:Content-Type "@contains json" "id:2,phase:1,pass,nolog,ctl:requestBodyProcessor=JSON"
"#;

/// The transformations with which each expression is tried.
const CHAINS: [&str; 6] = [
    "t:none",
    "t:none,t:urlDecodeUni,t:lowercase",
    "t:none,t:cmdLine,t:normalizePathWin",
    "t:none,t:utf8toUnicode,t:urlDecodeUni,t:htmlEntityDecode,t:jsDecode,t:cssDecode,t:removeNulls",
    "t:none,t:urlDecodeUni,t:replaceComments,t:compressWhitespace,multiMatch",
    "t:none,t:base64Decode,t:escapeSeqDecode,t:removeWhitespace",
];

/// Expressions by family: nested repetitions, gaps, words, bounded repetitions, lists with borders.
const EXPRESSIONS: [&str; 12] = [
    r"(?:a+)+b(?:[^c]*c)+d",
    r"(?i)[\x22'`](?:[\s\x0b]*(?:and|or|div|like)[\s\x0b]+[^0-9]+[0-9]|[^\*]*\*[\s\x0b]*[0-9]).*?--",
    r"(?i)<[^\w<>]*(?:[^<>\x22'\s]*:)?[^\w<>]*(?:script|style|object|embed|iframe|meta)[^>\w]",
    r"(?i)(?:select|union)[^a-z]{1,40}(?:all|distinct|from)?[^a-z]{1,40}(?:select|char|concat)",
    r"(?i)\b(?:eval|exec|system|passthru|assert)[\s\x0b]*\([^\)]*\)",
    r"(?:/|\x5c|%(?:2f|5c))(?:\.|%2e){2,3}(?:/|\x5c|%(?:2f|5c))",
    r"(?i)\$\{?(?:jndi|lower|upper|env)[:\{].{0,20}\}",
    r"(?:\{[^\}]*\{){2,}[^\{]*\}\}",
    r"[\n\r][^0-9A-Z_a-z]*?(?:content-type|set-cookie|location)[\s\x0b]*:",
    r"(?:(?:[!-/:-@\[-`{-~][^!-/:-@\[-`{-~]*?){12})",
    r"(?i)(?:\(|\b)(?:x?or|and)\b[\s\x0b]*[\(\x22']?[0-9a-z]+[\)\x22']?[\s\x0b]*(?:=|<|>|like)",
    r"^(?:[^\x00-\x1f]|\s)*$(?:z|y)",
];

fn rules() -> Arc<Rules> {
    let gap = r"[\x22'\)\[\x5c]*(?:(?:\|\|\s*)?\$[!#\(\*\-0-9\?@_a-\{]*)?\x5c?";
    let words = ["busybox", "wget", "bash", "perl", "python", "xargs", "time", "nice", "cat", "ls"];
    let gapped = |word: &&str| word.chars().map(String::from).collect::<Vec<_>>().join(gap);
    let words = words.iter().map(gapped).collect::<Vec<_>>().join("|");
    let commands = format!(r"(?i)(?:^|[\n;`|&]|\$\()[\s\x0b]*(?:{words})(?:{gap})[\s\x0b<>&|]");
    let targets = "ARGS|ARGS_NAMES|REQUEST_COOKIES|REQUEST_HEADERS|FILES|XML:/*|REQUEST_URI_RAW";
    let mut text = HEAD.to_owned();
    let expressions = EXPRESSIONS.iter().map(|text| format!("@rx {text}"));
    let operators =
        expressions.chain([format!("@rx {commands}"), "@detectSQLi".to_owned(), "@detectXSS".to_owned()]);
    for (number, operator) in operators.enumerate() {
        for (chain, transformations) in CHAINS.iter().enumerate() {
            let id = 100 + number * 10 + chain;
            let actions = format!("id:{id},phase:2,pass,capture,{transformations}");
            let _ = writeln!(text, "SecRule {targets} \"{operator}\" \"{actions}\"");
        }
    }
    Arc::new(Rules::compile(&[Source { name: "hostile", text: &text }], &NoFiles).expect("the rules compile"))
}

fn play(rules: &Arc<Rules>, case: &corpus::Case) -> Report {
    let connection = Connection {
        client: ([192, 0, 2, 1], 1234).into(),
        server: ([192, 0, 2, 2], 80).into(),
        unique_id: "1".into(),
        unix_time: 1_767_225_600_000_000,
        seed: 7,
    };
    let mut transaction = Transaction::new(Arc::clone(rules), Arc::new(Collections::new(7)), connection);
    let headers = case.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let line = RequestLine { method: b"POST", target: case.target.as_bytes(), protocol: "HTTP/1.1" };
    transaction.request_head(line, headers);
    for piece in case.body.chunks(16 << 10) {
        transaction.request_body(piece);
    }
    transaction.request_end();
    transaction.finish()
}

#[test]
fn hostile_requests_are_bounded_and_ordinary_ones_pass() {
    let rules = rules();
    for case in corpus::cases() {
        let report = play(&rules, &case);
        assert!(report.work <= WORK_MAX, "{}: {} of work", case.name, report.work);
        assert!(!case.is_ordinary || !report.exhausted, "{} is refused", case.name);
    }
}
