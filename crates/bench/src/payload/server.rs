//! One thread of the payload server: accepts connections, and advances them when their sockets are ready or
//! their time has come.
//!
//! Must not be in here: HTTP.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use slab::Slab;

use super::answer::Answers;
use super::connection::{Connection, Shared, Verdict};
use super::{Counters, increment};
use crate::background::{LISTENER, STOP};
use crate::epoll::{Epoll, Events};
use crate::socket;

/// Size of the receive buffer.
const BUFFER_BYTES: usize = 64 * 1024;

struct Server<'e> {
    epoll: &'e Epoll,
    connections: Slab<Connection>,
    /// When to advance which connection. A slot may be empty or used by another connection by then, which
    /// does no harm.
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    shared: Shared,
}

/// Serves the connections of `listener` until it is stopped.
pub(super) fn serve(epoll: &Epoll, listener: &TcpListener, counters: &Arc<Counters>) {
    epoll.add(listener, LISTENER).expect("a new epoll takes its first socket");
    let shared =
        Shared { answers: Answers::new(), counters: Arc::clone(counters), buffer: vec![0; BUFFER_BYTES] };
    let mut server = Server { epoll, connections: Slab::new(), timers: BinaryHeap::new(), shared };
    let mut events = Events::default();
    loop {
        let next = server.timers.peek().map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
        if epoll.wait(&mut events, next).is_err() {
            return;
        }
        for ready in events.iter() {
            match ready.token {
                STOP => return,
                LISTENER => server.accept(listener),
                key => server.advance(key, ready.ending),
            }
        }
        server.fire_timers();
    }
}

impl Server<'_> {
    fn accept(&mut self, listener: &TcpListener) {
        while let Some(stream) = socket::accept(listener) {
            increment(&self.shared.counters.accepted);
            let entry = self.connections.vacant_entry();
            match self.epoll.add(&stream, entry.key()) {
                Ok(()) => {
                    entry.insert(Connection::new(stream));
                }
                Err(_) => increment(&self.shared.counters.closed),
            }
        }
    }

    fn advance(&mut self, key: usize, ending: bool) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        match connection.advance(&mut self.shared, ending) {
            Verdict::Ready => {}
            Verdict::Time(at) => self.timers.push(Reverse((at, key))),
            Verdict::Over => {
                self.connections.remove(key);
                increment(&self.shared.counters.closed);
            }
        }
    }

    fn fire_timers(&mut self) {
        while let Some(Reverse((at, key))) = self.timers.peek().copied() {
            if at > Instant::now() {
                return;
            }
            self.timers.pop();
            self.advance(key, true);
        }
    }
}
