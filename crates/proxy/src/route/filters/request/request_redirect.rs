//! Redirects all requests of a route to a URL that differs from theirs in some parts (Gateway API:
//! `RequestRedirect`).

use model::{RequestRedirect, Scheme};

use super::printable;
use super::url_rewrite::changed_target;
use crate::request::reply::Answer;
use crate::route::filters::{FilterResult, RequestView};

pub(crate) fn apply(redirect: &RequestRedirect, request: &RequestView<'_>) -> FilterResult {
    FilterResult::Answer(Answer::redirect(redirect.status, location(redirect, request)))
}

fn location(redirect: &RequestRedirect, request: &RequestView<'_>) -> String {
    let forwarded = request.forwarded;
    let asked = if forwarded.scheme.eq_ignore_ascii_case(b"https") { Scheme::Https } else { Scheme::Http };
    let scheme = redirect.scheme.unwrap_or(asked);
    // "If redirect scheme is not-empty, the redirect port MUST be the well-known port associated with the
    // redirect scheme. [...] If redirect scheme is empty, the redirect port MUST be the Gateway Listener
    // port." A client that reached a trusted hop over another scheme did not connect to that port.
    let port = redirect.port.or_else(|| {
        let is_of_listener = redirect.scheme.is_none() && forwarded.scheme == forwarded.own_scheme;
        is_of_listener.then_some(redirect.listener_port)
    });
    // "Implementations SHOULD NOT add the port number in the 'Location' header" where it is the scheme's
    // own.
    let port = port.filter(|&port| port != scheme.port()).map(|port| format!(":{port}")).unwrap_or_default();
    let host = match &redirect.host {
        Some(host) => host.to_string(),
        None => printable(wire::host::split_port(request.host).0),
    };
    let target = match &redirect.path {
        Some(change) => printable(&changed_target(change, request.path, request.target)),
        None => printable(request.target),
    };
    format!("{}://{host}{port}{target}", scheme.as_str())
}

#[cfg(test)]
mod tests {
    use model::{PathChange, RequestFilter};

    use super::super::outcome;
    use super::*;
    use crate::request::forwarded::Forwarded;

    fn redirect() -> RequestRedirect {
        RequestRedirect { status: 302, scheme: None, host: None, port: None, listener_port: 80, path: None }
    }

    fn location(redirect: RequestRedirect, target: &str, forwarded: &Forwarded<'_>) -> String {
        let filter = RequestFilter::RequestRedirect(Box::new(redirect));
        match outcome(&filter, target, forwarded).0 {
            FilterResult::Answer(answer) => answer.field("Location").unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ports_are_those_of_the_gateway_api() {
        let (http, https) = (Some(Scheme::Http), Some(Scheme::Https));
        for (is_tls, scheme, port, listener_port, expected) in [
            (false, None, None, 80, "http://web.test.com/a"),
            (false, None, None, 8080, "http://web.test.com:8080/a"),
            (false, None, Some(80), 8080, "http://web.test.com/a"),
            (false, None, Some(8083), 80, "http://web.test.com:8083/a"),
            (false, http, None, 8080, "http://web.test.com/a"),
            (false, http, Some(443), 80, "http://web.test.com:443/a"),
            (false, https, None, 8080, "https://web.test.com/a"),
            (false, https, Some(443), 80, "https://web.test.com/a"),
            (false, https, Some(8443), 80, "https://web.test.com:8443/a"),
            (true, None, None, 443, "https://web.test.com/a"),
            (true, None, None, 8443, "https://web.test.com:8443/a"),
            (true, None, Some(443), 8443, "https://web.test.com/a"),
            (true, http, None, 443, "http://web.test.com/a"),
            (true, http, Some(8080), 443, "http://web.test.com:8080/a"),
        ] {
            let redirect = RequestRedirect { scheme, port, listener_port, ..redirect() };
            let mut forwarded = Forwarded::sample();
            if is_tls {
                (forwarded.scheme, forwarded.own_scheme) = (b"https", b"https");
            }
            assert_eq!(
                location(redirect, "/a", &forwarded),
                expected,
                "{is_tls} {scheme:?} {port:?} {listener_port}"
            );
        }
    }

    #[test]
    fn a_scheme_that_a_hop_reported_has_its_own_port() {
        let mut forwarded = Forwarded::sample();
        forwarded.scheme = b"https";
        let redirect = RequestRedirect { listener_port: 8080, ..redirect() };
        assert_eq!(location(redirect, "/a", &forwarded), "https://web.test.com/a");
    }

    #[test]
    fn host_and_path_are_changed_and_the_query_stays() {
        let path = Some(PathChange::Prefix { from: "/a".to_owned(), to: "/b".to_owned() });
        let host = model::HeadText::new("example.org").ok();
        let all = RequestRedirect { host, path, ..redirect() };
        assert_eq!(location(all, "/a/c?d=e", &Forwarded::sample()), "http://example.org/b/c?d=e");
        let full = RequestRedirect { path: Some(PathChange::Full("/x".to_owned())), ..redirect() };
        assert_eq!(location(full, "/a?d", &Forwarded::sample()), "http://web.test.com/x?d");
        assert_eq!(location(redirect(), "/a/?d", &Forwarded::sample()), "http://web.test.com/a/?d");
    }
}
