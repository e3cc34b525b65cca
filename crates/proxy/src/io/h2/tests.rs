//! Streams of one connection that want to send at the same time.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use clock::Clock;
use wire::h1::{Request, RequestLimits};
use wire::h2::Limits;

use super::{Link, Progress, Slot, Stream};
use crate::io::buffer::{Buffer, Buffers};
use crate::io::event_loop::EventLoop;
use crate::io::socket::Socket;

const ROOM: usize = 64 << 10;
const LIMITS: Limits = Limits {
    streams_max: 8,
    head_bytes_max: 4096,
    table_bytes_max: 4096,
    stream_window_bytes: 65_535,
    stream_window_bytes_max: 65_535,
    connection_window_bytes: 65_535,
    unwritten_bytes_max: ROOM,
};

/// Preface, settings with a window of 1 MiB, and the same window for the connection.
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \0\0\x06\x04\0\0\0\0\0\0\x04\0\x10\0\0\
    \0\0\x04\x08\0\0\0\0\0\0\x10\0\0";

/// A task that has been woken or not.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Woken {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// The server's end of a connection with requests on some streams, whose urgencies these are, and the
/// client.
async fn streams(urgencies: &[u8]) -> (Rc<Link>, Vec<Stream>, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let mut client = TcpStream::connect(listener.local_addr().expect("it listens")).expect("a connection");
    let (accepted, _) = listener.accept().expect("a connection");
    accepted.set_nonblocking(true).expect("a socket");
    let socket = Socket::clear(reactor::TcpStream::from_std(accepted).expect("a socket"));
    let ahead = Buffer::empty(&Rc::new(Buffers::default()));
    let link = Link::of_client(socket, ahead, LIMITS, Clock::new(Clock::begin()));
    client.write_all(BEGIN).expect("room");
    let mut streams = Vec::new();
    for (number, urgency) in urgencies.iter().enumerate() {
        // GET, /, http, `:authority: a`, and `priority: u=N` as a literal.
        let block = [b"\x82\x84\x86\x41\x01a\0\x08priority\x03u=", &[b'0' + urgency][..]].concat();
        let head = [0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1 + 2 * number as u8];
        client.write_all(&[&head[..], &block].concat()).expect("room");
        assert!(matches!(poll_fn(|cx| link.poll_progress(cx)).await, Progress::Request));
        let (mut head, mut request) = (Vec::new(), Request::default());
        let limits = RequestLimits { line_bytes_max: 1024, head_bytes_max: 4096 };
        let opened = link
            .with(|connection| {
                connection.request(limits, String::new, &mut head, &mut request, Slot::default())
            })
            .expect("a block");
        let stream = Stream::new(Rc::clone(&link), opened.expect("a request").key);
        stream.respond(200, b"HTTP/1.1 200 OK\r\n\r\n", false).expect("it is open");
        streams.push(stream);
    }
    (link, streams, client)
}

/// Writes all that there is to write.
async fn write(link: &Link) {
    poll_fn(|cx| match link.poll_progress(cx) {
        Poll::Pending => Poll::Ready(()),
        Poll::Ready(_) => panic!("the client has said nothing new"),
    })
    .await;
}

fn room(stream: &Stream, woken: &Arc<Woken>) -> bool {
    let waker = Waker::from(Arc::clone(woken));
    stream.poll_room(&mut Context::from_waker(&waker)).is_ready()
}

fn run(test: impl Future<Output = ()>) {
    EventLoop::new(|| ()).expect("an event loop").run(test);
}

#[test]
fn a_stream_that_ends_in_its_turn_passes_it_on() {
    run(async {
        let (link, streams, _client) = streams(&[3, 3, 3]).await;
        let woken: [Arc<Woken>; 3] = Default::default();
        let mut cx = Context::from_waker(Waker::noop());
        let content = vec![0; 2 * ROOM];
        assert!(streams[0].poll_send(&mut cx, &mut &content[..], false).is_pending());
        for (stream, woken) in streams.iter().zip(&woken).skip(1) {
            assert!(!room(stream, woken), "others have filled the room");
        }
        write(&link).await;
        // The first one has been given its turn.
        drop(streams.into_iter().next());
        assert!(woken[1].take(), "the next one has it");
    });
}

#[test]
fn the_turn_passes_on_when_it_is_taken_to_wait_for_content() {
    run(async {
        let (link, streams, _client) = streams(&[3, 3, 3]).await;
        let woken: [Arc<Woken>; 3] = Default::default();
        let mut cx = Context::from_waker(Waker::noop());
        let content = vec![0; ROOM];
        assert!(streams[0].poll_send(&mut cx, &mut &content[..], false).is_pending());
        for (stream, woken) in streams.iter().zip(&woken) {
            assert!(!room(stream, woken));
        }
        write(&link).await;
        for (stream, woken) in streams.iter().zip(&woken) {
            assert!(woken.take(), "each has its turn");
            assert!(room(stream, woken), "and takes it, without content");
        }
    });
}

#[test]
fn the_most_urgent_stream_has_the_first_turn() {
    run(async {
        let (link, streams, mut client) = streams(&[3, 5, 0]).await;
        let woken: [Arc<Woken>; 3] = Default::default();
        let mut cx = Context::from_waker(Waker::noop());
        let content = vec![0; ROOM];
        assert!(streams[0].poll_send(&mut cx, &mut &content[..], false).is_pending());
        for (stream, woken) in streams.iter().zip(&woken).skip(1) {
            assert!(!room(stream, woken));
        }
        write(&link).await;
        assert_eq!((woken[1].take(), woken[2].take()), (false, true));
        let mut some = [0; 1024];
        assert!(client.read(&mut some).expect("frames") > 0);
    });
}
