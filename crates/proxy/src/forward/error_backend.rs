//! Asks an error backend for the response that replaces another one.
//!
//! A fault here is answered plainly: no other backend is asked because of it.

use std::rc::Rc;

use model::{Backends, Forward, Transfer};
use observe::Reason;

use crate::admit::{Admitted, ErrorPage};
use crate::answer::attempted::Attempted;
use crate::answer::passed::Passed;
use crate::forward::outbound::{Outbound, can_send_body_again};
use crate::forward::own_error_page;
use crate::forward::retry::may_retry;
use crate::io::buffer::Buffer;
use crate::limits::ERROR_BACKEND_TRIES_MAX;
use crate::request::AfterRequest;
use crate::request::reply::Answer;
use crate::request::stop::Stop;
use crate::upstream::{Cluster, Member};

/// The error backend of a request: its endpoints, and how it is asked.
pub(crate) struct ErrorBackend<'a> {
    /// The request as this backend is asked for it.
    pub(crate) admitted: Box<Admitted<'a>>,
    /// None where no error backend has an endpoint: the built-in one answers with 404 then.
    pub(crate) asked: Option<(&'a Cluster, Forward)>,
}

/// Asks for a request that no endpoint was asked for. `rest` holds what has been read after its head.
pub(crate) async fn ask<'a>(attempted: &Attempted<'_, 'a>, page: ErrorPage, rest: &mut Buffer) -> Passed<'a> {
    let ErrorBackend { admitted, asked } = choose(attempted, page);
    let result = match &asked {
        None => Err(built_in(&admitted).into()),
        Some((cluster, forward)) => ask_first(&admitted, cluster, forward, rest).await,
    };
    Passed { result, cookie: None, elsewhere: Some(admitted) }
}

async fn ask_first(
    admitted: &Admitted<'_>,
    cluster: &Cluster,
    forward: &Forward,
    rest: &mut Buffer,
) -> Result<AfterRequest, Stop> {
    let mut outbound = Outbound::new(admitted, forward, rest)?;
    outbound.await_body().await?;
    tries(&mut Attempted::new(admitted), cluster, forward, &mut outbound).await
}

/// Asks for a request that endpoints have been asked for.
pub(crate) async fn take_over<'a>(
    mut attempted: Attempted<'_, 'a>,
    page: ErrorPage,
    outbound: Outbound<'_, '_>,
) -> Passed<'a> {
    let ErrorBackend { mut admitted, asked } = choose(&attempted, page);
    let cookie = attempted.cookie.take();
    let Some((cluster, forward)) = asked else {
        let result = Err(built_in(&admitted).into());
        return Passed { result, cookie, elsewhere: Some(admitted) };
    };
    let is_kept = can_send_body_again(&admitted, &outbound);
    if let Some(page) = admitted.error_page.as_mut().and_then(Rc::get_mut) {
        page.is_bodiless = page.is_bodiless || (!is_kept && attempted.parsed.has_body());
    }
    let mut outbound = outbound.readdress(&admitted, &forward, is_kept);
    let mut attempted = Attempted { cookie, ..Attempted::new(&admitted) };
    let result = tries(&mut attempted, cluster, &forward, &mut outbound).await;
    let cookie = attempted.cookie.take();
    drop((outbound, attempted));
    Passed { result, cookie, elsewhere: Some(admitted) }
}

/// The first error backend that has endpoints. Of what the route asks for itself only its times hold.
pub(crate) fn choose<'a>(admitted: &Admitted<'a>, page: ErrorPage) -> ErrorBackend<'a> {
    let pages = admitted.error_pages().filter(|pages| pages.own_page(page.status).is_none());
    let mut backends = pages.into_iter().flat_map(|pages| &pages.backends);
    let id = backends.find(|&&id| admitted.cluster_of(id).len() > 0).copied();
    let mut asked_for = match id {
        Some(id) => admitted.at(Some(id)),
        None => admitted.at(admitted.cluster),
    };
    asked_for.error_page = Some(Rc::new(page));
    let asked = id.map(|id| (admitted.cluster_of(id), forward_to(admitted, Backends::One(id))));
    ErrorBackend { admitted: Box::new(asked_for), asked }
}

/// The answer where no error backend is asked: the route's own, or that of the built-in one.
fn built_in(admitted: &Admitted<'_>) -> Answer {
    let status = admitted.error_page.as_ref().map(|page| page.status);
    status.and_then(|status| own_error_page::answer(admitted, status)).unwrap_or_else(Answer::not_found)
}

fn forward_to(admitted: &Admitted<'_>, backends: Backends) -> Forward {
    let own = admitted.own_forward();
    Forward {
        timeouts: own.map(|own| own.timeouts.clone()).unwrap_or_default(),
        body_bytes_max: own.map_or(model::BodyLimit::NONE, |own| own.body_bytes_max),
        transfer: own.map(|own| of_errors(&own.transfer)).unwrap_or_default().into(),
        priority: own.map(|own| own.priority).unwrap_or_default(),
        ..Forward::to(backends)
    }
}

/// How messages pass. The settings that a route has for the sake of its own endpoints do not hold.
fn of_errors(own: &Transfer) -> Transfer {
    Transfer {
        request_buffer_bytes: own.request_buffer_bytes,
        response_head_bytes_max: own.response_head_bytes_max,
        ..Transfer::default()
    }
}

async fn tries(
    attempted: &mut Attempted<'_, '_>,
    cluster: &Cluster,
    forward: &Forward,
    outbound: &mut Outbound<'_, '_>,
) -> Result<AfterRequest, Stop> {
    // The time of the whole request may be up by now.
    attempted.deadline.uncap();
    let mut number = 0;
    loop {
        number += 1;
        let is_untried = |member: &Member| !attempted.report.was_tried(member.endpoint.address);
        let (member, _place) = attempted
            .pick_beside(cluster, is_untried)
            .or_else(|| attempted.pick_beside(cluster, |_| true))
            .ok_or(Reason::NoEndpoints)?;
        match outbound.attempt(attempted, member, true).await {
            Ok(tried) => return tried.answered().ok_or_else(|| Reason::UpstreamStatus.into()),
            Err(fault) if number < ERROR_BACKEND_TRIES_MAX && may_retry(attempted, fault, forward) => {}
            Err(fault) => return Err(fault.reason.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use model::{Action, ClusterId, ErrorPages, Route, Timeouts, UpstreamHead};

    use super::*;
    use crate::testing::{EMPTY, ONE, TWO, World, forward, route};

    fn world(backends: Vec<ClusterId>) -> World {
        let own = Forward {
            timeouts: Timeouts { connect: Duration::from_secs(1), ..Timeouts::default() }.into(),
            sets_affinity_cookie: true,
            head: Some(Box::new(UpstreamHead::default())),
            ..forward(TWO)
        };
        let mut pages = ErrorPages::new(vec![503]);
        pages.backends = backends;
        World::of(Route { error_pages: Some(Arc::new(pages)), ..route("/", Action::Forward(own)) })
    }

    fn page() -> ErrorPage {
        ErrorPage { status: 503, challenges: Vec::new(), is_bodiless: false }
    }

    #[test]
    fn the_first_error_backend_with_endpoints_is_asked() {
        for (backends, expected) in [
            (vec![ONE, TWO], Some("one")),
            (vec![EMPTY, ONE], Some("one")),
            (vec![EMPTY], None),
            (vec![], None),
        ] {
            world(backends).admitted("GET /", |admitted, _| {
                let ErrorBackend { admitted: replaced, asked } = choose(&admitted, page());
                assert_eq!(asked.as_ref().map(|(cluster, _)| cluster.limits().name()), expected);
                let cluster = expected.map_or(TWO, |_| ONE);
                assert_eq!(
                    replaced.cluster,
                    Some(cluster),
                    "the request stays with its own where none is asked"
                );
                assert_eq!(replaced.error_page.as_ref().unwrap().status, 503);
                assert!(admitted.error_page.is_none());
            });
        }
    }

    #[test]
    fn of_the_route_only_its_times_hold_for_an_error_backend() {
        world(vec![ONE]).admitted("GET /", |admitted, _| {
            let (_, forward) = choose(&admitted, page()).asked.unwrap();
            assert_eq!(forward.timeouts.connect, Duration::from_secs(1));
            assert!(!forward.sets_affinity_cookie && forward.head.is_none());
        });
    }
}
