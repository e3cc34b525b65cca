//! `/console/events`: the overview once a second, as server-sent events (HTML Living Standard, section 9.2),
//! made once for all watchers.
//!
//! Nothing is measured without watchers. After a measurement there is a pause a hundred times as long, so
//! that an open console costs at most a hundredth of a CPU, however many routes there are.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::sampler::Sampler;
use super::seen::{Seen, lock};
use super::traffic::{Collected, Traffic};
use crate::server::BusyConnection;

/// Least time between two measurements.
const EVERY: Duration = Duration::from_secs(1);

/// Times that a measurement rests as long as it took.
const RESTS: u32 = 100;

/// Most time between two measurements, whatever they cost: events tell clients that the connection lives.
const EVERY_AT_MOST: Duration = Duration::from_secs(5);

/// Most watchers at a time; fewer where the admin server has fewer connections, of which they are given half.
const WATCHERS_MAX: usize = 100;

/// Events that may wait for a watcher's connection. Later ones are left out until it has taken one.
const EVENTS_WAITING_MAX: usize = 2;

/// Events in a row that were left out for a watcher, from which its connection is closed.
const EVENTS_MISSED_MAX: u32 = 30;

/// Time for which measuring continues after the last watcher has gone, or after the last single request: a
/// client that polls gets rates.
const LINGER: Duration = Duration::from_secs(10);

/// Time that a question waits for the first measurement with rates: for two of them, as far apart as they may
/// be.
const FIRST_WITHIN: Duration = Duration::from_secs(12);

/// Time that clients have to wait before they reconnect, in milliseconds.
const RETRY: &str = "retry: 2000\n\n";

/// The watching clients, and the channel of events for them.
pub(super) struct Watchers {
    seats: Arc<Semaphore>,
    inner: Mutex<Inner>,
    collected: Mutex<Collected>,
    latest: watch::Sender<Option<Latest>>,
}

#[derive(Default)]
struct Inner {
    is_measuring: bool,
    streams: Vec<Watcher>,
    /// Time of the last request without a stream.
    asked: Option<Instant>,
}

/// The sending end of a stream of events, and how many events its client has missed in a row.
pub(super) struct Watcher {
    events: mpsc::Sender<Bytes>,
    missed: u32,
}

/// The latest overview, as JSON.
#[derive(Clone)]
struct Latest {
    json: Bytes,
    has_rates: bool,
    has_traffic: bool,
}

/// The events for a watcher, as the body of a response. Its end gives its seat back.
pub(crate) struct EventStream {
    events: mpsc::Receiver<Bytes>,
    /// The connection is being answered as long as this is there.
    busy: Option<BusyConnection>,
    _seat: OwnedSemaphorePermit,
}

impl Watchers {
    /// For an admin server with this number of connections at a time. Half of them stay free for health
    /// checks and scrapes.
    pub(super) fn new(connections_max: usize) -> Self {
        Self {
            seats: Arc::new(Semaphore::new((connections_max / 2).clamp(1, WATCHERS_MAX))),
            inner: Mutex::default(),
            collected: Mutex::default(),
            latest: watch::Sender::new(None),
        }
    }

    /// A stream of events from now on; none if there are as many as there may be.
    pub(super) fn watch(self: &Arc<Self>, seen: &Arc<Seen>) -> Option<EventStream> {
        let latest = self.latest.borrow().clone();
        let (watcher, stream) =
            self.stream(&latest.map(|latest| event("state", &latest.json)).unwrap_or_default())?;
        let mut inner = lock(&self.inner);
        inner.streams.push(watcher);
        self.measure(&mut inner, seen);
        Some(stream)
    }

    /// A stream of events of any kind, with its first words; none if there are as many as there may be.
    pub(super) fn stream(&self, first: &str) -> Option<(Watcher, EventStream)> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().ok()?;
        // One more for the first words.
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX + 1);
        let _ = sender.try_send(Bytes::from(RETRY.to_owned() + first));
        Some((Watcher { events: sender, missed: 0 }, EventStream { events, busy: None, _seat: seat }))
    }

    /// The overview as it is now, with rates; none where measuring takes too long.
    pub(super) async fn state(self: &Arc<Self>, seen: &Arc<Seen>) -> Option<Bytes> {
        self.ask(seen);
        self.latest(|latest| latest.has_rates).await
    }

    /// Figures of routes, clusters, endpoints and services; none if measuring takes too long.
    pub(super) async fn traffic(self: &Arc<Self>, seen: &Arc<Seen>) -> Option<Traffic> {
        lock(&self.collected).ask();
        self.ask(seen);
        self.latest(|latest| latest.has_traffic).await?;
        Some(lock(&self.collected).tell(&seen.registry))
    }

    fn ask(self: &Arc<Self>, seen: &Arc<Seen>) {
        let mut inner = lock(&self.inner);
        inner.asked = Some(Instant::now());
        self.measure(&mut inner, seen);
    }

    async fn latest(&self, is_enough: impl Fn(&Latest) -> bool) -> Option<Bytes> {
        let mut latest = self.latest.subscribe();
        let found = latest.wait_for(|latest| latest.as_ref().is_some_and(&is_enough));
        let found = tokio::time::timeout(FIRST_WITHIN, found).await.ok()?.ok()?;
        found.as_ref().map(|latest| latest.json.clone())
    }

    /// Begins to measure, unless that is done already.
    fn measure(self: &Arc<Self>, inner: &mut Inner, seen: &Arc<Seen>) {
        if !std::mem::replace(&mut inner.is_measuring, true) {
            tokio::spawn(Arc::clone(self).keep_measuring(Arc::clone(seen)));
        }
    }

    async fn keep_measuring(self: Arc<Self>, seen: Arc<Seen>) {
        let mut sampler = Sampler::new();
        let mut last_watched = Instant::now();
        // The first rates come as soon as they may: a client waits for them, and another replica not for
        // long.
        let mut rests = 0;
        loop {
            let begun = Instant::now();
            self.tell(&mut sampler, &seen);
            if self.is_over(&mut last_watched) {
                return;
            }
            tokio::time::sleep((begun.elapsed() * rests).clamp(EVERY, EVERY_AT_MOST)).await;
            rests = RESTS;
        }
    }

    /// Measures, and sends the events to all watchers.
    fn tell(&self, sampler: &mut Sampler, seen: &Seen) {
        let (state, has_traffic) = {
            let mut collected = lock(&self.collected);
            let state = sampler.look(seen, &mut collected);
            (state, !collected.is_empty())
        };
        let json = Bytes::from(serde_json::to_vec(&state).expect("numbers and text"));
        let text = Bytes::from(event("state", &json));
        let has_rates = state.window_seconds.is_some();
        self.latest.send_replace(Some(Latest { json, has_rates, has_traffic }));
        lock(&self.inner).streams.retain_mut(|watcher| watcher.takes(&text));
    }

    /// Whether there was no watcher or request for a while. The samples are dropped then.
    fn is_over(&self, last_watched: &mut Instant) -> bool {
        let mut inner = lock(&self.inner);
        if !inner.streams.is_empty() {
            *last_watched = Instant::now();
        }
        let last = inner.asked.map_or(*last_watched, |asked| asked.max(*last_watched));
        if last.elapsed() < LINGER {
            return false;
        }
        inner.is_measuring = false;
        self.latest.send_replace(None);
        *lock(&self.collected) = Collected::default();
        true
    }
}

impl Watcher {
    /// Passes an event on. False once the client is gone, or has taken nothing for too long.
    pub(super) fn takes(&mut self, text: &Bytes) -> bool {
        match self.events.try_send(text.clone()) {
            Ok(()) => {
                self.missed = 0;
                true
            }
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.missed += 1;
                self.missed <= EVENTS_MISSED_MAX
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }

    /// Waits until the client is gone.
    pub(super) async fn gone(&self) {
        self.events.closed().await;
    }
}

impl EventStream {
    /// Keeps the connection for as long as there are events.
    pub(crate) fn occupy(&mut self, busy: BusyConnection) {
        self.busy = Some(busy);
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

/// One event of a type. JSON has no line break outside of strings, and none within.
pub(super) fn event(name: &str, json: &[u8]) -> String {
    format!("event: {name}\ndata: {}\n\n", String::from_utf8_lossy(json))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use observe::{MetricsOptions, Registry};

    use super::*;

    fn watchers(connections: usize) -> (Arc<Watchers>, Arc<Seen>) {
        let registry = Registry::new(MetricsOptions::default());
        let seen = Seen::new(registry, Arc::default());
        (Arc::new(Watchers::new(connections)), Arc::new(seen))
    }

    async fn next(stream: &mut EventStream) -> Option<String> {
        let frame = stream.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn all_watchers_get_the_same_each_second() {
        let (watchers, seen) = watchers(64);
        let (mut one, mut other) = (watchers.watch(&seen).unwrap(), watchers.watch(&seen).unwrap());
        assert_eq!(next(&mut one).await.unwrap(), RETRY);
        assert_eq!(next(&mut other).await.unwrap(), RETRY);
        for has_rates in [false, true, true] {
            let told = next(&mut one).await.unwrap();
            assert!(told.starts_with("event: state\ndata: {") && told.ends_with("}\n\n"), "{told}");
            assert_eq!(told.contains("\"windowSeconds\":null"), !has_rates);
            assert_eq!(next(&mut other).await.unwrap(), told);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_left_behind_and_holds_up_nobody() {
        let (watchers, seen) = watchers(64);
        let (mut slow, mut quick) = (watchers.watch(&seen).unwrap(), watchers.watch(&seen).unwrap());
        for _ in 0..EVENTS_MISSED_MAX + 10 {
            next(&mut quick).await.unwrap();
        }
        let mut taken = 0;
        while next(&mut slow).await.is_some() {
            taken += 1;
        }
        assert_eq!(taken, EVENTS_WAITING_MAX + 1, "what waited for it, and then the end");
        assert!(next(&mut quick).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_seats_for_some_and_nothing_is_done_without_watchers() {
        let (watchers, seen) = watchers(4);
        let one = watchers.watch(&seen).unwrap();
        let other = watchers.watch(&seen).unwrap();
        assert!(watchers.watch(&seen).is_none());
        drop(other);
        assert!(watchers.watch(&seen).is_some());
        drop(one);
        tokio::time::sleep(LINGER + 2 * EVERY).await;
        assert!(!lock(&watchers.inner).is_measuring && watchers.latest.borrow().is_none());
        let state = watchers.state(&seen).await.unwrap();
        assert!(String::from_utf8(state.to_vec()).unwrap().contains("\"version\""), "it begins anew");
        assert!(lock(&watchers.inner).is_measuring);
    }

    #[tokio::test(start_paused = true)]
    async fn traffic_is_collected_once_somebody_asks() {
        let (watchers, seen) = watchers(4);
        watchers.state(&seen).await.unwrap();
        assert!(lock(&watchers.collected).is_empty());
        let traffic = watchers.traffic(&seen).await.unwrap();
        assert!(traffic.window_seconds.is_some());
        watchers.state(&seen).await.unwrap();
    }
}
