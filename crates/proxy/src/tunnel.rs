//! Bytes both ways between two sockets, until both have said that they are done.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use crate::buffer::Buffer;
use crate::deadline::{Deadline, Deadlines};
use crate::socket::{Socket, Unwritten};

/// One end of a tunnel, with what has been read from it before the tunnel was.
pub(crate) struct End<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) read_ahead: &'a mut Buffer,
}

/// What went through a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Bytes.
    pub(crate) to_client: u64,
    /// Bytes.
    pub(crate) to_upstream: u64,
    /// Whether both ends have said that they are done.
    pub(crate) is_complete: bool,
}

/// Passes bytes until both ends are done, one of them breaks, or nothing has passed either way for `idle`.
pub(crate) async fn tunnel(
    client: End<'_>,
    upstream: End<'_>,
    idle: Duration,
    deadlines: &Rc<Deadlines>,
) -> Passed {
    let (to_client, to_upstream) = (Cell::new(0), Cell::new(0));
    let deadline = Deadline::new(deadlines);
    deadline.start(idle);
    let alive = || deadline.start(idle);
    let mut both = pin!(async {
        let up = pass(client.socket, client.read_ahead, upstream.socket, &to_upstream, &alive);
        let down = pass(upstream.socket, upstream.read_ahead, client.socket, &to_client, &alive);
        tokio::try_join!(up, down)
    });
    let is_complete = matches!(deadline.guard(|cx| both.as_mut().poll(cx)).await, Ok(Ok(_)));
    Passed { to_client: to_client.get(), to_upstream: to_upstream.get(), is_complete }
}

/// One way, to the end, which is passed on as such: the other way may go on.
async fn pass(
    from: &Socket,
    buffer: &mut Buffer,
    to: &Socket,
    passed: &Cell<u64>,
    alive: &impl Fn(),
) -> std::io::Result<()> {
    loop {
        passed.set(passed.get() + buffer.len() as u64);
        let mut unwritten = Unwritten::new(&[buffer.data()]);
        poll_fn(|cx| to.poll_write_all(cx, &mut unwritten)).await?;
        buffer.clear();
        if poll_fn(|cx| from.poll_fill(cx, buffer)).await? == 0 {
            return poll_fn(|cx| to.poll_shutdown(cx)).await;
        }
        alive();
    }
}
