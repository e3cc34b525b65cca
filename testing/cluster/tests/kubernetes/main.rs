//! Forebay in a real cluster, which `cargo xtask cluster test` starts around these tests. Each has a
//! namespace and an `IngressClass` of its own, so that they run side by side.
//!
//! Must not be in here: what one process with manifests in files can show (`crates/forebay/tests`).

mod away;
mod bad_input;
mod chart;
mod check;
mod explain;
mod gateway;
mod helm_upgrade;
mod kubectl;
mod namespaces;
mod pods;
mod policy;
mod rights;
mod rollout;
mod space;
mod status;
mod watching;
mod webhook;
