//! An endpoint that records requests, and answers each with its number.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use testkit::PATIENCE;

use super::strict::{Request, Rest, read_all};

/// The field in which an answer has the number of its request and the method.
pub const SEEN: &str = "x-seen";

/// It listens until it is dropped.
#[derive(Debug)]
pub struct Recorder {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number, which its answer has in [`SEEN`].
    pub number: u64,
    /// On which connection.
    pub connection: u64,
    /// As it was read.
    pub request: Request,
    /// As it came.
    pub raw: Vec<u8>,
}

/// The requests since the last call.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Requests in their order.
    pub seen: Vec<Seen>,
    /// Bytes that are no request, and why.
    pub malformed: Vec<(Vec<u8>, &'static str)>,
}

#[derive(Debug)]
struct Shared {
    listener: TcpListener,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    record: Record,
    requests: u64,
    connections: u64,
    open: HashMap<u64, TcpStream>,
    /// Connections on which a part of a request has come.
    partial: HashMap<u64, Vec<u8>>,
}

impl Default for Recorder {
    fn default() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared { listener, state: Mutex::default(), changed: Condvar::new() });
        let for_thread = Arc::clone(&shared);
        let accepting = Some(std::thread::spawn(move || for_thread.accept()));
        Self { address, shared, accepting }
    }
}

impl Recorder {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far, once none is incomplete: each is complete, or its connection has ended.
    pub fn take(&self) -> Record {
        let end = Instant::now() + PATIENCE;
        let mut state = self.shared.state();
        while !state.partial.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "part of a request, and no end: {:?}", state.partial);
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut state.record)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_over = true;
        for stream in state.open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        // Ends the wait in `accept`.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>) {
        std::thread::scope(|scope| {
            while let Ok((stream, _)) = self.listener.accept() {
                let mut state = self.state();
                if state.is_over {
                    return;
                }
                state.connections += 1;
                let number = state.connections;
                state.open.insert(number, stream.try_clone().expect("a descriptor"));
                drop(state);
                scope.spawn(move || self.serve(number, stream));
            }
        });
    }

    fn serve(&self, connection: u64, mut stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let (mut unread, mut piece) = (Vec::new(), vec![0; 16 * 1024]);
        while let Ok(len @ 1..) = stream.read(&mut piece) {
            unread.extend_from_slice(&piece[..len]);
            let (answers, is_fine) = self.note(connection, &mut unread);
            if stream.write_all(&answers).is_err() || !is_fine {
                break;
            }
        }
        let mut state = self.state();
        state.partial.remove(&connection);
        state.open.remove(&connection);
        drop(state);
        self.changed.notify_all();
    }

    /// Notes what has come; the answers to it, and whether the connection goes on.
    fn note(&self, connection: u64, unread: &mut Vec<u8>) -> (Vec<u8>, bool) {
        let (requests, rest) = read_all(unread);
        let mut state = self.state();
        let mut answers = Vec::new();
        for request in requests {
            let raw: Vec<u8> = unread.drain(..request.bytes).collect();
            state.requests += 1;
            let number = state.requests;
            answers.extend(answer(number, &request));
            state.record.seen.push(Seen { number, connection, request, raw });
        }
        match rest {
            Rest::Nothing => drop(state.partial.remove(&connection)),
            Rest::Incomplete => drop(state.partial.insert(connection, unread.clone())),
            Rest::Malformed(why) => state.record.malformed.push((std::mem::take(unread), why)),
        }
        drop(state);
        self.changed.notify_all();
        (answers, !matches!(rest, Rest::Malformed(_)))
    }
}

fn answer(number: u64, request: &Request) -> Vec<u8> {
    let body = format!("request {number}");
    let method = &request.method;
    let head =
        format!("HTTP/1.1 200 OK\r\n{SEEN}: {number} {method}\r\nContent-Length: {}\r\n\r\n", body.len());
    if method == "HEAD" { head.into_bytes() } else { (head + &body).into_bytes() }
}
