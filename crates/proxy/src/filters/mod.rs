//! What routes do to requests before they are forwarded: a closed set, one file each.
//!
//! They run in the order of [`request`], whatever their order in the route. It is nginx's order of phases as
//! ingress-nginx uses them: redirects come before anything that refuses.

pub(crate) mod client_certificate;
pub(crate) mod forwarded;
mod tls_redirect;

use model::Filter;
use observe::Reason;

use crate::reply::Answer;
pub(crate) use client_certificate::ClientCertContext;
pub(crate) use forwarded::{Forwarded, Via};

/// What the filters know of a request.
pub(crate) struct RequestView<'a> {
    /// Path and query, as sent.
    pub(crate) target: &'a [u8],
    /// Normalised path.
    pub(crate) path: &'a [u8],
    /// Who asks, and what for.
    pub(crate) forwarded: &'a Forwarded<'a>,
    /// What its connection says of it, if it came over TLS.
    pub(crate) client: Option<ClientCertContext<'a>>,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FilterResult {
    /// It goes on.
    Continue,
    /// It is answered.
    Answer(Answer),
    /// It is refused.
    Refuse(Reason),
}

/// Position in the order of phases.
fn phase(filter: &Filter) -> u8 {
    match filter {
        Filter::TlsRedirect(_) => 0,
        Filter::Forbidden { .. } => 1,
        Filter::ClientCertificate(_) => 2,
        Filter::Unavailable { .. } => 3,
    }
}

/// One past the last phase.
const PHASES: u8 = 4;

/// Runs a route's filters.
pub(crate) fn request(filters: &[Filter], request: &RequestView<'_>) -> FilterResult {
    if filters.is_empty() {
        return FilterResult::Continue;
    }
    let in_order = (0..PHASES).flat_map(|at| filters.iter().filter(move |filter| phase(filter) == at));
    for filter in in_order {
        let result = apply(filter, request);
        if result != FilterResult::Continue {
            return result;
        }
    }
    FilterResult::Continue
}

fn apply(filter: &Filter, request: &RequestView<'_>) -> FilterResult {
    match filter {
        Filter::TlsRedirect(redirect) => tls_redirect::apply(redirect, request),
        Filter::Forbidden { .. } => FilterResult::Refuse(Reason::Forbidden),
        Filter::ClientCertificate(demand) => client_certificate::apply(demand, request),
        Filter::Unavailable { .. } => FilterResult::Refuse(Reason::Unavailable),
    }
}

#[cfg(test)]
mod tests {
    use model::TlsRedirect;

    use super::*;

    #[test]
    fn the_order_of_phases_decides_not_that_of_the_list() {
        let redirect = Filter::TlsRedirect(TlsRedirect {
            status: 308,
            force: false,
            except: Vec::new(),
            keep_trailing_slash: false,
            port: None,
        });
        let unavailable = Filter::Unavailable { reason: "auth-url".to_owned() };
        let forwarded = Forwarded::sample();
        let view = RequestView { target: b"/a", path: b"/a", forwarded: &forwarded, client: None };
        let result = request(&[unavailable.clone(), redirect], &view);
        assert!(matches!(result, FilterResult::Answer(answer) if answer.status == 308));
        assert_eq!(request(&[unavailable], &view), FilterResult::Refuse(Reason::Unavailable));
    }
}
