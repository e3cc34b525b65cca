//! Bodies of each kind, whole and in pieces.

use proptest::prelude::*;

use super::{Flag, Parser, Place, Processor, Settings, Sink};

/// All that a body has, one line for each thing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines(Vec<String>);

impl Sink for Lines {
    fn item(&mut self, place: Place, name: &[u8], value: &[u8]) {
        self.0.push(format!("{place:?} {}={}", name.escape_ascii(), value.escape_ascii()));
    }

    fn flag(&mut self, flag: Flag) {
        self.0.push(format!("flag {flag:?}"));
    }

    fn error(&mut self, message: &str) {
        self.0.push(format!("error {message}"));
    }
}

const SETTINGS: Settings = Settings {
    arguments_max: 20,
    json_depth_max: 5,
    no_files_bytes_max: 20_000,
    files_max: 0,
    separator: b'&',
    xml_nodes: false,
};

const FORM: &[u8] = b"multipart/form-data; boundary=B";

/// The lines of a body that comes in pieces of these lengths, again and again.
fn lines(processor: Processor, content_type: &[u8], body: &[u8], lens: &[usize]) -> Vec<String> {
    let mut parser = Parser::new(processor, &SETTINGS, content_type);
    let mut sink = Lines::default();
    let (mut rest, mut lens) = (body, lens.iter().cycle());
    while !rest.is_empty() {
        let len = lens.next().map_or(rest.len(), |&len| len.clamp(1, rest.len()));
        parser.feed(&rest[..len], &mut sink);
        rest = &rest[len..];
    }
    parser.end(&mut sink);
    sink.0
}

fn check(processor: Processor, body: &[u8], expected: &[&str]) {
    for lens in [&[][..], &[1], &[2, 3]] {
        assert_eq!(lines(processor, FORM, body, lens), expected, "{}", body.escape_ascii());
    }
}

#[test]
fn a_form_has_decoded_pairs() {
    let check = |body: &[u8], expected: &[&str]| check(Processor::UrlEncoded, body, expected);
    check(b"", &[]);
    check(
        b"a=1&b=%41+%zz&&c&=d&e=f=g",
        &["Argument a=1", "Argument b=A %zz", "Argument c=", "Argument =d", "Argument e=f=g"],
    );
    let many = "a&".repeat(21);
    let result = lines(Processor::UrlEncoded, b"", many.as_bytes(), &[]);
    assert_eq!(result.len(), 21);
    assert_eq!(result[20], "error more arguments than SecArgumentsLimit");
    let large = lines(Processor::UrlEncoded, b"", &vec![b'a'; 20_001], &[]);
    assert_eq!(large, ["error more bytes beside files than SecRequestBodyNoFilesLimit"]);
}

#[test]
fn json_has_paths_for_names() {
    let check = |body: &str, expected: &[&str]| check(Processor::Json, body.as_bytes(), expected);
    check("", &[]);
    check(
        r#"{"a": {"b": "x\u00e9\n"}, "c": [1, -2.5e+3, {"d": true}, [null]], "": "y"}"#,
        &[
            r"Argument json.a.b=x\xc3\xa9\n",
            "Argument json.c.array_0=1",
            "Argument json.c.array_1=-2.5e+3",
            "Argument json.c.array_2.d=true",
            "Argument json.c.array_3.array_0=",
            "Argument json.empty-key=y",
        ],
    );
    check("[false]", &["Argument json.array_0=false"]);
    check(" 12 ", &["Argument json=12"]);
    check("12", &["Argument json=12"]);
    check(r#""\ud83c\udf7a\ud83c\ud83cx\udf7a""#, &[r"Argument json=\xf0\x9f\x8d\xba??x?"]);
    check("{}", &[]);
    check("[[[[[]]]]]", &[]);
}

#[test]
fn broken_json_is_an_error() {
    for (body, expected) in [
        ("[[[[[[]]]]]]", "depth beyond SecRequestBodyJsonDepthLimit"),
        ("{\"a\":1", "premature end"),
        ("\"a", "premature end"),
        (" ", "premature end"),
        ("{} {}", "data after the end"),
        ("{]", "unexpected character"),
        ("[}", "unexpected character"),
        ("[1}", "unexpected bracket"),
        ("[1,]", "unexpected character"),
        ("{\"a\":1,}", "unexpected character"),
        ("{a:1}", "unexpected character"),
        ("[01]", "invalid literal or number"),
        ("[1.]", "invalid literal or number"),
        ("[nul]", "invalid literal or number"),
        ("[1e]", "invalid literal or number"),
        (r#"["\q"]"#, "invalid escape"),
        (r#"["\u12g4"]"#, "invalid escape"),
        ("[\"\n\"]", "control character in a string"),
    ] {
        let result = lines(Processor::Json, b"", body.as_bytes(), &[1]);
        assert_eq!(
            result.last().map(String::as_str),
            Some(format!("error JSON: {expected}").as_str()),
            "{body}"
        );
    }
    assert_eq!(lines(Processor::Json, b"", b"\"\xff\"", &[]), ["error JSON: a string is not UTF-8"]);
}

#[test]
fn xml_has_text_and_attributes() {
    let check = |body: &[u8], expected: &[&str]| check(Processor::Xml, body, expected);
    check(b"", &[]);
    check(
        b"<?xml version=\"1.0\"?><!DOCTYPE a><a xmlns='u' b='1&lt;' c:d=\"2\">x<e>&#65;&amp;</e><![CDATA[<y>]]><!-- z --><f g='3'/></a>\n",
        &["XmlAttribute b=1<", "XmlAttribute c:d=2", "XmlAttribute g=3", "XmlText =xA&<y>"],
    );
    check(b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>", &[r"XmlText =\xc3\xa9"]);
    check(b"\xff\xfe<\0a\0>\0b\0<\0/\0a\0>\0", &["XmlText =b"]);
}

#[test]
fn xml_has_nodes_where_rules_name_them() {
    let settings = Settings { xml_nodes: true, ..SETTINGS };
    let mut parser = Parser::new(Processor::Xml, &settings, b"");
    let mut sink = Lines::default();
    parser.feed(b"<s:a xmlns:s='u' id='1'>x<b k='&lt;'>y<![CDATA[z]]></b><c/></s:a>", &mut sink);
    parser.end(&mut sink);
    let nodes: Vec<_> = sink.0.iter().filter_map(|line| line.strip_prefix("XmlNode ")).collect();
    let expected = [
        "/s:a/@id=1",
        "/s:a/text()=x",
        "/s:a/b/@k=<",
        "/s:a/b/text()=y",
        "/s:a/b/text()=z",
        "/s:a/b=yz",
        "/s:a/c=",
        "/s:a=xyz",
    ];
    assert_eq!(nodes, expected);
    let mut parser = Parser::new(Processor::Xml, &settings, b"");
    let deep = ["<a>".repeat(30), "x".repeat(1_000), "</a>".repeat(30)].concat();
    parser.feed(deep.as_bytes(), &mut sink);
    parser.end(&mut sink);
    assert_eq!(sink.0.last().map(String::as_str), Some("error XML: too much text in elements of elements"));
}

#[test]
fn broken_xml_is_an_error() {
    let deep = "<a>".repeat(257);
    for (body, expected) in [
        ("<a>", "premature end"),
        ("x", "text outside of the root"),
        ("<a></b>", "malformed"),
        ("<a/><b/>", "a second root"),
        ("<a b='1' b='2'/>", "an attribute comes twice"),
        ("<a>&b;</a>", "unknown reference"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "entities are not supported"),
        (&deep, "too deep"),
    ] {
        let result = lines(Processor::Xml, b"", body.as_bytes(), &[]);
        assert_eq!(
            result.last().map(String::as_str),
            Some(format!("error XML: {expected}").as_str()),
            "{body}"
        );
    }
    assert_eq!(lines(Processor::Xml, b"", b"<a>\xe9</a>", &[]), ["error XML: unknown encoding"]);
}

#[test]
fn a_raw_body_has_nothing() {
    check(Processor::Raw, b"a=1", &[]);
}

/// A multipart body with lines that end as they should.
fn multipart(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_bytes(), b"\r\n"].concat()).collect()
}

#[test]
fn a_multipart_body_has_fields_and_files() {
    let body = multipart(&[
        "--B",
        "Content-Disposition: form-data; name=\"a\"",
        "",
        "1",
        "",
        "--B",
        "content-disposition: form-data; name=b; filename=\"c\\\"d.txt\"",
        "Content-Type: text/plain",
        "",
        "12345",
        "678",
        "--B--",
    ]);
    check(
        Processor::Multipart,
        &body,
        &[
            "MultipartName =a",
            "PartHeader a=Content-Disposition: form-data; name=\\\"a\\\"",
            r"Argument a=1\r\n",
            "MultipartName =b",
            "MultipartFilename =c\\\"d.txt",
            "PartHeader b=content-disposition: form-data; name=b; filename=\\\"c\\\\\\\"d.txt\\\"",
            "PartHeader b=Content-Type: text/plain",
            "File b=c\\\"d.txt",
            "FileSize b=10",
        ],
    );
    // The line end of the final boundary may be missing.
    assert_eq!(
        lines(Processor::Multipart, FORM, &body[..body.len() - 2], &[]),
        lines(Processor::Multipart, FORM, &body, &[])
    );
}

/// The flags and errors of a body.
fn oddities(content_type: &str, body: &[u8]) -> Vec<String> {
    let mut found = lines(Processor::Multipart, content_type.as_bytes(), body, &[7]);
    found.retain(|line| line.starts_with("flag") || line.starts_with("error"));
    found
}

#[test]
fn flags_say_what_is_odd_about_a_body() {
    const FORM: &str = "multipart/form-data; boundary=B";
    const HEADER: &str = "Content-Disposition: form-data; name=\"a\"\r\n";
    let form = |before: &str, header: &str, content: &str, after: &str| {
        format!("{before}--B\r\n{header}\r\n{content}\r\n--B--\r\n{after}").into_bytes()
    };
    let plain = form("", HEADER, "1", "");
    let none: [&str; 0] = [];
    assert_eq!(oddities(FORM, &plain), none);
    let name = form("", "Content-Disposition: form-data; name=\"O'Brien\"\r\n", "1", "");
    assert_eq!(oddities(FORM, &name), none);
    for (content_type, flag) in [
        ("multipart/form-data; boundary=\"B\"", "BoundaryQuoted"),
        ("multipart/form-data; boundary =B", "BoundaryWhitespace"),
        ("multipart/form-data boundary=B", "MissingSemicolon"),
    ] {
        assert_eq!(oddities(content_type, &plain), [format!("flag {flag}")], "{content_type}");
    }
    for (body, flag) in [
        (form("x\r\n", HEADER, "1", ""), "DataBefore"),
        (form("", HEADER, "1", "x"), "DataAfter"),
        (form("", "Content-Disposition: form-data;\r\n name=\"a\"\r\n", "1", ""), "HeaderFolding"),
        (form("", "Content-Disposition: form-data; name='a'\r\n", "1", ""), "InvalidQuoting"),
        (form("", "Content-Disposition: form-data; name=a'\r\n", "1", ""), "InvalidQuoting"),
        (form("--B\r\n", HEADER, "1", ""), "InvalidPart"),
    ] {
        assert_eq!(oddities(FORM, &body), [format!("flag {flag}")], "{}", body.escape_ascii());
    }
    let folded = form("", "Content-Disposition: form-data;\r\n\x0bname=\"a\"\r\n", "1", "");
    assert_eq!(oddities(FORM, &folded), ["flag HeaderFolding", "flag InvalidHeaderFolding"]);
    let lines = form("", HEADER, "1", "");
    let lf: Vec<u8> = lines.iter().copied().filter(|&byte| byte != b'\r').collect();
    assert_eq!(oddities(FORM, &lf), ["flag LfLine"]);
    let mixed = form("", &HEADER.replace('\r', ""), "1", "");
    assert_eq!(oddities(FORM, &mixed), ["flag LfLine", "flag CrlfLfLines"]);
}

#[test]
fn a_line_like_a_boundary_counts_unless_a_boundary_is_next() {
    const FORM: &str = "multipart/form-data; boundary=B";
    let head = "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
    let none: [&str; 0] = [];
    assert_eq!(oddities(FORM, format!("{head}--other\r\n--B--\r\n").as_bytes()), none);
    let unmatched = oddities(FORM, format!("{head}--other\r\n").as_bytes());
    assert_eq!(unmatched, ["error Multipart: the final boundary is missing", "flag UnmatchedBoundary"]);
    let within = oddities(FORM, format!("{head}x--B\r\n").as_bytes());
    assert_eq!(within, ["error Multipart: the final boundary is missing", "flag UnmatchedBoundary"]);
}

#[test]
fn a_multipart_body_that_parsers_read_in_different_ways_is_an_error() {
    let body = |header: &str| format!("--B\r\n{header}\r\n\r\n1\r\n--B--\r\n").into_bytes();
    for header in [
        "Content-Type: text/plain",
        "Content-Disposition: form-data",
        "Content-Disposition: form-data; name=\"\"",
        "Content-Disposition: form-data; name=\"a\"; name=\"b\"",
        "Content-Disposition: form-data; filename=\"a\"; filename=\"b\"; name=c",
        "Content-Disposition: form-data; name=\"a\" filename=\"b\"",
        "Content-Disposition: form-data; name=\"a",
        "Content-Disposition: form-data; name=a; filename =b",
        "Content-Disposition: form-data; name=a; filename*=b",
        "Content-Disposition: attachment; name=\"a\"",
        "Content-Disposition: form-data; name=\"a\"\r\ncontent-disposition: form-data; name=\"b\"",
        "Content-Disposition form-data",
        ": form-data",
        " Content-Disposition: form-data; name=\"a\"",
        "Content-Disposition: form-data; name=\"a\0\"",
    ] {
        let found = oddities("multipart/form-data; boundary=B", &body(header));
        assert!(found.iter().any(|line| line.starts_with("error Multipart: ")), "{header}: {found:?}");
    }
    let plain = body("Content-Disposition: form-data; name=\"a\"");
    for content_type in [
        "multipart/form-data",
        "multipart/mixed; boundary=B",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"B",
        "multipart/form-data; x=y; boundary=B",
        "multipart/form-data; boundary=B; boundary=C",
        "multipart/form-data; boundary=B; charset=utf-8",
        "multipart/form-data; boundaryx=B",
        "multipart/form-data; BOUNDARY=B",
        "multipart/form-data; boundary=B\u{e9}",
    ] {
        let found = oddities(content_type, &plain);
        assert!(found.iter().any(|line| line.starts_with("error Multipart: ")), "{content_type}: {found:?}");
    }
    for body in ["--B", "x", "--B\r\n", "--B--x\r\n", "--Bx\r\n", "-- B\r\n"] {
        let found = oddities("multipart/form-data; boundary=B", body.as_bytes());
        assert!(found.iter().any(|line| line.starts_with("error Multipart: ")), "{body}: {found:?}");
    }
}

#[test]
fn long_lines_of_content_are_whole() {
    let head = b"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
    for len in [4094, 4095, 4096, 4097, 8191, 8192] {
        let content = [vec![b'x'; len], b"\r--B\r".to_vec()].concat();
        let body = [head, &content[..], b"\r\n--B--\r\n"].concat();
        let found = lines(Processor::Multipart, FORM, &body, &[]);
        assert_eq!(found.last(), Some(&format!("Argument a={}", content.escape_ascii())), "{len}");
        assert_eq!(found, lines(Processor::Multipart, FORM, &body, &[1, 5000, 3]));
    }
    let long = [b"--B\r\nContent-Disposition: ", &[b'x'; 5000][..], b"\r\n\r\n"].concat();
    assert_eq!(
        lines(Processor::Multipart, FORM, &long, &[]),
        ["error Multipart: a part's header is too long"]
    );
}

proptest! {
    #[test]
    fn results_do_not_depend_on_the_pieces(body in body(), lens in prop::collection::vec(1_usize..9, 1..6)) {
        for processor in [Processor::UrlEncoded, Processor::Multipart, Processor::Json, Processor::Xml, Processor::Raw] {
            let whole = lines(processor, FORM, &body, &[]);
            prop_assert!(whole.len() <= 3 * body.len() + 20);
            prop_assert_eq!(whole, lines(processor, FORM, &body, &lens));
        }
    }
}

/// Bodies that are likely to have what the parsers look for.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        &b"--B\r\n"[..],
        b"--B--\r\n",
        b"--B\n",
        b"--",
        b"Content-Disposition: form-data; name=\"a\"",
        b"; filename=\"b\"",
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b" ",
        b"X: y\r\n",
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"",
        b"\"a\"",
        b":",
        b",",
        b"1",
        b"true",
        b"\\u00e9",
        b"\\ud83c",
        b"\\n",
        b"<a>",
        b"</a>",
        b"<b c='d'/>",
        b"&amp;",
        b"&",
        b"=",
        b"%41",
        b"x",
        b"\xc3\xa9",
        b"\xff",
    ]);
    prop::collection::vec(words, 0..30).prop_map(|words| words.concat())
}
