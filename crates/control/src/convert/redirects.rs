//! Redirects of Ingresses as filters `RequestRedirect`.
//!
//! Never in here: the selection of the redirected requests.

use super::annotations::Annotations;
use crate::objects::gateway_api::{Filter, FilterType, PathModifier, PathModifierType, RequestRedirect};
use crate::problem::Severity;

/// The statuses that the Gateway API allows for redirects.
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// The redirect of all requests of an Ingress, with remarks about it.
pub(super) fn of_all(annotations: &Annotations<'_>) -> Option<(Filter, Vec<String>)> {
    let names = [("temporal-redirect", 302), ("permanent-redirect", 301)];
    let found = names.map(|(name, status)| {
        let code = annotations.number::<u16>(&format!("{name}-code"));
        (name, annotations.text(name), code.unwrap_or(status), status)
    });
    // ingress-nginx accepts only whole URLs for temporal redirects; for permanent redirects it accepts paths
    // too.
    let takes = |name: &str, url: &str| url.starts_with("http") || name == "permanent-redirect";
    let found = found.into_iter().find_map(|(name, url, code, status)| {
        Some((name, url.filter(|url| takes(name, url))?, code, status))
    });
    let (name, url, code, default) = found?;
    let mut remarks = Vec::new();
    let status = if STATUSES.contains(&code) {
        code
    } else {
        let message = format!(
            "status {code} is none of those that the Gateway API has for redirects; {default} takes its place"
        );
        remarks.push(annotations.lose(Severity::Warning, name, &message));
        default
    };
    let (redirect, lacks) = to_url(url, status);
    remarks.extend(lacks.map(|lacks| annotations.lose(Severity::Warning, name, lacks)));
    remarks.push(
        "The query of a request is kept, which ingress-nginx does not do. It redirects paths that no rule takes, too."
            .to_owned(),
    );
    if url.split_once("://").is_some_and(|(_, rest)| !rest.contains('/')) {
        remarks.push("A slash stands behind the name in Location.".to_owned());
    }
    Some((filter(redirect), remarks))
}

/// A redirect to the same URL over TLS.
pub(super) fn to_tls(status: u16) -> Filter {
    let status = if STATUSES.contains(&status) { status } else { 308 };
    filter(RequestRedirect {
        scheme: Some("https".into()),
        status_code: Some(status),
        ..RequestRedirect::default()
    })
}

/// A redirect to another path of the same host.
pub(super) fn to_path(path: &str, status: u16) -> Filter {
    filter(RequestRedirect {
        path: Some(whole(path)),
        status_code: Some(status),
        ..RequestRedirect::default()
    })
}

/// A redirect to the same path of another host.
pub(super) fn to_host(host: &str, status: u16) -> Filter {
    let status = if STATUSES.contains(&status) { status } else { 308 };
    filter(RequestRedirect {
        hostname: Some(host.into()),
        status_code: Some(status),
        ..RequestRedirect::default()
    })
}

fn filter(redirect: RequestRedirect) -> Filter {
    let request_redirect = Some(Box::new(redirect));
    Filter { kind: FilterType::RequestRedirect, request_redirect, ..Filter::default() }
}

/// A redirect to a URL, or to a path of the same host, and the part of the URL that the filter cannot
/// express.
fn to_url(url: &str, status: u16) -> (RequestRedirect, Option<&'static str>) {
    let mut redirect = RequestRedirect { status_code: Some(status), ..RequestRedirect::default() };
    let (url, query) = url.split_once('?').map_or((url, None), |(url, query)| (url, Some(query)));
    let lacks = query.map(|_| "the query of the URL cannot be said in the Gateway API, and is ignored");
    let path = match url.split_once("://") {
        None => url,
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let (host, port) =
                authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
            redirect.scheme = Some(scheme.into());
            redirect.hostname = Some(host.to_ascii_lowercase().into());
            redirect.port = port.and_then(|port| port.parse().ok());
            if path.is_empty() { "/" } else { path }
        }
    };
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    redirect.path = Some(whole(&path));
    (redirect, lacks)
}

fn whole(path: &str) -> PathModifier {
    let kind = PathModifierType::ReplaceFullPath;
    PathModifier { kind, replace_full_path: Some(path.into()), replace_prefix_match: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let parts = |url: &str| {
            let (redirect, lacks) = to_url(url, 301);
            let path = redirect.path.unwrap().replace_full_path.unwrap();
            (
                redirect.scheme.unwrap_or_default(),
                redirect.hostname.unwrap_or_default(),
                redirect.port,
                path,
                lacks.is_some(),
            )
        };
        assert_eq!(parts("https://B.test"), ("https".into(), "b.test".into(), None, "/".into(), false));
        assert_eq!(
            parts("http://b.test:81/a?b=c"),
            ("http".into(), "b.test".into(), Some(81), "/a".into(), true)
        );
        assert_eq!(parts("/a/b"), ("".into(), "".into(), None, "/a/b".into(), false));
        assert_eq!(parts("a"), ("".into(), "".into(), None, "/a".into(), false));
    }
}
