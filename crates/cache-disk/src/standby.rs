//! The wait for a folder that another process still has: the predecessor of this one, which finishes its
//! requests.
//!
//! Until then nothing is found and nothing is written. An invalidation that comes meanwhile would be
//! forgotten by what the predecessor has written, so all of that is removed then. Must not be in here: who
//! the other process is.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::folder::{Folder, OpenError};
use crate::index::Index;
use crate::limits::STANDBY_LOOK;
use crate::load;
use crate::shared::{Shared, Size};
use crate::writer::{Order, Writer};

/// The part of the writer's thread before there is a folder.
pub(crate) struct Standby {
    pub(crate) path: PathBuf,
    pub(crate) shared: Arc<Shared>,
    pub(crate) size: Size,
}

impl Standby {
    /// Waits for the folder, and then writes until it is told to stop.
    pub(crate) fn run(self, orders: &Receiver<Order>) {
        let Some((writer, loading)) = self.wait(orders) else { return };
        writer.run(orders);
        if let Some(loading) = loading {
            // The thread does not panic where the records are what they should be.
            let _ = loading.join();
        }
    }

    /// Waits for the folder. None if it is told to stop before.
    fn wait(self, orders: &Receiver<Order>) -> Option<(Writer, Option<JoinHandle<()>>)> {
        let mut is_stale = false;
        let mut next_look = Instant::now();
        loop {
            if Instant::now() >= next_look {
                next_look = Instant::now() + STANDBY_LOOK;
                if let Some(folder) = self.look() {
                    return self.take_over(folder, orders, is_stale);
                }
            }
            match orders.recv_timeout(next_look.saturating_duration_since(Instant::now())) {
                Ok(order) => is_stale |= self.pass_by(order)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// The folder, if it is free.
    fn look(&self) -> Option<Folder> {
        match Folder::open(&self.path, Some(self.shared.hash)) {
            Ok(folder) => (folder.hash() == self.shared.hash).then_some(folder),
            Err(OpenError::InUse(_)) => None,
            Err(error) => {
                tracing::warn!(%error, "the cache on disk cannot be taken over yet");
                None
            }
        }
    }

    /// Drops an order. Whether it invalidates records; none if it is that to stop.
    fn pass_by(&self, order: Order) -> Option<bool> {
        match order {
            Order::Put { bytes, .. } => {
                self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
                self.shared.counters.dropped.fetch_add(1, Ordering::Relaxed);
                Some(false)
            }
            Order::Flush(done) => {
                let _ = done.send(());
                Some(false)
            }
            Order::Remove { .. } | Order::Purge { .. } | Order::Floor { .. } => Some(true),
            Order::Stop => None,
        }
    }

    fn take_over(
        self,
        folder: Folder,
        orders: &Receiver<Order>,
        mut is_stale: bool,
    ) -> Option<(Writer, Option<JoinHandle<()>>)> {
        let mut index = self.shared.index.lock();
        // Orders are sent with the index locked: no other one comes before the new index is in place.
        while let Ok(order) = orders.try_recv() {
            is_stale |= self.pass_by(order)?;
        }
        let segments = folder.segments().unwrap_or_default();
        let last = segments.last().map_or(0, |(id, _)| *id);
        // Above all that any record in these segments has, and above what this process has given out.
        let own = self.shared.sequence.load(Ordering::SeqCst) >> 32;
        let sequence = (last.max(own) + 1) << 32;
        let segments = if is_stale {
            for (id, _) in &segments {
                folder.remove_segment(*id);
            }
            Vec::new()
        } else {
            segments
        };
        *index = Index::new(segments, sequence);
        self.shared.sequence.store(sequence, Ordering::SeqCst);
        drop(index);
        tracing::info!(emptied = is_stale, "the cache on disk is taken over from the process that had it");
        let loading = load::start(Arc::clone(&self.shared)).ok();
        Some((Writer::new(folder, self.shared, self.size), loading))
    }
}
