//! A server of the tests: it accepts connections, and serves each in a thread of its own.
//!
//! Must not be in here: what is said on a connection.

use std::net::{IpAddr, Shutdown as Half, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use rustix::net::{Shutdown, shutdown};
use socket2::{Domain, Socket, Type};

/// Connections that are not accepted yet. The kernel drops further ones, whose clients try again after a
/// second: a thousand that come at once on a busy machine are to have their place.
const BACKLOG: i32 = 4096;

/// Accepts connections until it is dropped. Then nothing more is read from those that are open, and the
/// threads that serve them have ended.
#[derive(Debug)]
pub(crate) struct Accepting {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Accepting {
    /// Listens at a free port of this address.
    pub(crate) fn start(address: IpAddr, serve: impl Fn(&TcpStream) + Send + Sync + 'static) -> Self {
        let address = SocketAddr::new(address, 0);
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
        socket.bind(&address.into()).expect("a free port");
        socket.listen(BACKLOG).expect("a listener");
        let listener = Arc::new(TcpListener::from(socket));
        let address = listener.local_addr().expect("it listens");
        let of_thread = Arc::clone(&listener);
        let thread = std::thread::spawn(move || accept(&of_thread, &serve));
        Self { listener, address, thread: Some(thread) }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        // Wakes `accept` (Linux); one that has ended is fine, too.
        let _ = shutdown(&self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, serve: &(impl Fn(&TcpStream) + Sync)) {
    let mut open: Vec<Weak<TcpStream>> = Vec::new();
    std::thread::scope(|scope| {
        while let Ok((stream, _)) = listener.accept() {
            let stream = Arc::new(stream);
            open.retain(|stream| stream.strong_count() > 0);
            open.push(Arc::downgrade(&stream));
            scope.spawn(move || serve(&stream));
        }
        for stream in open.iter().filter_map(Weak::upgrade) {
            let _ = stream.shutdown(Half::Read);
        }
    });
}
