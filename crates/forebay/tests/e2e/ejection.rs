//! One of four endpoints fails or hangs: it is left out, asked now and then whether it is well, and taken
//! back.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::{Canned, Connection, Forebay, Moody};

use crate::{GET, setup};

const EJECTED: &str = "forebay_overload_ejected";
const EJECTIONS: &str = "forebay_overload_ejections_total";
const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno";

/// In front of three endpoints that are well, and of this one.
fn start(moody: &Moody, overload: &str, others: &[Canned; 3]) -> Forebay {
    let [a, b, c] = others.each_ref().map(Canned::address);
    let setup = setup().setting("forebay-overload", overload).setting("keep-alive-requests", "1000000");
    let setup = setup.arguments(["--workers=1"]);
    [a, moody.address(), b, c].into_iter().fold(setup, testkit::Setup::endpoint).start()
}

fn others() -> [Canned; 3] {
    [(); 3].map(|()| Canned::saying("ok"))
}

/// Sends so many requests one after the other; returns how many failed.
fn ask(client: &mut Connection, count: usize) -> usize {
    (0..count).filter(|_| client.ask(GET).status != 200).count()
}

fn is_out(forebay: &Forebay, endpoint: SocketAddr) -> bool {
    forebay.metrics().sum(EJECTED, &[("endpoint", &endpoint.to_string())]) == 1
}

/// It gets a few requests at most that find out whether it is well, and once it is its share.
fn comes_back(forebay: &Forebay, moody: &Moody, client: &mut Connection) {
    moody.become_well();
    forebay.await_that("the endpoint to be taken back", || {
        ask(client, 1);
        !is_out(forebay, moody.address())
    });
    forebay.await_log("an endpoint answers well again");
    let before = moody.requests();
    assert_eq!((ask(client, 40), moody.requests() - before), (0, 10), "its full share");
}

#[test]
fn one_that_fails_is_left_out_and_taken_back() {
    let (moody, others) = (Moody::saying(FAILED), others());
    let forebay = start(&moody, "enforce", &others);
    let mut client = forebay.client();
    moody.become_well();
    assert_eq!(ask(&mut client, 100), 0);
    moody.become_ill();
    let failed = ask(&mut client, 400);
    assert!((5..30).contains(&failed), "{failed}");
    assert!(is_out(&forebay, moody.address()));
    let line = forebay.await_log("an endpoint is ejected");
    assert!(line.contains(&moody.address().to_string()), "{line}");
    let before = moody.requests();
    ask(&mut client, 200);
    assert!(
        moody.requests() - before <= 3,
        "{} requests find out whether it is well",
        moody.requests() - before
    );
    comes_back(&forebay, &moody, &mut client);
}

#[test]
fn one_that_hangs_is_found_before_its_clients_have_gone() {
    let (moody, others) = (Moody::hanging(), others());
    let forebay = start(&moody, "enforce", &others);
    let mut client = forebay.client();
    moody.become_well();
    // Until it is known what is usual, nothing is slow.
    let taken = || others.iter().map(|one| one.heads().len()).min();
    forebay.await_that("enough responses of all", || {
        ask(&mut client, 4);
        taken() >= Some(200)
    });
    moody.become_ill();
    let mut waiting = Vec::new();
    forebay.await_that("the endpoint to be ejected", || {
        let mut client = forebay.client();
        let before = moody.requests();
        client.send(GET);
        // A response that is late on a busy machine is none that hangs.
        if client.is_quiet_for(Duration::from_millis(100)) && moody.requests() > before {
            waiting.push(client);
        }
        is_out(&forebay, moody.address())
    });
    assert!((3..30).contains(&waiting.len()), "{} clients wait", waiting.len());
    comes_back(&forebay, &moody, &mut client);
}

#[test]
fn while_it_is_only_watched_it_is_told_and_nothing_changes() {
    let (moody, others) = (Moody::saying(FAILED), others());
    let forebay = start(&moody, "watch", &others);
    let mut client = forebay.client();
    assert_eq!(ask(&mut client, 400), 100);
    forebay.await_metric(EJECTIONS, &[("endpoint", &moody.address().to_string())], 1);
    forebay.await_log("would be ejected");
}
