//! Servers beside the proxy, each on its own thread, with limits on the number of connections and on their
//! idle time.

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

/// Pause before the next accept if no descriptors are left; others may be closed meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time in which a connection has to make a request, counted from its beginning or from the last response.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Serves a listener on a thread with this name, which ends with the process.
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

/// The connections of a server, of which there is a limited number. If another one comes, the connection that
/// has waited for a request for the longest time is closed. So clients that connect and send nothing do not
/// keep out those that have a request.
pub(crate) struct Connections {
    max: usize,
    open: Mutex<Open>,
    /// Notified when a connection has ended or waits for a request again.
    changed: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, Entry>,
}

struct Entry {
    /// Since when it has waited for a request; none while a request is being answered.
    waiting_since: Option<Instant>,
    /// The connection's task; none before it has begun.
    task: Option<AbortHandle>,
}

/// The place of a connection among those of its server.
#[derive(Clone)]
pub(crate) struct ConnectionSlot(Arc<SlotEntry>);

/// A response that is under way.
pub(crate) struct BusyConnection(ConnectionSlot);

struct SlotEntry {
    number: u64,
    connections: Arc<Connections>,
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default(), changed: Notify::new() })
    }

    /// Accepts connections as long as it is polled. Each ends when it makes no request for too long.
    pub(crate) async fn serve<F>(
        self: Arc<Self>,
        listener: TcpListener,
        mut converse: impl FnMut(TcpStream, SocketAddr, ConnectionSlot) -> F,
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

    async fn take(self: &Arc<Self>) -> ConnectionSlot {
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
        ConnectionSlot(Arc::new(SlotEntry { number, connections: Arc::clone(self) }))
    }

    /// Locks without regard to poisoning: a panic cannot leave the data inconsistent.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Whether there is room for another connection, if need be in place of one that waits for a request.
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

impl ConnectionSlot {
    /// Answers a request. Meanwhile the connection does not count as waiting.
    pub(crate) async fn answering<T>(&self, answer: impl Future<Output = T>) -> T {
        let _busy = self.busy();
        answer.await
    }

    /// Has the connection not count as waiting for as long as this is there: for a response whose body goes
    /// on.
    pub(crate) fn busy(&self) -> BusyConnection {
        self.set_waiting_since(None);
        BusyConnection(self.clone())
    }

    fn set_waiting_since(&self, since: Option<Instant>) {
        if let Some(entry) = self.0.connections.lock().by_number.get_mut(&self.0.number) {
            entry.waiting_since = since;
        }
        self.0.connections.changed.notify_one();
    }

    /// When the connection has to be closed, unless it makes a request.
    fn due(&self) -> Instant {
        let open = self.0.connections.lock();
        let since = open.by_number.get(&self.0.number).and_then(|entry| entry.waiting_since);
        since.unwrap_or_else(Instant::now) + PATIENCE
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        self.0.set_waiting_since(Some(Instant::now()));
    }
}

impl Drop for SlotEntry {
    fn drop(&mut self) {
        self.connections.lock().by_number.remove(&self.number);
        self.connections.changed.notify_one();
    }
}

/// Runs a connection until it ends, or has made no request for too long.
async fn within_patience(place: ConnectionSlot, conversation: impl Future<Output = ()>) {
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
