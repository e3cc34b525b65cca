//! Active health checks of endpoints: an endpoint that fails them is left out of its cluster, as if it were
//! not ready, until it passes them again.
//!
//! One worker checks all endpoints of a cluster ([`Checkers`]), and publishes its verdicts on a [`Board`]
//! that all workers share. Each worker then makes the cluster anew without the endpoints that fail
//! (`Worker::apply_checks`), so that no request looks at a verdict. A request that fails or waits in vain at
//! a checked endpoint prompts a check at once.
//!
//! ```text
//! key       identities of checks
//! board     the verdicts, as all workers share them
//! verdict   one of them, and what another replica has reported
//! duty      which replica checks an endpoint for all
//! together  reports from and for the other replicas
//! traffic   whether an endpoint has answered requests, which saves its check
//! checker   the task that checks an endpoint
//! probe     one check: what is sent, which answers pass
//! news      changes, for those who watch the cluster
//! ```
//!
//! Never in here: when an endpoint counts as failing, which is `balance::checks`'s, and how reports reach the
//! other replicas, which is `replicas`'s.

mod board;
mod checker;
mod duty;
mod key;
mod news;
mod probe;
mod together;
mod traffic;
mod verdict;

pub(crate) use board::{Board, Group};
pub(crate) use checker::{Checkers, in_words};
pub(crate) use duty::Members;
pub(crate) use key::{CheckId, GroupKey};
pub use news::{HealthChange, HealthNews};
pub(crate) use together::{Report, Together};
pub(crate) use verdict::Verdict;
