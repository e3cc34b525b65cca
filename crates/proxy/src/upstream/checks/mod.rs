//! Active health checks of endpoints: an endpoint that fails them is left out of its cluster, as if it were
//! not ready, until it passes them again.
//!
//! One worker checks all endpoints of a cluster ([`Checkers`]), and publishes its verdicts on a [`Board`]
//! that all workers share. Each worker then makes the cluster anew without the endpoints that fail
//! (`Worker::apply_checks`), so that no request looks at a verdict. A request that fails or waits in vain at
//! a checked endpoint prompts a check at once.
//!
//! Never in here: when an endpoint counts as failing, which is `balance::checks`'s.

mod board;
mod checker;
mod probe;

pub(crate) use board::{Board, Group, GroupKey, Verdict};
pub(crate) use checker::{Checkers, in_words};
