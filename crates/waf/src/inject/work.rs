//! The work of both detectors: one for each byte, and something for each token.
//!
//! Never in here: a bound.

/// Work for each token.
pub(super) const PER_TOKEN: usize = 16;
