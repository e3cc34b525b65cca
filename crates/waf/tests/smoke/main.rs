//! Runs the fuzz targets `waf_rules` and `waf_request` for a moment: the corpus in `fuzz/corpus`, and
//! mutations of it from a fixed seed, so that a failure is reproducible.

mod checks;
#[path = "../../../../fuzz/smoke.rs"]
mod driver;

/// Mutations of each entry of the corpus of rules.
const ROUNDS_OF_RULES: u64 = 1_500;
/// Mutations of each entry of the corpus of requests.
const ROUNDS_OF_REQUESTS: u64 = 1_500;

/// Pieces with a meaning for the parser of rules.
const RULES: &[&[u8]] = &[
    b"SecRule ARGS \"@rx a\" \"id:9,deny\"\n",
    b"SecRule ",
    b"SecAction \"id:8,pass\"\n",
    b"\\\n",
    b"\n",
    b"\"",
    b"'",
    b" ",
    b"|",
    b"&",
    b"!",
    b"@",
    b",",
    b":",
    b"/",
    b"(",
    b"[",
    b"%{",
    b"(?!",
    b"(?<=",
    b"a++",
    b"\\1",
    b"%{tx.a}",
    b"}",
    b"chain",
    b"setvar:tx.a=+1",
    b"ctl:ruleRemoveById=1-9",
    b"t:none",
    b"t:urlDecodeUni",
    b"skipAfter:X",
    b"capture",
    b"XML:/*",
    b"TX:1",
    b"REQUEST_HEADERS:/x/",
    b"\0",
    b"\xff",
];

/// Pieces with a meaning for bodies, transformations and operators.
const REQUESTS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"--B\r\n",
    b"--B--\r\n",
    b"Content-Disposition: form-data; name=\"a\"; filename=\"b\"\r\n\r\n",
    b"&",
    b"=",
    b"%",
    b"%u0041",
    b"+",
    b"{\"a\":",
    b"[",
    b"]}",
    b"\\u00e9",
    b"<a b='c'>",
    b"</a>",
    b"&#x41;",
    b"' or 1=1--",
    b"<script>",
    b"/*",
    b"*/",
    b"../",
    b"\\x41",
    b"\0",
    b"\xff",
    b"Cookie: a=b; c\n",
    b"?",
];

#[test]
fn rules() {
    driver::smoke("waf_rules", ROUNDS_OF_RULES, RULES, checks::waf_rules);
}

#[test]
fn requests() {
    driver::smoke("waf_request", ROUNDS_OF_REQUESTS, REQUESTS, checks::waf_request);
}
