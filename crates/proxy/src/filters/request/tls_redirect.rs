//! Sends clients that came in clear to the TLS port (ingress-nginx: `ssl-redirect`, `force-ssl-redirect`).

use model::TlsRedirect;

use crate::filters::{FilterResult, RequestView};
use crate::reply::Answer;

pub(super) fn apply(redirect: &TlsRedirect, request: &RequestView<'_>) -> FilterResult {
    let exempt = redirect.except.iter().any(|prefix| request.path.starts_with(prefix.as_bytes()));
    let scheme = if redirect.force { request.forwarded.scheme } else { request.forwarded.own_scheme };
    if exempt || scheme.eq_ignore_ascii_case(b"https") {
        return FilterResult::Continue;
    }
    FilterResult::Answer(Answer::redirect(redirect.status, location(redirect, request)))
}

fn location(redirect: &TlsRedirect, request: &RequestView<'_>) -> String {
    let (host, _) = wire::host::split_port(request.forwarded.host);
    let target = match request.target {
        target if redirect.keep_trailing_slash => target,
        target => target.strip_suffix(b"/").unwrap_or(target),
    };
    let port = redirect.port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("https://{}{port}{}", host.escape_ascii(), target.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::Forwarded;

    fn redirect() -> TlsRedirect {
        TlsRedirect {
            status: 308,
            force: false,
            except: vec!["/.well-known/acme-challenge".to_owned()],
            keep_trailing_slash: false,
            port: None,
        }
    }

    fn location_of(redirect: &TlsRedirect, target: &str, forwarded: &Forwarded<'_>) -> Option<String> {
        let target = target.as_bytes();
        match apply(redirect, &RequestView { target, path: wire::path::of_target(target), forwarded }) {
            FilterResult::Answer(answer) => answer.field("Location").map(str::to_owned),
            _ => None,
        }
    }

    #[test]
    fn the_host_loses_its_port_and_the_target_one_slash() {
        let forwarded = Forwarded::sample();
        let locate = |target| location_of(&redirect(), target, &forwarded);
        assert_eq!(locate("/").as_deref(), Some("https://web.test.com"));
        assert_eq!(locate("/a/").as_deref(), Some("https://web.test.com/a"));
        assert_eq!(locate("/a?b=c").as_deref(), Some("https://web.test.com/a?b=c"));
        assert_eq!(locate("/.well-known/acme-challenge/x"), None);
    }

    #[test]
    fn options() {
        let forwarded = Forwarded::sample();
        let keep = TlsRedirect { keep_trailing_slash: true, port: Some(8443), ..redirect() };
        assert_eq!(location_of(&keep, "/a/", &forwarded).as_deref(), Some("https://web.test.com:8443/a/"));
        let behind_tls = Forwarded::sample_behind_tls();
        let force = TlsRedirect { force: true, ..redirect() };
        assert_eq!(location_of(&force, "/", &behind_tls), None);
        assert!(location_of(&redirect(), "/", &behind_tls).is_some());
    }
}
