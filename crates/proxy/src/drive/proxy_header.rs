//! The PROXY header at the front of a connection, read before anything else and to its last byte, so that
//! TLS or HTTP begins right behind it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use model::ForwardedSettings;
use observe::Reason;
use reactor::TcpStream;
use rustix::net::{RecvFlags, recv};
use wire::proxy_protocol::{Addresses, HEADER_BYTES_MAX, Header, parse};

use crate::io::deadline::{Deadline, Elapsed};
use crate::io::socket::look_until_enough;

/// Reads the header, which everybody has to send, as with nginx: none where it names no addresses. Where
/// this fails, the connection must be closed.
pub(crate) async fn read(
    stream: &TcpStream,
    deadline: &Deadline,
    timeout: Duration,
) -> Result<Option<Addresses>, Reason> {
    deadline.start(timeout);
    let mut seen = 0;
    match look_until_enough(stream, deadline, || take(stream, &mut seen)).await {
        Err(Elapsed) => Err(Reason::ProxyHeaderTimeout),
        Ok(Ok(header)) => Ok(header.addresses),
        Ok(Err(_)) if seen == 0 => Err(Reason::ClientAborted),
        Ok(Err(_)) => Err(Reason::BadProxyHeader),
    }
}

/// Takes a header that is complete. Of another nothing is taken: `WouldBlock` has the event loop say when
/// more has come.
fn take(stream: &TcpStream, seen: &mut usize) -> io::Result<Header> {
    let mut bytes = [0; HEADER_BYTES_MAX];
    (*seen, _) = recv(stream, &mut bytes, RecvFlags::PEEK)?;
    let header = parse(&bytes[..*seen]).map_err(|_| io::ErrorKind::InvalidData)?;
    let (header, len) = header.ok_or(io::ErrorKind::WouldBlock)?;
    let mut taken = 0;
    while taken < len {
        taken += recv(stream, &mut bytes[taken..len], RecvFlags::empty())?.0;
    }
    Ok(header)
}

/// The client of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Introduced {
    /// The other end: the peer, or the address that a PROXY header names.
    pub(crate) peer: SocketAddr,
    /// The port that a PROXY header says it connected to.
    pub(crate) port: Option<u16>,
}

/// The client of a connection: whom the header names, where the peer is one that is believed.
pub(crate) fn client(
    peer: SocketAddr,
    addresses: Option<Addresses>,
    settings: &ForwardedSettings,
) -> Introduced {
    let is_trusted = || settings.trusted.iter().any(|network| network.contains(&peer.ip().to_canonical()));
    match addresses {
        Some(Addresses { source, destination }) if is_trusted() => Introduced {
            peer: SocketAddr::new(source.ip().to_canonical(), source.port()),
            port: Some(destination.port()),
        },
        _ => Introduced { peer, port: None },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::rc::Rc;
    use std::sync::Arc;

    use clock::Clock;
    use reactor::TcpListener;

    use super::*;
    use crate::io::deadline::Deadlines;
    use crate::io::event_loop::EventLoop;

    /// Reads from a client that does `speak`; returns what was read, and what is left on the connection.
    fn read_from(
        speak: impl FnOnce(&mut std::net::TcpStream) + Send + 'static,
        timeout: Duration,
    ) -> (Result<Option<Addresses>, Reason>, Vec<u8>) {
        EventLoop::new(|| ()).unwrap().run(async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let listener = TcpListener::from_std(listener).unwrap();
            let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let client = std::thread::spawn(move || {
                speak(&mut client);
                client
            });
            let clock = Clock::new(Clock::begin());
            let deadlines = Deadlines::new(clock.clone(), Arc::default());
            let sweeper = Rc::clone(&deadlines);
            let sweeping = reactor::spawn(async move {
                loop {
                    clock.update();
                    sweeper.sweep();
                    reactor::yield_now().await;
                }
            });
            let said = read(&stream, &Deadline::new(&deadlines), timeout).await;
            sweeping.abort();
            let _ = client.join().unwrap().shutdown(Shutdown::Write);
            let mut left = Vec::new();
            let mut stream = stream.into_std().unwrap();
            stream.set_nonblocking(false).unwrap();
            stream.read_to_end(&mut left).unwrap();
            (said, left)
        })
    }

    const LONG: Duration = Duration::from_secs(60);
    const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\n";

    #[test]
    fn what_follows_stays_on_the_connection() {
        let (said, left) = read_from(|client| client.write_all(&[LINE, b"hello"].concat()).unwrap(), LONG);
        assert_eq!(said.unwrap().unwrap().source, "192.0.2.7:4711".parse().unwrap());
        assert_eq!(left, b"hello");
    }

    #[test]
    fn a_header_may_come_byte_by_byte() {
        let speak = |client: &mut std::net::TcpStream| {
            client.set_nodelay(true).unwrap();
            for byte in LINE {
                client.write_all(&[*byte]).unwrap();
            }
        };
        let (said, left) = read_from(speak, LONG);
        assert!(said.unwrap().is_some() && left.is_empty());
    }

    #[test]
    fn a_client_without_a_header_is_refused_at_its_first_byte() {
        let (said, left) = read_from(|client| client.write_all(b"GET").unwrap(), LONG);
        assert_eq!((said, &*left), (Err(Reason::BadProxyHeader), &b"GET"[..]));
    }

    #[test]
    fn a_header_that_ends_too_soon_is_refused() {
        let speak = |client: &mut std::net::TcpStream| {
            client.write_all(&LINE[..9]).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        };
        assert_eq!(read_from(speak, LONG).0, Err(Reason::BadProxyHeader));
        let close = |client: &mut std::net::TcpStream| client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_from(close, LONG).0, Err(Reason::ClientAborted), "a look whether somebody listens");
    }

    #[test]
    fn a_header_that_does_not_come_is_not_waited_for() {
        let (said, _) = read_from(|client| client.write_all(&LINE[..9]).unwrap(), Duration::from_millis(1));
        assert_eq!(said, Err(Reason::ProxyHeaderTimeout));
    }

    #[test]
    fn only_the_trusted_are_believed() {
        let addresses = Some(Addresses {
            source: "[::ffff:192.0.2.7]:4711".parse().unwrap(),
            destination: "198.51.100.1:80".parse().unwrap(),
        });
        let peer = "10.0.0.1:99".parse().unwrap();
        let settings = |network: &str| ForwardedSettings {
            trusted: vec![network.parse().unwrap()],
            ..ForwardedSettings::default()
        };
        let named = Introduced { peer: "192.0.2.7:4711".parse().unwrap(), port: Some(80) };
        assert_eq!(client(peer, addresses, &settings("10.0.0.0/8")), named);
        let unnamed = Introduced { peer, port: None };
        assert_eq!(client(peer, addresses, &settings("10.1.0.0/16")), unnamed);
        assert_eq!(client(peer, None, &settings("10.0.0.0/8")), unnamed);
    }
}
