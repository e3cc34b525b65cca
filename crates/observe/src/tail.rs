//! Requests as they end, for viewers: the console's live tail.
//!
//! Without a viewer, a request costs one load. With viewers, the worker offers each request that ends to each
//! of them. A viewer stores the requests that contain all words of its filter, up to a bound; further ones
//! are counted. A worker never waits: a request that ends while another thread has the lock is counted as
//! missed.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::Labels;

use crate::Reason;
use crate::access::Values;
use crate::limits::{TAIL_KEPT_MAX, TAIL_TEXT_BYTES_MAX, TAIL_WATCHERS_MAX, TAIL_WORDS_MAX};

/// The place where workers offer requests that have ended.
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
    /// The text of a request that filters search.
    text: String,
}

#[derive(Debug)]
struct Watcher {
    id: u64,
    /// The words of the filter, in lower case.
    words: Vec<String>,
    seen: Seen,
}

/// Requests that a viewer has got since its last call.
#[derive(Debug, Default)]
pub struct Seen {
    /// The first requests that match the filter, in the order in which they ended.
    pub requests: Vec<Ended>,
    /// The number of all requests that match, including those without room.
    pub matched: u64,
    /// The number of all offered requests.
    pub ended: u64,
}

/// A request that has ended. Texts of the client may be cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The time at which it ended, since 1970.
    pub at: Duration,
    /// Method; empty if the request could not be parsed.
    pub method: String,
    /// The requested host; empty without a host.
    pub host: String,
    /// The path without the query, or the request line if the request could not be parsed.
    pub path: String,
    /// Status sent to the client.
    pub status: u16,
    /// The reason why Forebay responded itself or aborted the response.
    pub reason: Option<Reason>,
    /// Time from the first byte of the request to the last byte of the response.
    pub took: Duration,
    /// Time from the first try to the end of the last endpoint's response; none if no endpoint was tried.
    pub upstream: Option<Duration>,
    /// The endpoint of the last try.
    pub endpoint: Option<SocketAddr>,
    /// Number of tries.
    pub tries: usize,
    /// Name of the cluster.
    pub cluster: Option<String>,
    /// The labels of the route.
    pub labels: Option<Arc<Labels>>,
    /// The client's address.
    pub client: IpAddr,
    /// Bytes sent, head included.
    pub sent_bytes: u64,
}

/// The registration of a viewer, which ends when this value is dropped.
#[derive(Debug)]
pub struct Watch {
    tail: Arc<Tail>,
    id: u64,
}

impl Tail {
    /// Registers a viewer of requests that contain all of these words, in any letter case, in one of their
    /// values: method, host and path, status and its class (`5xx`), reason, object, cluster, endpoint and
    /// client. None if the number of viewers has reached its bound.
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

    /// Whether a viewer is registered.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Offers a request to all viewers.
    pub fn offer(&self, values: &impl Values, labels: Option<&Arc<Labels>>) {
        let Ok(mut watchers) = self.watchers.try_lock() else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let Watchers { all, text, .. } = &mut *watchers;
        let ended = Ended::of(values, labels);
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
    fn of(values: &impl Values, labels: Option<&Arc<Labels>>) -> Self {
        let tries = values.tries();
        let last = tries.last();
        let times = || tries.iter().map(|one| one.response_time).sum::<Option<Duration>>();
        let request_line = || values.request_line().as_deref().map(text);
        Self {
            at: values.unix_time(),
            method: values.method().map(text).unwrap_or_default(),
            host: values.host().as_deref().map(text).unwrap_or_default(),
            path: values.path().map(text).or_else(request_line).unwrap_or_default(),
            status: values.status(),
            reason: values.reason(),
            took: values.request_time(),
            upstream: last.and_then(|_| times()),
            endpoint: last.map(|one| one.address),
            tries: tries.len(),
            cluster: values.upstream_name().map(str::to_owned),
            labels: labels.map(Arc::clone),
            client: values.remote_addr(),
            sent_bytes: values.bytes_sent(),
        }
    }

    /// Appends the text that filters search.
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
            let _ = write!(out, " {}/{}", labels.namespace(), labels.object());
        }
        out.make_ascii_lowercase();
    }
}

/// The beginning of a text, as far as it is shown.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(TAIL_TEXT_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::net::Ipv4Addr;

    use super::*;
    use crate::access::{Connection, TimeForm, Try};

    struct Request<'a> {
        host: &'a str,
        path: &'a str,
        status: u16,
        tries: &'a [Try],
    }

    const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1000);

    impl Values for Request<'_> {
        fn remote_addr(&self) -> IpAddr {
            NOBODY.ip()
        }

        fn connection(&self) -> Connection<'_> {
            Connection { peer: NOBODY, server: NOBODY, scheme: "http", tls: None, serial: 1, requests: 1 }
        }

        fn unix_time(&self) -> Duration {
            Duration::from_secs(5)
        }

        fn write_time(&self, _: TimeForm, _: &mut Vec<u8>) {}

        fn hostname(&self) -> &'static str {
            ""
        }

        fn pid(&self) -> u32 {
            1
        }

        fn method(&self) -> Option<&[u8]> {
            Some(b"GET")
        }

        fn path(&self) -> Option<&[u8]> {
            Some(self.path.as_bytes())
        }

        fn host(&self) -> Option<Cow<'_, [u8]>> {
            Some(self.host.as_bytes().into())
        }

        fn status(&self) -> u16 {
            self.status
        }

        fn bytes_sent(&self) -> u64 {
            100
        }

        fn request_time(&self) -> Duration {
            Duration::from_millis(3)
        }

        fn upstream_name(&self) -> Option<&str> {
            Some("default-web-80")
        }

        fn reason(&self) -> Option<Reason> {
            (self.status == 502).then_some(Reason::ConnectRefused)
        }

        fn tries(&self) -> &[Try] {
            self.tries
        }
    }

    fn request<'a>(host: &'a str, path: &'a str, status: u16, tries: &'a [Try]) -> Request<'a> {
        Request { host, path, status, tries }
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
        tail.offer(&request("a.test", "/x", 502, &[one, one]), None);
        tail.offer(&request("a.test", "/x", 200, &[]), None);
        tail.offer(&request("b.test", "/X", 404, &[]), None);
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
        (0..=TAIL_KEPT_MAX).for_each(|_| tail.offer(&request("a.test", &long, 200, &[]), None));
        let seen = watches[0].take();
        assert_eq!((seen.requests.len(), seen.matched), (TAIL_KEPT_MAX, TAIL_KEPT_MAX as u64 + 1));
        assert_eq!(seen.requests[0].path.len(), TAIL_TEXT_BYTES_MAX);
    }

    #[test]
    fn a_worker_does_not_wait_for_who_watches() {
        let tail = Arc::<Tail>::default();
        let watch = tail.watch("").unwrap();
        let locked = tail.lock();
        tail.offer(&request("a.test", "/", 200, &[]), None);
        drop(locked);
        let seen = watch.take();
        assert_eq!((seen.ended, seen.matched), (1, 0));
    }
}
