//! Invariants for any input. The fuzz targets and the smoke test call the same functions.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use waf::transform::{TRANSFORMATIONS, apply};
use waf::{Collections, Connection, NoFiles, Report, RequestLine, Rules, Source, Transaction, Verdict};

/// The length of a text with rules. Expressions are compiled in linear time, but not in no time.
const RULES_BYTES_MAX: usize = 4096;

/// Bytes that a transformation makes of one: two bytes of UTF-8 become `%uHHHH`.
const GROWTH_MAX: usize = 3;

/// Bytes of the result for a text of any length, such as an empty one: a digest, or a number.
const DIGEST_BYTES_MAX: usize = 24;

/// Rules that ask for all kinds of bodies, and for all transformations and detectors.
const RULES: &str = r#"
SecRuleEngine On
SecRequestBodyAccess On
SecResponseBodyAccess On
SecArgumentsLimit 50
SecRequestBodyLimit 100000
SecRequestBodyNoFilesLimit 50000
SecRequestBodyJsonDepthLimit 20
SecRule REQUEST_HEADERS:Content-Type "@contains xml" "id:1,phase:1,pass,nolog,ctl:requestBodyProcessor=XML"
SecRule REQUEST_HEADERS:Content-Type "@contains json" "id:2,phase:1,pass,nolog,ctl:requestBodyProcessor=JSON"
SecAction "id:3,phase:1,pass,nolog,setvar:tx.score=0,initcol:ip=%{REMOTE_ADDR},setvar:ip.count=+1"
SecRule ARGS|ARGS_NAMES|REQUEST_COOKIES|XML:/*|XML://@* "@detectSQLi" "id:4,phase:2,pass,capture,multiMatch,t:none,t:urlDecodeUni,t:removeNulls,setvar:tx.score=+1,logdata:'%{TX.0} %{MATCHED_VAR_NAME}'"
SecRule ARGS|REQUEST_HEADERS|FILES|FILES_NAMES "@detectXSS" "id:5,phase:2,pass,t:none,t:utf8toUnicode,t:urlDecodeUni,t:htmlEntityDecode,t:jsDecode,t:cssDecode,t:escapeSeqDecode,setvar:tx.score=+1"
SecRule ARGS|MULTIPART_PART_HEADERS "@rx (?i)(\w+)\s*=\s*(\w+)" "id:6,phase:2,pass,capture,t:none,t:cmdLine,t:compressWhitespace,t:replaceComments,chain"
    SecRule TX:1 "@streq %{TX.2}" "t:none,t:lowercase,setvar:tx.score=+%{tx.score}"
SecRule REQUEST_URI|REQUEST_FILENAME|QUERY_STRING|REQUEST_LINE "@pm ../ passwd select" "id:7,phase:1,pass,t:none,t:base64DecodeExt,t:hexDecode,t:sqlHexDecode,t:normalizePathWin,t:sha1,t:hexEncode"
SecRule REQUEST_BODY "@validateByteRange 1-255" "id:8,phase:2,pass,t:none,t:removeComments,t:removeCommentsChar,t:parityEven7bit,t:trim,t:md5,t:base64Encode,t:urlEncode,t:length"
SecRule REQBODY_ERROR|MULTIPART_STRICT_ERROR "!@eq 0" "id:9,phase:2,pass,msg:'%{REQBODY_ERROR_MSG}'"
SecRule &ARGS|FILES_COMBINED_SIZE|ARGS_COMBINED_SIZE "@gt 20" "id:10,phase:2,pass,t:none"
SecRule RESPONSE_BODY "@contains root" "id:11,phase:4,pass"
SecRule TX:SCORE "@ge 3" "id:12,phase:2,deny,status:403,msg:'%{tx.score}'"
"#;

thread_local! {
    static COMPILED: OnceCell<Arc<Rules>> = const { OnceCell::new() };
}

/// A text that compiles has rules that run; one that does not has problems with places in it.
pub(crate) fn waf_rules(input: &[u8]) {
    let text = String::from_utf8_lossy(&input[..input.len().min(RULES_BYTES_MAX)]);
    let sources = [Source { name: "input", text: &text }];
    match Rules::compile(&sources, &NoFiles) {
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            for problem in problems {
                assert!((1..=text.lines().count() + 1).contains(&problem.line), "{problem}");
                assert!(problem.column > 0 && !problem.message.is_empty(), "{problem}");
            }
        }
        Ok(rules) => {
            let request = b"Content-Type: application/x-www-form-urlencoded\nCookie: a=b\n\na=1&b=<c>&d='";
            play(&Arc::new(rules), b"/x/../y?q=%41%u0042", request, &[usize::MAX]);
        }
    }
}

/// An exchange has the same verdict and the same matches, however its body is cut.
///
/// The input is a target, a line each for headers, an empty line, and the body; its first byte is the length
/// of the pieces.
pub(crate) fn waf_request(input: &[u8]) {
    let Some((&len, rest)) = input.split_first() else { return };
    let (target, rest) = rest.split_at(rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()));
    let rules = COMPILED.with(|compiled| {
        Arc::clone(compiled.get_or_init(|| {
            let sources = [Source { name: "rules", text: RULES }];
            Arc::new(Rules::compile(&sources, &NoFiles).expect("the rules compile"))
        }))
    });
    let rest = rest.get(1..).unwrap_or_default();
    transform(rest);
    let whole = play(&rules, target, rest, &[usize::MAX]);
    let pieces = play(&rules, target, rest, &[usize::from(len) + 1, 1, 7]);
    assert_eq!(whole, pieces);
}

/// Every transformation has a result, of a length that the text bounds, and the same for a text of its own.
fn transform(text: &[u8]) {
    for entry in TRANSFORMATIONS {
        let new = apply(entry.transformation, Cow::Borrowed(text), None);
        assert!(new.len() <= text.len() * GROWTH_MAX + DIGEST_BYTES_MAX, "{}: {}", entry.name, new.len());
        assert_eq!(new, apply(entry.transformation, Cow::Owned(text.to_vec()), None), "{}", entry.name);
    }
}

/// The verdict, and the rules with their data, of an exchange whose body comes in pieces of these lengths.
fn play(rules: &Arc<Rules>, target: &[u8], rest: &[u8], lens: &[usize]) -> Vec<String> {
    let connection = Connection {
        client: ([192, 0, 2, 1], 1234).into(),
        server: ([192, 0, 2, 2], 80).into(),
        unique_id: "1".into(),
        unix_time: 1_767_225_600_000_000,
        seed: 7,
    };
    let mut transaction = Transaction::new(Arc::clone(rules), Arc::new(Collections::new(7)), connection);
    let mut lines = rest.split(|&byte| byte == b'\n');
    let mut used = 0;
    let headers: Vec<_> = lines
        .by_ref()
        .take_while(|line| {
            used += line.len() + 1;
            !line.is_empty()
        })
        .map(|line| {
            let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
            (&line[..colon], line.get(colon + 1..).unwrap_or_default().trim_ascii())
        })
        .collect();
    let line = RequestLine { method: b"POST", target, protocol: "HTTP/1.1" };
    let mut verdict = transaction.request_head(line, headers);
    let mut body = rest.get(used..).unwrap_or_default();
    let mut lens = lens.iter().cycle();
    while verdict.passes() && transaction.request_body_limit().is_some() && !body.is_empty() {
        let len = lens.next().map_or(body.len(), |len| body.len().min(*len));
        verdict = transaction.request_body(&body[..len]);
        body = &body[len..];
    }
    if verdict.passes() {
        verdict = transaction.request_end();
    }
    if verdict.passes() {
        verdict = transaction.response_head(200, "HTTP/1.1", [(&b"Content-Type"[..], &b"text/html"[..])]);
        transaction.response_body(b"toor root");
        if verdict.passes() {
            verdict = transaction.response_end();
        }
    }
    summary(&verdict, &transaction.finish())
}

fn summary(verdict: &Verdict, report: &Report) -> Vec<String> {
    let matches = report.matches.iter().map(|found| {
        format!("{} {} {}", found.rule, found.message.escape_ascii(), found.data.escape_ascii())
    });
    matches.chain([format!("{verdict:?}")]).collect()
}
