//! Sockets: waiting for them, and moving them between reactors. Never in here: hosts other than this one.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::io::{self, IoSlice, Read, Write};
use std::net::{self, Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::thread;

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with};

use super::on_reactor;
use crate::limits::BUDGET;
use crate::{Interest, TcpListener, TcpStream, UdpSocket, spawn, spawn_detached, yield_now};

/// A stream of the reactor, and the other end.
fn pair() -> (TcpStream, UnixStream) {
    let (ours, other) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (TcpStream::from_std(OwnedFd::from(ours).into()).unwrap(), other)
}

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

async fn read(stream: &TcpStream, space: &mut [u8]) -> io::Result<usize> {
    poll_fn(|cx| stream.poll_read(cx, space)).await
}

async fn write(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    poll_fn(|cx| stream.poll_write_vectored(cx, &[IoSlice::new(bytes)])).await
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (TcpListener::from_std(listener).unwrap(), address)
}

fn unconnected() -> net::TcpStream {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap().into()
}

#[test]
fn a_stream_is_accepted_and_connected_read_and_written() {
    on_reactor(async {
        let (listener, address) = listen();
        assert!(matches!(listener.try_accept(), Err(error) if error.kind() == io::ErrorKind::WouldBlock));
        let answering = spawn(async move {
            let (stream, peer) = listener.accept().await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), peer);
            let mut space = [0; 100];
            loop {
                match read(&stream, &mut space).await.unwrap() {
                    0 => return stream.shutdown_write().unwrap(),
                    len => assert_eq!(write(&stream, &space[..len]).await.unwrap(), len),
                }
            }
        });
        let stream = TcpStream::connect(unconnected(), address).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        let mut space = [0; 3];
        for _ in 0..10 {
            assert_eq!(write(&stream, b"hello").await.unwrap(), 5);
            assert_eq!((read(&stream, &mut space).await.unwrap(), &space), (3, b"hel"));
            assert_eq!((read(&stream, &mut space).await.unwrap(), &space[..2]), (2, &b"lo"[..]));
        }
        stream.shutdown_write().unwrap();
        assert_eq!(read(&stream, &mut space).await.unwrap(), 0);
        assert!(stream.ready(Interest::READABLE).await.is_read_closed());
        answering.await.unwrap();
    });
}

#[test]
fn nobody_listens() {
    on_reactor(async {
        let (listener, address) = listen();
        drop(listener);
        let error = TcpStream::connect(unconnected(), address).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_short_read_has_found_everything() {
    on_reactor(async {
        let (stream, mut other) = pair();
        other.write_all(b"abc").unwrap();
        let mut space = [0; 2];
        assert_eq!(read(&stream, &mut space).await.unwrap(), 2);
        let tried = Cell::new(false);
        let look = || {
            tried.set(true);
            Ok(recv(&stream, &mut [0; 9], RecvFlags::DONTWAIT | RecvFlags::PEEK)?.0)
        };
        assert_eq!(stream.try_io(Interest::READABLE, look).unwrap(), 1, "a full one is tried again");
        assert_eq!(read(&stream, &mut space).await.unwrap(), 1);
        tried.set(false);
        let look = || {
            tried.set(true);
            Ok(0)
        };
        assert_eq!(stream.try_io(Interest::READABLE, look).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(!tried.get() && stream.poll_read(&noop(), &mut space).is_pending());
        // The end comes with an event of its own.
        drop(other);
        assert_eq!(read(&stream, &mut space).await.unwrap(), 0);
    });
}

#[test]
fn a_writer_waits_for_room() {
    on_reactor(async {
        let (stream, mut other) = pair();
        let piece = vec![7; 1 << 16];
        let mut sent = 0;
        while let Ok(len) = stream.try_write(&piece) {
            sent += len;
        }
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            other.read_to_end(&mut all).unwrap();
            all.len()
        });
        for _ in 0..50 {
            sent += write(&stream, &piece).await.unwrap();
        }
        drop(stream);
        assert_eq!(reading.join().unwrap(), sent);
    });
}

#[test]
fn both_ends_of_a_stream_are_waited_for_at_once() {
    on_reactor(async {
        let (stream, mut other) = pair();
        let stream = Rc::new(stream);
        let piece = vec![7; 1 << 16];
        while stream.try_write(&piece).is_ok() {}
        let writer = Rc::clone(&stream);
        let writing = spawn(async move { write(&writer, b"more").await.unwrap() });
        let reading = spawn(async move { read(&stream, &mut [0; 9]).await.unwrap() });
        yield_now().await;
        other.write_all(b"word").unwrap();
        assert_eq!(reading.await.unwrap(), 4);
        assert!(!writing.is_finished());
        let draining = thread::spawn(move || {
            let mut space = vec![0; 1 << 16];
            while other.read(&mut space).unwrap() > 0 {}
        });
        assert_eq!(writing.await.unwrap(), 4);
        draining.join().unwrap();
    });
}

#[test]
fn a_busy_task_does_not_starve_the_sockets() {
    on_reactor(async {
        spawn_detached(poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::Pending
        }));
        let (stream, mut other) = pair();
        let mut space = [0; 9];
        assert!(stream.poll_read(&noop(), &mut space).is_pending());
        other.write_all(b"word").unwrap();
        assert_eq!(read(&stream, &mut space).await.unwrap(), 4);
    });
}

#[test]
fn a_turn_is_bounded() {
    on_reactor(async {
        let (stream, mut other) = pair();
        let total = 4 * BUDGET as usize;
        other.write_all(&vec![7; total]).unwrap();
        other.shutdown(Shutdown::Write).unwrap();
        let turns = Rc::new(Cell::new(0));
        let counted = Rc::clone(&turns);
        let counting = spawn(async move {
            loop {
                yield_now().await;
                counted.set(counted.get() + 1);
            }
        });
        let mut read_bytes = 0;
        while read(&stream, &mut [0]).await.unwrap() == 1 {
            read_bytes += 1;
        }
        assert_eq!(read_bytes, total);
        assert!(turns.get() >= 3, "{}", turns.get());
        counting.abort();
    });
}

#[test]
fn a_stream_may_move_to_another_reactor() {
    let (sender, receiver) = std::sync::mpsc::channel::<TcpStream>();
    let thief = thread::spawn(move || {
        on_reactor(async {
            let noticed = receiver.recv().unwrap();
            let look = |stream: &TcpStream| stream.try_io(Interest::WRITABLE, || Ok(()));
            assert!(look(&noticed).is_ok(), "a look needs no move");
            let moved = TcpStream::from_std(noticed.into_std().unwrap()).unwrap();
            assert_eq!(read(&moved, &mut [0; 9]).await.unwrap(), 4);
            drop(receiver.recv().unwrap());
        });
    });
    on_reactor(async {
        let (stream, mut other) = pair();
        // The task of a former user may still be named as the one to wake.
        assert!(stream.poll_read(&noop(), &mut [0; 9]).is_pending());
        sender.send(stream).unwrap();
        other.write_all(b"word").unwrap();
        let (dropped_there, _other) = pair();
        sender.send(dropped_there).unwrap();
        thief.join().unwrap();
        yield_now().await;
        // The place is free for another.
        let (stream, mut other) = pair();
        other.write_all(b"word").unwrap();
        assert_eq!(read(&stream, &mut [0; 9]).await.unwrap(), 4);
    });
}

#[test]
fn a_stream_may_outlive_its_reactor() {
    let stream = on_reactor(async { pair().0 });
    drop(stream);
    let stream = on_reactor(async { pair().0 });
    on_reactor(async move {
        drop(stream);
        yield_now().await;
    });
}

#[test]
fn a_task_that_waits_for_a_stream_can_be_dropped() {
    on_reactor(async {
        let (stream, mut other) = pair();
        let reading = spawn(async move { read(&stream, &mut [0; 9]).await });
        yield_now().await;
        other.write_all(b"word").unwrap();
        reading.abort();
        assert!(reading.await.is_err());
        drop(other);
        yield_now().await;
    });
}

#[test]
fn an_error_of_a_datagram_wakes() {
    on_reactor(async {
        let gone = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = gone.local_addr().unwrap();
        let socket = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.connect(address).unwrap();
        let socket = UdpSocket::from_std(socket).unwrap();
        let interest = Interest::READABLE | Interest::ERROR;
        let mut space = [0; 9];
        gone.send_to(b"word", socket.local_addr().unwrap()).unwrap();
        let receive = || Ok(recv(&socket, &mut space, RecvFlags::DONTWAIT)?.0);
        assert_eq!(socket.io(interest, receive).await.unwrap(), 4);
        drop(gone);
        let refused = async {
            let receive = || Ok(recv(&socket, &mut [0; 9], RecvFlags::DONTWAIT)?.0);
            socket.io(interest, receive).await.unwrap_err().kind()
        };
        rustix::net::send(&socket, b"word", rustix::net::SendFlags::empty()).unwrap();
        assert_eq!(refused.await, io::ErrorKind::ConnectionRefused);
    });
}

#[test]
#[should_panic(expected = "a socket is waited for where it is watched")]
fn a_stream_is_waited_for_at_home() {
    let (stream, _other) = on_reactor(async { pair() });
    on_reactor(async {
        let _ = read(&stream, &mut [0; 9]).await;
        pending::<()>().await;
    });
}
