//! Endpoints are asked: which one, over which connection, and again where a try fails; the response on its
//! way back.
//!
//! ```text
//! outbound ──▶ pick ──▶ flight ──▶ response         an idle connection, everything at hand, one wait
//!    │           │         └─ dead, failed, more to come ─┐
//!    │           └─ no slot: the queue ──▶ attempt ◀──────┘ ──▶ response
//!    └─ body held, mirrors sent              │
//!                                            └─ retry: another try, stale response, error backend, fault
//! ```
//!
//! [`tries`] has this path. `affinity` selects endpoints that the request itself determines, `health` reports
//! tries for ejection, pacing and limits, `upload` keeps what may have to be sent again, and `gone` notices
//! clients that leave.
//!
//! Never in here: who may use a route, and how a head is written.

pub(crate) mod affinity;
pub(crate) mod attempt;
pub(crate) mod error_backend;
mod failover;
mod flight;
mod gone;
mod health;
mod inspected;
pub(crate) mod mirror;
pub(crate) mod outbound;
mod own_error_page;
pub(crate) mod pick;
pub(crate) mod processed;
mod replaced;
pub(crate) mod response;
mod retry;
mod selected;
#[cfg(test)]
mod tests;
mod tries;
mod upload;

pub(crate) use tries::forward;
