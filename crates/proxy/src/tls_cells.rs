//! Counters of TLS hosts whose endpoints do not speak HTTP, for as long as such a host is configured:
//! connections come and go, and their counts remain.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use model::{ListenerId, TlsStream};
use observe::StreamCells;

/// A worker's counters by listener and by the address of the configured stream, which is stable while it is
/// configured.
#[derive(Default)]
pub(crate) struct TlsCells(RefCell<HashMap<(ListenerId, usize), Counted>>);

/// A configured stream, and its counters.
type Counted = (Weak<TlsStream>, Arc<StreamCells>);

impl TlsCells {
    /// The counters of a stream at a listener, created with the first connection.
    pub(crate) fn get(
        &self,
        listener: ListenerId,
        stream: &Arc<TlsStream>,
        make: impl FnOnce() -> Arc<StreamCells>,
    ) -> Arc<StreamCells> {
        let mut all = self.0.borrow_mut();
        let key = (listener, Arc::as_ptr(stream).addr());
        if let Some((_, cells)) = all.get(&key).filter(|(known, _)| known.strong_count() > 0) {
            return Arc::clone(cells);
        }
        // No other stream can have the address while this one exists.
        let cells = make();
        all.insert(key, (Arc::downgrade(stream), Arc::clone(&cells)));
        cells
    }

    /// Removes the counters of streams that are no longer configured.
    pub(crate) fn sweep(&self) {
        self.0.borrow_mut().retain(|_, (stream, _)| stream.strong_count() > 0);
    }
}
