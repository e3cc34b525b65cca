//! The counters of hosts over TLS that lead to endpoints without HTTP, for as long as such a host is part of a configuration: connections
//! come and go, and what they have counted stays.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use model::{ListenerId, TlsStream};
use observe::StreamCells;

/// The counters of a worker by listener and by the address of what is configured, which stays while that does.
#[derive(Default)]
pub(crate) struct TlsCells(RefCell<HashMap<(ListenerId, usize), Counted>>);

/// What is configured, and its counters.
type Counted = (Weak<TlsStream>, Arc<StreamCells>);

impl TlsCells {
    /// Those of what is configured at a listener. They are made when the first connection comes.
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
        // No other can have the address while what it was made for is there.
        let cells = make();
        all.insert(key, (Arc::downgrade(stream), Arc::clone(&cells)));
        cells
    }

    /// Forgets those of what is no more configured.
    pub(crate) fn sweep(&self) {
        self.0.borrow_mut().retain(|_, (stream, _)| stream.strong_count() > 0);
    }
}
