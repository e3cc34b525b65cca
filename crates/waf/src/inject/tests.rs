//! libinjection's vectors, and invariants for any text.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{detect_sqli, detect_xss, html, sqli};

/// The vectors of a kind: name, input, expected result.
fn vectors(kind: &str) -> Vec<[Vec<u8>; 3]> {
    let text = include_str!("vectors/libinjection.txt");
    // Two lines of comment, and then for each vector an empty line and three more.
    let lines: Vec<&str> = text.lines().skip(3).collect();
    let blocks = lines.chunks(4);
    blocks
        .filter(|block| block[0].starts_with(kind))
        .map(|block| [0, 1, 2].map(|at| unescaped(block[at])))
        .collect()
}

fn unescaped(line: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), line.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match (byte, rest.len()) {
            (b'\\', 1..) => match rest.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'x') => {
                    let digits = [rest.next(), rest.next()].map(|digit| char::from(digit.expect("a digit")));
                    u8::from_str_radix(&digits.iter().collect::<String>(), 16).expect("two digits")
                }
                other => other.expect("an escape"),
            },
            _ => byte,
        });
    }
    bytes
}

fn check(kind: &str, count: usize, result: impl Fn(&[u8]) -> Vec<u8>) {
    let vectors = vectors(kind);
    assert_eq!(vectors.len(), count, "{kind}");
    for [name, input, expected] in vectors {
        let found = result(&input);
        assert_eq!(
            found.trim_ascii_end().escape_ascii().to_string(),
            expected.escape_ascii().to_string(),
            "{} {}",
            String::from_utf8_lossy(&name),
            input.escape_ascii()
        );
    }
}

#[test]
fn tokens_of_sql_are_those_of_libinjection() {
    check("tokens-", 249, sqli::tests::tokens);
}

#[test]
fn sql_is_folded_as_libinjection_folds_it() {
    check("folding-", 118, sqli::tests::folded);
}

#[test]
fn injections_of_sql_are_those_of_libinjection() {
    check("sqli-", 54, |input| detect_sqli(input).map(|found| found.as_bytes().to_vec()).unwrap_or_default());
}

#[test]
fn tokens_of_html_are_those_of_libinjection() {
    check("html5-", 68, html::tests::tokens);
}

#[test]
fn injections_of_html_are_those_of_libinjection() {
    check("xss-", 7, |input| if detect_xss(input) { b"1".to_vec() } else { b"0".to_vec() });
}

#[test]
fn shapes_are_confirmed_by_a_second_look() {
    for (text, shape) in [
        (&b"\t1/*"[..], Some("1c")),
        (b" 0x1/*", Some("1c")),
        (b"1--", Some("1c")),
        (b"1#x", None),
        (b"q'\xe9' union /*!50000select*/ 1", Some("X")),
        (b"-(top<>thendrop1.5\\'--null'--", Some("sc")),
        (b"-1' and 1=1 union/* foo */select load_file('/etc/passwd')--", Some("s&1UE")),
        (b"1' or '1'='1", Some("s&sos")),
        (b"sexy and 17", None),
        (b"12abc--", None),
        (b"union", None),
        (b"It's a dog's life -- or is it", None),
        (b"SELECT.", None),
        (b"", None),
    ] {
        let found = detect_sqli(text).map(|found| found.to_string());
        assert_eq!(found.as_deref(), shape, "{}", text.escape_ascii());
    }
}

#[test]
fn script_is_found_in_any_place() {
    for (text, expected) in [
        (&b"<script>alert(1)</script>"[..], true),
        (b"<scr\0ipt>", true),
        (b"<svg/onload=alert(1)>", true),
        (b"\" onerror=alert(1) x=\"", true),
        (b"' onerror=alert(1)", true),
        (b"x` onload=1", true),
        (b"onmouseover=x", true),
        (b"<a href=\"jav&#x61;script:alert(1)\">", true),
        (b"<a href=\" \x01java\nscript:x\">", true),
        (b"<a href=\"https://data\">", false),
        (b"<a href=&#>", false),
        (b"href=&#X", false),
        (b"<!--[if IE]>x<![endif]-->", true),
        (b"<!--`x`-->", true),
        (b"<?im\0port namespace=\"t\">", true),
        (b"<!ENTITY x SYSTEM \"file:///etc/passwd\">", true),
        (b"<!DOCTYPE html>", true),
        (b"<div attributename=\"onclick\">", true),
        (b"<div attributename=\"class\">", false),
        (b"<div style=\"color:red\">", true),
        (b"<b class=x>bold</b>", false),
        (b"a < b && c > d", false),
        (b"myvar=onfoobar==", false),
        (b"onY29va2llcw==", false),
        (b"<![CDATA[]]]", false),
        (b"<", false),
    ] {
        assert_eq!(detect_xss(text), expected, "{}", text.escape_ascii());
    }
}

/// Texts that made other detectors slow.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time is what is tested")]
fn no_text_costs_more_than_its_length_is_worth() {
    const LEN: usize = 100_000;
    for unit in [
        "\\'",
        "''",
        "/",
        "<",
        "/*",
        "<a ",
        "&#",
        "<!--",
        "<![CDATA[]",
        "q'(",
        "$$",
        "$a$",
        "--\n",
        "1",
        "a ",
        "' \" ",
        "`",
        "@",
        "'a' ",
        "a.",
        "(",
        "select.",
        "in (",
        "1e",
        "-\0",
        "<!---",
        "<%",
        "x'",
        "{a",
        "u&'",
        "\"'",
        "a=",
        "<a b='",
        "/>",
        "1,",
        "\\",
    ] {
        for text in [unit.repeat(LEN / unit.len()), format!("'{}", unit.repeat(LEN / unit.len()))] {
            let begin = Instant::now();
            detect_sqli(text.as_bytes());
            detect_xss(text.as_bytes());
            let spent = begin.elapsed();
            assert!(spent < Duration::from_secs(2), "{unit:?} took {spent:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_has_a_verdict(text in text()) {
        let shape = detect_sqli(&text);
        prop_assert!(shape.is_none_or(|shape| (1..=5).contains(&shape.as_bytes().len())));
        detect_xss(&text);
        sqli::tests::tokens(&text);
        html::tests::tokens(&text);
    }
}

/// Texts that are likely to have what the tokenizers look for.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        &b"'"[..],
        b"\"",
        b"`",
        b"\\",
        b"--",
        b"/*",
        b"*/",
        b"#",
        b"$",
        b"$a$",
        b"(",
        b")",
        b"{",
        b"}",
        b"[",
        b"]",
        b"@",
        b"1",
        b"1.",
        b"e",
        b"0x",
        b"x'",
        b"q'",
        b"n'",
        b"u&'",
        b"union ",
        b"select",
        b" or ",
        b"and",
        b".",
        b",",
        b";",
        b" ",
        b"\0",
        b"\n",
        b"\xa0",
        b"\xff",
        b"<",
        b">",
        b"/",
        b"<!--",
        b"-->",
        b"<![CDATA[",
        b"]]>",
        b"<%",
        b"%>",
        b"<?",
        b"script",
        b"onload",
        b"=",
        b"href",
        b"java",
        b"&#",
        b"&#x6a;",
        b"in",
        b"not ",
        b"collate",
        b"a_b",
    ]);
    prop::collection::vec(words, 0..20).prop_map(|words| words.concat())
}

/// Pieces of which each makes a loop over the rest of the text likely.
const REPEATED: [&str; 36] = [
    "a",
    "1",
    " ",
    "'",
    "\"",
    "`",
    "(",
    ")",
    "[",
    "{",
    "<",
    ">",
    "=",
    "@",
    "@`",
    "/*",
    "/**/",
    "--",
    "--\n",
    "#",
    "\\",
    "\\'",
    "q'(",
    "n'",
    "u&'",
    "x'",
    "$",
    "$a$",
    "1e",
    "a.",
    "<a ",
    "<a b=",
    "<!--",
    "<![CDATA[",
    "&#x41;",
    "or 1=1 ",
];

#[test]
fn work_doubles_at_most_when_the_text_does() {
    for first in REPEATED {
        for second in REPEATED {
            let text = |count: usize| [first, second].concat().repeat(count).into_bytes();
            let work = |count: usize| {
                let (mut sqli, mut xss) = (0, 0);
                super::detect_sqli_with_work(&text(count), &mut sqli);
                super::detect_xss_with_work(&text(count), &mut xss);
                [sqli, xss]
            };
            for (once, twice) in work(200).into_iter().zip(work(400)) {
                assert!(twice <= 2 * once + 200, "{first:?} {second:?}: {once} and {twice}");
            }
        }
    }
}
