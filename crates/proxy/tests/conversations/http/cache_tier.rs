//! The second tier of the cache: what is on disk is found after a restart.

use std::path::Path;
use std::sync::Arc;

use cache_disk::{Disk, Size};
use model::CachePolicy;
use testkit::{Response, Upstream};

use super::forward;
use crate::world::{World, await_that};

/// With a port: the endpoint is told the port that clients know, so that keys have it, and the proxy's own
/// is another one after each start.
const GET: &str = "GET /a HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-Port: 80\r\n\r\n";
const KEPT: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nkept";
const VARIED: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: Foo\r\nContent-Length: 3\r\n\r\n";

struct House {
    world: World,
    disk: Arc<Disk>,
}

impl House {
    fn new(folder: &Path, upstream: &Upstream) -> Self {
        Self::on(Disk::open(folder, Size::of(cache_disk::BYTES_MIN)).unwrap(), upstream)
    }

    fn on(disk: Disk, upstream: &Upstream) -> Self {
        let disk = Arc::new(disk);
        await_that("the index to be read back", || !disk.figures().loading);
        let world = World::http_with_disk(Arc::clone(&disk), &[upstream.address()], |model| {
            model.settings.forwarded.use_incoming = true;
            forward(model, |forward| forward.cache = Some(Arc::new(CachePolicy::default())));
        });
        Self { world, disk }
    }

    /// A request that the endpoint answers.
    fn ask(&self, upstream: &Upstream, request: &str, answer: &str) -> Response {
        let mut client = self.world.http_client();
        client.send(request);
        let (mut peer, _) = upstream.accept_request();
        peer.send(answer);
        client.read_response()
    }

    /// A request that the endpoint does not see.
    fn hit(&self, upstream: &Upstream, request: &str) -> String {
        let response = self.world.http_client().ask(request);
        assert!(upstream.is_left_alone(), "{request}");
        assert!(response.header("cache-status").unwrap().starts_with("forebay; hit"));
        response.said().1.to_owned()
    }

    /// Ends, with so many records written.
    fn end(self, written: u64) {
        await_that("records to be written", || self.disk.figures().written >= written);
        self.world.stop();
    }
}

fn varied(value: &str) -> String {
    format!("GET /varied HTTP/1.1\r\nHost: web.test\r\nX-Forwarded-Port: 80\r\nFoo: {value}\r\n\r\n")
}

#[test]
fn what_is_kept_survives_a_restart() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::new());
    let house = House::new(folder.path(), &upstream);
    house.ask(&upstream, GET, KEPT);
    house.ask(&upstream, &varied("1"), &format!("{VARIED}one"));
    house.ask(&upstream, &varied("2"), &format!("{VARIED}two"));
    house.end(3);

    let house = House::new(folder.path(), &upstream);
    assert_eq!(house.hit(&upstream, GET), "kept");
    assert_eq!(house.hit(&upstream, &varied("1")), "one");
    assert_eq!(house.hit(&upstream, &varied("2")), "two");
    assert_eq!(house.disk.figures().hits, 2, "what has come into memory stays there");
    assert_eq!(house.ask(&upstream, &varied("3"), &format!("{VARIED}six")).said(), (200, "six"));
    house.end(1);
    let house = House::new(folder.path(), &upstream);
    assert_eq!(house.hit(&upstream, &varied("1")), "one");
    assert_eq!(house.hit(&upstream, &varied("3")), "six");
}

/// A volume that hangs holds no request: the endpoint is asked.
#[test]
fn a_disk_that_hangs_is_a_miss() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::new());
    let house = House::new(folder.path(), &upstream);
    house.ask(&upstream, GET, KEPT);
    house.end(1);

    let hanging = Disk::open_with_readers(folder.path(), Size::of(cache_disk::BYTES_MIN), 0).unwrap();
    let house = House::on(hanging, &upstream);
    assert_eq!(house.ask(&upstream, GET, KEPT).said(), (200, "kept"));
    assert_eq!(house.hit(&upstream, GET), "kept");
}

#[test]
fn what_was_changed_does_not_come_back() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::new());
    let house = House::new(folder.path(), &upstream);
    house.ask(&upstream, GET, KEPT);
    house.end(1);

    let house = House::new(folder.path(), &upstream);
    let post = GET.replace("GET", "POST");
    house.ask(&upstream, &post, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(house.ask(&upstream, GET, &KEPT.replace("60", "0")).said(), (200, "kept"));
    house.end(0);
    let house = House::new(folder.path(), &upstream);
    assert_eq!(house.ask(&upstream, GET, &KEPT.replace("kept", "next")).said(), (200, "next"));
}
