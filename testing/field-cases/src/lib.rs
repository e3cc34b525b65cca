//! What the field cases happen on: network namespaces with their kernel's counters, CPU quotas, programs inside both.
//!
//! All of it is gone when it is dropped, and nothing outside of the namespaces changes, but for a cgroup while it is needed.
//! Must not be in here: the cases (`tests/`), or what is measured.

#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "what fails in a test fails it, wherever it is"
)]

pub mod counters;
pub mod inside;

mod cpu;
mod namespace;
mod program;
mod quota;

pub use namespace::{Namespace, link, set_parameter};
pub use program::Program;
pub use quota::{Quota, Throttling};
