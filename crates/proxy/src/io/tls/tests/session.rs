//! Sockets with TLS over loopback, and handshakes with clients.

use std::future::poll_fn;
use std::io::Write;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::Poll;

use clock::Clock;
use observe::Reason;

use super::super::handshake::{self, Refused};
use super::super::handshake_limiter::HandshakeLimiter;
use super::super::negotiation::Negotiation;
use super::super::session::{Handshake, Session};
use super::*;
use crate::io::buffer::{Buffer, Buffers};
use crate::io::socket::{Socket, Unwritten};

/// Two sockets after a handshake: the client's and the server's.
async fn sockets() -> (Socket, Socket) {
    let (near, far) = loopback();
    meet(near, far).await
}

async fn meet(near: TcpStream, far: TcpStream) -> (Socket, Socket) {
    for stream in [&near, &far] {
        let small = socket2::SockRef::from(stream);
        small.set_send_buffer_size(16 << 10).unwrap();
    }
    let snapshot = compiled(Vec::new(), TlsSettings::default());
    let server_configs = configured(&snapshot, &shared_tls(), None);
    let config = server_configs.select(None).unwrap().server_config.config().unwrap();
    let mut server = Handshake::new(far, Negotiation::server(config).unwrap());
    let (client, ()) = tokio::join!(dial(near, None), async { server.complete(async || {}).await.unwrap() });
    (Socket::tls(client), Socket::tls(server.finish().unwrap()))
}

/// The client's end after its handshake.
async fn dial(near: TcpStream, name: Option<&str>) -> Box<Session> {
    let negotiation = Negotiation::client(Arc::new(client()), server_name(name)).unwrap();
    let mut client = Handshake::new(near, negotiation);
    client.complete(async || {}).await.unwrap();
    let mut client = client.finish().unwrap();
    poll_fn(|cx| client.poll_flush(cx)).await.unwrap();
    client
}

async fn write(socket: &Socket, bytes: &[u8]) {
    let mut unwritten = Unwritten::new(&[bytes]);
    poll_fn(|cx| socket.poll_write_all(cx, &mut unwritten)).await.unwrap();
}

async fn read(socket: &Socket, buffer: &mut Buffer) -> std::io::Result<usize> {
    poll_fn(|cx| socket.poll_fill(cx, buffer)).await
}

fn buffer() -> Buffer {
    Buffer::empty(&Rc::new(Buffers::default()))
}

#[test]
fn what_is_written_arrives_whole_through_small_socket_buffers() {
    run(async {
        let (client, server) = sockets().await;
        let sent: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        let writes = write(&server, &sent);
        let reads = async {
            let mut received = Vec::new();
            let mut buffer = buffer();
            while received.len() < sent.len() {
                read(&client, &mut buffer).await.unwrap();
                received.extend_from_slice(buffer.data());
                buffer.clear();
            }
            received
        };
        let ((), received) = tokio::join!(writes, reads);
        assert!(received == sent);
        // All of the data has been sent; nothing waits for another write.
        assert!(!client.is_clear() && !server.is_clear());
    });
}

#[test]
fn a_peek_takes_nothing_and_sees_data_only() {
    run(async {
        let (client, server) = sockets().await;
        // A session ticket is on its way, or will be: it does not count as data.
        assert!(poll_fn(|cx| Poll::Ready(server.poll_peek(cx).is_pending())).await);
        assert!(poll_fn(|cx| Poll::Ready(client.poll_peek(cx).is_pending())).await);
        assert_eq!(client.peek_now().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        write(&server, b"hello").await;
        assert_eq!(poll_fn(|cx| client.poll_peek(cx)).await.unwrap(), 5);
        assert_eq!(client.peek_now().unwrap(), 5);
        let mut buffer = buffer();
        read(&client, &mut buffer).await.unwrap();
        assert_eq!(buffer.data(), b"hello");
        assert!(poll_fn(|cx| Poll::Ready(client.poll_peek(cx).is_pending())).await);
    });
}

#[test]
fn an_end_with_notice_is_an_end_and_one_without_is_an_error() {
    run(async {
        let (client, server) = sockets().await;
        write(&server, b"x").await;
        server.notify_close();
        drop(server);
        let mut buffer = buffer();
        assert_eq!(read(&client, &mut buffer).await.unwrap(), 1);
        assert_eq!(read(&client, &mut buffer).await.unwrap(), 0);
        let (client, server) = sockets().await;
        write(&server, b"x").await;
        drop(server);
        assert_eq!(read(&client, &mut buffer).await.unwrap(), 1);
        let error = read(&client, &mut buffer).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_record_that_is_too_long_is_answered_with_an_alert() {
    run(async {
        let (near, far) = loopback();
        let mut raw = std::net::TcpStream::from(near.as_fd().try_clone_to_owned().unwrap());
        let (client, server) = meet(near, far).await;
        raw.write_all(b"\x17\x03\x03\xff\xff").unwrap();
        let mut buffer = buffer();
        let error = read(&server, &mut buffer).await.unwrap_err();
        assert_eq!(error.to_string(), "a record is too long");
        let error = read(&client, &mut buffer).await.unwrap_err();
        assert_eq!(error.to_string(), "the peer has sent an alert");
    });
}

#[test]
fn one_side_may_end_before_the_other() {
    run(async {
        let (client, server) = sockets().await;
        poll_fn(|cx| client.poll_shutdown(cx)).await.unwrap();
        let mut buffer = buffer();
        assert_eq!(read(&server, &mut buffer).await.unwrap(), 0);
        write(&server, b"still here").await;
        read(&client, &mut buffer).await.unwrap();
        assert_eq!(buffer.data(), b"still here");
    });
}

#[test]
fn a_connection_goes_on_in_another_event_loop() {
    let (client, server) = run(async {
        let (client, server) = sockets().await;
        write(&server, b"before").await;
        // The sockets must not belong to the event loop that ends here.
        (client, server)
    });
    run(async {
        let (client, server) = (client.adopt().unwrap(), server.adopt().unwrap());
        let mut buffer = buffer();
        read(&client, &mut buffer).await.unwrap();
        assert_eq!(buffer.data(), b"before");
        write(&client, b"after").await;
        buffer.clear();
        read(&server, &mut buffer).await.unwrap();
        assert_eq!(buffer.data(), b"after");
    });
}

// === the handshake of clients ===

/// Sends `bytes` as a client. Returns the result, and what the client received.
async fn refused(bytes: &[u8], settings: TlsSettings) -> (Option<Refused>, Vec<u8>) {
    let (near, far) = loopback();
    let snapshot = compiled(vec![host("a.test", HostTls::default())], settings);
    let server_configs = configured(&snapshot, &shared_tls(), None);
    let (handshake_limiter, clock) = (HandshakeLimiter::default(), Clock::new(Clock::begin()));
    let entry = handshake_limiter.enter().unwrap();
    let near = Socket::clear(near);
    write(&near, bytes).await;
    poll_fn(|cx| near.poll_shutdown(cx)).await.unwrap();
    let accepting = handshake::accept(far, Some(&server_configs), &entry, buffer());
    let outcome = tokio::select! {
        outcome = accepting => outcome.err(),
        () = handshake_limiter.attend(&clock) => None,
    };
    let mut said = Vec::new();
    if !matches!(outcome, Some(Refused::PlainHttp(..))) {
        let mut received = self::buffer();
        while read(&near, &mut received).await.unwrap() > 0 {
            said.extend_from_slice(received.data());
            received.clear();
        }
    }
    (outcome, said)
}

fn hello(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    connect(&Arc::new(client()), Some(name)).write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn those_that_cannot_be_answered_are_told_why() {
    run(async {
        let (outcome, _) = refused(b"GET / HTTP/1.1\r\n", TlsSettings::default()).await;
        assert!(matches!(outcome, Some(Refused::PlainHttp(_, said)) if said.data() == b"GET / HTTP/1.1\r\n"));
        let (outcome, said) = refused(b"", TlsSettings::default()).await;
        assert!(matches!(outcome, Some(Refused::Gone)) && said.is_empty());
        let strict = TlsSettings { reject_unknown_names: true, ..TlsSettings::default() };
        let (outcome, said) = refused(&hello("b.test"), strict.clone()).await;
        assert!(matches!(outcome, Some(Refused::Failed(Reason::UnknownServerName))));
        assert_eq!(said, [21, 3, 3, 0, 2, 2, 112]);
        let (outcome, said) = refused(&hello("a.test"), strict).await;
        assert!(matches!(outcome, Some(Refused::Failed(Reason::HandshakeAborted))), "it has gone away");
        assert_eq!(said[0], 22, "the server's side of the handshake");
        let (outcome, said) = refused(b"\x16\x03\x01\x00\x04nope", TlsSettings::default()).await;
        assert!(matches!(outcome, Some(Refused::Failed(Reason::BadHandshake))));
        assert_eq!(said[0], 21, "an alert");
        let (outcome, _) = refused(&hello("a.test")[..40], TlsSettings::default()).await;
        assert!(matches!(outcome, Some(Refused::Failed(Reason::HandshakeAborted))));
    });
}

#[test]
fn a_client_is_known_by_what_was_agreed_upon() {
    run(async {
        let (near, far) = loopback();
        let snapshot = compiled(vec![host("a.test", HostTls::default())], TlsSettings::default());
        let server_configs = configured(&snapshot, &shared_tls(), None);
        let (handshake_limiter, clock) = (HandshakeLimiter::default(), Clock::new(Clock::begin()));
        let entry = handshake_limiter.enter().unwrap();
        let client = dial(near, Some("a.test"));
        let accepting = handshake::accept(far, Some(&server_configs), &entry, buffer());
        let both = async { tokio::join!(client, accepting).1 };
        let known = tokio::select! {
            outcome = both => outcome.ok().expect("it succeeds").1,
            () = handshake_limiter.attend(&clock) => unreachable!("it never ends"),
        };
        assert_eq!(known.server_name.as_deref(), Some("a.test"));
        assert_eq!((known.version, known.cipher), ("TLSv1.3", "TLS_AES_128_GCM_SHA256"));
        assert_eq!(known.handshake(), observe::Handshake::Ecdsa);
        assert!(!known.http2 && !known.is_resumed && known.certificate.is_none());
    });
}
