//! The situations: one function for each, which makes it, and judges what came of it.
//!
//! Must not be in here: how load is sent, or how a proxy is configured.

mod clients;
mod endpoints;
mod rush;
mod shared;

use std::net::SocketAddr;
use std::time::Duration;

use super::Row;
use super::endpoint::{Endpoint, Work};
use super::load::Stream;
use super::site::{HOST, Peer};

/// All of them, in the order of the report.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "rush",
        what: "an endpoint set that can do R = 1,000 requests/s (4 endpoints, 5 at a time each, 20 ms) is offered 5 R in an open loop, by clients that wait for 1 s",
        peers: &Peer::ALL,
        run: rush::rush,
    },
    Row {
        name: "after",
        what: "the same rush is over, and 0.5 R come as before it: time until half a second's requests are answered well with a p99 of at most 1.3 of the unloaded",
        peers: &Peer::ALL,
        run: rush::after,
    },
    Row {
        name: "slow-one",
        what: "one of four endpoints becomes 20 times slower at 0.5 R, and is well again later",
        peers: &Peer::ALL,
        run: endpoints::slow_one,
    },
    Row {
        name: "failing-one",
        what: "one of four endpoints answers 500 at once at 0.5 R, and is well again later",
        peers: &Peer::ALL,
        run: endpoints::failing_one,
    },
    Row {
        name: "throttled",
        what: "one of four endpoints, for whose requests 2 ms of CPU time are needed, gets 10 ms of it in each 100 ms (field case E), at 190 requests/s, for which that is just enough; without limits Forebay goes round robin",
        peers: &Peer::ALL,
        run: endpoints::throttled,
    },
    Row {
        name: "priorities",
        what: "critical requests at 0.5 R and sheddable ones at 4.5 R, to the same endpoint set that can do R",
        peers: &[Peer::ForebayOff, Peer::Forebay],
        run: clients::priorities,
    },
    Row {
        name: "greedy",
        what: "1,000 clients ask for 0.95 R in all, one more for 100 times as much as each of them",
        peers: &[Peer::ForebayOff, Peer::Forebay],
        run: clients::greedy,
    },
    Row {
        name: "abusive",
        what: "100,000 distinct addresses ask for what is not there, one after the other and each five times, at 5,000 requests/s, of a Forebay with the table of clients and of one without",
        peers: &[Peer::Forebay],
        run: clients::abusive,
    },
    Row {
        name: "shared-limit",
        what: "three replicas of Forebay allow 1,000 requests/s together of 1,800 that come, and one of them is killed",
        peers: &[Peer::Forebay],
        run: shared::shared_limit,
    },
    Row {
        name: "slow-clients",
        what: "10,000 connections of slowhttptest, a third each slow with heads, bodies and reads, beside 0.5 R of others",
        peers: &Peer::ALL,
        run: clients::slow_clients,
    },
];

/// What the endpoints of most situations do: four of them can do 1,000 requests a second.
const WORK: Work = Work { parallel: 5, service_us: 20_000, burn_us: 0 };
const ENDPOINTS: usize = 4;

/// Requests that all of them can do in a second.
fn capacity() -> f64 {
    WORK.rate() * ENDPOINTS as f64
}

fn addresses(endpoints: &[Endpoint]) -> Vec<SocketAddr> {
    endpoints.iter().map(|endpoint| endpoint.address).collect()
}

/// Requests for the usual host between two times.
fn stream(rate: f64, from: Duration, until: Duration) -> Stream {
    Stream { rate, from, until, host: HOST.into(), path: "/".into(), clients: None, proxy: 0 }
}

fn milliseconds(p99: Option<f64>) -> String {
    p99.map_or_else(|| "-".into(), |p99| format!("{p99:.1}"))
}

fn percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

/// One figure against another; none where one of them is none.
fn ratio(value: Option<f64>, to: Option<f64>) -> Option<f64> {
    Some(value? / to?)
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))
}

fn at_most(ratio: Option<f64>, most: f64) -> bool {
    ratio.is_some_and(|ratio| ratio <= most)
}
