//! Content codings as machines: bytes in, bytes out, with memory that is bounded for each worker and kept from one content to the next.
//!
//! Never in here: heads, what a client takes (`wire::coding`), and waiting ([`super::coded`]).

mod decoder;
mod ease;
mod encoder;
mod pool;

use std::rc::Rc;

use wire::coding::Coding;

use crate::deadline::Deadline;
use crate::limits::CODED_BYTES_PER_TURN;

pub(crate) use ease::{Ease, Load};
pub(crate) use pool::{Coders, Lease};

/// What a coder is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// To compress, at this level.
    Encode(Coding, u8),
    /// To take a coding away.
    Decode(Coding),
}

/// What a step has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    read: usize,
    written: usize,
    /// Nothing is left of the input, and nothing of the output is held back that the step asks for.
    is_done: bool,
}

/// What has come is no content of the coding, or grows beyond all measure. Encoders break only for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The bytes of a whole content, which is in memory piece by piece, in another coding; none where there is no memory for a coder. Others have
/// their turn meanwhile.
pub(crate) async fn compress<'c>(
    coders: &Rc<Coders>,
    (coding, level): (Coding, u8),
    pieces: impl Iterator<Item = &'c [u8]> + Clone,
    deadline: &Deadline,
) -> Option<Vec<u8>> {
    let len = pieces.clone().map(<[u8]>::len).sum::<usize>();
    let mut lease = coders.lease(Task::Encode(coding, level), Some(len as u64))?;
    let mut out = Vec::with_capacity(len / 4 + 64);
    for (at, turn) in pieces.flat_map(|piece| piece.chunks(CODED_BYTES_PER_TURN as usize)).enumerate() {
        if at > 0 {
            deadline.yield_now().await;
        }
        lease.append(turn, &mut out)?;
    }
    lease.append_end(&mut out)?;
    Some(out)
}

#[cfg(test)]
mod tests;
