//! What is done with a request before it is known whether its client may use the route.

mod app_root;
mod redirect;
mod request_redirect;
mod rewrite;
mod tls_redirect;
mod url_rewrite;

#[cfg(test)]
use std::cell::OnceCell;

use model::RequestFilter;

#[cfg(test)]
use super::Forwarded;
use super::{FilterResult, RequestView};
use crate::stage::{Stage, Watch};

/// The redirect of `/`, which comes before all else that is asked of a route, and the other filters.
pub(crate) fn split_app_root(filters: &[RequestFilter]) -> (&[RequestFilter], &[RequestFilter]) {
    filters.split_at(usize::from(matches!(filters.first(), Some(RequestFilter::AppRoot(_)))))
}

pub(crate) use url_rewrite::changed_target;

/// Runs a route's request filters in their order, until one answers or refuses.
pub(crate) fn request(
    filters: &[RequestFilter],
    request: &RequestView<'_>,
    watch: impl Watch,
) -> FilterResult {
    for filter in filters {
        let result = apply(filter, request);
        watch.note(stage(filter), result == FilterResult::Continue);
        if result != FilterResult::Continue {
            return result;
        }
    }
    FilterResult::Continue
}

/// Runs one of them alone, without a request behind it.
#[cfg(test)]
fn outcome(
    filter: &RequestFilter,
    target: &str,
    forwarded: &Forwarded<'_>,
) -> (FilterResult, Option<String>) {
    let rewritten = OnceCell::new();
    let target = target.as_bytes();
    let path = wire::path::normalize(wire::path::of_target(target)).unwrap();
    let view = RequestView {
        target,
        current: target,
        path: &path,
        host: forwarded.host,
        port: 8080,
        forwarded,
        rewritten: &rewritten,
        steps: &model::StepBudget::default(),
        expand: &|template| format!("{:?}", template.variables().next()).into_bytes(),
    };
    let result = apply(filter, &view);
    let target = rewritten.get().and_then(|rewritten| rewritten.target()).map(<[u8]>::to_vec);
    (result, target.map(|target| String::from_utf8(target).unwrap()))
}

fn stage(filter: &RequestFilter) -> Stage {
    match filter {
        RequestFilter::AppRoot(_) => Stage::AppRoot,
        RequestFilter::Redirect(_) | RequestFilter::RequestRedirect(_) => Stage::Redirect,
        RequestFilter::Rewrite(_) | RequestFilter::UrlRewrite(_) => Stage::Rewrite,
        RequestFilter::TlsRedirect(_) => Stage::TlsRedirect,
        RequestFilter::Headers(_) => Stage::RequestHeaders,
    }
}

fn apply(filter: &RequestFilter, request: &RequestView<'_>) -> FilterResult {
    match filter {
        RequestFilter::AppRoot(path) => app_root::apply(path, request),
        RequestFilter::Redirect(redirect) => redirect::apply(redirect, request),
        RequestFilter::Rewrite(rewrite) => rewrite::apply(rewrite, request),
        RequestFilter::TlsRedirect(redirect) => tls_redirect::apply(redirect, request),
        RequestFilter::RequestRedirect(redirect) => request_redirect::apply(redirect, request),
        RequestFilter::UrlRewrite(rewrite) => url_rewrite::apply(rewrite, request),
        RequestFilter::Headers(_) => {
            // Made when the head is written, which looks for them where there is this.
            request.rewritten.get_or_init(Box::default);
            FilterResult::Continue
        }
    }
}

/// Scheme and host as nginx names them in redirects: in lower case, with the port only where that is asked for, and unless it is the
/// scheme's own.
pub(crate) fn own_origin(scheme: &[u8], host: &[u8], port: Option<u16>) -> String {
    let (name, _) = wire::host::split_port(host);
    let name = name.strip_suffix(b".").unwrap_or(name).to_ascii_lowercase();
    let own_port = if scheme == b"https" { 443 } else { 80 };
    let port = port.filter(|&port| port != own_port).map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", printable(scheme), printable(&name))
}

/// Bytes as part of a `Location`.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    wire::path::escape_unprintable(bytes, &mut out);
    String::from_utf8(out).expect("what is left is ASCII")
}
