//! Servers beside the proxy, each on a thread of its own: who connects to them, for how long, and how many at a time.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::machine;

/// Pause before more connections are accepted when there are no descriptors left: others are closed meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time in which a connection has to make a request: from its beginning, and from the last answer on.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Serves a listener on a thread of this name, which ends with the process.
pub(crate) fn spawn<F>(
    name: &'static str,
    listener: StdListener,
    serve: impl FnOnce(TcpListener) -> F + Send + 'static,
) -> io::Result<()>
where
    F: Future<Output = ()>,
{
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        TcpListener::from_std(listener)?
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        machine::give_way();
        runtime.block_on(serve(listener));
    })?;
    Ok(())
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// The connections of a server. There are only so many; for another one, that goes which has waited for a request for longest: strangers
/// that connect and say nothing keep nobody out who has something to ask.
pub(crate) struct Connections {
    max: usize,
    open: Mutex<Open>,
    /// One has ended, or waits for a request again.
    changed: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, Entry>,
}

struct Entry {
    /// None while a request is being answered.
    waiting_since: Option<Instant>,
    /// None until it has begun.
    task: Option<AbortHandle>,
}

/// A connection's place among those of its server.
#[derive(Clone)]
pub(crate) struct Place(Arc<Held>);

struct Held {
    number: u64,
    connections: Arc<Connections>,
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default(), changed: Notify::new() })
    }

    /// Accepts connections for as long as it is polled, each of which ends when it makes no request for too long.
    pub(crate) async fn serve<F>(
        self: Arc<Self>,
        listener: TcpListener,
        mut converse: impl FnMut(TcpStream, SocketAddr, Place) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        loop {
            let (stream, peer) = accept(&listener).await;
            let place = self.take().await;
            let number = place.0.number;
            let task = tokio::spawn(within_patience(place.clone(), converse(stream, peer, place)));
            if let Some(entry) = self.lock().by_number.get_mut(&number) {
                entry.task = Some(task.abort_handle());
            }
        }
    }

    async fn take(self: &Arc<Self>) -> Place {
        loop {
            let changed = self.changed.notified();
            if self.lock().make_room(self.max) {
                break;
            }
            changed.await;
        }
        let mut open = self.lock();
        open.next += 1;
        let number = open.next;
        open.by_number.insert(number, Entry { waiting_since: Some(Instant::now()), task: None });
        Place(Arc::new(Held { number, connections: Arc::clone(self) }))
    }

    /// Nothing that a panic could leave half done is guarded.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Whether there is room for another one, be it that of one that waits.
    fn make_room(&mut self, max: usize) -> bool {
        if self.by_number.len() < max {
            return true;
        }
        let waiting =
            self.by_number.iter().filter_map(|(&number, entry)| Some((entry.waiting_since?, number)));
        let Some((_, longest)) = waiting.min() else { return false };
        if let Some(task) = self.by_number.remove(&longest).and_then(|entry| entry.task) {
            task.abort();
        }
        true
    }
}

impl Place {
    /// Answers a request: meanwhile the connection is not waiting for one.
    pub(crate) async fn answering<T>(&self, answer: impl Future<Output = T>) -> T {
        self.set_waiting_since(None);
        let answer = answer.await;
        self.set_waiting_since(Some(Instant::now()));
        answer
    }

    fn set_waiting_since(&self, since: Option<Instant>) {
        if let Some(entry) = self.0.connections.lock().by_number.get_mut(&self.0.number) {
            entry.waiting_since = since;
        }
        self.0.connections.changed.notify_one();
    }

    /// When its time is up, as things stand.
    fn due(&self) -> Instant {
        let open = self.0.connections.lock();
        let since = open.by_number.get(&self.0.number).and_then(|entry| entry.waiting_since);
        since.unwrap_or_else(Instant::now) + PATIENCE
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.connections.lock().by_number.remove(&self.number);
        self.connections.changed.notify_one();
    }
}

/// Runs a connection to its end, or until it has made no request for too long.
async fn within_patience(place: Place, conversation: impl Future<Output = ()>) {
    let mut conversation = std::pin::pin!(conversation);
    let mut due = place.due();
    loop {
        if tokio::time::timeout_at(due, &mut conversation).await.is_ok() {
            return;
        }
        due = place.due();
        if due <= Instant::now() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting_since(since: Option<Instant>) -> Entry {
        Entry { waiting_since: since, task: None }
    }

    #[test]
    fn who_has_waited_for_longest_makes_room() {
        let now = Instant::now();
        let mut open = Open::default();
        for (number, waited) in [(1, Some(1)), (2, Some(3)), (3, None), (4, Some(2))] {
            let since = waited.map(|seconds| now - Duration::from_secs(seconds));
            open.by_number.insert(number, waiting_since(since));
        }
        assert!(open.make_room(5) && open.by_number.len() == 4, "there is room as it is");
        for gone in [2, 4, 1] {
            assert!(open.make_room(open.by_number.len()));
            assert!(!open.by_number.contains_key(&gone), "{gone}");
        }
        assert!(!open.make_room(1), "who is being answered stays");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_asks_for_nothing_ends() {
        let connections = Connections::new(2);
        let place = connections.take().await;
        let begun = Instant::now();
        let never = std::future::pending::<()>();
        within_patience(place.clone(), never).await;
        assert_eq!(begun.elapsed(), PATIENCE);
        let begun = Instant::now();
        let asks_once = async {
            place.answering(tokio::time::sleep(3 * PATIENCE)).await;
            std::future::pending::<()>().await;
        };
        place.set_waiting_since(Some(begun));
        within_patience(place.clone(), asks_once).await;
        assert_eq!(begun.elapsed(), 4 * PATIENCE, "to be answered may take longer");
    }
}
