//! A worker's knowledge of the other replicas beside their addresses.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign, verify};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use clock::Moment;
use identity::oidc::directory::Directory;
use identity::oidc::seal::{CURRENT, Keys};

use super::used_marks::UsedMarks;
use crate::io::permits::Permits;
use crate::limits::{REPLICA_MARK_AGE_MAX, REPLICA_ORDERS_MAX, REPLICA_REST};

/// The secret by which replicas authenticate each other. Never shown.
#[derive(Clone)]
pub struct ReplicaSecret(Arc<SecretState>);

/// The secret, and the marks that have been used, shared by all workers.
struct SecretState {
    key: Key,
    used: UsedMarks,
    /// The address of this replica, where it is known.
    own: Option<IpAddr>,
    /// Keys of what only replicas may read.
    seal: Option<Keys>,
}

/// The other replicas, as one worker sees them.
pub(crate) struct Peers {
    /// None where nothing is shared.
    secret: Option<ReplicaSecret>,
    /// The providers at which people sign in.
    pub(crate) sign_ins: Directory,
    /// Replicas that failed recently, each with the time until which requests do not wait for it.
    resting: RefCell<Vec<(IpAddr, Moment)>>,
    /// Slots for orders in flight to the replicas.
    pub(super) orders: Permits,
    /// The version of the canaries' states of which the other replicas have been told the stops.
    pub(super) told_rollouts: Cell<u64>,
}

impl ReplicaSecret {
    /// The secret with these bytes, which all replicas have, and the address of this one, if it is known.
    pub fn new(bytes: &[u8], own: Option<IpAddr>) -> Self {
        let seal = Keys::new([(CURRENT, [b"replicas\0", bytes].concat())].into_iter()).ok();
        let key = Key::new(HMAC_SHA256, bytes);
        Self(Arc::new(SecretState { key, used: UsedMarks::default(), own, seal }))
    }

    /// A pass that authenticates a request to another replica's admin server. It is valid for that replica
    /// alone, and for half a minute. The time is in seconds since 1970.
    pub fn pass(&self, asked: IpAddr, now: u64) -> String {
        let code = sign(&self.0.key, pass_text(asked, now).as_bytes());
        format!("{now}.{}", STANDARD_NO_PAD.encode(code))
    }

    /// Whether a text is a pass for the replica with this address.
    pub fn takes_pass(&self, pass: &str, own: IpAddr, now: u64) -> bool {
        let Some((time, code)) = pass.split_once('.') else { return false };
        let (Ok(time), Ok(code)) = (time.parse::<u64>(), STANDARD_NO_PAD.decode(code)) else { return false };
        time.abs_diff(now) <= REPLICA_MARK_AGE_MAX.as_secs()
            && verify(&self.0.key, pass_text(own, time).as_bytes(), &code).is_ok()
    }

    pub(crate) fn key(&self) -> &Key {
        &self.0.key
    }

    pub(crate) fn own(&self) -> Option<IpAddr> {
        self.0.own
    }

    /// The keys of messages that nobody else may read; none if the secret is too short for them.
    pub(crate) fn seal(&self) -> Option<&Keys> {
        self.0.seal.as_ref()
    }

    pub(crate) fn used_marks(&self) -> &UsedMarks {
        &self.0.used
    }
}

/// The text that the code of a pass signs. A mark's code is over a head, which begins with a method.
fn pass_text(asked: IpAddr, time: u64) -> String {
    format!("\0admin {asked} {time}")
}

impl fmt::Debug for ReplicaSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaSecret").finish_non_exhaustive()
    }
}

impl Peers {
    pub(crate) fn new(secret: Option<ReplicaSecret>, sign_ins: Directory) -> Self {
        Self {
            secret,
            sign_ins,
            resting: RefCell::default(),
            orders: Permits::new(REPLICA_ORDERS_MAX),
            told_rollouts: Cell::default(),
        }
    }

    pub(crate) fn secret(&self) -> Option<&ReplicaSecret> {
        self.secret.as_ref()
    }

    /// Whether a replica has failed recently.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_counts_for_one_replica_and_a_while() {
        let (secret, other) = (ReplicaSecret::new(b"secret", None), ReplicaSecret::new(b"other", None));
        let [one, two] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse::<IpAddr>().unwrap());
        let pass = secret.pass(one, 1000);
        assert!(secret.takes_pass(&pass, one, 1000 + REPLICA_MARK_AGE_MAX.as_secs()));
        assert!(!secret.takes_pass(&pass, one, 1001 + REPLICA_MARK_AGE_MAX.as_secs()));
        assert!(!secret.takes_pass(&pass, two, 1000));
        assert!(!other.takes_pass(&pass, one, 1000));
        let later = pass.replace("1000.", "1001.");
        for wrong in ["", ".", "1000", "1000.", "x.y", &later] {
            assert!(!secret.takes_pass(wrong, one, 1000), "{wrong}");
        }
    }
}
