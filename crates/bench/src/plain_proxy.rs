//! A proxy as simple as can be, which has the habits that the field cases are about: it connects for each
//! request, or keeps so many idle connections and closes the oldest of them itself, so that the `TIME_WAIT`
//! stays on its side.
//!
//! It takes what [`crate::generator`] sends and [`crate::payload`] answers, and no more of HTTP: requests
//! without a body, responses with a Content-Length. A thread serves each client. Must not be in here: speed;
//! who wants figures of a good proxy measures one.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Longest head of a request or a response.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Stack of a client's thread: there may be hundreds.
const STACK_BYTES: usize = 128 * 1024;
const CONTENT_LENGTH: &str = "content-length";
const CANNOT_CONNECT: &[u8] = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";

/// Idle connections to one backend, the one that was used last at the end.
#[derive(Debug)]
struct Backend {
    address: SocketAddr,
    idle: Mutex<Vec<TcpStream>>,
}

/// A message: its head, and the part of its body that came with it.
struct Message {
    bytes: Vec<u8>,
    head_bytes: usize,
    body_bytes: usize,
}

/// Serves `listener` until the process ends. Clients are given to backends in turn; `keepalive` is how many
/// idle connections are kept to each backend.
///
/// # Errors
///
/// When no connection can be accepted, or no thread started.
pub fn serve(listener: &TcpListener, backends: &[SocketAddr], keepalive: usize) -> io::Result<()> {
    let backend = |&address: &SocketAddr| Arc::new(Backend { address, idle: Mutex::default() });
    let backends: Vec<_> = backends.iter().map(backend).collect();
    for number in 0.. {
        let (client, _) = listener.accept()?;
        let backends = backends.clone();
        let serve = move || {
            // A client or a backend that goes away ends this client's connection, and nothing else.
            let _ = converse(client, &backends, keepalive, number);
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(serve)?;
    }
    Ok(())
}

fn converse(
    mut client: TcpStream,
    backends: &[Arc<Backend>],
    keepalive: usize,
    first: usize,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    for turn in first.. {
        let Some(request) = Message::read(&mut client)? else { return Ok(()) };
        let backend = &backends[turn % backends.len()];
        match backend.ask(&request, keepalive) {
            Ok(response) => client.write_all(&response)?,
            Err(_) => client.write_all(CANNOT_CONNECT)?,
        }
        if request.has("connection: close") {
            return Ok(());
        }
    }
    Ok(())
}

impl Backend {
    fn ask(&self, request: &Message, keepalive: usize) -> io::Result<Vec<u8>> {
        let idle = self.lock().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => TcpStream::connect(self.address)?,
        };
        connection.set_nodelay(true)?;
        connection.write_all(&request.kept_alive())?;
        let mut response = Message::read(&mut connection)?.ok_or(ErrorKind::UnexpectedEof)?;
        response.read_body(&mut connection)?;
        let mut idle = self.lock();
        idle.push(connection);
        let excess = idle.len().saturating_sub(keepalive);
        // The least recently used are closed, by us.
        idle.drain(..excess);
        Ok(response.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Message {
    /// Reads a head; none where the other side has no more to say.
    fn read(stream: &mut TcpStream) -> io::Result<Option<Message>> {
        let mut bytes = Vec::with_capacity(2048);
        loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let mut message = Message { bytes, head_bytes: at + 4, body_bytes: 0 };
                message.body_bytes = message.content_length();
                return Ok(Some(message));
            }
            if bytes.len() > HEAD_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            let mut part = [0; 2048];
            match stream.read(&mut part)? {
                0 if bytes.is_empty() => return Ok(None),
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => bytes.extend_from_slice(&part[..count]),
            }
        }
    }

    fn read_body(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let have = self.bytes.len();
        self.bytes.resize(self.head_bytes + self.body_bytes, 0);
        stream.read_exact(&mut self.bytes[have..])
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        String::from_utf8_lossy(&self.bytes[..self.head_bytes])
            .to_ascii_lowercase()
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn content_length(&self) -> usize {
        let length =
            |line: String| line.strip_prefix(CONTENT_LENGTH)?.trim_start_matches(':').trim().parse().ok();
        self.lines().find_map(length).unwrap_or(0)
    }

    fn has(&self, wanted: &str) -> bool {
        self.lines().any(|line| line == wanted)
    }

    /// The request without what it says of its connection: towards backends, connections are the proxy's to
    /// keep or to close.
    fn kept_alive(&self) -> Vec<u8> {
        let head = String::from_utf8_lossy(&self.bytes[..self.head_bytes]);
        let lines =
            head.split_inclusive("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
        lines.collect::<String>().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::generator::{self, Plan};
    use crate::payload::Payload;

    /// Number of connections that the backend accepts under a load of 40 requests over 4 connections.
    fn accepted(keepalive: usize) -> u64 {
        let payload = Payload::bind(([127, 0, 0, 1], 0).into(), 1).expect("a free port");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (proxy, backend) = (listener.local_addr().expect("bound"), payload.local_addr());
        thread::spawn(move || serve(&listener, &[backend], keepalive));
        let plan = Plan {
            connections: 4,
            requests: Some(40),
            duration: Duration::from_secs(10),
            ..Plan::new(proxy, "/10k")
        };
        let outcome = generator::run(&plan).expect("an outcome");
        assert!(outcome.is_clean() && outcome.answered == 40, "{outcome:?}");
        payload.counts().accepted
    }

    #[test]
    fn a_connection_for_each_request_or_as_many_as_are_kept() {
        assert_eq!(accepted(0), 40);
        assert!(accepted(4) <= 4);
    }
}
