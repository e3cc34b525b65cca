//! Parts of attacks: seeds and cases, generators, endpoints that record requests, other servers.⎏⎏The attacks
//! themselves are in `tests/`. A find is printed with the command that repeats its case alone. Must not be in
//! here: code of the proxy, which would then judge itself.

#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "what fails in a test panics, wherever it is"
)]

pub mod attack;
pub mod binary;
pub mod endpoint;
pub mod escape;
pub mod hello;
pub mod http1;
pub mod kernel;
pub mod mutate;
pub mod names;
pub mod peers;
pub mod process;
pub mod random;
pub mod tenant;

pub use attack::{Attack, Case, Options, Run};
pub use random::Random;
