//! Content codings as machines: bytes in, bytes out, with memory that is bounded for each worker and reused
//! from one content to the next.
//!
//! Never in here: heads, the choice of a coding (`wire::coding`), sockets, and waiting.

mod decoder;
mod ease;
mod encoder;
mod limits;
mod pool;

use wire::coding::Coding;

pub use ease::{Ease, Load};
pub use pool::{Coders, Lease};

/// The task of a coder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Compress, at this level.
    Encode(Coding, u8),
    /// Decompress a content of this coding.
    Decode(Coding),
}

/// The result of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    read: usize,
    written: usize,
    /// All input is used, and no output is held back that the step asks for.
    is_done: bool,
}

/// The input is not of this coding, or expands beyond the limit. Encoders fail only for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

#[cfg(test)]
mod tests;
