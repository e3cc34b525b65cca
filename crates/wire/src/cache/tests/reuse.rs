//! The reuse of a response: storing, freshness and the request's directives together. Most rows are cases of
//! the public suite for HTTP caches, with its names.

use proptest::prelude::*;

use super::super::head::sample;
use super::*;

/// The result of a second request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    NotStored(NotStorable),
    Used(Verdict),
}

use Fate::{NotStored, Used};
use NotStorable as Not;
use Verdict::{Fresh, Revalidate, Stale, StaleWhileRevalidate};

/// The response to a GET with `request` is `status` and `response`; `later` seconds after it, a second
/// request has the fields `again`.
fn fate_with(
    policy: &Policy<'_>,
    request: &str,
    status: u16,
    response: &str,
    later: u64,
    again: &str,
) -> Fate {
    let (request_bytes, request) = sample::request(request);
    let (bytes, response) = sample::response(status, &dated(response));
    let (request, response) =
        (Head::of_request(&request_bytes, &request), Head::of_response(&bytes, &response));
    let directives = Directives::of(response, policy.targets);
    let times = Times { response: NOW, delay: 0 };
    let freshness = Freshness::of(status, response, &directives, times, policy);
    let asked = RequestDirectives::of(request);
    let candidate = storable::Candidate {
        method: b"GET",
        request,
        asked: &asked,
        status,
        response,
        directives: &directives,
        freshness: &freshness,
    };
    if let Err(reason) = candidate.check(policy) {
        return NotStored(reason);
    }
    let (bytes, again) = sample::request(again);
    Used(freshness.verdict(NOW + later, &RequestDirectives::of(Head::of_request(&bytes, &again))))
}

/// The result after three seconds, the length of the suite's pauses.
fn fate(status: u16, response: &str) -> Fate {
    fate_with(&Policy::default(), "", status, response, 3, "")
}

/// RFC 9111 section 4.2.3: the duration of a request counts in whole seconds, wherever in a second it began.
#[test]
fn delays() {
    let millis = |at: u64| std::time::Duration::from_millis(NOW * 1_000 + at);
    for (request, response, expected) in [
        (999, 1_000, Times { response: NOW + 1, delay: 0 }),
        (1, 1_000, Times { response: NOW + 1, delay: 0 }),
        (1, 1_001, Times { response: NOW + 1, delay: 1 }),
        (2_000, 1_000, Times { response: NOW + 1, delay: 0 }),
    ] {
        assert_eq!(Times::between(millis(request), millis(response)), expected, "{request} to {response}");
    }
}

/// A response to a range has no meaning for the whole (RFC 9110 section 14.2).
#[test]
fn answers_to_parts() {
    for (request, status, expected) in [
        ("Range: bytes=0-1", 200, Used(Fresh)),
        ("Range: bytes=9-", 416, NotStored(Not::Partial)),
        ("Range: bytes=0-", 400, NotStored(Not::Partial)),
        ("Range: x", 404, NotStored(Not::Partial)),
        ("", 404, Used(Fresh)),
    ] {
        let fate = fate_with(&Policy::default(), request, status, "Cache-Control: max-age=60", 3, "");
        assert_eq!(fate, expected, "{request}: {status}");
    }
}

/// Lifetimes (RFC 9111 section 4.2.1).
#[test]
fn lifetimes() {
    for (response, expected) in [
        ("", NotStored(Not::NoFreshness)),
        ("Cache-Control: max-age=3600", Used(Fresh)),
        ("Cache-Control: max-age=0", NotStored(Not::NoFreshness)),
        ("Cache-Control: max-age=0|ETag: \"a\"", Used(Revalidate)),
        ("Cache-Control: max-age=99999999999", Used(Fresh)),
        ("Cache-Control: max-age=3600|Expires: {-7200}|Date: {0}", Used(Fresh)),
        ("Cache-Control: max-age=3600|Expires: 0|Date: {0}", Used(Fresh)),
        ("Cache-Control: max-age=0|Expires: {3600}|Date: {0}", NotStored(Not::NoFreshness)),
        ("Cache-Control: s-maxage=3600", Used(Fresh)),
        ("Cache-Control: max-age=3600, s-maxage=1", Used(Revalidate)),
        ("Cache-Control: s-maxage=1, max-age=3600", Used(Revalidate)),
        ("Cache-Control: max-age=3600|Cache-Control: s-maxage=1", Used(Revalidate)),
        ("Cache-Control: max-age=1, s-maxage=3600", Used(Fresh)),
        ("Expires: {-10}|Cache-Control: max-age=0, s-maxage=3600", Used(Fresh)),
        ("Expires: {2592000}|Date: {0}", Used(Fresh)),
        ("Expires: {-2592000}|Date: {0}", NotStored(Not::NoFreshness)),
        ("Expires: {0}|Date: {0}", NotStored(Not::NoFreshness)),
        ("Expires: {300}|Date: {400}", NotStored(Not::NoFreshness)),
        ("Expires: 0|Date: {0}", NotStored(Not::NoFreshness)),
        ("Expires: {10}|Date: foo", Used(Fresh)),
        ("Expires: {10}|Expires: {0}", Used(Fresh)),
        ("Expires: Thursday, 18-Aug-50 02:01:18 GMT|Date: {0}", Used(Fresh)),
        ("Expires: Thu Aug 18 02:01:18 2050|Date: {0}", Used(Fresh)),
        // Targeted fields replace the others (RFC 9213 section 2.2).
        ("CDN-Cache-Control: max-age=60|Cache-Control: no-store", Used(Fresh)),
        ("CDN-Cache-Control: no-store|Cache-Control: max-age=60", NotStored(Not::NoStore)),
        ("CDN-Cache-Control: public|Expires: {60}", NotStored(Not::NoFreshness)),
    ] {
        assert_eq!(fate(200, response), expected, "{response}");
    }
}

/// Ages (RFC 9111 sections 4.2.3 and 5.1).
#[test]
fn ages() {
    for (response, expected) in [
        ("Age: 7200", NotStored(Not::NoFreshness)),
        ("Age: 3590", Used(Fresh)),
        ("Age: 3598", Used(Revalidate)),
        ("Date: {-7200}", NotStored(Not::NoFreshness)),
        ("Date: {-3590}|Age: 5", Used(Fresh)),
        ("Date: {-10}|Age: 3598", Used(Revalidate)),
        ("Date: {7200}", Used(Fresh)),
        // The first of several values counts.
        ("Age: 0,7200", Used(Fresh)),
        ("Age: 0, 0", Used(Fresh)),
        ("Age: 0|Age: 7200", Used(Fresh)),
        ("Age: 0|Age: 0", Used(Fresh)),
        ("Age: 7200,0", NotStored(Not::NoFreshness)),
        ("Age: 7200|Age: 0", NotStored(Not::NoFreshness)),
        // A value that is no number of seconds is ignored.
        ("Age: abc", Used(Fresh)),
        ("Age: -7200", Used(Fresh)),
        ("Age: 7200.0", Used(Fresh)),
        ("Age: 7200;foo=bar", Used(Fresh)),
        ("Age:", Used(Fresh)),
        ("Age: abc|Date: {-7200}", NotStored(Not::NoFreshness)),
        ("Age: 99999999999999999999", NotStored(Not::NoFreshness)),
    ] {
        assert_eq!(fate(200, &format!("Cache-Control: max-age=3600|{response}")), expected, "{response}");
    }
    assert_eq!(fate(200, "Date: {-10}|Expires: {10}|Age: 25"), NotStored(Not::NoFreshness));
    assert_eq!(fate(200, "Date: {10}|Expires: {20}|Age: 15"), NotStored(Not::NoFreshness));
}

/// Heuristic lifetimes (RFC 9111 section 4.2.2, RFC 9110 section 15.1).
#[test]
fn heuristics() {
    for status in [200, 203, 204, 404, 405, 410, 414, 501] {
        assert_eq!(fate(status, "Last-Modified: {-86400}|Date: {0}"), Used(Fresh), "{status}");
        assert_eq!(fate(status, "Last-Modified: {-5}|Date: {0}"), Used(Revalidate), "{status}");
    }
    for status in [201, 202, 302, 307, 403, 502, 503, 504, 599] {
        let expected = NotStored(Not::NoFreshness);
        assert_eq!(fate(status, "Last-Modified: {-86400}|Date: {0}"), expected, "{status}");
        assert_eq!(
            fate(status, "Last-Modified: {-86400}|Date: {0}|Cache-Control: public"),
            Used(Fresh),
            "{status}"
        );
    }
    assert_eq!(fate(200, "Last-Modified: {-86400}|Expires: 0"), Used(Revalidate));
    assert_eq!(fate(200, "Last-Modified: {-10000}|Pragma: no-cache"), Used(Fresh));
    assert_eq!(fate(200, "Last-Modified: {86400}"), Used(Revalidate));

    let default_ttl = Policy { default_ttl: Some(10), ..Policy::default() };
    assert_eq!(fate_with(&default_ttl, "", 200, "", 3, ""), Used(Fresh));
    assert_eq!(fate_with(&default_ttl, "", 200, "Last-Modified: {-86400}", 11, ""), Used(Revalidate));
    assert_eq!(fate_with(&default_ttl, "", 500, "", 3, ""), NotStored(Not::NoFreshness));
    assert_eq!(fate_with(&default_ttl, "", 200, "Set-Cookie: a=b", 3, ""), NotStored(Not::SetCookie));
}

/// Statuses and directives (RFC 9111 sections 3 and 5.2.2).
#[test]
fn statuses_and_directives() {
    for status in [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599] {
        assert_eq!(fate(status, "Expires: {100000}|Last-Modified: {0}|Date: {0}"), Used(Fresh), "{status}");
        assert_eq!(
            fate(status, "Expires: {-5000}|Last-Modified: {-100000}|Date: {0}"),
            Used(Revalidate),
            "{status}"
        );
    }
    for (status, directives, expected) in [
        (599, "max-age=3600, must-understand", NotStored(Not::Status)),
        (200, "max-age=3600, must-understand, no-store", Used(Fresh)),
        (206, "max-age=3600", NotStored(Not::Partial)),
        (304, "max-age=3600", NotStored(Not::Status)),
        (200, "private, max-age=3600", NotStored(Not::Private)),
        (200, "private=\"a\", max-age=3600", Used(Fresh)),
        (200, "no-store", NotStored(Not::NoStore)),
        (200, "No-StOrE, max-age=10000", NotStored(Not::NoStore)),
        (200, "no-cache, max-age=10000", NotStored(Not::NoFreshness)),
        (200, "no-cache=\"a\", max-age=10000", Used(Fresh)),
        (200, "max-age=2, must-revalidate", Used(Revalidate)),
        (200, "max-age=10000, must-revalidate", Used(Fresh)),
    ] {
        assert_eq!(fate(status, &format!("Cache-Control: {directives}")), expected, "{status} {directives}");
    }
    for response in
        ["Cache-Control: no-cache", "Cache-Control: max-age=10000, no-cache|Expires: {10000}|Date: {0}"]
    {
        assert_eq!(fate(200, &format!("{response}|ETag: \"abcd\"")), Used(Revalidate), "{response}");
    }
    assert_eq!(fate(200, "Cache-Control: max-age=9|Vary: *"), NotStored(Not::Vary));
}

/// Credentials and cookies (RFC 9111 sections 3.5 and 7.3).
#[test]
fn credentials_and_cookies() {
    let policy = Policy::default();
    for (response, expected) in [
        ("Expires: {2592000}|Date: {0}", NotStored(Not::Authorization)),
        ("Cache-Control: max-age=3600", NotStored(Not::Authorization)),
        ("Cache-Control: max-age=3600, public", Used(Fresh)),
        ("Cache-Control: max-age=3600, must-revalidate", Used(Fresh)),
        ("Cache-Control: s-maxage=3600", Used(Fresh)),
    ] {
        assert_eq!(fate_with(&policy, "Authorization: FOO", 200, response, 3, ""), expected, "{response}");
    }
    assert_eq!(fate(200, "Cache-Control: max-age=3600|Set-Cookie: a=b"), Used(Fresh));
    assert_eq!(fate(200, "Last-Modified: {-86400}|Set-Cookie: a=b"), NotStored(Not::SetCookie));
    assert_eq!(
        fate(200, "Last-Modified: {-86400}|Set-Cookie: a=b|Cache-Control: no-cache=\"Set-Cookie\""),
        Used(Fresh)
    );
    let never = Policy { cookies_if_explicit: false, ..policy };
    let response = "Cache-Control: max-age=3600|Set-Cookie: a=b";
    assert_eq!(fate_with(&never, "", 200, response, 3, ""), NotStored(Not::SetCookie));
}

/// The second request's directives (RFC 9111 section 5.2.1, RFC 8246 section 2).
#[test]
fn what_the_second_request_asks() {
    for (response, later, asks, expected) in [
        ("max-age=3600", 3, "max-age=0", Revalidate),
        ("max-age=3600", 3, "max-age=1", Revalidate),
        ("max-age=3600", 3, "max-age=3", Fresh),
        ("max-age=3600|Age: 1800", 0, "max-age=600", Revalidate),
        ("max-age=1", 3, "max-stale=1000", Stale),
        ("max-age=1", 3, "max-stale", Stale),
        ("max-age=1", 3, "max-stale=1", Revalidate),
        ("max-age=1, must-revalidate", 3, "max-stale=1000", Revalidate),
        ("max-age=1, proxy-revalidate", 3, "max-stale=1000", Revalidate),
        ("s-maxage=1", 3, "max-stale=1000", Revalidate),
        ("max-age=1500|Age: 2000|ETag: \"a\"", 0, "max-stale=1000", Stale),
        ("max-age=1500", 0, "min-fresh=2000", Revalidate),
        ("max-age=1500|Age: 1000", 0, "min-fresh=1000", Revalidate),
        ("max-age=1500", 0, "min-fresh=1500", Fresh),
        ("max-age=3600", 0, "no-cache", Revalidate),
        ("max-age=3600", 0, "no-store", Fresh),
        ("max-age=3600, immutable", 3, "max-age=0", Fresh),
        ("max-age=3600, immutable", 3, "no-cache", Revalidate),
        ("max-age=1, immutable", 3, "max-age=0", Revalidate),
    ] {
        let response = format!("Cache-Control: {response}");
        let again = format!("Cache-Control: {asks}");
        let fate = fate_with(&Policy::default(), "", 200, &response, later, &again);
        assert_eq!(fate, Used(expected), "{response} {asks}");
    }
    let unwanted =
        fate_with(&Policy::default(), "Cache-Control: no-store", 200, "Cache-Control: max-age=9", 0, "");
    assert_eq!(unwanted, NotStored(Not::RequestNoStore));
}

/// Stale responses (RFC 5861 and RFC 9111 section 4.2.4): the verdict, and whether the response is used after
/// an error, 3 seconds after the beginning of a lifetime of 2.
#[test]
fn stale_responses() {
    let grace = Grace { stale_while_revalidate: 0, stale_if_error: 60 };
    let generous = Policy { grace, ..Policy::default() };
    for (directives, policy, expected, on_error) in [
        ("", Policy::default(), Revalidate, false),
        ("", generous, Revalidate, true),
        (", stale-if-error=60", Policy::default(), Revalidate, true),
        (", stale-if-error=1", generous, Revalidate, false),
        (", stale-while-revalidate=60", Policy::default(), StaleWhileRevalidate, true),
        (", stale-while-revalidate=1", Policy::default(), Revalidate, false),
        (", must-revalidate", generous, Revalidate, false),
        (", proxy-revalidate", generous, Revalidate, false),
        (", s-maxage=2", generous, Revalidate, false),
        (", s-maxage=2, stale-while-revalidate=60", Policy::default(), StaleWhileRevalidate, true),
        (", must-revalidate, stale-while-revalidate=60, stale-if-error=60", generous, Revalidate, false),
        (", no-cache, stale-if-error=60", generous, Revalidate, false),
    ] {
        let (bytes, response) = sample::response(200, &format!("Cache-Control: max-age=2{directives}"));
        let head = Head::of_response(&bytes, &response);
        let read = Directives::of(head, &[]);
        let freshness = Freshness::of(200, head, &read, Times { response: NOW, delay: 0 }, &policy);
        let asked = RequestDirectives::default();
        assert_eq!(freshness.verdict(NOW + 3, &asked), expected, "{directives}");
        assert_eq!(freshness.may_serve_on_error(NOW + 3, &asked), on_error, "{directives}");
        let insistent = RequestDirectives { max_age: Some(1), ..asked };
        assert_eq!(freshness.verdict(NOW + 3, &insistent), Revalidate, "{directives}");
    }
}

proptest! {
    /// The formula of section 4.2: `response_is_fresh = (freshness_lifetime > current_age)`, with signed
    /// numbers that cannot overflow.
    #[test]
    fn freshness_is_that_of_the_rfc(
        max_age in prop::option::of(0_u32..500),
        s_maxage in prop::option::of(0_u32..500),
        expires in prop::option::of(-500_i64..500),
        date in prop::option::of(-500_i64..500),
        age in prop::option::of(0_u32..500),
        delay in 0_u32..20,
        later in 0_u64..600,
    ) {
        let mut lines = Vec::new();
        lines.extend(max_age.map(|seconds| format!("Cache-Control: max-age={seconds}")));
        lines.extend(s_maxage.map(|seconds| format!("Cache-Control: s-maxage={seconds}")));
        lines.extend(expires.map(|offset| format!("Expires: {{{offset}}}")));
        lines.extend(date.map(|offset| format!("Date: {{{offset}}}")));
        lines.extend(age.map(|seconds| format!("Age: {seconds}")));
        let (bytes, response) = sample::response(200, &dated(&lines.join("|")));
        let head = Head::of_response(&bytes, &response);
        let times = Times { response: NOW, delay };
        let freshness = Freshness::of(200, head, &Directives::of(head, &[]), times, &Policy::default());

        let date_value = date.unwrap_or(0);
        let lifetime = match (s_maxage, max_age, expires) {
            (Some(seconds), ..) | (None, Some(seconds), _) => i64::from(seconds),
            (None, None, Some(expires)) => expires - date_value,
            (None, None, None) => 0,
        };
        let apparent_age = (-date_value).max(0);
        let corrected_age_value = i64::from(age.unwrap_or(0)) + i64::from(delay);
        let current_age = apparent_age.max(corrected_age_value) + later.cast_signed();

        prop_assert_eq!(i64::from(freshness.age(NOW + later)), current_age);
        prop_assert_eq!(freshness.is_fresh(NOW + later), lifetime > current_age);
        let expected = if lifetime > current_age { Fresh } else { Revalidate };
        prop_assert_eq!(freshness.verdict(NOW + later, &RequestDirectives::default()), expected);
    }

    /// The stored form is complete.
    #[test]
    fn freshness_survives_as_bytes(numbers in any::<[u32; 4]>(), times in any::<[u64; 2]>(), flags in any::<[bool; 4]>()) {
        let [lifetime, initial_age, stale_while_revalidate, stale_if_error] = numbers;
        let [response_time, date] = times;
        let [forbids_stale, no_cache, immutable, explicit] = flags;
        let freshness = Freshness {
            lifetime,
            initial_age,
            response_time,
            date,
            stale_while_revalidate,
            stale_if_error,
            forbids_stale,
            no_cache,
            immutable,
            explicit,
        };
        prop_assert_eq!(Freshness::from_bytes(&freshness.to_bytes()), freshness);
    }

    /// A later request never gets a response that an earlier one had to have validated.
    #[test]
    fn nothing_gets_younger(
        value in "(max-age|s-maxage|stale-while-revalidate|stale-if-error)=[0-9]{1,3}(, (max-age|stale-while-revalidate|must-revalidate)=?[0-9]{0,3})?",
        now in 0_u64..1500,
        later in 0_u64..1500,
    ) {
        let (bytes, response) = sample::response(200, &format!("Cache-Control: {value}"));
        let head = Head::of_response(&bytes, &response);
        let times = Times { response: NOW, delay: 0 };
        let freshness = Freshness::of(200, head, &Directives::of(head, &[]), times, &Policy::default());
        let rank = |verdict| match verdict {
            Fresh => 0,
            StaleWhileRevalidate => 1,
            Stale => 2,
            Revalidate => 3,
        };
        let asked = RequestDirectives::default();
        let (before, after) = (freshness.verdict(NOW + now, &asked), freshness.verdict(NOW + now + later, &asked));
        prop_assert!(rank(before) <= rank(after));
        if NOW + now >= freshness.useless_from() {
            prop_assert_eq!(before, Revalidate);
            prop_assert!(!freshness.may_serve_on_error(NOW + now, &asked));
        }
    }
}
