//! Each operator on values that match and on values that do not.

use super::*;
use crate::limits::WORK_MAX;
use crate::seclang::Files;
use crate::tables::Names;
use crate::template::Reference;

struct Fixed;

impl Values for Fixed {
    fn append(&self, _reference: &Reference, out: &mut Vec<u8>) {
        out.extend_from_slice(b"7");
    }

    fn number(&self, _reference: &Reference) -> i64 {
        7
    }
}

struct OneFile;

impl Files for OneFile {
    fn expand(&self, _pattern: &str, _from: &str) -> Vec<String> {
        Vec::new()
    }

    fn read(&self, name: &str, _from: &str) -> Result<Vec<u8>, String> {
        match name {
            "words" => Ok(b"# words\nfoo bar\n\nbaz\n".to_vec()),
            "nets" => Ok(b"10.0.0.0/8\n::1\n".to_vec()),
            _ => Err(format!("no file {name}")),
        }
    }
}

fn made(name: &str, text: &str) -> Result<Compiled, pcre::Fault> {
    compile(
        &Argument { name, text, groups: true, negated: false, files: &OneFile, from: "test" },
        &mut Names::default(),
    )
}

/// An operator, its argument, values that match, and values that do not.
type Case = (&'static str, &'static str, &'static [&'static [u8]], &'static [&'static [u8]]);

#[test]
fn operators_match_as_their_documentation_says() {
    let cases: &[Case] = &[
        ("beginsWith", "ab", &[b"abc"], &[b"xab", b""]),
        ("contains", "%{tx.a}", &[b"a7b"], &[b"ab"]),
        ("containsWord", "or", &[b"a or b", b"or"], &[b"for", b"order", b"_or"]),
        ("detectSQLi", "", &[b"1' or '1'='1"], &[b"hello world"]),
        ("detectXSS", "", &[b"<script>alert(1)</script>"], &[b"hello world"]),
        ("endsWith", "bc", &[b"abc"], &[b"bcd"]),
        ("eq", "7", &[b"7", b"7x"], &[b"8"]),
        ("ge", "%{tx.a}", &[b"7", b"8"], &[b"6"]),
        ("gt", "7", &[b"8"], &[b"7"]),
        ("ipMatch", "192.0.2.0/24,2001:db8::/32", &[b"192.0.2.9", b"2001:db8::1"], &[b"192.0.3.1", b"x"]),
        ("ipMatchF", "nets", &[b"10.1.2.3"], &[b"11.1.2.3"]),
        ("ipMatchFromFile", "nets", &[b"::1", b"10.1.2.3"], &[b"::2"]),
        ("le", "7", &[b"7", b"x"], &[b"8"]),
        ("lt", "7", &[b"6"], &[b"7"]),
        ("noMatch", "", &[], &[b"", b"x"]),
        ("pm", "foo |62 61|r", &[b"xFOOx", b"bar"], &[b"fo"]),
        ("pmf", "words", &[b"BAZ"], &[b"foo"]),
        ("pmFromFile", "words", &[b"a foo bar b"], &[b"# words"]),
        ("geoLookup", "", &[], &[b"192.0.2.1"]),
        ("gsbLookup", "x", &[], &[b"http://192.0.2.1/"]),
        ("rbl", "list.example", &[], &[b"192.0.2.1"]),
        ("rx", "^a.c$", &[b"abc"], &[b"abcd"]),
        ("rx", "a(?!b)", &[b"aba"], &[b"ab", b"b"]),
        ("rx", "^%{tx.a}$", &[b"7", b"8\n7"], &[b"77", b"%{tx.a}"]),
        ("rxGlobal", "b", &[b"abc"], &[b"a"]),
        ("streq", "abc", &[b"abc"], &[b"ABC"]),
        ("strmatch", "b", &[b"abc"], &[b"ac"]),
        ("unconditionalMatch", "", &[b"", b"x"], &[]),
        ("validateByteRange", "32-126,0x09", &[b"\n", b"\xff"], &[b"a\tb", b""]),
        ("validateUrlEncoding", "", &[b"%4", b"%zz", b"a%"], &[b"%41", b"a"]),
        ("validateUtf8Encoding", "", &[b"\xff", b"\xc0\x80"], &[b"\xc3\xa9"]),
        ("verifyCC", r"\d{13,16}", &[b"x 4111111111111111"], &[b"4111111111111112"]),
        ("verifyCPF", r"\d{11}", &[b"52998224725"], &[b"52998224726", b"11111111111"]),
        ("verifySSN", r"\d{9}", &[b"123456789"], &[b"000456789", b"666456789"]),
        ("verifySVNR", r"\d{10}", &[b"1237010180"], &[b"1238010180"]),
        ("within", "GET HEAD", &[b"GET", b""], &[b"POST"]),
    ];
    for (name, argument, matching, others) in cases {
        let operator = made(name, argument).unwrap_or_else(|fault| panic!("@{name}: {fault:?}")).operator;
        for text in *matching {
            assert!(operator.matches(text, &Fixed, &mut 0), "@{name} {argument} on {text:?}");
            assert!(operator.capture(text, &Fixed, &mut 0).is_some(), "@{name} {argument} captures {text:?}");
        }
        for text in *others {
            assert!(!operator.matches(text, &Fixed, &mut 0), "@{name} {argument} on {text:?}");
        }
    }
    for entry in OPERATORS.iter().filter(|entry| entry.refusal().is_none()) {
        assert!(cases.iter().any(|case| case.0 == entry.name), "@{} has no case here", entry.name);
    }
}

#[test]
fn what_is_not_available_is_refused_with_its_reason() {
    for entry in OPERATORS.iter().filter(|entry| entry.refusal().is_some()) {
        let fault = made(entry.name, "x").err().expect(entry.name);
        assert!(fault.message.contains(entry.refusal().unwrap_or_default()), "{fault:?}");
    }
    for (name, text) in [
        ("nothing", ""),
        ("rx", "a(?=b"),
        ("rx", "a%{nothing.b}"),
        ("pmFromFile", "none"),
        ("pm", " "),
        ("ipMatch", "10.0.0.0/33"),
        ("validateByteRange", "1-256"),
    ] {
        assert!(made(name, text).is_err(), "@{name} {text}");
    }
}

#[test]
fn what_asks_somebody_else_never_matches_and_says_so() {
    for entry in OPERATORS {
        let notice = made(entry.name, "").ok().and_then(|compiled| compiled.notice);
        let expected = entry.notice().map(|reason| format!("@{} never matches: {reason}", entry.name));
        assert_eq!(notice, expected);
    }
}

/// A value that a macro stands for.
struct Value(&'static str);

impl Values for Value {
    fn append(&self, _reference: &Reference, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }

    fn number(&self, _reference: &Reference) -> i64 {
        0
    }
}

#[test]
fn expressions_with_macros_are_compiled_once_for_each_value() {
    let operator = made("rx", "^%{tx.a}").expect("an expression").operator;
    let matches = |value: &'static str, text: &str| {
        let mut work = 0;
        (operator.matches(text.as_bytes(), &Value(value), &mut work), work)
    };
    let first = matches("a|b", "xb");
    assert!(first.0, "nothing is escaped");
    let again = matches("a|b", "b");
    assert!(again.0 && again.1 < first.1, "{again:?}");
    assert!(matches("\u{e9}", "\u{e9}").0, "bytes beyond ASCII are those of the value");
    assert!(!matches("(", "(").0, "a fault matches nothing");
    assert!(matches("(?:(?:x{1000}){1000}){1000}", "x").1 > 1 << 20, "it would take too much");
    let long: &'static str = "x".repeat(1 << 20).leak();
    assert!(matches(long, "x").1 >= WORK_MAX, "the exchange is refused");
}

#[test]
fn a_requirement_never_excludes_what_matches() {
    for (name, argument, text) in
        [("pm", "foo bar", &b"a BAR"[..]), ("contains", "ab", b"xabx"), ("detectXSS", "", b"<b>")]
    {
        let requirement = made(name, argument).expect(name).requirement;
        let bytes = ByteSet::of(text);
        assert!(requirement.sets.iter().all(|set| set.meets(&bytes)));
        let lower = text.to_ascii_lowercase();
        let found = |literals: &Vec<Vec<u8>>| {
            literals.iter().any(|literal| memchr::memmem::find(&lower, literal).is_some())
        };
        assert!(requirement.literals.as_ref().is_none_or(found), "@{name}");
    }
}
