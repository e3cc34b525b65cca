//! Decisions of the steps from a route to its endpoints.

use std::rc::Rc;
use std::sync::Arc;

use model::{
    Access, Action, AddressSet, Backend, BackendFilters, Backends, Canary, CanaryHeader, CanaryHeaderRule,
    CanaryRules, ClusterId, DirectResponse, ErrorPages, Files, Forward, Networks, PathChange, Route, Split,
    UrlRewrite,
};

use super::{Admitted, ErrorPage, Target};
use crate::request::decision::Decision;
use crate::request::reply::Scope;
use crate::request::stop::Stop;
use crate::testing::{CLIENT, EMPTY, ONE, TWO, World, forward, outcome, route, route_to};

fn name(target: &Result<Target<'_>, Stop>) -> String {
    match target {
        Ok(Target::Endpoints(_, cluster) | Target::Processed(_, cluster)) => {
            cluster.limits().name().to_owned()
        }
        Ok(Target::Cached(..)) => "the cache".to_owned(),
        Ok(Target::Files(_)) => "files".to_owned(),
        Err(_) => outcome(target),
    }
}

/// The target of `GET /`, and the cluster that was chosen.
fn target(route: Route, lines: &str) -> (String, Option<ClusterId>) {
    World::of(route).admitted(lines, |admitted, target| (name(&target), admitted.cluster))
}

fn to(backends: Backends) -> Route {
    route("/", Action::Forward(Forward { backends, ..forward(TWO) }))
}

fn split(backends: Vec<Backend>) -> Route {
    to(Backends::Split(Split::new(backends).unwrap()))
}

fn canary(mainline: ClusterId, cluster: ClusterId) -> Route {
    let header = CanaryHeader { name: "X-Canary".to_owned(), rule: CanaryHeaderRule::AlwaysOrNever };
    let rules = CanaryRules { header: Some(header), ..CanaryRules::default() };
    to(Backends::Canary(Box::new(Canary {
        mainline,
        cluster,
        name: Arc::from("canary"),
        rules,
        rollout: None,
    })))
}

fn error_page(status: u16) -> Rc<ErrorPage> {
    Rc::new(ErrorPage { status, challenges: Vec::new(), is_bodiless: true })
}

#[test]
fn the_action_says_where_the_response_comes_from() {
    let respond = Action::Respond(Box::new(DirectResponse::new(418, "")));
    for (action, expected) in [
        (Action::Forward(forward(TWO)), ("two", Some(TWO))),
        (Action::Forward(forward(EMPTY)), ("NoEndpoints", Some(EMPTY))),
        (Action::Files(Box::default()), ("files", None)),
        (respond, ("418", None)),
        (Action::NotFound, ("UnknownPath", None)),
    ] {
        let (found, cluster) = target(route("/", action), "GET /");
        assert_eq!((found.as_str(), cluster), expected);
    }
}

#[test]
fn a_stop_of_the_route_stays_one() {
    assert_eq!(target(route_to(TWO), "GET /\nHost: other.test"), ("UnknownHost".to_owned(), None));
}

#[test]
fn the_fallback_replaces_a_cluster_without_endpoints() {
    for (own, fallback, expected) in [
        (EMPTY, ONE, ("one", Some(ONE))),
        (EMPTY, EMPTY, ("NoEndpoints", Some(EMPTY))),
        (TWO, ONE, ("two", Some(TWO))),
    ] {
        let mut pages = ErrorPages::default();
        pages.fallback = Some(fallback);
        let (found, cluster) = target(Route { error_pages: Some(Arc::new(pages)), ..route_to(own) }, "GET /");
        assert_eq!((found.as_str(), cluster), expected);
    }
}

#[test]
fn the_share_of_a_backend_is_its_own_even_if_it_cannot_answer() {
    for (backend, expected) in [
        (Backend::invalid(1), ("BackendInvalid", None)),
        (Backend::new(EMPTY, 1), ("NoEndpoints", Some(EMPTY))),
        (Backend::new(ONE, 1), ("one", Some(ONE))),
    ] {
        let (found, cluster) = target(split(vec![backend, Backend::new(TWO, 0)]), "GET /");
        assert_eq!((found.as_str(), cluster), expected);
    }
}

#[test]
fn a_backend_rewrites_the_target_of_its_requests() {
    let path = Some(PathChange::Full("/of-backend".to_owned()));
    let rewrite = Some(Box::new(UrlRewrite { path, ..UrlRewrite::default() }));
    let filters = Some(Arc::new(BackendFilters { rewrite, ..BackendFilters::default() }));
    World::of(split(vec![Backend { filters, ..Backend::new(ONE, 1) }])).admitted(
        "GET /a?b",
        |admitted, _| {
            assert!(admitted.is_filtered());
            assert_eq!(admitted.rewritten_target(), Some(&b"/of-backend?b"[..]));
            assert_eq!(admitted.at(Some(TWO)).rewritten_target(), Some(&b"/of-backend?b"[..]));
        },
    );
}

#[test]
fn a_canary_takes_what_its_rules_say_if_both_have_endpoints() {
    for (mainline, cluster, header, expected, is_canary) in [
        (TWO, ONE, "always", "one", true),
        (TWO, ONE, "never", "two", false),
        (TWO, EMPTY, "always", "two", false),
        (EMPTY, ONE, "always", "NoEndpoints", false),
    ] {
        let world = World::of(canary(mainline, cluster));
        world.admitted(&format!("GET /\nX-Canary: {header}"), |admitted, target| {
            assert_eq!(name(&target), expected, "{header}");
            assert_eq!(admitted.canary().is_some(), is_canary, "{header}");
        });
    }
}

#[test]
fn a_client_of_a_denied_network_goes_no_further() {
    let denied = Some(Arc::new(AddressSet::new(&[CLIENT.into()])));
    let networks = Some(Networks { denied, ..Networks::default() });
    let access = Some(Box::new(Access { networks, ..Access::default() }));
    let guarded = Route { access, ..route_to(TWO) };
    assert_eq!(target(guarded, "GET /"), ("AddressDenied".to_owned(), Some(TWO)));
    let files = Route { access: None, ..route("/", Action::Files(Box::<Files>::default())) };
    assert_eq!(target(files, "GET /"), ("files".to_owned(), None));
}

#[test]
fn the_same_request_for_another_cluster_keeps_what_its_checks_said() {
    World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
        let decision = Rc::new(Decision { cookies: vec![b"a=b".to_vec()], ..Decision::default() });
        let admitted =
            Admitted { decision: Some(Rc::clone(&decision)), error_page: Some(error_page(503)), ..admitted };
        let other = admitted.at(Some(ONE));
        assert_eq!(other.cluster, Some(ONE));
        assert!(Rc::ptr_eq(other.decision.as_ref().unwrap(), &decision));
        assert!(other.is_bodiless() && other.error_page.as_ref().unwrap().status == 503);
        assert_eq!(admitted.cluster, Some(TWO));
    });
}

#[test]
fn only_known_protocols_are_upgraded_to_and_not_by_an_error_backend() {
    let world = World::of(route_to(TWO));
    for (protocol, expected) in
        [("websocket", true), ("WebSocket", true), ("h2c", false), ("websocket, h2c", false)]
    {
        let lines = format!("GET /\nConnection: upgrade\nUpgrade: {protocol}");
        world.admitted(&lines, |admitted, _| {
            assert_eq!(admitted.is_upgrade(), expected, "{protocol}");
            let replaced = Admitted { error_page: Some(error_page(404)), ..admitted };
            assert!(!replaced.is_upgrade(), "{protocol}");
        });
    }
}

#[test]
fn an_error_backend_answers_in_the_scope_of_the_host() {
    World::of(route_to(TWO)).admitted("GET /", |admitted, _| {
        assert_eq!(admitted.final_scope(Scope::Signin), Scope::Signin);
        let replaced = Admitted { error_page: Some(error_page(404)), ..admitted };
        assert_eq!(replaced.final_scope(Scope::Location), Scope::Host);
    });
}
