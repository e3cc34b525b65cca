//! An endpoint that is well or not as a test likes.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
    requests: AtomicUsize,
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
        let state =
            Arc::new(State { is_well: AtomicBool::new(false), requests: AtomicUsize::new(0), illness });
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

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }
}

impl State {
    /// Serves requests without a body, or with one that comes with the head.
    fn serve(&self, mut stream: &TcpStream) {
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
            self.requests.fetch_add(1, Ordering::SeqCst);
            let illness = if self.is_well.load(Ordering::SeqCst) { Illness::Says(OK) } else { self.illness };
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
