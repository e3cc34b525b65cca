//! A byte relay, as the lower limit for a proxy: it connects each client to its own connection to one
//! upstream.
//!
//! Every cost of a proxy beyond this is the cost of HTTP. So a message takes one receive and one send in each
//! direction, and nothing else. Must not be in here: HTTP, pools, balancing, or timeouts.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use slab::Slab;

use crate::background::{Background, LISTENER, STOP};
use crate::epoll::{Epoll, Events, Ready};
use crate::socket::{self, Received};

/// Size of the receive buffer.
const BUFFER_BYTES: usize = 64 * 1024;

/// A relay on one thread. Dropping it stops it and closes its connections.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    background: Background,
}

impl Relay {
    /// Relays connections to `address` (port 0: any free one) to `upstream`.
    ///
    /// # Errors
    ///
    /// When it cannot listen on the address, or no thread can be started.
    pub fn bind(address: SocketAddr, upstream: SocketAddr) -> io::Result<Relay> {
        let listener = socket::listen(address)?;
        let address = listener.local_addr()?;
        let background = Background::spawn("relay", move |epoll| serve(epoll, &listener, upstream))?;
        Ok(Relay { address, background })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Stops the relay.
    pub fn stop(self) {}

    /// Blocks until the process ends.
    pub fn serve_forever(mut self) {
        self.background.join();
    }
}

fn serve(epoll: &Epoll, listener: &TcpListener, upstream: SocketAddr) {
    epoll.add(listener, LISTENER).expect("a new epoll takes its first socket");
    let mut events = Events::default();
    let mut pairs = Slab::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    while epoll.wait(&mut events, None).is_ok() {
        for ready in events.iter() {
            match ready.token {
                STOP => return,
                LISTENER => accept(epoll, listener, upstream, &mut pairs),
                _ => relay(ready, &mut pairs, &mut buffer),
            }
        }
    }
}

fn accept(epoll: &Epoll, listener: &TcpListener, upstream: SocketAddr, pairs: &mut Slab<Pair>) {
    while let Some(client) = socket::accept(listener) {
        let Ok(server) = socket::connect(upstream) else { continue };
        let entry = pairs.vacant_entry();
        let token = entry.key() * 2;
        if epoll.add(&client, token).and_then(|()| epoll.add(&server, token + 1)).is_ok() {
            entry.insert(Pair { sockets: [client, server], flows: Default::default() });
        }
    }
}

fn relay(ready: Ready, pairs: &mut Slab<Pair>, buffer: &mut [u8]) {
    let (key, side) = (ready.token / 2, ready.token % 2);
    let Some(pair) = pairs.get_mut(key) else { return };
    let is_over = pair.advance(side, ready.ending, buffer).map_or(true, |()| pair.is_over());
    if is_over {
        pairs.remove(key);
    }
}

/// The connections of a client and to the upstream, and the flow from each.
struct Pair {
    sockets: [TcpStream; 2],
    flows: [Flow; 2],
}

/// The flow in one direction.
#[derive(Default)]
struct Flow {
    /// Data that was received and could not be sent yet; nothing more is received until it has been sent.
    pending: Vec<u8>,
    ended: bool,
}

impl Pair {
    /// Handles readiness of the socket `side`.
    fn advance(&mut self, side: usize, ending: bool, buffer: &mut [u8]) -> io::Result<()> {
        if !self.flows[1 - side].pending.is_empty() && self.flush(1 - side)? {
            self.pump(1 - side, true, buffer)?;
        }
        if self.flows[side].pending.is_empty() { self.pump(side, ending, buffer) } else { Ok(()) }
    }

    /// Moves data from socket `from`. It stops at a short read, which shows that no more is there, unless the
    /// end of the stream may follow.
    fn pump(&mut self, from: usize, exhaust: bool, buffer: &mut [u8]) -> io::Result<()> {
        while !self.flows[from].ended {
            match socket::receive(&self.sockets[from], buffer)? {
                Received::Nothing => return Ok(()),
                Received::End => self.end(from),
                Received::Bytes(count) => {
                    let sent = socket::send(&self.sockets[1 - from], &buffer[..count])?;
                    self.flows[from].pending.extend_from_slice(&buffer[sent..count]);
                    if sent < count || (count < buffer.len() && !exhaust) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the pending data of flow `from`. Returns whether all of it was sent.
    fn flush(&mut self, from: usize) -> io::Result<bool> {
        let pending = &mut self.flows[from].pending;
        let sent = socket::send(&self.sockets[1 - from], pending)?;
        pending.drain(..sent);
        Ok(pending.is_empty())
    }

    /// Passes on the end of flow `from`; the other direction continues.
    fn end(&mut self, from: usize) {
        self.flows[from].ended = true;
        // This fails only if the connection is gone, which its own event reports.
        let _ = self.sockets[1 - from].shutdown(Shutdown::Write);
    }

    fn is_over(&self) -> bool {
        self.flows.iter().all(|flow| flow.ended)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::thread;

    use socket2::{Domain, Socket, Type};

    use super::*;

    const ANY_PORT: &str = "127.0.0.1:0";

    /// An upstream that handles its only connection with `upstream`, a relay to it, and a client of the
    /// relay.
    fn through_relay(upstream: impl FnOnce(TcpStream) + Send + 'static) -> (Relay, TcpStream) {
        let listener = TcpListener::bind(ANY_PORT).expect("a free port");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || upstream(listener.accept().expect("the relay connects").0));
        let relay = Relay::bind(ANY_PORT.parse().expect("an address"), address).expect("a free port");
        let client = TcpStream::connect(relay.local_addr()).expect("the relay listens");
        (relay, client)
    }

    #[test]
    fn a_megabyte_comes_back_whole() {
        let (_relay, mut client) = through_relay(|mut stream| {
            let mut reader = stream.try_clone().expect("a descriptor");
            let _ = io::copy(&mut reader, &mut stream);
        });
        let sent: Vec<u8> = (0..1_048_576u32).map(|i| (i / 251) as u8).collect();
        let mut writer = client.try_clone().expect("a descriptor");
        let copy = sent.clone();
        let writing = thread::spawn(move || writer.write_all(&copy).expect("the relay reads"));
        let mut received = vec![0; sent.len()];
        client.read_exact(&mut received).expect("all of it");
        writing.join().expect("written");
        assert!(received == sent);
    }

    #[test]
    fn one_direction_ends_before_the_other() {
        let (_relay, mut client) = through_relay(|mut stream| {
            let mut request = String::new();
            stream.read_to_string(&mut request).expect("ends");
            write!(stream, "heard {request}").expect("the other way is open");
        });
        client.write_all(b"hello").expect("the relay reads");
        client.shutdown(Shutdown::Write).expect("open");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("ends");
        assert_eq!(answer, "heard hello");
    }

    #[test]
    fn an_upstream_that_refuses_ends_the_client() {
        // The port is nobody else's while the socket lives.
        let held = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        held.bind(&ANY_PORT.parse::<SocketAddr>().expect("an address").into()).expect("a free port");
        let closed = held.local_addr().ok().and_then(|address| address.as_socket()).expect("it is bound");
        let relay = Relay::bind(ANY_PORT.parse().expect("an address"), closed).expect("a free port");
        let mut client = TcpStream::connect(relay.local_addr()).expect("the relay listens");
        assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
}
