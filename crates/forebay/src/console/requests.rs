//! `/console/requests`: requests as they end, as server-sent events of type `requests`, each half second in
//! which there are any.
//!
//! The parameter `q` holds the words of a filter ([`Tail::watch`]).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use observe::tail::{Ended, Seen, Tail, Watch};
use serde::Serialize;
use tokio::time::Instant;

use super::events::{EventStream, Watcher, Watchers, event};

/// Time between two events.
const EVERY: Duration = Duration::from_millis(500);

/// Most time between two events: they tell clients that the connection lives.
const EVERY_AT_MOST: Duration = Duration::from_secs(5);

/// Requests since the last event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestsJson<'a> {
    /// The first of the requests that have all words of the filter.
    requests: Vec<Line<'a>>,
    /// All that have them.
    matched: u64,
    /// All requests that ended since the last event.
    ended: u64,
}

/// One observed request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    /// When it ended, in seconds since 1970.
    at_seconds: f64,
    /// Empty where the request could not be read.
    method: &'a str,
    host: &'a str,
    /// Without the query; the request line where the request could not be read.
    path: &'a str,
    status: u16,
    /// Why Forebay responded itself or broke the response off.
    reason: Option<&'static str>,
    /// From the first byte of the request to the last of the response.
    seconds: f64,
    /// The endpoints' part of it.
    upstream_seconds: Option<f64>,
    /// The endpoint of the last try.
    endpoint: Option<SocketAddr>,
    tries: usize,
    cluster: Option<&'a str>,
    /// `namespace/name` of the route's object.
    object: Option<String>,
    client: IpAddr,
    sent_bytes: u64,
}

impl<'a> From<&'a Ended> for Line<'a> {
    fn from(ended: &'a Ended) -> Self {
        Self {
            at_seconds: ended.at.as_secs_f64(),
            method: &ended.method,
            host: &ended.host,
            path: &ended.path,
            status: ended.status,
            reason: ended.reason.map(observe::Reason::name),
            seconds: ended.took.as_secs_f64(),
            upstream_seconds: ended.upstream.map(|time| time.as_secs_f64()),
            endpoint: ended.endpoint,
            tries: ended.tries,
            cluster: ended.cluster.as_deref(),
            object: ended.labels.as_ref().map(|labels| format!("{}/{}", labels.namespace(), labels.object())),
            client: ended.client,
            sent_bytes: ended.sent_bytes,
        }
    }
}

/// A stream of the requests that match a filter; none if the number of watchers is at its limit.
pub(super) fn watch(watchers: &Watchers, tail: &Arc<Tail>, filter: &str) -> Option<EventStream> {
    let watch = tail.watch(filter)?;
    let (watcher, stream) = watchers.stream("")?;
    tokio::spawn(keep_telling(watch, watcher));
    Some(stream)
}

async fn keep_telling(watch: Watch, mut watcher: Watcher) {
    let (mut last, mut ended) = (Instant::now(), 0);
    loop {
        let seen = watch.take();
        ended += seen.ended;
        if !seen.requests.is_empty() || last.elapsed() >= EVERY_AT_MOST {
            last = Instant::now();
            if !watcher.takes(&Bytes::from(answer(&seen, std::mem::take(&mut ended)))) {
                return;
            }
        }
        tokio::select! {
            () = watcher.gone() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

fn answer(seen: &Seen, ended: u64) -> String {
    let requests = seen.requests.iter().map(Line::from).collect();
    let answer = RequestsJson { requests, matched: seen.matched, ended };
    event("requests", &serde_json::to_vec(&answer).expect("numbers and text"))
}
