//! An endpoint that is well or not as a test likes.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::accepting::Accepting;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An endpoint that answers `ok` while it is healthy. It ends with this value.
#[derive(Debug)]
pub struct Moody {
    state: Arc<State>,
    accepting: Accepting,
}

#[derive(Debug)]
struct State {
    is_well: AtomicBool,
    /// The client for which it is not healthy, whatever it is for others.
    ill_for: Mutex<Option<IpAddr>>,
    requests: AtomicUsize,
    /// Requests that are no health checks.
    ordinary: AtomicUsize,
    /// Its behaviour while it is not healthy.
    illness: Illness,
}

#[derive(Clone, Copy, Debug)]
enum Illness {
    Says(&'static str),
    Breaks,
    Hangs,
}

impl Moody {
    /// An endpoint that is not healthy and sends this answer; an empty one closes the connection.
    pub fn saying(answer: &'static str) -> Self {
        Self::with(if answer.is_empty() { Illness::Breaks } else { Illness::Says(answer) })
    }

    /// One that is not well, and takes requests without a word.
    pub fn hanging() -> Self {
        Self::with(Illness::Hangs)
    }

    fn with(illness: Illness) -> Self {
        let state = Arc::new(State {
            is_well: AtomicBool::new(false),
            ill_for: Mutex::default(),
            requests: AtomicUsize::new(0),
            ordinary: AtomicUsize::new(0),
            illness,
        });
        let of_thread = Arc::clone(&state);
        let accepting =
            Accepting::start(IpAddr::V4(Ipv4Addr::LOCALHOST), move |stream| of_thread.serve(stream));
        Self { state, accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.accepting.address()
    }

    /// The endpoint is healthy from now on.
    pub fn become_well(&self) {
        self.state.is_well.store(true, Ordering::SeqCst);
    }

    /// The endpoint is not healthy from now on.
    pub fn become_ill(&self) {
        self.state.is_well.store(false, Ordering::SeqCst);
    }

    /// The endpoint is not healthy for the client with this address from now on, as if there were no way from
    /// there; with none it is for all what it is.
    pub fn become_ill_for(&self, client: Option<IpAddr>) {
        *self.state.ill_for.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Requests so far, without those for `/healthz`.
    pub fn ordinary(&self) -> usize {
        self.state.ordinary.load(Ordering::SeqCst)
    }
}

impl State {
    fn is_ill_for(&self, stream: &TcpStream) -> bool {
        let ill_for = *self.ill_for.lock().unwrap_or_else(PoisonError::into_inner);
        ill_for.is_some() && stream.peer_addr().ok().map(|peer| peer.ip()) == ill_for
    }

    /// Serves requests without a body, or with one that comes with the head.
    fn serve(&self, mut stream: &TcpStream) {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            self.requests.fetch_add(1, Ordering::SeqCst);
            let is_check = buffer[..read].starts_with(b"GET /healthz ");
            self.ordinary.fetch_add(usize::from(!is_check), Ordering::SeqCst);
            let is_well = self.is_well.load(Ordering::SeqCst) && !self.is_ill_for(stream);
            let illness = if is_well { Illness::Says(OK) } else { self.illness };
            let is_said = match illness {
                Illness::Says(answer) => stream.write_all(answer.as_bytes()).is_ok(),
                Illness::Breaks => false,
                Illness::Hangs => true,
            };
            if !is_said {
                return;
            }
        }
    }
}
