//! Endpoints that do with each connection what a test likes.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use testkit::PATIENCE;

/// Handles a connection, which closes afterwards.
type Serve = dyn Fn(&mut TcpStream) + Send + Sync;

/// A listener whose connections have a thread each. It and they end with this value.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    listener: TcpListener,
    serve: Box<Serve>,
    is_over: AtomicBool,
    connections: AtomicU64,
    /// Open connections by number; closed ones are removed, so that descriptors last for any number of cases.
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("connections", &self.connections).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Serves each connection so.
    pub fn serving(serve: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let (is_over, connections, open) = Default::default();
        let shared = Arc::new(Shared { listener, serve: Box::new(serve), is_over, connections, open });
        let for_thread = Arc::clone(&shared);
        let accepting = Some(std::thread::spawn(move || for_thread.accept()));
        Self { address, shared, accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for stream in self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Ends the wait in `accept`.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>) {
        std::thread::scope(|scope| {
            while let Ok((mut stream, _)) = self.listener.accept() {
                let handle = stream.try_clone().expect("a descriptor");
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                if self.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let number = self.connections.fetch_add(1, Ordering::SeqCst);
                open.insert(number, handle);
                drop(open);
                let _ = stream.set_nodelay(true);
                let _ = stream.set_read_timeout(Some(PATIENCE));
                scope.spawn(move || {
                    (self.serve)(&mut stream);
                    // The handle that is kept would hold it open. To close it with bytes unread would reset
                    // it, and lose what was written.
                    let _ = stream.shutdown(Shutdown::Write);
                    let _ = io::copy(&mut stream, &mut io::sink());
                    self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                });
            }
        });
    }
}

/// Reads up to and including an empty line; `None` if the connection ends before.
pub fn read_head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_exact(&mut byte).is_err() {
            return None;
        }
        head.push(byte[0]);
    }
    Some(head)
}

/// An endpoint that answers each request with a body that does not end; `written` counts its bytes.
pub fn faucet(written: &Arc<AtomicU64>) -> Endpoint {
    let written = Arc::clone(written);
    Endpoint::serving(move |stream| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n";
        if read_head(stream).is_none() || stream.write_all(head).is_err() {
            return;
        }
        while let Ok(len) = stream.write(&[b'x'; 16 * 1024]) {
            written.fetch_add(len as u64, Ordering::Relaxed);
        }
    })
}
