//! Stateless resets (RFC 9000 section 10.3), by which clients learn that a connection is gone.
//!
//! `quinn-proto` makes one for a packet with a short header and an id that [`WorkerIds`] takes for valid, of
//! which the endpoint has no connection. There is no other place from which one is sent. One that is wrong
//! ends a connection that is alive elsewhere; silence ends none, and costs a client of a dead connection no
//! more than its timeout. So nothing is sent unless the connection is known to have ended.
//!
//! Here resets are counted by reason, and logged.

use std::sync::Arc;

use observe::Counter;
use quinn_proto::{ConnectionId, Transmit};

use super::endpoint::Endpoint;
use super::ids::{ID_BYTES, Lost, WorkerIds};

impl Endpoint {
    /// Sends a stateless reset. It is the answer to a packet with this id, of which the worker has no
    /// connection here.
    pub(super) fn send_reset(
        &self,
        id: &[u8; ID_BYTES],
        is_forwarded: bool,
        response: &Transmit,
        bytes: &[u8],
    ) {
        let (shared, worker) = (self.shared(), self.worker_index());
        let (ids, others) = (Arc::clone(shared.ids()), Arc::clone(shared.others()));
        let Some(lost) = (WorkerIds { ids, worker, others }).lost(id) else { return };
        // Another replica forwards to the address by which it knows this one: the connection may be on a
        // socket at another one.
        if lost == Lost::Ended && is_forwarded && shared.has_addresses_besides(self.local()) {
            return;
        }
        let counter = match lost {
            Lost::Ended => Counter::QuicResetEnded,
            Lost::Process => Counter::QuicResetProcess,
            Lost::Replica => Counter::QuicResetReplica,
        };
        self.count(counter);
        tracing::debug!(
            client = %response.destination,
            id = %ConnectionId::new(id),
            reason = counter.name(),
            is_forwarded,
            "a client is told by a stateless reset that its connection is gone"
        );
        self.send_one(response, bytes);
    }
}
