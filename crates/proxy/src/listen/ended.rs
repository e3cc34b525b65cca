//! The end of a worker's thread, as the rest of the process hears of it. While the proxy is not told to stop,
//! a thread ends by a fault only.
//!
//! Never in here: what the process does about it.

use std::sync::Arc;

use tokio::sync::watch;

/// The first worker whose thread has ended.
#[derive(Debug, Default)]
pub struct WorkerEnds(watch::Sender<Option<usize>>);

/// Reports the end of a worker when it is dropped, be it by a panic.
pub(crate) struct ReportsEnd {
    pub(crate) ends: Arc<WorkerEnds>,
    pub(crate) worker: usize,
}

impl WorkerEnds {
    /// Waits until a worker has ended; its number.
    pub async fn first(&self) -> usize {
        let mut ends = self.0.subscribe();
        loop {
            if let Some(worker) = *ends.borrow_and_update() {
                return worker;
            }
            // The sender lives as long as this does.
            let _ = ends.changed().await;
        }
    }
}

impl Drop for ReportsEnd {
    fn drop(&mut self) {
        self.ends.0.send_if_modified(|first| {
            let is_first = first.is_none();
            *first = first.or(Some(self.worker));
            is_first
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_worker_that_panics_is_reported_to_all_who_wait() {
        let ends = Arc::<WorkerEnds>::default();
        let waiting = tokio::spawn({
            let ends = Arc::clone(&ends);
            async move { ends.first().await }
        });
        for worker in [3, 1] {
            let report = ReportsEnd { ends: Arc::clone(&ends), worker };
            let thread = std::thread::spawn(move || {
                let _report = report;
                panic!("as a test wants it");
            });
            assert!(thread.join().is_err());
        }
        assert_eq!((waiting.await.unwrap(), ends.first().await), (3, 3));
    }
}
