//! The reactor as its users see it.

mod sockets;
mod tasks;
mod timers;

use std::time::Duration;

use crate::Reactor;

/// Runs a future on a reactor of its own, and ends the process of tests where that takes too long.
fn on_reactor<T>(future: impl Future<Output = T>) -> T {
    Reactor::new().expect("a reactor").run(async {
        let patience = crate::sleep(Duration::from_secs(30));
        let (mut future, mut patience) = (std::pin::pin!(future), std::pin::pin!(patience));
        std::future::poll_fn(|cx| {
            assert!(patience.as_mut().poll(cx).is_pending(), "it takes too long");
            future.as_mut().poll(cx)
        })
        .await
    })
}
