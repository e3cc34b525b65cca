//! A tunnel whose one end is a stream: WebSocket over HTTP/2 or HTTP/3 (RFC 8441, RFC 9220).

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use crate::body::tunnel::{End, Passed};
use crate::io::buffer::Buffer;
use crate::io::deadline::{Deadline, Deadlines};
use crate::io::h2::Broken;
use crate::io::socket::{Socket, Unwritten};
use crate::io::stream::Stream;

/// Relays bytes until both ends have closed, one of them fails, or nothing has passed either way for `idle`.
pub(crate) async fn tunnel_stream(
    client: Stream<'_>,
    upstream: End<'_>,
    idle: Duration,
    deadlines: &Rc<Deadlines>,
) -> Passed {
    let (to_client, to_upstream) = (Cell::new(0), Cell::new(0));
    let deadline = Deadline::new(deadlines);
    deadline.start(idle);
    let alive = || deadline.start(idle);
    let mut both = pin!(async {
        let up = pass_up(client, upstream.socket, &to_upstream, &alive);
        let down = pass_down(upstream.socket, upstream.read_ahead, client, &to_client, &alive);
        tokio::try_join!(up, down)
    });
    let is_complete = matches!(deadline.guard(|cx| both.as_mut().poll(cx)).await, Ok(Ok(_)));
    Passed { to_client: to_client.get(), to_upstream: to_upstream.get(), is_complete }
}

async fn pass_up(from: Stream<'_>, to: &Socket, passed: &Cell<u64>, alive: &impl Fn()) -> io::Result<()> {
    while let Some(frame) = poll_fn(|cx| from.poll_data(cx)).await {
        let frame = frame.map_err(broken)?;
        let mut unwritten = Unwritten::new(&[&frame]);
        poll_fn(|cx| to.poll_write_all(cx, &mut unwritten)).await?;
        from.release(frame.len());
        passed.set(passed.get() + frame.len() as u64);
        alive();
    }
    poll_fn(|cx| to.poll_shutdown(cx)).await
}

async fn pass_down(
    from: &Socket,
    buffer: &mut Buffer,
    to: Stream<'_>,
    passed: &Cell<u64>,
    alive: &impl Fn(),
) -> io::Result<()> {
    loop {
        passed.set(passed.get() + buffer.len() as u64);
        let mut rest = buffer.data();
        poll_fn(|cx| to.poll_send(cx, &mut rest, false)).await.map_err(broken)?;
        buffer.clear();
        if poll_fn(|cx| from.poll_fill(cx, buffer)).await? == 0 {
            return to.finish(&[]).map_err(broken);
        }
        alive();
    }
}

fn broken(_: Broken) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}
