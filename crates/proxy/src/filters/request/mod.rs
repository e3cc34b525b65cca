//! What is done with a request before it is known whether its client may use the route.

mod tls_redirect;

use model::RequestFilter;

use super::{FilterResult, RequestView};

/// Runs a route's request filters in their order, until one answers or refuses.
pub(crate) fn request(filters: &[RequestFilter], request: &RequestView<'_>) -> FilterResult {
    for filter in filters {
        let result = apply(filter, request);
        if result != FilterResult::Continue {
            return result;
        }
    }
    FilterResult::Continue
}

fn apply(filter: &RequestFilter, request: &RequestView<'_>) -> FilterResult {
    match filter {
        RequestFilter::TlsRedirect(redirect) => tls_redirect::apply(redirect, request),
    }
}
