//! Pages that say that a route is under maintenance.

use model::Maintenance;

use super::super::{FilterResult, RequestView};
use crate::request::reply::Answer;

/// Answers in place of the route while it is under maintenance, except to the clients that are spared.
pub(super) fn apply(maintenance: &Maintenance, request: &RequestView<'_>) -> FilterResult {
    if !maintenance.refuses(request.forwarded.client, request.now) {
        return FilterResult::Continue;
    }
    let answer = Answer::direct(&maintenance.response);
    FilterResult::Answer(match maintenance.retry_after(request.now) {
        Some(seconds) => answer.retry_after(seconds),
        None => answer,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{AddressSet, DirectResponse, RequestFilter};

    use super::super::{NOW, outcome};
    use super::*;
    use crate::request::forwarded::Forwarded;

    fn answer(maintenance: Maintenance) -> FilterResult {
        outcome(&RequestFilter::Maintenance(Arc::new(maintenance)), "/a", &Forwarded::sample()).0
    }

    #[test]
    fn clients_get_the_page_until_its_end_unless_they_are_spared() {
        let page = Maintenance {
            from: None,
            until: Some(NOW + 60),
            spared: None,
            retry_after: None,
            response: DirectResponse::new(503, "We are back soon."),
        };
        let FilterResult::Answer(shown) = answer(page.clone()) else { panic!("the page is due") };
        assert_eq!((shown.status, shown.field("Retry-After")), (503, Some("60")));
        assert_eq!(answer(Maintenance { until: Some(NOW), ..page.clone() }), FilterResult::Continue);
        assert_eq!(answer(Maintenance { from: Some(NOW + 1), ..page.clone() }), FilterResult::Continue);
        let all = ["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
        let spared = Some(Arc::new(AddressSet::new(&all)));
        assert_eq!(answer(Maintenance { spared, ..page }), FilterResult::Continue);
    }
}
