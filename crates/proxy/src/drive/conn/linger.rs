//! The end of a client connection that has had its last response: what the client still sends is read and
//! discarded.

use model::ListenerId;

use crate::io::buffer::Buffer;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::socket::Socket;
use crate::limits::{LINGER, LINGER_CLOSING_TIME_MAX, LINGER_TIME_MAX};
use crate::worker::Worker;

/// Reads and discards what the client still sends, until it ends, falls silent, or has had its time, which
/// is short once the worker stops.
pub(super) async fn linger(worker: &Worker, listener: ListenerId, socket: &Socket, deadline: &Deadline) {
    if !matches!(deadline.within(LINGER, |cx| socket.poll_shutdown(cx)).await, Ok(Ok(()))) {
        return;
    }
    let (place, ended) = worker.lingering.enter(deadline.slot());
    if let Some(slot) = ended {
        worker.deadlines.expire(slot);
    }
    let mut latest = deadline.now().after(LINGER_TIME_MAX);
    let mut buffer = Buffer::empty(&worker.buffers);
    loop {
        let (now, is_closing) = (deadline.now(), worker.is_closing(listener));
        if is_closing {
            latest = latest.min(now.after(LINGER_CLOSING_TIME_MAX));
        }
        // Data that is always there would keep the deadline from being looked at.
        if place.is_over() || now >= latest {
            return;
        }
        let silence = latest.since(now).min(LINGER);
        match deadline.within_idle(silence, |cx| socket.poll_fill(cx, &mut buffer)).await {
            Ok(Ok(1..)) => buffer.clear(),
            // It was woken because the worker stops.
            Err(Elapsed) if worker.is_closing(listener) && !is_closing => {}
            _ => return,
        }
    }
}
