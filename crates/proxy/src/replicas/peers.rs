//! What a worker knows of the other replicas beside their addresses.

use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::hmac::{HMAC_SHA256, Key};

use super::used_marks::UsedMarks;
use crate::clock::Moment;
use crate::limits::{REPLICA_ORDERS_MAX, REPLICA_REST};
use crate::places::Places;

/// What replicas know each other by. Never shown.
#[derive(Clone)]
pub struct ReplicaSecret(Arc<Known>);

/// The secret, and which marks have been made with it, all workers together.
struct Known {
    key: Key,
    used: UsedMarks,
}

/// The other replicas, as a worker finds them.
pub(crate) struct Peers {
    /// None where nobody shares anything.
    secret: Option<ReplicaSecret>,
    /// Those that have failed, and until when nobody waits for them.
    resting: RefCell<Vec<(IpAddr, Moment)>>,
    /// What is being told to them.
    pub(super) orders: Places,
}

impl ReplicaSecret {
    /// Of the bytes that all replicas have.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Arc::new(Known { key: Key::new(HMAC_SHA256, bytes), used: UsedMarks::default() }))
    }

    pub(crate) fn key(&self) -> &Key {
        &self.0.key
    }

    pub(crate) fn used_marks(&self) -> &UsedMarks {
        &self.0.used
    }
}

impl fmt::Debug for ReplicaSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaSecret").finish_non_exhaustive()
    }
}

impl Peers {
    pub(crate) fn new(secret: Option<ReplicaSecret>) -> Self {
        Self { secret, resting: RefCell::default(), orders: Places::new(REPLICA_ORDERS_MAX) }
    }

    pub(crate) fn secret(&self) -> Option<&ReplicaSecret> {
        self.secret.as_ref()
    }

    /// Whether a replica has failed a moment ago.
    pub(crate) fn is_resting(&self, replica: IpAddr, now: Moment) -> bool {
        let mut resting = self.resting.borrow_mut();
        resting.retain(|(_, until)| *until > now);
        resting.iter().any(|(address, _)| *address == replica)
    }

    /// Notes that a replica has failed.
    pub(crate) fn rest(&self, replica: IpAddr, now: Moment) {
        if !self.is_resting(replica, now) {
            self.resting.borrow_mut().push((replica, now.after(REPLICA_REST)));
        }
    }
}
