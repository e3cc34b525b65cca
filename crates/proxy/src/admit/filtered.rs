//! The changes that filters of a route and of its backend make to heads. Entered only where there are such
//! filters.
//!
//! Never in here: what decides on the request, which is `filters`'.

use model::{HeaderChanges, RequestFilter, UrlRewrite};

use crate::admit::Targeted;
use crate::request::head::HeadEdits;
use crate::route::filters::headers;
use crate::route::filters::response::{Asking, apply_cross_origin};

/// `Host` for the endpoint, where filters set it: the backend's come before the route's, and rewriting
/// before headers.
#[cold]
pub(crate) fn host(targeted: &Targeted<'_>) -> Option<Vec<u8>> {
    let of_backend = targeted.backend.as_ref().map(|backend| &*backend.filters);
    let of_rewrite = |rewrite: &UrlRewrite| rewrite.host.as_deref().map(str::to_owned);
    let in_headers = |changes: &HeaderChanges| {
        let (_, value) = changes.set().iter().find(|(name, _)| is_host(name))?;
        Some(value.clone())
    };
    let host = of_backend
        .and_then(|filters| filters.rewrite.as_deref())
        .and_then(of_rewrite)
        .or_else(|| of_backend.and_then(|filters| filters.request_headers.as_deref()).and_then(in_headers))
        .or_else(|| of_route(targeted, url_rewrite).and_then(of_rewrite))
        .or_else(|| of_route(targeted, header_changes).and_then(in_headers));
    host.map(String::into_bytes)
}

/// Makes the changes to the headers that the endpoint gets.
#[cold]
pub(crate) fn edit_request<'e>(targeted: &'e Targeted<'_>, edits: &mut HeadEdits<'e>) {
    let of_backend = targeted.backend.as_ref().and_then(|backend| backend.filters.request_headers.as_deref());
    for changes in of_route(targeted, header_changes).into_iter().chain(of_backend) {
        headers::apply(changes, |name| !is_host(name), edits);
    }
}

/// Makes the changes that are asked for to the headers of the backend's responses.
#[cold]
pub(crate) fn edit_response<'e>(targeted: &'e Targeted<'_>, edits: &mut HeadEdits<'e>) {
    let Some(of_backend) = targeted.backend.as_ref().map(|backend| &backend.filters) else { return };
    if let Some(cors) = &of_backend.cross_origin {
        apply_cross_origin(cors, &Asking::of(targeted), edits);
    }
    if let Some(changes) = &of_backend.response_headers {
        headers::apply(changes, |_| true, edits);
    }
}

/// The filter of one kind.
fn of_route<'a, T>(
    targeted: &Targeted<'a>,
    kind: impl Fn(&'a RequestFilter) -> Option<&'a T>,
) -> Option<&'a T> {
    targeted.route?.request_filters.as_slice().iter().find_map(kind)
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
