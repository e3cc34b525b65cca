//! The parts of HTTP that a shared cache needs, as functions over heads and numbers: caching (RFC 9111),
//! conditional and range requests (RFC 9110 sections 13 and 14), stale responses (RFC 5861), immutable ones
//! (RFC 8246), Cache-Status (RFC 9211) and directives for one kind of cache (RFC 9213).
//!
//! Never in here: a store, a clock, a policy of a route that is not an argument. Times are seconds since
//! 1970.
//!
//! A cache uses these modules in this order: [`storable`] decides whether a response may be stored;
//! [`stored`] writes the head to store, [`Freshness`] holds its age and lifetime, [`Vary`] the requests that
//! it answers. For a request, [`Freshness::verdict`] decides whether the response may be used,
//! [`conditional`] and [`range`] which part of it the client gets, and [`CacheStatus`] is the report to the
//! client.

pub mod conditional;
mod dictionary;
mod directives;
mod freshness;
mod harmless;
mod head;
pub mod invalidation;
mod policy;
pub mod range;
mod status;
pub mod storable;
pub mod stored;
mod syntax;
mod vary;

pub use conditional::Validators;
pub use directives::{Directives, RequestDirectives};
pub use freshness::{Freshness, Times, Verdict};
pub use harmless::is_harmless;
pub use head::Head;
pub use policy::{Grace, Policy};
pub use status::{CacheStatus, Forward};
pub use storable::NotStorable;
pub use syntax::SECONDS_MAX;
pub use vary::Vary;

#[cfg(test)]
mod tests;
