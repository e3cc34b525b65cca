//! Upstreams: one that the test plays itself, and one with a fixed answer.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use socket2::{Domain, SockRef, Socket, Type};

use crate::accepting::Accepting;
use crate::socket::is_timeout;
use crate::{Connection, PATIENCE};

/// A listener whose connections the test takes one by one and answers as it likes.
#[derive(Debug)]
pub struct Upstream {
    listener: TcpListener,
}

impl Default for Upstream {
    fn default() -> Self {
        Self::at(IpAddr::V4(Ipv4Addr::LOCALHOST), 1024)
    }
}

impl Upstream {
    /// Listens at any free port.
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens with this backlog of connections that are not accepted.
    pub fn at(address: IpAddr, backlog: i32) -> Self {
        let address = SocketAddr::new(address, 0);
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
        socket.bind(&address.into()).expect("a free port");
        socket.listen(backlog).expect("a listener");
        // `accept` heeds it too (socket(7)).
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        Self { listener: socket.into() }
    }

    /// An upstream that accepts no connection, not even in the kernel, beyond those returned, which fill its
    /// backlog.
    pub fn full() -> (Self, Vec<Connection>) {
        let upstream = Self::at(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let filling = vec![Connection::to(upstream.address())];
        (upstream, filling)
    }

    /// Listens at all addresses of the machine: any number of endpoints, and the test sees the order in which
    /// they are called.
    pub fn everywhere() -> Self {
        Self::at(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 1024)
    }

    /// Where the endpoint `127.0.0.number` of one that listens everywhere is.
    pub fn endpoint(&self, number: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, number], self.address().port()))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it listens")
    }

    /// Takes the next connection, waiting for it.
    pub fn accept(&self) -> Connection {
        match self.listener.accept() {
            Ok((stream, _)) => Connection::new(stream),
            Err(error) if is_timeout(&error) => panic!("nobody connects to {}", self.address()),
            Err(error) => panic!("{}: {error}", self.address()),
        }
    }

    /// Takes the next connection and the head of the first request on it.
    pub fn accept_request(&self) -> (Connection, String) {
        let mut peer = self.accept();
        let head = peer.read_head();
        (peer, head)
    }

    /// Whether no connection is waiting to be accepted.
    pub fn is_left_alone(&self) -> bool {
        self.listener.set_nonblocking(true).expect("a socket option");
        let accepted = self.listener.accept();
        self.listener.set_nonblocking(false).expect("a socket option");
        matches!(accepted, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

/// An address that refuses connections: a port that is held and not listened at.
#[derive(Debug)]
pub struct Refusing {
    address: SocketAddr,
    _held: Socket,
}

impl Default for Refusing {
    fn default() -> Self {
        let held = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        held.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
        let address = held.local_addr().ok().and_then(|address| address.as_socket());
        Self { address: address.expect("it is bound"), _held: held }
    }
}

impl Refusing {
    /// An address without a listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// An upstream that gives the same answer to every request, or one that depends only on the request's head,
/// on any number of connections. It reads heads only.
#[derive(Debug)]
pub struct Canned {
    shared: Arc<Shared>,
    accepting: Accepting,
}

#[derive(Debug)]
struct Shared {
    answer: Answer,
    connections: AtomicUsize,
    heads: Mutex<Vec<String>>,
}

/// Chooses the answer to a request with this head.
type Choose = dyn Fn(&str) -> Vec<u8> + Send + Sync;

struct Answer(Box<Choose>);

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

impl Canned {
    /// Answers with a 200 and this text.
    pub fn saying(text: &str) -> Self {
        Self::saying_at(IpAddr::V4(Ipv4Addr::LOCALHOST), text)
    }

    /// Listens at this address and answers with a 200 and this text.
    pub fn saying_at(address: IpAddr, text: &str) -> Self {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        Self::choosing_at(address, move |_| answer.clone().into())
    }

    /// Answers with these bytes.
    pub fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::choosing(move |_| answer.clone())
    }

    /// Answers with the bytes that are chosen for the head of a request.
    pub fn choosing(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::choosing_at(IpAddr::V4(Ipv4Addr::LOCALHOST), answer)
    }

    /// The same, listening at this address.
    pub fn choosing_at(address: IpAddr, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared {
            answer: Answer(Box::new(answer)),
            connections: AtomicUsize::new(0),
            heads: Mutex::default(),
        });
        let for_thread = Arc::clone(&shared);
        let accepting = Accepting::start(address, move |stream| for_thread.serve(stream));
        Self { shared, accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.accepting.address()
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Heads of the requests so far: all of them, which takes its time where there are many.
    pub fn heads(&self) -> Vec<String> {
        self.shared.lock().clone()
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.shared.lock().len()
    }

    /// The head of the last request.
    pub fn last_head(&self) -> Option<String> {
        self.shared.lock().last().cloned()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.heads.lock().expect("no thread panics with it")
    }

    /// Ends when the other end does, or the connection is shut down.
    fn serve(&self, mut stream: &TcpStream) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let _ = SockRef::from(stream).set_tcp_nodelay(true);
        let (mut unread, mut piece) = (Vec::new(), [0; 16 * 1024]);
        while let Ok(len @ 1..) = stream.read(&mut piece) {
            unread.extend_from_slice(&piece[..len]);
            while let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
                let head: Vec<u8> = unread.drain(..at + 4).collect();
                let head = String::from_utf8_lossy(&head).into_owned();
                let answer = (self.answer.0)(&head);
                self.lock().push(head);
                if stream.write_all(&answer).is_err() {
                    return;
                }
            }
        }
    }
}
