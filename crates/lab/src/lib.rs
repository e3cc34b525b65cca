//! Machines in small: network namespaces with cables between them and their kernel's counters, CPU quotas, programs inside both. The field
//! cases happen in them, in tests and in `forebay demo`.
//!
//! It needs nothing but the kernel's permission: system calls do it, as root or, where the kernel lets users have namespaces of their own,
//! as anybody. All of it is gone when it is dropped, and nothing outside of the namespaces changes, but for a cgroup while it is needed.
//! Must not be in here: HTTP, the proxy, the cases, or what is measured.

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
pub use namespace::{Namespace, link, set_parameter};
pub use network::Network;
pub use program::Program;
pub use quota::{Quota, Throttling};
