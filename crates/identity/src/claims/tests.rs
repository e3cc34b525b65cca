use super::*;
use crate::json;

fn claims() -> Object {
    let text = br#"{
        "sub": "ann", "level": 3, "ratio": 0.5, "email_verified": true, "none": null,
        "groups": ["admin", "staff", 7], "scope": "read write:all", "role": "read write",
        "realm_access": {"roles": ["viewer"]}, "https://x.test/a.b": "c", "big": 9007199254740993
    }"#;
    json::object(text).unwrap()
}

fn holds(text: &str) -> bool {
    Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).holds(&claims())
}

#[test]
fn typed_comparisons() {
    for text in [
        r#"claims.sub == "ann""#,
        r#"claims.sub != "bob""#,
        "claims.level == 3",
        "claims.level == 3.0",
        r#"claims.level != "3""#,
        "claims.email_verified == true",
        r#"claims.email_verified != "true""#,
        r#"claims.missing != "x""#,
        "claims.level >= 3 and claims.level <= 3 and claims.level < 4 and claims.level > 2.5",
        "claims.ratio < 1",
        "claims.level in [1, 2, 3]",
        r#"claims.sub in ["ann"]"#,
        r#"claims.groups has "admin""#,
        "claims.groups has 7",
        r#"claims.sub has "ann""#,
        r#"claims.scope has "write:all""#,
        r#"claims.realm_access.roles has "viewer""#,
        r#"claims["https://x.test/a.b"] == "c""#,
        r#"claims["realm_access"]["roles"] has "viewer""#,
        r#"claims["\u0073ub"] == "\u0061nn""#,
        "claims.sub exists",
        "not claims.none exists",
        "claims.big == 9007199254740993",
        "claims.big != 9007199254740992.0",
    ] {
        assert!(holds(text), "{text}");
    }
    for text in [
        r#"claims.level == "3""#,
        "claims.level < 3",
        "claims.sub < 3",
        "claims.missing < 3",
        "claims.missing exists",
        r#"claims.missing == "x""#,
        r#"claims.groups == "admin""#,
        r#"claims.groups in ["admin"]"#,
        r#"claims.groups has "adm""#,
        r#"claims.groups has "7""#,
        r#"claims.role has "read""#,
        r#"claims.scope has "write""#,
        r#"claims.scope has "read write:all""#,
        r#"claims.sub.x == "ann""#,
        r#"claims.realm_access == "viewer""#,
        "claims.email_verified == 1",
    ] {
        assert!(!holds(text), "{text}");
    }
}

#[test]
fn connectives_bind_as_everywhere() {
    let (yes, no) = ("claims.sub exists", "claims.missing exists");
    assert!(holds(&format!("{yes} or {no} and {no}")));
    assert!(!holds(&format!("({yes} or {no}) and {no}")));
    assert!(holds(&format!("not {no} and {yes}")));
    assert!(!holds(&format!("not ({no} or {yes})")));
    assert!(holds(&format!("not not {yes}")));
}

#[test]
fn errors_have_positions() {
    for (text, position) in [
        ("", 1),
        ("claims", 7),
        ("claims.", 8),
        ("claim.a == 1", 1),
        ("claims.a = 1", 10),
        ("claims.a ==", 12),
        ("claims.a == x", 13),
        ("claims.a == \"x", 13),
        ("claims.a == \"\\q\"", 13),
        ("claims.a == 01", 13),
        ("claims.a == null", 13),
        ("claims.a < \"x\"", 12),
        ("claims.a in \"x\"", 13),
        ("claims.a in []", 14),
        ("claims.a in [1 2]", 16),
        ("claims.a exists claims.b exists", 17),
        ("(claims.a exists", 17),
        ("claims.\u{e4} exists", 8),
        ("claims.a == \"\u{e4}\" x", 17),
        ("claims[a] exists", 8),
    ] {
        let error = Expression::parse(text).unwrap_err();
        assert_eq!(error.position, position, "{text}: {error}");
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let deep = |depth: usize| format!("{}claims.a exists{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Expression::parse(&deep(20)).is_ok());
    assert!(Expression::parse(&deep(1000)).unwrap_err().message.contains("nested"));
    assert!(Expression::parse(&"not ".repeat(500)).unwrap_err().message.contains("nested"));
    assert!(Expression::parse(&" ".repeat(5000)).unwrap_err().message.contains("bytes"));
}

#[test]
fn claims_as_header_values() {
    let value = |path: &str| header_value(Path::parse(path).unwrap().find(&claims())?);
    assert_eq!(value("sub").as_deref(), Some("ann"));
    assert_eq!(value("level").as_deref(), Some("3"));
    assert_eq!(value("groups").as_deref(), Some("admin,staff,7"));
    assert_eq!(value("email_verified").as_deref(), Some("true"));
    assert_eq!(value("realm_access.roles").as_deref(), Some("viewer"));
    assert_eq!(value("[\"https://x.test/a.b\"]").as_deref(), Some("c"));
    assert_eq!((value("realm_access"), value("none"), value("missing")), (None, None, None));
    for text in [r#""a\r\nX: y""#, r#"["a,b"]"#, r#"[["a"]]"#, r#""\u0000""#, r#"["a", null]"#] {
        assert_eq!(header_value(&serde_json::from_str(text).unwrap()), None, "{text}");
    }
    assert!(Path::parse("a b").is_err() && Path::parse("").is_err() && Path::parse("a.").is_err());
}
