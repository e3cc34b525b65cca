use super::super::head::sample;
use super::*;
use crate::cache::conditional::Outcome::{self, NotModified, PreconditionFailed, Proceed};

fn validators(lines: &str) -> Validators {
    let (bytes, response) = sample::response(200, &dated(lines));
    Validators::of(Head::of_response(&bytes, &response), NOW)
}

fn stored(response: &str, request: &str) -> Outcome {
    let (bytes, request) = sample::request(&dated(request));
    validators(response).evaluate_stored(Head::of_request(&bytes, &request), NOW)
}

/// Conditions of clients (RFC 9111 section 4.3.2, RFC 9110 sections 8.8.3.2, 13.1.2 and 13.1.3).
#[test]
fn clients_ask_for_what_is_stored() {
    for (response, request, expected) in [
        ("ETag: \"abcdef\"", "If-None-Match: \"abcdef\"", NotModified),
        ("ETag: \"abcdef\"", "If-None-Match: W/\"abcdef\"", NotModified),
        ("ETag: W/\"abcdef\"", "If-None-Match: \"abcdef\"", NotModified),
        ("ETag: W/\"abcdef\"", "If-None-Match: W/\"abcdef\"", NotModified),
        ("ETag: \"abcdef\"", "If-None-Match: \"abcdef\", \"1234\", \"5678\"", NotModified),
        ("ETag: \"abcdef\"", "If-None-Match: \"1234\", \"abcdef\" ,\"5678\"", NotModified),
        ("ETag: \"abcdef\"", "If-None-Match: \"1234\"|If-None-Match: \"abcdef\"", NotModified),
        ("ETag: \"a,b\"", "If-None-Match: \"a,b\"", NotModified),
        ("ETag: \"abc\u{fc}\"", "If-None-Match: \"abc\u{fc}\"", NotModified),
        ("ETag: \"abcdef\"", "If-None-Match: *", NotModified),
        ("", "If-None-Match: *", NotModified),
        ("ETag: \"abcdef\"", "If-None-Match: \"ABCDEF\"", Proceed),
        ("ETag: \"abcdef\"", "If-None-Match: abcdef", Proceed),
        ("ETag: \"abcdef\"", "If-None-Match: w/\"abcdef\"", Proceed),
        ("", "If-None-Match: \"abcdef\"", Proceed),
        ("ETag: \"a\"", "", Proceed),
        // If-None-Match takes precedence over If-Modified-Since.
        (
            "ETag: \"a\"|Last-Modified: {-5000}",
            "If-None-Match: \"a\"|If-Modified-Since: {-6000}",
            NotModified,
        ),
        ("ETag: \"a\"|Last-Modified: {-5000}", "If-None-Match: \"b\"|If-Modified-Since: {-1}", Proceed),
        ("Last-Modified: {-3000}", "If-Modified-Since: {-3000}", NotModified),
        ("Last-Modified: {-3000}", "If-Modified-Since: {-2000}", NotModified),
        ("Last-Modified: {-3000}", "If-Modified-Since: {-3001}", Proceed),
        ("Last-Modified: {-3000}", "If-Modified-Since: yesterday", Proceed),
        ("Last-Modified: {-3000}", "If-Modified-Since: {0}|If-Modified-Since: {0}", Proceed),
        (
            "Last-Modified: Sat, 21 Nov 2026 00:00:00 GMT",
            "If-Modified-Since: Saturday, 21-Nov-26 00:00:00 GMT",
            NotModified,
        ),
        // Without a Last-Modified, the Date is compared.
        ("Date: {-100}", "If-Modified-Since: {-100}", NotModified),
        ("Date: {-100}", "If-Modified-Since: {-3000}", Proceed),
        // These conditions are for the origin only.
        ("ETag: \"a\"", "If-Match: \"b\"", Proceed),
        ("Last-Modified: {-1}", "If-Unmodified-Since: {-10}", Proceed),
    ] {
        assert_eq!(stored(response, request), expected, "{response} / {request}");
    }
}

/// All conditions, for the owner of the resource (RFC 9110 sections 13.1 and 13.2.2).
#[test]
fn whoever_has_the_resource_looks_at_all_conditions() {
    for (response, request, on_read, on_write) in [
        ("ETag: \"a\"", "If-Match: \"a\"", Proceed, Proceed),
        ("ETag: \"a\"", "If-Match: *", Proceed, Proceed),
        ("ETag: \"a\"", "If-Match: \"b\", \"a\"", Proceed, Proceed),
        ("ETag: \"a\"", "If-Match: \"b\"", PreconditionFailed, PreconditionFailed),
        ("ETag: W/\"a\"", "If-Match: W/\"a\"", PreconditionFailed, PreconditionFailed),
        ("ETag: \"a\"", "If-Match: W/\"a\"", PreconditionFailed, PreconditionFailed),
        ("Last-Modified: {-10}", "If-Unmodified-Since: {-10}", Proceed, Proceed),
        ("Last-Modified: {-10}", "If-Unmodified-Since: {-11}", PreconditionFailed, PreconditionFailed),
        ("Last-Modified: {-10}", "If-Unmodified-Since: x", Proceed, Proceed),
        ("ETag: \"a\"|Last-Modified: {-10}", "If-Match: \"a\"|If-Unmodified-Since: {-11}", Proceed, Proceed),
        ("ETag: \"a\"", "If-None-Match: \"a\"", NotModified, PreconditionFailed),
        ("ETag: \"a\"", "If-Match: \"a\"|If-None-Match: \"a\"", NotModified, PreconditionFailed),
        ("ETag: \"a\"", "If-None-Match: \"b\"", Proceed, Proceed),
        ("ETag: \"a\"|Last-Modified: {-10}", "If-None-Match: \"b\"|If-Modified-Since: {0}", Proceed, Proceed),
        ("Last-Modified: {-10}", "If-Modified-Since: {-10}", NotModified, Proceed),
        ("Last-Modified: {-10}", "If-Modified-Since: {-11}", Proceed, Proceed),
        ("", "If-Modified-Since: {0}", Proceed, Proceed),
    ] {
        let (bytes, head) = sample::request(&dated(request));
        let head = Head::of_request(&bytes, &head);
        let validators = validators(response);
        assert_eq!(validators.evaluate(head, true, NOW), on_read, "{response} / {request}");
        assert_eq!(validators.evaluate(head, false, NOW), on_write, "{response} / {request}");
    }
}

/// Ranges of the same state (RFC 9110 sections 13.1.5 and 8.8.2.2).
#[test]
fn parts_of_the_same_state_only() {
    for (response, request, expected) in [
        ("ETag: \"a\"", "", true),
        ("ETag: \"a\"", "If-Range: \"a\"", true),
        ("ETag: \"a\"", "If-Range: \"b\"", false),
        ("ETag: W/\"a\"", "If-Range: W/\"a\"", false),
        ("ETag: W/\"a\"", "If-Range: \"a\"", false),
        ("ETag: \"a\"", "If-Range: \"a\"|If-Range: \"a\"", false),
        ("Last-Modified: {-100}|Date: {0}", "If-Range: {-100}", true),
        ("Last-Modified: {-100}|Date: {0}", "If-Range: {-99}", false),
        ("Last-Modified: {0}|Date: {0}", "If-Range: {0}", false),
        ("ETag: \"a\"", "If-Range: {0}", false),
        ("ETag: a", "If-Range: a", false),
    ] {
        let (bytes, head) = sample::request(&dated(request));
        let applies = validators(response).range_applies(Head::of_request(&bytes, &head), NOW);
        assert_eq!(applies, expected, "{response} / {request}");
    }
}

/// Conditions of a cache for endpoints (RFC 9111 section 4.3.1).
#[test]
fn endpoints_are_asked_by_what_they_sent() {
    for (response, lines) in [
        ("ETag: W/\"a\"", "If-None-Match: W/\"a\"\r\n"),
        ("Last-Modified: {-5}", "If-Modified-Since: {-5}\r\n"),
        ("Last-Modified: {-5}|ETag: \"a\"", "If-None-Match: \"a\"\r\nIf-Modified-Since: {-5}\r\n"),
        ("Last-Modified: x|ETag:", ""),
    ] {
        let validators = validators(response);
        let mut out = Vec::new();
        validators.write_conditions(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), dated(lines));
        assert_eq!(validators.is_empty(), lines.is_empty());
    }
}
