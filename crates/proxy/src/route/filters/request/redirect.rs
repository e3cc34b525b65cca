//! Redirects all requests of a route (ingress-nginx: `permanent-redirect`, `temporal-redirect`,
//! `from-to-www-redirect`).

use model::{Redirect, RedirectTarget};

use super::{own_origin, printable};
use crate::request::reply::{Answer, Scope};
use crate::route::filters::{FilterResult, RequestView};

pub(super) fn apply(redirect: &Redirect, request: &RequestView<'_>) -> FilterResult {
    let to = |location| Answer::redirect(redirect.status, location);
    FilterResult::Answer(match &redirect.to {
        RedirectTarget::Url(url) => to(url.clone()),
        RedirectTarget::Template(url) => to(printable(&(request.expand)(url))),
        RedirectTarget::Path { path, names_port } => {
            let port = names_port.then_some(request.port);
            to(own_origin(request.forwarded.own_scheme, request.host, port) + path)
        }
        RedirectTarget::Host(host) => to(at_host(host, request)).of(Scope::Host),
    })
}

/// The scheme and the port are those that a trusted hop reported, if one did; else the port is that of the
/// listener, even over TLS.
fn at_host(host: &str, request: &RequestView<'_>) -> String {
    let scheme = printable(request.forwarded.scheme);
    let port = request.forwarded.reported_port().map_or_else(|| request.port.to_string(), printable);
    let target = request.target.strip_suffix(b"/").unwrap_or(request.target);
    format!("{scheme}://{host}:{port}{}", printable(target))
}

#[cfg(test)]
mod tests {
    use model::RequestFilter;

    use super::super::outcome;
    use super::*;
    use crate::request::forwarded::Forwarded;

    fn location(to: RedirectTarget, target: &str) -> String {
        let filter = RequestFilter::Redirect(Redirect { status: 301, to });
        match outcome(&filter, target, &Forwarded::sample()).0 {
            FilterResult::Answer(answer) => answer.field("Location").unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_url_stays_as_it_is() {
        assert_eq!(
            location(RedirectTarget::Url("https://b.test/x?y".to_owned()), "/a?b"),
            "https://b.test/x?y"
        );
    }

    #[test]
    fn a_path_becomes_a_url_of_the_host() {
        let to = |names_port| RedirectTarget::Path { path: "/x".to_owned(), names_port };
        assert_eq!(location(to(false), "/a?b"), "http://web.test.com/x");
        assert_eq!(location(to(true), "/a?b"), "http://web.test.com:8080/x");
        assert_eq!(own_origin(b"http", b"A.Test.:81", Some(80)), "http://a.test");
        assert_eq!(own_origin(b"https", b"[::1]:81", Some(80)), "https://[::1]:80");
    }

    #[test]
    fn another_host_gets_the_target_without_a_final_slash() {
        let to = || RedirectTarget::Host("www.test.com".to_owned());
        assert_eq!(location(to(), "/a/?b=/"), "http://www.test.com:8080/a/?b=");
        assert_eq!(location(to(), "/"), "http://www.test.com:8080");
    }
}
