//! What the filters of a route and of its backend change in heads: asked for only where a request is not passed on as its client sent it.
//!
//! Never in here: what decides on the request, which is `filters`'.

use model::{HeaderChanges, RequestFilter, UrlRewrite};

use crate::exchange::Exchange;
use crate::filters::{Rewritten, headers};
use crate::head::HeadEdits;

/// `Host` for the endpoint, where filters say so: what the backend's say comes before the route's, and rewriting before headers.
#[cold]
pub(crate) fn host(exchange: &Exchange<'_>, rewritten: &Rewritten) -> Option<Vec<u8>> {
    let of_backend = rewritten.backend.get().map(|backend| &*backend.filters);
    let of_rewrite = |rewrite: &UrlRewrite| rewrite.host.as_deref().map(str::to_owned);
    let in_headers = |changes: &HeaderChanges| {
        let (_, value) = changes.set().iter().find(|(name, _)| is_host(name))?;
        Some(value.clone())
    };
    let host = of_backend
        .and_then(|filters| filters.rewrite.as_deref())
        .and_then(of_rewrite)
        .or_else(|| of_backend.and_then(|filters| filters.request_headers.as_deref()).and_then(in_headers))
        .or_else(|| of_route(exchange, url_rewrite).and_then(of_rewrite))
        .or_else(|| of_route(exchange, header_changes).and_then(in_headers));
    host.map(String::into_bytes)
}

/// Makes the changes to the headers that the endpoint gets.
#[cold]
pub(crate) fn edit_request<'e>(
    exchange: &'e Exchange<'_>,
    rewritten: &'e Rewritten,
    edits: &mut HeadEdits<'e>,
) {
    let of_backend = rewritten.backend.get().and_then(|backend| backend.filters.request_headers.as_deref());
    for changes in of_route(exchange, header_changes).into_iter().chain(of_backend) {
        headers::apply(changes, |name| !is_host(name), edits);
    }
}

/// Makes the changes that are asked for to the headers of the backend's responses.
#[cold]
pub(crate) fn edit_response<'e>(rewritten: &'e Rewritten, edits: &mut HeadEdits<'e>) {
    let of_backend = rewritten.backend.get().and_then(|backend| backend.filters.response_headers.as_deref());
    if let Some(changes) = of_backend {
        headers::apply(changes, |_| true, edits);
    }
}

/// What filters of one kind say.
fn of_route<'a, T>(
    exchange: &Exchange<'a>,
    kind: impl Fn(&'a RequestFilter) -> Option<&'a T>,
) -> Option<&'a T> {
    exchange.route.get()?.request_filters.as_slice().iter().find_map(kind)
}

fn url_rewrite(filter: &RequestFilter) -> Option<&UrlRewrite> {
    match filter {
        RequestFilter::UrlRewrite(rewrite) => Some(rewrite),
        _ => None,
    }
}

fn header_changes(filter: &RequestFilter) -> Option<&HeaderChanges> {
    match filter {
        RequestFilter::Headers(changes) => Some(changes),
        _ => None,
    }
}

/// A request has one host, which is said before its fields.
fn is_host(name: &str) -> bool {
    name.eq_ignore_ascii_case("host")
}
