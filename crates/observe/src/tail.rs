//! Requests as they end, for those who watch them: the console's live tail.
//!
//! While nobody watches, a request costs one load. While somebody does, the worker offers each request that ends to each watcher, who
//! keeps those with all words of its filter, as many as there is room for; the others are counted. A worker never waits: a request that
//! ends while another thread has the lock is counted as missed.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::Labels;

use crate::Reason;
use crate::access::Record;
use crate::limits::{TAIL_KEPT_MAX, TAIL_TEXT_BYTES_MAX, TAIL_WATCHERS_MAX, TAIL_WORDS_MAX};

/// Where workers offer requests that have ended.
#[derive(Debug, Default)]
pub struct Tail {
    is_watched: AtomicBool,
    missed: AtomicU64,
    watchers: Mutex<Watchers>,
}

#[derive(Debug, Default)]
struct Watchers {
    all: Vec<Watcher>,
    next_id: u64,
    /// The text of a request that filters look into.
    text: String,
}

#[derive(Debug)]
struct Watcher {
    id: u64,
    /// In lower case.
    words: Vec<String>,
    seen: Seen,
}

/// Requests that a watcher has seen since it last asked.
#[derive(Debug, Default)]
pub struct Seen {
    /// The first requests that have all words of the filter, in the order in which they ended.
    pub requests: Vec<Ended>,
    /// All requests that have them, those included for which there was no room.
    pub matched: u64,
    /// All requests that were offered.
    pub ended: u64,
}

/// A request that has ended. Texts that a client sent may be cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// When it ended, since 1970.
    pub at: Duration,
    /// Method; empty where the request could not be read.
    pub method: String,
    /// The host asked for; empty where there was none.
    pub host: String,
    /// The path without the query, or the request line where the request could not be read.
    pub path: String,
    /// Status sent.
    pub status: u16,
    /// Why Forebay responded itself or broke the response off.
    pub reason: Option<Reason>,
    /// Time from the first byte of the request to the last of the response.
    pub took: Duration,
    /// Time from the first try to the end of the last endpoint's response; none if no endpoint was asked.
    pub upstream: Option<Duration>,
    /// The endpoint of the last try.
    pub endpoint: Option<SocketAddr>,
    /// Number of tries.
    pub tries: usize,
    /// The cluster.
    pub cluster: Option<String>,
    /// The labels of the route.
    pub labels: Option<Arc<Labels>>,
    /// The client's address.
    pub client: IpAddr,
    /// Bytes sent, head included.
    pub sent_bytes: u64,
}

/// A place among those who watch. Its end gives it back.
#[derive(Debug)]
pub struct Watch {
    tail: Arc<Tail>,
    id: u64,
}

impl Tail {
    /// Watches requests that have all of these words, in any case, in what is known of them: method, host and path, status and its class
    /// (`5xx`), reason, object, cluster, endpoint and client. None if as many watch as may.
    pub fn watch(self: &Arc<Self>, filter: &str) -> Option<Watch> {
        let mut watchers = self.lock();
        if watchers.all.len() == TAIL_WATCHERS_MAX {
            return None;
        }
        let words = filter.split_whitespace().take(TAIL_WORDS_MAX).map(str::to_lowercase).collect();
        let id = watchers.next_id;
        watchers.next_id += 1;
        watchers.all.push(Watcher { id, words, seen: Seen::default() });
        self.is_watched.store(true, Ordering::Relaxed);
        Some(Watch { tail: Arc::clone(self), id })
    }

    /// Whether anybody watches.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Shows a request to all who watch.
    pub fn offer(&self, record: &Record<'_>, labels: Option<&Arc<Labels>>) {
        let Ok(mut watchers) = self.watchers.try_lock() else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let Watchers { all, text, .. } = &mut *watchers;
        let ended = Ended::of(record, labels);
        text.clear();
        ended.describe(text);
        for watcher in all {
            watcher.take(&ended, text);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    fn take(&mut self, ended: &Ended, text: &str) {
        self.seen.ended += 1;
        if !self.words.iter().all(|word| text.contains(&**word)) {
            return;
        }
        self.seen.matched += 1;
        if self.seen.requests.len() < TAIL_KEPT_MAX {
            self.seen.requests.push(ended.clone());
        }
    }
}

impl Watch {
    /// Takes the requests that were seen since the last call.
    pub fn take(&self) -> Seen {
        let missed = self.tail.missed.swap(0, Ordering::Relaxed);
        let mut watchers = self.tail.lock();
        for watcher in &mut watchers.all {
            watcher.seen.ended += missed;
        }
        let own = watchers.all.iter_mut().find(|watcher| watcher.id == self.id);
        own.map(|watcher| std::mem::take(&mut watcher.seen)).unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watchers = self.tail.lock();
        watchers.all.retain(|watcher| watcher.id != self.id);
        self.tail.is_watched.store(!watchers.all.is_empty(), Ordering::Relaxed);
    }
}

impl Ended {
    fn of(record: &Record<'_>, labels: Option<&Arc<Labels>>) -> Self {
        let last = record.tries.last();
        let times = || record.tries.iter().map(|one| one.response_time).sum::<Option<Duration>>();
        Self {
            at: record.time.unix,
            method: text(record.method),
            host: text(record.host),
            path: text(record.path.or(record.request)),
            status: record.status,
            reason: record.reason,
            took: record.request_time,
            upstream: last.and_then(|_| times()),
            endpoint: last.map(|one| one.address),
            tries: record.tries.len(),
            cluster: record.upstream_name.map(str::to_owned),
            labels: labels.map(Arc::clone),
            client: record.remote_addr,
            sent_bytes: record.bytes_sent,
        }
    }

    /// Appends the text that the words of a filter are looked for in.
    fn describe(&self, out: &mut String) {
        let Self { method, host, path, status, client, .. } = self;
        // Writing to a string does not fail.
        let _ = write!(out, "{method} {host}{path} {status} {}xx {client}", status / 100);
        if let Some(reason) = self.reason {
            let _ = write!(out, " {}", reason.name());
        }
        if let Some(endpoint) = self.endpoint {
            let _ = write!(out, " {endpoint}");
        }
        if let Some(cluster) = &self.cluster {
            let _ = write!(out, " {cluster}");
        }
        if let Some(labels) = &self.labels {
            let _ = write!(out, " {}/{}", labels.namespace, labels.object);
        }
        out.make_ascii_lowercase();
    }
}

/// As much of a text as is shown.
fn text(bytes: Option<&[u8]>) -> String {
    let bytes = bytes.unwrap_or_default();
    String::from_utf8_lossy(&bytes[..bytes.len().min(TAIL_TEXT_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Time, Try};

    fn record<'a>(host: &'a str, path: &'a str, status: u16, tries: &'a [Try]) -> Record<'a> {
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1000));
        Record {
            time: Time { unix: Duration::from_secs(5), ..Time::default() },
            remote_addr: nobody.ip(),
            peer: nobody,
            server: nobody,
            remote_user: None,
            request: None,
            method: Some(b"GET"),
            target: None,
            path: Some(path.as_bytes()),
            query: None,
            scheme: "http",
            tls: None,
            protocol: None,
            host: Some(host.as_bytes()),
            forwarded: None,
            status,
            body_bytes_sent: 0,
            bytes_sent: 100,
            request_length: 0,
            request_time: Duration::from_millis(3),
            connection: 1,
            connection_requests: 1,
            upstream_name: Some("default-web-80"),
            alternative_upstream_name: "",
            cache_status: None,
            reason: (status == 502).then_some(Reason::ConnectRefused),
            tries,
            request_id: None,
            traceparent: None,
            labels: None,
            index: "",
            hostname: "",
            pid: 1,
            named: &(),
        }
    }

    #[test]
    fn a_watcher_sees_what_has_all_words_of_its_filter() {
        let tail = Arc::<Tail>::default();
        assert!(!tail.is_watched());
        let watches = ["", "5XX a.test", "connect_refused GET", "b.test/x", "10.0.0.7:80"]
            .map(|filter| tail.watch(filter).unwrap());
        assert!(tail.is_watched());
        let address = SocketAddr::from(([10, 0, 0, 7], 80));
        let third = Duration::from_millis(1);
        let one = Try {
            address,
            status: None,
            response_bytes: 0,
            connect_time: None,
            header_time: None,
            response_time: Some(third),
        };
        tail.offer(&record("a.test", "/x", 502, &[one, one]), None);
        tail.offer(&record("a.test", "/x", 200, &[]), None);
        tail.offer(&record("b.test", "/X", 404, &[]), None);
        let seen = watches.each_ref().map(Watch::take);
        assert_eq!(seen.each_ref().map(|seen| seen.matched), [3, 1, 1, 1, 1]);
        assert!(seen.iter().all(|seen| seen.ended == 3 && seen.requests.len() as u64 == seen.matched));
        let first = &seen[1].requests[0];
        assert_eq!((first.status, first.tries, first.endpoint), (502, 2, Some(address)));
        assert_eq!(first.upstream, Some(2 * third));
        assert_eq!(watches[0].take().ended, 0, "it was taken");
        drop(watches);
        assert!(!tail.is_watched());
    }

    #[test]
    fn there_is_room_for_so_many_requests_and_watchers_and_so_much_text() {
        let tail = Arc::<Tail>::default();
        let watches: Vec<_> = std::iter::from_fn(|| tail.watch("x")).collect();
        assert_eq!(watches.len(), TAIL_WATCHERS_MAX);
        let long = "x".repeat(TAIL_TEXT_BYTES_MAX + 1);
        (0..=TAIL_KEPT_MAX).for_each(|_| tail.offer(&record("a.test", &long, 200, &[]), None));
        let seen = watches[0].take();
        assert_eq!((seen.requests.len(), seen.matched), (TAIL_KEPT_MAX, TAIL_KEPT_MAX as u64 + 1));
        assert_eq!(seen.requests[0].path.len(), TAIL_TEXT_BYTES_MAX);
    }

    #[test]
    fn a_worker_does_not_wait_for_who_watches() {
        let tail = Arc::<Tail>::default();
        let watch = tail.watch("").unwrap();
        let locked = tail.lock();
        tail.offer(&record("a.test", "/", 200, &[]), None);
        drop(locked);
        let seen = watch.take();
        assert_eq!((seen.ended, seen.matched), (1, 0));
    }
}
