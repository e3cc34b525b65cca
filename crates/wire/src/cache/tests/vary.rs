use proptest::prelude::*;

use super::super::head::sample;
use super::*;

fn vary_of(lines: &str) -> Option<Vary> {
    let (bytes, response) = sample::response(200, lines);
    Vary::of(Head::of_response(&bytes, &response))
}

fn key(vary: &Vary, lines: &str) -> Box<[u8]> {
    let (bytes, request) = sample::request(lines);
    vary.key(Head::of_request(&bytes, &request))
}

/// Names in `Vary` (RFC 9111 section 4.1, RFC 9110 section 12.5.5).
#[test]
fn names() {
    for lines in [
        "Vary: *",
        "Vary: *, *",
        "Vary: *|Vary: *",
        "Vary: , *",
        "Vary:|Vary: *",
        "Vary: *, Foo",
        "Vary: Foo, *",
        "Vary: a b",
        // The endpoint saw the proxy's value for the client, and not the value that the next client sends.
        "Vary: X-Real-IP",
        "Vary: Foo, X-Forwarded-For",
        "Vary: x-request-id",
    ] {
        assert_eq!(vary_of(lines), None, "{lines}");
    }
    for (lines, names) in [("", &[][..]), ("Vary: ,", &[]), ("Vary: B, a|Vary: b", &["a", "b"])] {
        let vary = vary_of(lines).unwrap();
        assert_eq!(
            vary.names().collect::<Vec<_>>(),
            names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>()
        );
        assert_eq!(vary.is_empty(), names.is_empty());
    }
}

/// Requests that get the same response (RFC 9111 section 4.1).
#[test]
fn requests_with_the_same_key() {
    for (vary, one, other, same) in [
        ("Foo", "Foo: 1", "Foo: 1", true),
        ("Foo", "Foo: 1", "foo: 1|Other: 2", true),
        ("Foo", "Foo: 1", "Foo: 2", false),
        ("Foo", "Foo: 1", "", false),
        ("Foo", "", "", true),
        ("Foo", "Foo:", "", false),
        ("Foo, Bar", "Foo: 1|Bar: abc", "Bar: abc|Foo: 1", true),
        ("Foo, Bar", "Foo: 1|Bar: abc", "Foo: 2|Bar: abc", false),
        ("Foo, Bar", "Foo: 1", "Bar: 1", false),
        ("Foo, Bar, Baz", "Foo: 1|Baz: 789", "Foo: 1|Baz: 789", true),
        ("Foo, Bar, Baz", "Foo: 1|Bar: abc4|Baz: 789", "Foo: 1|Bar: abc|Baz: 789", false),
        ("Foo", "Foo: 1, 2", "Foo: 1|Foo: 2", true),
        ("Foo", "Foo: 1,2", "Foo:  1 ,\t2 ", true),
        ("Foo", "Foo: 1,2", "Foo: 2,1", false),
        ("Foo", "Foo: 1 2", "Foo: 12", false),
        ("Foo", "Foo: \"1,2\"", "Foo: \"1, 2\"", false),
        ("Foo", "Foo: A", "Foo: a", false),
        ("Accept-Language", "Accept-Language: en, de", "Accept-Language: de, en", false),
        ("Accept-Language", "Accept-Language: en, de", "Accept-Language:  eN ,   De", true),
        (
            "Accept-Language",
            "Accept-Language: en, de;q=0.5",
            "Accept-Language: en|Accept-Language: de; q=0.5",
            true,
        ),
        ("Accept-Language", "Accept-Language: en, de;q=0.5", "Accept-Language: de; q=0.5, en", false),
        ("Accept-Language", "Accept-Language: en, de;q=0.5", "Accept-Language: en;q=0.5, de", false),
        ("Accept-Encoding", "Accept-Encoding: gzip, br", "Accept-Encoding: br|Accept-Encoding: gzip", false),
        ("Accept", "Accept: text/html, */*", "Accept: */*, text/html", false),
        ("Cookie", "Cookie: a=1, 2", "Cookie: a=1,2", false),
        ("User-Agent", "User-Agent: X (a, b)", "User-Agent: X (a,b)", false),
    ] {
        let vary = vary_of(&format!("Vary: {vary}")).unwrap();
        let stored = key(&vary, one);
        assert_eq!(stored == key(&vary, other), same, "{vary:?}: {one} / {other}");
        let (bytes, request) = sample::request(other);
        assert_eq!(vary.matches(Head::of_request(&bytes, &request), &stored, &mut vec![1]), same);
    }
}

/// An implied name distinguishes requests as a name in the response does.
#[test]
fn implied_names() {
    let said = vary_of("Vary: Foo").unwrap();
    let vary = said.clone().with_implied([&b"X-Script-Name"[..], b"foo"].into_iter());
    assert_eq!((vary.has_implied(), vary.has(b"x-script-NAME"), vary.has(b"bar")), (true, true, false));
    assert_ne!(key(&vary, "X-Script-Name: /evil"), key(&vary, ""));
    let same = said.clone().with_implied([&b"FOO"[..]].into_iter());
    assert!(!same.has_implied() && same == said);
}

proptest! {
    /// Values are separated: two requests have the same key only if all their values are the same.
    #[test]
    fn keys_tell_values_apart(
        one in prop::collection::vec(prop::option::of("[-+ab]{0,6}"), 3),
        other in prop::collection::vec(prop::option::of("[-+ab]{0,6}"), 3),
    ) {
        let lines = |values: &[Option<String>]| -> String {
            let line = |(name, value): (&str, &Option<String>)| value.as_ref().map(|value| format!("{name}: {value}|"));
            ["a", "b", "c"].into_iter().zip(values).filter_map(line).collect()
        };
        let vary = vary_of("Vary: a, b, c").unwrap();
        prop_assert_eq!(key(&vary, &lines(&one)) == key(&vary, &lines(&other)), one == other);
    }
}
