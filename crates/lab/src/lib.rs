//! Small test machines: network namespaces with virtual cables and their kernel counters, CPU quotas, and
//! programs inside both. The field cases run in them, in tests and in `forebay demo`.
//!
//! They are made by system calls and need only the kernel's permission: as root or, where the kernel permits
//! user namespaces, as any user. Everything is removed when it is dropped, and nothing outside of the
//! namespaces changes, except for a cgroup while it is in use. Must not be in here: HTTP, the proxy, the
//! cases, or measurements.

#![allow(
    clippy::missing_errors_doc,
    reason = "an error says what this machine does not have or permit, wherever it comes from"
)]

pub mod counters;
pub mod inside;

mod cpu;
mod duty;
mod namespace;
mod network;
mod program;
mod quota;
mod route;

pub use duty::Duty;
pub use namespace::{CableEnd, Namespace, link, set_parameter};
pub use network::Network;
pub use program::Program;
pub use quota::{Quota, Throttling};
