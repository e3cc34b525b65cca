//! Requests that are meant to cost much, and large ones that are not: a test, `examples/cost.rs` and
//! `cargo xtask waf` play all of them.

use std::fmt::Write as _;

/// A request with a body.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// True if people send such requests: it must not be refused for its cost.
    pub(crate) is_ordinary: bool,
}

/// Bytes of most hostile bodies: the default of `SecRequestBodyNoFilesLimit`.
const BODY_BYTES: usize = 128 << 10;
/// Bytes of a header's value that common servers accept.
const HEADER_BYTES: usize = 16 << 10;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// Texts that are repeated until the body is full, each as one argument of a form.
const REPEATED: &[(&str, &str)] = &[
    ("one letter", "a"),
    ("digits", "0"),
    ("spaces", "+"),
    ("quotes", "'"),
    ("both quotes", "%22'"),
    ("backticks", "`"),
    ("less-than signs", "<"),
    ("tags that begin", "<a"),
    ("opening parentheses", "("),
    ("nested calls", "a("),
    ("brackets of all kinds", "([{<"),
    ("escaped percent signs", "%2525"),
    ("comments that begin", "/*"),
    ("comments that begin and end", "/**/"),
    ("comments one after the other", "/*a*/-- b%0a"),
    ("SQL comments", "--%20%0a#"),
    ("HTML comments", "<!--"),
    ("dots and slashes", "../"),
    ("encoded traversal", "%252e%252e%255c"),
    ("backslashes", "%5c"),
    ("JavaScript escapes", "%5cx41%5cu0041"),
    ("CSS escapes", "%5c000041%20"),
    ("entities", "%26%23x41;"),
    ("entities without an end", "%26%23"),
    ("IIS escapes", "%2575u0041"),
    ("hexadecimal literals", "0x41"),
    ("hexadecimal digits", "4142"),
    ("Base64", "QUJD"),
    ("NUL bytes", "%00"),
    ("high bytes", "%ff%c2%a0"),
    ("line ends", "%0d%0a"),
    ("dollars and braces", "$%7b"),
    ("template expressions", "%7b%7ba%7d%7d"),
    ("variables of shells", "$a'b\"c%5cd"),
    ("commands of shells", ";cat+$IFS"),
    ("pipes", "a%7cb%26%26c"),
    ("wildcards of shells", "/???/b?n/*"),
    ("assignments", "a=b;"),
    ("SQL words", "select+union+"),
    ("SQL operators", "1=1+or+"),
    ("SQL numbers", "1e1.2,"),
    ("SQL strings", "'a'+'b'+"),
    ("SQL functions", "char(1),"),
    ("SQL variables", "@@a+@b+"),
    ("attributes", "<a+b=c+"),
    ("events", "+onx=y"),
    ("schemes", "javascript:"),
    ("PHP tags", "<?php+"),
    ("PHP variables", "$_GET["),
    ("PHP functions", "chr(base64_decode("),
    ("Java classes", "java.lang.runtime"),
    ("lookups of Log4j", "$%7bjndi:"),
    ("lookups in lookups", "$%7b$%7blower:"),
    ("addresses", "http://1.2.3.4/"),
    ("LDAP filters", "(%26(a=b)"),
    ("mail commands", "%0d%0aRCPT+TO"),
    ("session names", "jsessionid=a+"),
    ("prototypes", "__proto__["),
    ("Unix paths", "/etc/passwd/"),
    ("Windows commands", "cmd+/c+"),
];

/// Pieces of which texts are shuffled, so that no automaton has seen their order.
const PIECES: &[&str] = &[
    "select",
    "union",
    "%27",
    "or",
    "1%3d1",
    "<script",
    ">",
    "onerror%3d",
    "javascript:",
    "..%2f",
    "etc%2fpasswd",
    ";",
    "cat",
    "|",
    "$(",
    ")",
    "`",
    "php:%2f%2f",
    "eval(",
    "base64_decode",
    "%5cx41",
    "exec",
    "xp_cmdshell",
    "--",
    "%2f*",
    "*%2f",
    "sleep(",
    "%20",
    "having",
    "{{",
    "}}",
    "__proto__",
    "java.lang",
    "${jndi:",
    "<!",
    "&lt%3b",
    "%00",
    "curl",
    "wget",
    "bash",
    "-c",
    "&&",
    "||",
];

const SIGNS: &[u8] = b"'\"`(){}[]<>;|&$\\/*-#=+%@! ";

/// The ordinary requests, and then the hostile ones.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = ordinary();
    for &(name, text) in REPEATED {
        cases.push(form(name, format!("q={}", filled(text, BODY_BYTES - 2))));
    }
    cases.extend(shuffled_cases());
    cases.extend(many());
    cases.extend(heads());
    cases.extend(structures());
    cases
}

fn filled(text: &str, bytes: usize) -> String {
    text.repeat(bytes / text.len())
}

fn case(name: &str, kind: &str, body: impl Into<Vec<u8>>) -> Case {
    Case {
        name: name.to_owned(),
        target: "/order".to_owned(),
        headers: vec![("Content-Type".to_owned(), kind.to_owned())],
        body: body.into(),
        is_ordinary: false,
    }
}

fn form(name: &str, body: String) -> Case {
    case(name, FORM, body)
}

/// A generator of numbers that is always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

fn ordinary() -> Vec<Case> {
    let mut numbers = Numbers(7);
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let image: String = (0..127 << 10).map(|_| char::from(alphabet[numbers.below(64)])).collect();
    let prose = [
        ("English", "The parcel came on Tuesday, and the neighbours took it in; we will write again soon. "),
        (
            "German",
            "Das Paket kam am Dienstag, die Nachbarn nahmen es an; wir schreiben später noch einmal. ",
        ),
        ("Russian", "Посылка пришла во вторник, её приняли соседи; мы скоро напишем ещё раз. "),
        ("Chinese", "包裹星期二到了，邻居代收；我们很快会再写信。"),
        ("Arabic", "وصل الطرد يوم الثلاثاء واستلمه الجيران؛ سنكتب مرة أخرى قريبا. "),
    ];
    let texts = prose.map(|(language, text)| {
        let body = format!("{{\"title\":\"{language}\",\"text\":\"{}\"}}", filled(text, 100 << 10));
        case(&format!("100 KB of {language}"), JSON, body)
    });
    let mut items = String::from("[");
    for index in 0.. {
        let _ =
            write!(items, "{{\"id\":{index},\"name\":\"Running shoe {index}\",\"tags\":[\"new\",\"sale\"]}}");
        if items.len() > 50 << 10 {
            break;
        }
        items.push(',');
    }
    let mut cases = vec![
        case("an image of 127 KB as Base64", JSON, format!("{{\"name\":\"a.png\",\"data\":\"{image}\"}}")),
        case("a list of 50 KB", JSON, items + "]"),
    ];
    cases.extend(texts);
    for case in &mut cases {
        case.is_ordinary = true;
    }
    cases
}

fn shuffled_cases() -> Vec<Case> {
    let mut numbers = Numbers(1);
    let mut text = |piece: &mut dyn FnMut(&mut Numbers) -> String| {
        let mut text = String::from("q=");
        while text.len() + 16 < BODY_BYTES {
            text.push_str(&piece(&mut numbers));
        }
        text
    };
    let escaped = |byte: usize| format!("%{byte:02x}");
    vec![
        form("random printable bytes", text(&mut |numbers| escaped(32 + numbers.below(95)))),
        form("random bytes", text(&mut |numbers| escaped(numbers.below(256)))),
        form("random letters", text(&mut |numbers| char::from(b'a' + numbers.below(26) as u8).to_string())),
        form("random signs", text(&mut |numbers| escaped(usize::from(SIGNS[numbers.below(SIGNS.len())])))),
        form("pieces of attacks", text(&mut |numbers| PIECES[numbers.below(PIECES.len())].to_owned())),
        form(
            "letters with quotes between them",
            text(&mut |numbers| {
                char::from(b'a' + numbers.below(26) as u8).to_string()
                    + ["", "'", "%22", "%5c", "$@"][numbers.below(5)]
            }),
        ),
    ]
}

fn many() -> Vec<Case> {
    let mut numbers = Numbers(3);
    let (mut names, mut values) = (String::new(), String::new());
    for index in 0..1_000 {
        let _ = write!(names, "a{index}=b'{index}<&");
    }
    for index in 0..900 {
        let _ = write!(values, "n{index}=");
        for _ in 0..44 {
            let _ = write!(values, "%{:02x}", 32 + numbers.below(95));
        }
        values.push('&');
    }
    let mut parts = String::new();
    for index in 0..900 {
        let head = format!("Content-Disposition: form-data; name=\"a{index}\"; filename=\"b'{index}<.php\"");
        let _ = write!(parts, "--B\r\n{head}\r\nX-{index}: a'b\r\n\r\nselect\r\n");
    }
    let cookies = filled("a'b=<c;", HEADER_BYTES);
    let mut with_cookies = form("many cookies", String::from("a=b"));
    with_cookies.headers.push(("Cookie".to_owned(), cookies));
    vec![
        form("1,000 arguments", names),
        form("900 arguments of random bytes", values),
        case("900 parts with files", "multipart/form-data; boundary=B", parts + "--B--\r\n"),
        with_cookies,
    ]
}

fn heads() -> Vec<Case> {
    let values = ["(a[b{c<d'e\"", "a=b;", "%2525", "../", "${jndi:", "select 1 "];
    let mut cases: Vec<Case> = values
        .iter()
        .map(|text| {
            let mut case = form(&format!("headers full of {text}"), "a=b".to_owned());
            for name in ["User-Agent", "Referer", "X-Forwarded-For", "Accept"] {
                case.headers.push((name.to_owned(), filled(text, HEADER_BYTES / 4)));
            }
            case
        })
        .collect();
    let mut long = form("a long target", "a=b".to_owned());
    long.target = format!("/{}?{}", filled("a/..//%2e", 8 << 10), filled("a=%25%32%37&", 8 << 10));
    cases.push(long);
    cases
}

fn structures() -> Vec<Case> {
    let deep = |open: &str, close: &str| filled(open, 60 << 10) + "1" + &filled(close, 60 << 10);
    let words = |text: &str| format!("{{\"a\":\"{}\"}}", filled(text, BODY_BYTES - 16));
    let long_names = format!("[{}1]", filled("{\"abcdefghij\":[0,1,2,3]},", BODY_BYTES - 16));
    vec![
        case("deep JSON arrays", JSON, deep("[", "]")),
        case("deep JSON objects", JSON, filled("{\"a\":", 120 << 10)),
        case("JSON in 900 levels", JSON, "[".repeat(900) + &filled("'<(;1 \\u0027,", 60 << 10)),
        case("JSON escapes", JSON, words("\\u0027\\u003c\\\\")),
        case("JSON with a string of markup", JSON, words("<a b='c'>")),
        case("JSON of many names", JSON, long_names),
        case("deep XML", "application/xml", filled("<a b='c'>", BODY_BYTES)),
        case("XML entities", "application/xml", format!("<a>{}</a>", filled("&lt;&#x27;", BODY_BYTES - 16))),
        case("multipart without an end", "multipart/form-data; boundary=B", filled("--B\r\n", BODY_BYTES)),
        case(
            "multipart lines",
            "multipart/form-data; boundary=B",
            "--B\r\n".to_owned() + &filled("a:b\r\n", BODY_BYTES),
        ),
        case("13 MB of a file", "multipart/form-data; boundary=B", file(13_000_000)),
    ]
}

fn file(bytes: usize) -> String {
    let head = "--B\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b.bin\"\r\n\r\n";
    format!("{head}{}\r\n--B--\r\n", filled("'<script>\r\n--A\r\n-", bytes))
}
