//! Tasks that a worker cannot do without, such as those that accept connections and those that tick. The
//! event loop drops a task that panics, and goes on with the others. That is right for a connection; but a
//! worker that accepts from a port no more, or whose timers stand still, would look alive and serve nobody.
//!
//! Never in here: the end of the worker, which its thread brings about.

use std::rc::Rc;

use tokio::sync::Notify;

/// The vital tasks of a worker.
#[derive(Debug, Default)]
pub(crate) struct Vital(Rc<Notify>);

/// Notifies the worker where it is dropped by a panic.
struct Watched(Rc<Notify>);

impl Vital {
    /// The same task; its panic is noticed.
    pub(crate) fn task<F: Future>(&self, task: F) -> impl Future<Output = F::Output> + use<F> {
        let watched = Watched(Rc::clone(&self.0));
        async move {
            let _watched = watched;
            task.await
        }
    }

    /// Waits until a vital task has panicked.
    pub(crate) async fn has_panicked(&self) {
        self.0.notified().await;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use reactor::Reactor;

    use super::*;

    async fn panic_later() {
        reactor::yield_now().await;
        panic!("as a test wants it");
    }

    #[test]
    fn a_vital_task_that_panics_is_noticed_and_others_are_not() {
        let (vital, is_noticed) = (Rc::<Vital>::default(), Rc::<Cell<bool>>::default());
        Reactor::new().unwrap().run(async {
            let watching = reactor::spawn({
                let (vital, is_noticed) = (Rc::clone(&vital), Rc::clone(&is_noticed));
                async move {
                    vital.has_panicked().await;
                    is_noticed.set(true);
                }
            });
            assert!(reactor::spawn(vital.task(async { 7 })).await.is_ok_and(|value| value == 7));
            let aborted = reactor::spawn(vital.task(std::future::pending::<()>()));
            aborted.abort();
            assert!(aborted.await.is_err());
            assert!(reactor::spawn(panic_later()).await.is_err());
            assert!(!is_noticed.get());
            assert!(reactor::spawn(vital.task(panic_later())).await.is_err());
            watching.await.unwrap();
        });
        assert!(is_noticed.get());
    }
}
