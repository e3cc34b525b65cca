//! The bounds of a worker on clients that cost much: they wait, and the others do not.

use std::rc::Rc;

use crate::io::cpu_share::CpuShare;
use crate::io::h3::AllWaiting;
use crate::io::permits::Permits;
use crate::io::quic::{AllSendWindows, HalfOpen};
use crate::limits::REFUSALS_HELD_MAX;

/// The bounds, and what counts towards them.
pub(crate) struct Fairness {
    /// Slots for refusals that wait.
    pub(crate) held_back: Permits,
    /// The share of the worker's time for signatures of tokens that are not known.
    pub(crate) signatures: Rc<CpuShare>,
    /// The share for handshakes over QUIC of networks that have many of them in progress.
    pub(crate) pressed_handshakes: Rc<CpuShare>,
    /// Handshakes over QUIC in progress.
    pub(crate) half_open: HalfOpen,
    /// Streams of HTTP/3 whose heads have not come.
    pub(crate) http3_heads: AllWaiting,
    /// Bytes that connections over QUIC may have unacknowledged.
    pub(crate) send_windows: AllSendWindows,
}

impl Default for Fairness {
    fn default() -> Self {
        Self {
            held_back: Permits::new(REFUSALS_HELD_MAX),
            signatures: Rc::default(),
            pressed_handshakes: Rc::default(),
            half_open: HalfOpen::default(),
            http3_heads: AllWaiting::default(),
            send_windows: AllSendWindows::default(),
        }
    }
}
