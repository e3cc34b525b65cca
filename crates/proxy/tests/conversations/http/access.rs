//! Who may use a route.

use std::sync::Arc;

use model::{Access, AddressSet, Networks};
use testkit::Upstream;

use super::{GET, OK, await_fault, route};
use crate::world::World;

fn addresses(networks: &[&str]) -> Arc<AddressSet> {
    let networks: Vec<_> = networks.iter().map(|network| network.parse().unwrap()).collect();
    Arc::new(AddressSet::new(&networks))
}

fn guarded(upstream: &Upstream, access: Access) -> World {
    World::http(&[upstream.address()], |model| {
        route(model, |route| route.access = Some(Box::new(access)));
    })
}

fn only(networks: Networks) -> Access {
    Access { networks: Some(networks), ..Access::default() }
}

#[test]
fn clients_are_let_in_by_their_addresses() {
    let here = || Some(addresses(&["127.0.0.0/8"]));
    let elsewhere = || Some(addresses(&["10.0.0.0/8", "::/0"]));
    for (allowed, denied, is_let_in) in [
        (here(), None, true),
        (elsewhere(), None, false),
        (None, here(), false),
        (None, elsewhere(), true),
        (here(), here(), false),
        (here(), elsewhere(), true),
    ] {
        let upstream = Upstream::new();
        let world = guarded(&upstream, only(Networks { denied, allowed }));
        let mut client = world.http_client();
        client.send(GET);
        if is_let_in {
            upstream.accept_request().0.send(OK);
            assert_eq!(client.read_response().said(), (200, "ok"));
        } else {
            assert_eq!(client.read_response().status, 403);
            await_fault(&world, "address_denied");
            assert!(upstream.is_left_alone());
        }
    }
}

#[test]
fn without_endpoints_nobody_is_asked_who_he_is() {
    let access = only(Networks { denied: Some(addresses(&["0.0.0.0/0"])), allowed: None });
    let world = World::http(&[], |model| route(model, |route| route.access = Some(Box::new(access))));
    assert_eq!(world.http_client().ask(GET).status, 503);
}

#[test]
fn who_is_blocked_everywhere_learns_nothing_of_hosts() {
    let world = World::http(&[], |model| {
        model.settings.blocked = Some(Networks { denied: Some(addresses(&["127.0.0.1/32"])), allowed: None });
    });
    assert_eq!(world.http_client().get("other.test", "/a").status, 403);
    assert_eq!(world.http_client().get("other.test", "/healthz").status, 200);
}
