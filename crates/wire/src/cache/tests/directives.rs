use super::super::head::sample;
use super::*;

fn read(lines: &str) -> Directives {
    let (bytes, response) = sample::response(200, lines);
    Directives::of(Head::of_response(&bytes, &response), &["My-CDN-Cache-Control", "CDN-Cache-Control"])
}

/// Lifetimes (RFC 9111 sections 1.2.2, 4.2.1 and 5.2).
#[test]
fn lifetimes() {
    for (value, max_age) in [
        ("max-age=3600", Some(3600)),
        ("MaX-aGe=3600", Some(3600)),
        ("max-age=003600", Some(3600)),
        ("max-age=\"3600\"", Some(3600)),
        ("foobar, max-age=3600", Some(3600)),
        ("foobar=\"a\\\"b, c\", max-age=3600", Some(3600)),
        (",,max-age=3600,", Some(3600)),
        ("max-age=2147483648", Some(SECONDS_MAX)),
        ("max-age=99999999999999999999", Some(SECONDS_MAX)),
        // The first of several values counts.
        ("max-age=1, max-age=1800", Some(1)),
        ("max-age=1800, max-age=1", Some(1800)),
        ("max-age=x, max-age=1", Some(0)),
        // An invalid value makes the response stale.
        ("max-age", Some(0)),
        ("max-age=", Some(0)),
        ("max-age='3600'", Some(0)),
        ("max-age=-3600", Some(0)),
        ("max-age=3600.0", Some(0)),
        ("max-age=3600a", Some(0)),
        ("max-age=a3600", Some(0)),
        ("max-age =3600", Some(0)),
        ("max-age= 3600", Some(0)),
        ("max-age=\"3600", Some(0)),
        // A quoted text contains no directive.
        ("extension=\"max-age=3600\"", None),
        ("extension=\"max-age=3600\", max-age=1", Some(1)),
        ("max-age=\"1\", extension=\"max-age=3600\"", Some(1)),
        ("x-max-age=3600", None),
        ("max-age3600", None),
        ("", None),
    ] {
        assert_eq!(read(&format!("Cache-Control: {value}")).max_age, max_age, "{value}");
        let shared = value.to_ascii_lowercase().replace("max-age", "s-maxage");
        assert_eq!(read(&format!("Cache-Control: {shared}")).s_maxage, max_age, "{shared}");
    }
    assert_eq!(read("Cache-Control: max-age=1|Cache-Control: max-age=2, s-maxage=3").max_age, Some(1));
}

/// RFC 9111 section 5.2.2: a directive that forbids something counts in every form.
#[test]
fn prohibitions() {
    for value in
        ["no-store", "No-StOrE", "max-age=1, no-store", "no-store=x", "no-store =x", "a=\"b, no-store"]
    {
        assert!(read(&format!("Cache-Control: {value}")).no_store, "{value}");
    }
    for value in ["private", "private=\"\"", "private=\"a b\"", "private=", "private=\"x\", private"] {
        assert!(read(&format!("Cache-Control: {value}")).private, "{value}");
    }
    for value in ["no-cache", "no-cache=\"\"", "No-Cache=\";\""] {
        assert!(read(&format!("Cache-Control: {value}")).no_cache, "{value}");
    }
    assert!(!read("Cache-Control: extension=\"no-store, private, no-cache\"").no_store);
}

/// The qualified forms (RFC 9111 sections 5.2.2.4 and 5.2.2.7).
#[test]
fn fields_to_be_left_out() {
    for (value, names) in [
        ("no-cache=\"a\"", &["a"][..]),
        ("no-cache=\"A, b\"", &["a", "b"]),
        ("private=set-cookie", &["set-cookie"]),
        ("private=\"a\", no-cache=\"b\"", &["a", "b"]),
    ] {
        let directives = read(&format!("Cache-Control: {value}"));
        assert!(!directives.no_cache && !directives.private, "{value}");
        let withheld: Vec<_> =
            directives.withheld.iter().map(|name| std::str::from_utf8(name).unwrap()).collect();
        assert_eq!(withheld, names, "{value}");
    }
}

/// Targeted fields (RFC 9213 sections 2.1 and 2.2).
#[test]
fn targeted_fields() {
    for (lines, targeted, max_age) in [
        ("Cache-Control: max-age=1|CDN-Cache-Control: max-age=2", true, Some(2)),
        ("CDN-Cache-Control: max-age=2|My-CDN-Cache-Control: max-age=3", true, Some(3)),
        ("CDN-Cache-Control: no-store|CDN-Cache-Control: max-age=2", true, Some(2)),
        ("CDN-Cache-Control: max-age=2;x=1;y, foo=(1 \"a\");z", true, Some(2)),
        ("CDN-Cache-Control: max-age=2, max-age=3", true, Some(3)),
        ("CDN-Cache-Control: a=:YWI=:, b=@12, c=*t/x, d=1.5, e=-1, max-age=2", true, Some(2)),
        ("Cache-Control: max-age=1|CDN-Cache-Control: no-store", true, None),
        // Values of another type are invalid.
        ("CDN-Cache-Control: max-age=\"2\"", true, Some(0)),
        ("CDN-Cache-Control: max-age=2.0", true, Some(0)),
        ("CDN-Cache-Control: max-age=-2", true, Some(0)),
        ("CDN-Cache-Control: max-age", true, Some(0)),
        // An empty or malformed field counts as missing.
        ("Cache-Control: max-age=1|CDN-Cache-Control:", false, Some(1)),
        ("Cache-Control: max-age=1|CDN-Cache-Control: max-age=2,", false, Some(1)),
        ("Cache-Control: max-age=1|CDN-Cache-Control: Max-Age=2", false, Some(1)),
        ("Cache-Control: max-age=1|CDN-Cache-Control: max-age= 2", false, Some(1)),
        ("Cache-Control: max-age=1|CDN-Cache-Control: no-store=?2", false, Some(1)),
        ("Cache-Control: max-age=1|CDN-Cache-Control: max-age=1234567890123456", false, Some(1)),
        ("Cache-Control: max-age=1|CDN-Cache-Control: a=\"b", false, Some(1)),
        ("Cache-Control: max-age=1|CDN-Cache-Control: a=(1", false, Some(1)),
        ("Cache-Control: max-age=1|CDN-Cache-Control: max-age=2 x", false, Some(1)),
        ("Cache-Control: max-age=1|My-CDN-Cache-Control: ;|CDN-Cache-Control: max-age=2", true, Some(2)),
    ] {
        let directives = read(lines);
        assert_eq!((directives.targeted, directives.max_age), (targeted, max_age), "{lines}");
    }
    let directives = read("CDN-Cache-Control: no-store=?0, private=\"a, b\", no-cache=?1");
    assert!(!directives.no_store && !directives.private && directives.no_cache);
    assert_eq!(directives.withheld.len(), 2);
}

/// Directives of requests (RFC 9111 sections 5.2.1 and 5.4).
#[test]
fn what_requests_ask() {
    type Asked = RequestDirectives;
    let asked = Asked::default;
    for (lines, expected) in [
        ("", asked()),
        ("Cache-Control: no-cache", Asked { no_cache: true, ..asked() }),
        ("Pragma: foo, No-Cache", Asked { no_cache: true, ..asked() }),
        ("Pragma: no-cache|Cache-Control: max-age=5", Asked { max_age: Some(5), ..asked() }),
        ("Pragma: unknown", asked()),
        ("Cache-Control: max-age=x", Asked { max_age: Some(0), ..asked() }),
        ("Cache-Control: max-stale", Asked { max_stale: Some(SECONDS_MAX), ..asked() }),
        (
            "Cache-Control: max-stale=5, min-fresh=6",
            Asked { max_stale: Some(5), min_fresh: Some(6), ..asked() },
        ),
        ("Cache-Control: max-stale=x, min-fresh=x", asked()),
        (
            "Cache-Control: only-if-cached, no-store",
            Asked { only_if_cached: true, no_store: true, ..asked() },
        ),
        (
            "Cache-Control: stale-if-error=9, no-transform",
            Asked { stale_if_error: Some(9), no_transform: true, ..asked() },
        ),
    ] {
        let (bytes, request) = sample::request(lines);
        assert_eq!(Asked::of(Head::of_request(&bytes, &request)), expected, "{lines}");
    }
}
