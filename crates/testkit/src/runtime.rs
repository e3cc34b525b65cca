//! The thread that drives HTTP/2 connections, so that tests can use blocking calls.

use std::sync::{LazyLock, mpsc};

use tokio::runtime::{Builder, Handle};

use crate::PATIENCE;

static DRIVER: LazyLock<Handle> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
});

/// Where tasks run.
pub(crate) fn driver() -> &'static Handle {
    &DRIVER
}

/// Waits for something, in a thread of the test.
pub(crate) fn wait<F: Future>(what: &str, future: F) -> F::Output {
    let patiently = async { tokio::time::timeout(PATIENCE, future).await };
    DRIVER.block_on(patiently).unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Does something while no connection is driven, so that all that it sends leaves in one write. It must not
/// wait.
pub(crate) fn at_once<T>(act: impl FnOnce() -> T) -> T {
    let (stopped, has_stopped) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    DRIVER.spawn(async move {
        stopped.send(()).expect("it is waited for");
        // The end of the channel is the signal.
        let _ = is_done.recv();
    });
    has_stopped.recv().expect("the thread drives on");
    let result = act();
    drop(done);
    result
}
