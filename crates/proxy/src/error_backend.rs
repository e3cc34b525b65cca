//! Asks a backend of errors for the response that takes the place of another one.
//!
//! A fault here is answered plainly: no other backend is asked because of it.

use std::rc::Rc;

use model::{Action, Backends, Forward, RetryPolicy, Route, Transfer};
use observe::Reason;

use crate::buffer::Buffer;
use crate::exchange::{AfterRequest, Exchange};
use crate::limits::ERROR_BACKEND_TRIES_MAX;
use crate::outbound::Outbound;
use crate::upstream::{Cluster, Member};

/// Why there is no response of a backend of errors.
pub(crate) enum NoPage {
    /// None of them has an endpoint: the one that is built in answers with 404.
    BuiltIn,
    /// It has failed, or the request cannot be sent to it.
    Failed(Reason),
}

impl From<Reason> for NoPage {
    fn from(reason: Reason) -> Self {
        Self::Failed(reason)
    }
}

/// Asks for a request that no endpoint was asked for. `rest` holds what has been read after its head.
pub(crate) async fn ask(exchange: &Exchange<'_>, rest: &mut Buffer) -> Result<AfterRequest, NoPage> {
    let (cluster, forward) = backend(exchange).ok_or(NoPage::BuiltIn)?;
    let mut outbound = Outbound::new(exchange, &forward, rest)?;
    outbound.await_body().await?;
    Ok(tries(exchange, cluster, &forward, &mut outbound).await?)
}

/// Asks for a request that endpoints have been asked for.
pub(crate) async fn take_over<'x, 'a>(
    exchange: &'x Exchange<'a>,
    outbound: Outbound<'x, 'a>,
) -> Result<AfterRequest, NoPage> {
    let (cluster, forward) = backend(exchange).ok_or(NoPage::BuiltIn)?;
    let mut outbound = outbound.readdress(&forward);
    Ok(tries(exchange, cluster, &forward, &mut outbound).await?)
}

/// The first backend that has endpoints, and how it is asked: nothing of what the route asks for itself holds, but its times.
pub(crate) fn backend<'a>(exchange: &Exchange<'a>) -> Option<(&'a Cluster, Forward)> {
    let backends = &exchange.error_pages()?.backends;
    let id = *backends.iter().find(|&&id| exchange.cluster_of(id).len() > 0)?;
    let own = exchange.route.get().and_then(|route| own_forward(route));
    let forward = Forward {
        backends: Backends::One(id),
        timeouts: own.map(|own| own.timeouts).unwrap_or_default(),
        retry: RetryPolicy::default(),
        body_bytes_max: own.and_then(|own| own.body_bytes_max),
        connection_header: None,
        sets_affinity_cookie: false,
        head: None,
        transfer: own.map(|own| of_errors(&own.transfer)).unwrap_or_default(),
        cache: None,
        overload: None,
        priority: own.map(|own| own.priority).unwrap_or_default(),
    };
    Some((exchange.go_to(id), forward))
}

/// How messages pass: what the route asks for the sake of its own endpoints does not hold.
fn of_errors(own: &Transfer) -> Transfer {
    Transfer {
        request_buffer_bytes: own.request_buffer_bytes,
        response_head_bytes_max: own.response_head_bytes_max,
        ..Transfer::default()
    }
}

fn own_forward(route: &Route) -> Option<&Forward> {
    match &route.action {
        Action::Forward(forward) => Some(forward),
        Action::Files(_) | Action::Respond(_) | Action::NotFound => None,
    }
}

async fn tries(
    exchange: &Exchange<'_>,
    cluster: &Cluster,
    forward: &Forward,
    outbound: &mut Outbound<'_, '_>,
) -> Result<AfterRequest, Reason> {
    // The time of the whole request may be up by now.
    exchange.deadline.uncap();
    let mut number = 0;
    loop {
        number += 1;
        let is_untried = |member: &Member| !exchange.report.was_tried(member.endpoint.address);
        let (member, _place) = exchange
            .pick_beside(cluster, is_untried)
            .or_else(|| exchange.pick_beside(cluster, |_| true))
            .ok_or(Reason::NoEndpoints)?;
        match outbound.attempt(Rc::clone(member), true).await {
            Ok(next) => return Ok(next),
            Err(fault) if number < ERROR_BACKEND_TRIES_MAX && exchange.may_retry(fault, forward) => {}
            Err(fault) => return Err(fault.reason),
        }
    }
}
