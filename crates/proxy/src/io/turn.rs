//! Turns of a worker's event loop.

use clock::Clock;

/// Lets the other tasks of the worker run, and its loop poll the sockets. The clock is read afterwards as
/// well: a loop that nobody has told of a clock, as in tests, would stop the time.
pub(crate) async fn yield_now(clock: &Clock) {
    reactor::yield_now().await;
    clock.update();
}
