//! The changes to the head of a response, of all who have a say in it: the settings, the route, the checks
//! of the client, the choice of the endpoint.
//!
//! Never in here: how a head is written.

use std::net::IpAddr;

use deciders::authz::EditAction;
use model::{Http3, ResponseFilter, Settings};
use observe::Reason;
use routing::Needs;

use crate::admit::Admitted;
use crate::admit::filtered;
use crate::answer::attempted::{Attempted, CookieLine};
use crate::limits::HTTP3_OFFER_MAX;
use crate::request::head::HeadEdits;
use crate::request::reply::Scope;
use crate::route::filters;
use crate::route::filters::response::Asking;
use crate::route::values;
use crate::upstream::Keyed;

/// The changes to the head of a response, whoever made it.
pub(crate) fn response_edits<'e>(
    attempted: &'e Attempted<'_, '_>,
    status: u16,
    scope: Scope,
) -> HeadEdits<'e> {
    let is_plain = !attempted.needs.has_any(Needs::RESPONSE_HEAD) && attempted.conn.tls.is_none();
    if is_plain && attempted.cookie.is_none() {
        return HeadEdits::default();
    }
    let settings = attempted.config.settings();
    let expand = |template: &_| values::expand_field_for(attempted, status, template);
    let scope = attempted.final_scope(scope);
    let has_hsts = attempted.conn.tls.is_some() && matches!(scope, Scope::Location | Scope::Closed);
    let mut edits = filters::response(settings, has_hsts, expand, || http3_alternative(attempted));
    let has_filter = |filter: &&ResponseFilter| match scope {
        Scope::Location => true,
        Scope::Signin => matches!(filter, ResponseFilter::Cors(_) | ResponseFilter::CrossOrigin(_)),
        Scope::Closed | Scope::Host => false,
    };
    if attempted.is_filtered() && scope == Scope::Location {
        filtered::edit_response(attempted, &mut edits);
    }
    if let Some(route) = attempted.route {
        let filters = route.response_filters.as_slice().iter().filter(has_filter);
        filters::response::apply(filters, || Asking::of(attempted), &mut edits);
    }
    let decision = attempted.decision.as_ref().filter(|_| scope != Scope::Host);
    for cookie in decision.into_iter().flat_map(|decision| decision.cookies_for(status)) {
        edits.add("Set-Cookie", cookie.as_slice());
    }
    for cookie in decision.into_iter().flat_map(|decision| &decision.session_cookies) {
        edits.add("Set-Cookie", cookie.as_bytes());
    }
    if let Some(fields) = decision.and_then(|decision| decision.quota.as_ref()) {
        edits.add("RateLimit-Policy", fields.policy.as_bytes());
        edits.add("RateLimit", fields.limit.as_bytes());
    }
    if let Some(cookie) = attempted.cookie.as_deref() {
        tell_session(attempted, cookie, &mut edits);
    }
    for challenge in attempted.error_page.iter().flat_map(|page| &page.challenges) {
        edits.add("WWW-Authenticate", challenge.as_slice());
    }
    edits
}

/// Makes the changes that authorization services have asked for.
pub(crate) fn tell_of_services<'e>(attempted: &'e Attempted<'_, '_>, edits: &mut HeadEdits<'e>) {
    for edit in attempted.decision.iter().flat_map(|decision| &decision.response) {
        let has_values = || edits.values(edit.name.as_bytes()).next().is_some();
        match edit.action {
            EditAction::AddIfAbsent if has_values() => {}
            EditAction::SetIfPresent if !has_values() => {}
            EditAction::Append => edits.add(&edit.name, edit.value.as_slice()),
            EditAction::AddIfAbsent | EditAction::Set | EditAction::SetIfPresent => {
                edits.forget_additions(&edit.name);
                edits.set(&edit.name, edit.value.as_slice());
            }
        }
    }
}

/// The value of `Alt-Svc` (RFC 7838) that offers HTTP/3 at the port that the client has asked at; none where
/// the listener does not serve it.
#[cold]
fn http3_alternative(attempted: &Attempted<'_, '_>) -> Option<Vec<u8>> {
    let (worker, conn) = (attempted.worker, attempted.conn);
    if !worker.serves_http3(conn.listener) {
        return None;
    }
    if worker.is_stopping() {
        // A client that came back over QUIC would be refused here.
        return Some(b"clear".to_vec());
    }
    let (host, port) = wire::host::split_port(&attempted.head[attempted.parsed.host.clone()]);
    let tls = attempted.config.tls_listeners.get(conn.listener)?;
    if tls.has_passthrough() && tls.passthrough(Some(&host.to_ascii_lowercase())).is_some() {
        return None;
    }
    let time = match attempted.config.settings().tls.http3 {
        Http3::Off => return None,
        Http3::Auto => worker.alternatives.offer(conn.listener, host, conn.serial, worker.clock.now())?,
        Http3::On => HTTP3_OFFER_MAX,
    };
    let port = port.filter(|port| !port.is_empty()).unwrap_or(b"443");
    Some([b"h3=\":", port, b"\"; ma=", time.as_secs().to_string().as_bytes()].concat())
}

/// Adds the reason of a fault to the head of our response, for clients of the networks that the settings
/// name.
#[cold]
pub(crate) fn tell_reason(settings: &Settings, client: IpAddr, reason: Reason, edits: &mut HeadEdits<'_>) {
    if settings.reason_header.as_ref().is_some_and(|networks| networks.contains(client.to_canonical())) {
        edits.set("X-Forebay-Reason", reason.name().as_bytes());
    }
}

/// Tells the client which endpoint it was given, by the header that its cluster has for that, or by a cookie.
fn tell_session<'e>(admitted: &'e Admitted<'_>, line: &'e CookieLine, edits: &mut HeadEdits<'e>) {
    let cluster = admitted.cluster.map(|id| admitted.cluster_of(id));
    let header = match cluster.and_then(|cluster| cluster.keyed()) {
        Some(Keyed::Cookie(sticky)) => sticky.affinity.header.as_deref(),
        Some(Keyed::Hash(_)) | None => None,
    };
    match header {
        Some(name) => edits.set(name, line.0.as_bytes()),
        None => edits.add("Set-Cookie", line.0.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;

    use model::{AddressSet, Model, ResponseFilters, Route};

    use super::*;
    use crate::admit::ErrorPage;
    use crate::request::decision::{Decision, RateLimitFields};
    use crate::testing::{CLIENT, TWO, World, model, route_to};

    const HSTS: &str = "Strict-Transport-Security: max-age=31536000; includeSubDomains";

    fn told(admitted: &Admitted<'_>, status: u16, scope: Scope) -> Vec<String> {
        response_edits(&Attempted::new(admitted), status, scope).lines()
    }

    #[test]
    fn a_plain_route_changes_nothing_in_clear() {
        World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
            assert!(response_edits(&Attempted::new(&admitted), 200, Scope::Location).is_empty());
        });
    }

    #[test]
    fn strict_transport_security_is_for_locations_over_tls() {
        for (scope, has_it) in
            [(Scope::Location, true), (Scope::Closed, true), (Scope::Signin, false), (Scope::Host, false)]
        {
            let expected = if has_it { vec![HSTS] } else { Vec::new() };
            World::of(route_to(TWO)).over_tls().admitted("GET /", |admitted, _| {
                assert_eq!(told(&admitted, 200, scope), expected, "{scope:?}");
            });
        }
    }

    #[test]
    fn headers_of_the_route_are_for_its_location() {
        let headers = Arc::from([("X-Own".to_owned(), "1".to_owned())]);
        let filters = ResponseFilters::new(vec![ResponseFilter::SetHeaders(headers)]).unwrap();
        let world = World::of(Route { response_filters: filters, ..route_to(TWO) });
        world.admitted("GET /", |admitted, _| {
            assert_eq!(told(&admitted, 503, Scope::Location), ["X-Own: 1"]);
            for scope in [Scope::Closed, Scope::Signin, Scope::Host] {
                assert!(told(&admitted, 503, scope).is_empty(), "{scope:?}");
            }
        });
    }

    #[test]
    fn the_affinity_cookie_is_added_to_a_plain_route_too() {
        World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
            let cookie = Some(Box::new(CookieLine("route=1".to_owned())));
            let attempted = Attempted { cookie, ..Attempted::new(&admitted) };
            assert_eq!(response_edits(&attempted, 200, Scope::Location).lines(), ["Set-Cookie: route=1"]);
        });
    }

    #[test]
    fn what_the_checks_give_the_client_depends_on_the_status_and_the_scope() {
        let access = Some(Box::default());
        World::of(Route { access, ..route_to(TWO) }).admitted("GET /", |admitted, _| {
            let quota = RateLimitFields { policy: "p".to_owned(), limit: "l".to_owned() };
            let cookies = vec![b"a=b".to_vec()];
            let decision = Decision { cookies, quota: Some(quota), ..Decision::default() };
            let admitted = Admitted { decision: Some(Rc::new(decision)), ..admitted };
            let expected = ["Set-Cookie: a=b", "RateLimit-Policy: p", "RateLimit: l"];
            assert_eq!(told(&admitted, 200, Scope::Location), expected);
            assert_eq!(told(&admitted, 404, Scope::Location), expected[1..]);
            assert!(told(&admitted, 200, Scope::Host).is_empty());
        });
    }

    #[test]
    fn the_challenges_of_a_replaced_answer_remain() {
        World::of(route_to(TWO)).over_tls().admitted("GET /", |admitted, _| {
            let challenges = vec![b"Basic realm=x".to_vec()];
            let page = ErrorPage { status: 401, challenges, is_bodiless: false };
            let admitted = Admitted { error_page: Some(Rc::new(page)), ..admitted };
            assert_eq!(told(&admitted, 401, Scope::Location), ["WWW-Authenticate: Basic realm=x"]);
        });
    }

    #[test]
    fn reasons_are_told_to_networks_that_are_named() {
        for (network, expected) in [
            (Some("192.0.2.0/24"), vec!["X-Forebay-Reason: no_endpoints"]),
            (Some("10.0.0.0/8"), vec![]),
            (None, vec![]),
        ] {
            let networks = network.map(|network| Arc::new(AddressSet::new(&[network.parse().unwrap()])));
            let settings = Settings { reason_header: networks, ..Settings::default() };
            let world = World::new(&Model { settings, ..model([route_to(TWO)]) });
            world.request("GET /", |request| {
                let mut edits = HeadEdits::default();
                tell_reason(request.config.settings(), CLIENT, Reason::NoEndpoints, &mut edits);
                assert_eq!(edits.lines(), expected);
            });
        }
    }
}
