//! Request filters, which run before access control.

mod app_root;
mod maintenance;
mod redirect;
mod request_redirect;
mod rewrite;
mod tls_redirect;
mod url_rewrite;

use model::RequestFilter;

use super::{Decision, RequestView, Rewritten};
#[cfg(test)]
use super::{FilterResult, Forwarded};
use crate::request::stage::{Stage, Watch};
use crate::request::stop::Stop;

/// The redirect of `/`, which comes before everything else on a route, and the other filters.
pub(crate) fn split_app_root(filters: &[RequestFilter]) -> (&[RequestFilter], &[RequestFilter]) {
    filters.split_at(usize::from(matches!(filters.first(), Some(RequestFilter::AppRoot(_)))))
}

pub(crate) use request_redirect::apply as request_redirect;
pub(crate) use url_rewrite::changed_target;

/// Runs a route's request filters in their order, until one answers or refuses. Returns the changes that
/// they make.
pub(crate) fn request(
    filters: &[RequestFilter],
    request: &RequestView<'_>,
    watch: impl Watch,
) -> Result<Option<Rewritten>, Stop> {
    let mut rewritten: Option<Rewritten> = None;
    for filter in filters {
        let decision = apply(filter, request);
        let goes_on = matches!(decision, Decision::Continue | Decision::Rewrite(_));
        watch.note(stage(filter), goes_on);
        match decision {
            Decision::Continue => {}
            Decision::Rewrite(more) => rewritten.get_or_insert_default().merge(more),
            Decision::Answer(answer) => return Err(answer.into()),
            Decision::Refuse(reason) => return Err(reason.into()),
        }
    }
    Ok(rewritten)
}

/// The time of requests in tests.
#[cfg(test)]
const NOW: i64 = 1_782_864_000;

/// Runs one filter alone, without a request. Returns its result, and the target that it rewrites to.
#[cfg(test)]
fn outcome(
    filter: &RequestFilter,
    target: &str,
    forwarded: &Forwarded<'_>,
) -> (FilterResult, Option<String>) {
    let target = target.as_bytes();
    let path = wire::path::normalize(wire::path::of_target(target)).unwrap();
    let view = RequestView {
        target,
        current: target,
        path: &path,
        host: forwarded.host,
        port: 8080,
        forwarded,
        now: NOW,
        steps: &model::StepBudget::default(),
        expand: &|template| format!("{:?}", template.variables().next()).into_bytes(),
    };
    match apply(filter, &view) {
        Decision::Continue => (FilterResult::Continue, None),
        Decision::Rewrite(rewritten) => {
            let target = rewritten.target.map(|target| String::from_utf8(target).unwrap());
            (FilterResult::Continue, target)
        }
        Decision::Answer(answer) => (FilterResult::Answer(answer), None),
        Decision::Refuse(reason) => (FilterResult::Refuse(reason), None),
    }
}

fn stage(filter: &RequestFilter) -> Stage {
    match filter {
        RequestFilter::AppRoot(_) => Stage::AppRoot,
        RequestFilter::Redirect(_) | RequestFilter::RequestRedirect(_) => Stage::Redirect,
        RequestFilter::Rewrite(_) | RequestFilter::UrlRewrite(_) => Stage::Rewrite,
        RequestFilter::TlsRedirect(_) => Stage::TlsRedirect,
        RequestFilter::Maintenance(_) => Stage::Maintenance,
        RequestFilter::Headers(_) => Stage::RequestHeaders,
    }
}

fn apply(filter: &RequestFilter, request: &RequestView<'_>) -> Decision {
    match filter {
        RequestFilter::AppRoot(path) => app_root::apply(path, request).into(),
        RequestFilter::Redirect(redirect) => redirect::apply(redirect, request).into(),
        RequestFilter::Rewrite(rewrite) => rewrite::apply(rewrite, request),
        RequestFilter::TlsRedirect(redirect) => tls_redirect::apply(redirect, request).into(),
        RequestFilter::Maintenance(page) => maintenance::apply(page, request).into(),
        RequestFilter::RequestRedirect(redirect) => request_redirect::apply(redirect, request).into(),
        RequestFilter::UrlRewrite(rewrite) => url_rewrite::apply(rewrite, request),
        // The headers are changed when the head is written: that code looks for this filter if anything is
        // rewritten.
        RequestFilter::Headers(_) => Decision::Rewrite(Rewritten::default()),
    }
}

/// Scheme and host as nginx has them in redirects: in lower case, with the port only where configured, and
/// unless it is the scheme's default.
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
