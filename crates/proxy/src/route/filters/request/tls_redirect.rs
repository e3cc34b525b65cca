//! Redirects cleartext requests to the TLS port (ingress-nginx: `ssl-redirect`, `force-ssl-redirect`).

use model::TlsRedirect;

use super::printable;
use crate::request::reply::Answer;
use crate::route::filters::{FilterResult, RequestView};

pub(super) fn apply(redirect: &TlsRedirect, request: &RequestView<'_>) -> FilterResult {
    let scheme = if redirect.believes_hops { request.forwarded.scheme } else { request.forwarded.own_scheme };
    if scheme.eq_ignore_ascii_case(b"https") || !is_for(redirect, request.host) {
        return FilterResult::Continue;
    }
    FilterResult::Answer(Answer::redirect(redirect.status, location(redirect, request)))
}

/// Whether the redirect applies to a host.
fn is_for(redirect: &TlsRedirect, host: &[u8]) -> bool {
    let Some(names) = &redirect.only_for else { return true };
    let (name, _) = wire::host::split_port(host);
    let name = String::from_utf8_lossy(name.strip_suffix(b".").unwrap_or(name)).to_ascii_lowercase();
    names.iter().any(|one| one.takes(&name))
}

fn location(redirect: &TlsRedirect, request: &RequestView<'_>) -> String {
    let (host, _) = wire::host::split_port(request.forwarded.host);
    let target = match request.target {
        target if redirect.keep_trailing_slash => target,
        target => target.strip_suffix(b"/").unwrap_or(target),
    };
    let port = redirect.port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("https://{}{port}{}", printable(host), printable(target))
}

#[cfg(test)]
mod tests {
    use model::{HostName, RequestFilter};

    use super::super::outcome;
    use super::*;
    use crate::request::forwarded::Forwarded;

    fn redirect() -> TlsRedirect {
        TlsRedirect {
            status: 308,
            believes_hops: false,
            only_for: None,
            keep_trailing_slash: false,
            port: None,
        }
    }

    fn location_of(redirect: &TlsRedirect, target: &str, forwarded: &Forwarded<'_>) -> Option<String> {
        match outcome(&RequestFilter::TlsRedirect(redirect.clone()), target, forwarded).0 {
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
        assert_eq!(locate("/d/?a='1'").as_deref(), Some("https://web.test.com/d/?a='1'"));
    }

    #[test]
    fn clients_of_other_names_stay() {
        let forwarded = Forwarded::sample();
        let only =
            |name| TlsRedirect { only_for: Some([HostName::parse(name).unwrap()].into()), ..redirect() };
        assert!(location_of(&only("*.test.com"), "/", &forwarded).is_some());
        assert_eq!(location_of(&only("test.com"), "/", &forwarded), None);
    }

    #[test]
    fn options() {
        let forwarded = Forwarded::sample();
        let keep = TlsRedirect { keep_trailing_slash: true, port: Some(8443), ..redirect() };
        assert_eq!(location_of(&keep, "/a/", &forwarded).as_deref(), Some("https://web.test.com:8443/a/"));
        let behind_tls = Forwarded::sample_behind_tls();
        let believing = TlsRedirect { believes_hops: true, ..redirect() };
        assert_eq!(location_of(&believing, "/", &behind_tls), None);
        assert!(location_of(&redirect(), "/", &behind_tls).is_some());
    }
}
