//! The responses that an error backend replaces, and the headers that this backend gets (ingress-nginx:
//! `custom-http-errors`).
//!
//! Never in here: how the backend is asked, which is `error_backend`'s.

use model::{ErrorPages, HeaderNames};
use observe::Reason;
use wire::h1::TargetForm;

use crate::admit::{Admitted, ErrorPage};
use crate::request::head::HeadEdits;
use crate::request::lookup;
use crate::request::reply::{self, CLIENT_CLOSED_REQUEST};
use crate::request::report::Excuse;
use crate::request::stop::Stop;

/// The error page that replaces the answer to a request that was stopped, if one does. `is_bodiless` says
/// whether the error backend is to be asked without the request's body.
pub(crate) fn page_for_stop(admitted: &Admitted<'_>, stop: &Stop, is_bodiless: bool) -> Option<ErrorPage> {
    if admitted.report.excuse.get() == Some(Excuse::KnownAbuse) {
        // No other backend is to work for such a client.
        return None;
    }
    let page = match stop {
        Stop::Answer(answer) => page(admitted, answer.status, || answer.challenges(), true),
        Stop::Fault(reason) => page(admitted, reply::status(*reason), Vec::new, true),
    };
    if let (Some(_), Stop::Fault(reason)) = (&page, stop) {
        admitted.note_reason(*reason);
    }
    page.map(|page| ErrorPage { is_bodiless, ..page })
}

/// The error page that replaces a fault of the request's tries, if one does.
pub(crate) fn page_for_fault(admitted: &Admitted<'_>, reason: Reason) -> Option<ErrorPage> {
    page_for_stop(admitted, &Stop::Fault(reason), false)
}

/// The error page that replaces a response with this status, if one does. `is_own` says whether the response
/// is our own. A response of the error backend is not replaced again.
#[cold]
pub(crate) fn page(
    admitted: &Admitted<'_>,
    status: u16,
    challenges: impl FnOnce() -> Vec<Vec<u8>>,
    is_own: bool,
) -> Option<ErrorPage> {
    let may_be_replaced = status != CLIENT_CLOSED_REQUEST
        && admitted.error_page.is_none()
        && admitted.peer_request.is_none()
        && !admitted.progress.is_answered()
        && admitted.parsed.form != TargetForm::Authority;
    let is_replaced = |pages: &ErrorPages| {
        if is_own { replaces_ours(pages, status) } else { replaces_theirs(pages, status) }
    };
    let is_replaced = may_be_replaced && admitted.error_pages().is_some_and(is_replaced);
    is_replaced.then(|| ErrorPage { status, challenges: challenges(), is_bodiless: false })
}

/// Whether an error backend replaces an endpoint's response with this status.
pub(crate) fn replaces(admitted: &Admitted<'_>, status: u16) -> bool {
    admitted.error_pages().is_some_and(|pages| replaces_theirs(pages, status))
}

/// Whether a response of ours with this status is replaced.
fn replaces_ours(pages: &ErrorPages, status: u16) -> bool {
    pages.replaces(status) || pages.own_page(status).is_some()
}

/// Whether an endpoint's response with this status is replaced.
fn replaces_theirs(pages: &ErrorPages, status: u16) -> bool {
    let by_us = !pages.own_spares_endpoints && pages.own_page(status).is_some();
    by_us || (pages.replaces(status) && !pages.spares_endpoints)
}

/// Whether an error backend may have to answer in place of endpoints.
pub(crate) fn may_replace(admitted: &Admitted<'_>) -> bool {
    admitted.error_page.is_none()
        && admitted.error_pages().is_some_and(|pages| !pages.statuses().is_empty() || !pages.own.is_empty())
}

/// Tells an error backend, and one that replaces endpoints that are missing, what the request is about.
/// Returns the target for the former.
pub(crate) fn tell<'e>(admitted: &'e Admitted<'_>, edits: &mut HeadEdits<'e>) -> Option<Vec<u8>> {
    let page = admitted.error_page.as_deref();
    let replaces_endpoints = || {
        let fallback = admitted.error_pages().and_then(|pages| pages.fallback);
        fallback.is_some() && fallback == admitted.cluster
    };
    let status = match page {
        Some(page) => page.status,
        None if replaces_endpoints() => 503,
        None => return None,
    };
    edits.set("X-Code", status.to_string().into_bytes());
    // nginx sends no header without a value.
    match lookup::header_variable(admitted.head, admitted.parsed, b"accept", HeaderNames::Plain) {
        Some(accept) if !accept.is_empty() => edits.set("X-Format", accept),
        _ => edits.remove("X-Format"),
    }
    let labels = admitted.route.map(|route| &*route.labels);
    let label = |of: fn(&model::Labels) -> &str| labels.map_or("", of);
    for (name, value) in [
        ("X-Namespace", label(model::Labels::namespace)),
        ("X-Ingress-Name", label(model::Labels::object)),
        ("X-Service-Name", label(model::Labels::service)),
        ("X-Service-Port", label(model::Labels::service_port)),
    ] {
        if value.is_empty() {
            edits.remove(name);
        } else {
            edits.set(name, value.as_bytes());
        }
    }
    page?;
    let target = admitted.sent_target();
    edits.set("X-Original-URI", target);
    let query = wire::path::query_of_target(target);
    Some(query.map_or_else(|| b"/".to_vec(), |query| [b"/?", query].concat()))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;

    use model::{LabelTexts, Labels, Model, Route, Settings};

    use super::*;
    use crate::request::reply::Answer;
    use crate::testing::{EMPTY, ONE, TWO, World, model, route_to};

    fn replacing(statuses: &[u16]) -> ErrorPages {
        let mut pages = ErrorPages::new(statuses.to_vec());
        pages.backends.push(ONE);
        pages
    }

    fn world(pages: ErrorPages) -> World {
        World::of(Route { error_pages: Some(Arc::new(pages)), ..route_to(TWO) })
    }

    fn status(page: Option<ErrorPage>) -> Option<u16> {
        page.map(|page| page.status)
    }

    #[test]
    fn a_fault_is_replaced_by_its_status() {
        let world = world(replacing(&[404, 413, 499]));
        for (reason, expected) in [
            (Reason::UnknownPath, Some(404)),
            (Reason::BodyTooLarge, Some(413)),
            (Reason::NoEndpoints, None),
            // Nobody is there to see it.
            (Reason::ClientAborted, None),
        ] {
            world.admitted("GET /", |admitted, _| {
                let page = page_for_stop(&admitted, &reason.into(), true);
                let is_bodiless = page.as_ref().is_some_and(|page| page.is_bodiless);
                assert_eq!(is_bodiless, expected.is_some());
                assert_eq!(status(page), expected, "{reason:?}");
                let noted = expected.map(|_| reason);
                assert_eq!(
                    admitted.report.reason.get(),
                    noted,
                    "only a fault that is replaced is noted here"
                );
            });
        }
    }

    #[test]
    fn an_answer_is_replaced_and_keeps_its_challenges() {
        world(replacing(&[401])).admitted("GET /", |admitted, _| {
            let challenge = b"Basic realm=x".to_vec();
            let stop = Stop::from(Answer::refusal(401, std::slice::from_ref(&challenge)));
            let page = page_for_stop(&admitted, &stop, false).unwrap();
            assert_eq!((page.status, page.challenges, page.is_bodiless), (401, vec![challenge], false));
            assert_eq!(admitted.report.reason.get(), None);
        });
    }

    #[test]
    fn responses_of_endpoints_may_be_spared() {
        for (spares_endpoints, of_endpoint) in [(false, Some(503)), (true, None)] {
            let mut pages = replacing(&[503]);
            pages.spares_endpoints = spares_endpoints;
            world(pages).admitted("GET /", |admitted, _| {
                assert_eq!(status(page(&admitted, 503, Vec::new, true)), Some(503));
                assert_eq!(status(page(&admitted, 503, Vec::new, false)), of_endpoint);
                assert_eq!(replaces(&admitted, 503), of_endpoint.is_some());
                assert!(may_replace(&admitted));
            });
        }
    }

    #[test]
    fn a_page_is_not_replaced_again() {
        world(replacing(&[503])).admitted("GET /", |admitted, _| {
            let first = page_for_fault(&admitted, Reason::NoEndpoints).unwrap();
            let asked = Admitted { error_page: Some(Rc::new(first)), ..admitted };
            assert!(page_for_fault(&asked, Reason::NoEndpoints).is_none());
            assert!(!may_replace(&asked));
        });
    }

    #[test]
    fn a_response_that_has_begun_is_not_replaced() {
        world(replacing(&[502])).admitted("GET /", |admitted, _| {
            assert!(page_for_fault(&admitted, Reason::UpstreamReset).is_some());
            admitted.progress.note_answered();
            assert!(page_for_fault(&admitted, Reason::UpstreamReset).is_none());
        });
    }

    #[test]
    fn no_backend_works_for_known_abuse() {
        world(replacing(&[429])).admitted("GET /", |admitted, _| {
            for (excuse, expected) in
                [(None, Some(429)), (Some(Excuse::NoRoom), Some(429)), (Some(Excuse::KnownAbuse), None)]
            {
                admitted.report.excuse.set(excuse);
                assert_eq!(status(page_for_fault(&admitted, Reason::AbusiveClient)), expected, "{excuse:?}");
            }
        });
    }

    #[test]
    fn requests_without_a_route_have_the_pages_of_the_settings() {
        let settings = Settings { error_pages: Some(Box::new(replacing(&[404]))), ..Settings::default() };
        let world = World::new(&Model { settings, ..model([route_to(TWO)]) });
        for (lines, expected) in [("GET /\nHost: other.test", Some(404)), ("GET /", None)] {
            let found =
                world.admitted(lines, |admitted, _| status(page_for_fault(&admitted, Reason::UnknownHost)));
            assert_eq!(found, expected, "{lines}");
        }
    }

    #[test]
    fn an_error_backend_is_told_of_the_request() {
        let labels = Labels::from(LabelTexts {
            namespace: "shop".to_owned(),
            service: "web".to_owned(),
            ..LabelTexts::default()
        });
        let route = Route {
            error_pages: Some(Arc::new(replacing(&[503]))),
            labels: Arc::new(labels),
            ..route_to(TWO)
        };
        World::of(route).admitted("GET /a?b=c\nAccept: text/html", |admitted, _| {
            let mut untold = HeadEdits::default();
            assert_eq!(tell(&admitted, &mut untold), None);
            assert!(untold.is_empty(), "an endpoint of its own is told nothing");
            drop(untold);
            let page = page_for_fault(&admitted, Reason::NoEndpoints).map(Rc::new);
            let asked = Admitted { error_page: page, ..admitted };
            let mut edits = HeadEdits::default();
            assert_eq!(tell(&asked, &mut edits).as_deref(), Some(&b"/?b=c"[..]));
            let expected = [
                "X-Code: 503",
                "X-Format: text/html",
                "X-Namespace: shop",
                "X-Ingress-Name",
                "X-Service-Name: web",
                "X-Service-Port",
                "X-Original-URI: /a?b=c",
            ];
            assert_eq!(edits.lines(), expected);
        });
    }

    #[test]
    fn a_fallback_is_told_the_status_and_keeps_the_target() {
        let mut pages = ErrorPages::default();
        pages.fallback = Some(ONE);
        let route = Route { error_pages: Some(Arc::new(pages)), ..route_to(EMPTY) };
        World::of(route).admitted("GET /a", |admitted, _| {
            let mut edits = HeadEdits::default();
            assert_eq!(tell(&admitted, &mut edits), None);
            assert_eq!(edits.lines()[0], "X-Code: 503");
        });
    }
}
