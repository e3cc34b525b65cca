//! Certificates: chains are verified as nginx with OpenSSL does (`ssl_verify_client`), and their values
//! are written as nginx's `$ssl_client_*` variables write them.
//!
//! Never in here: handshakes, sockets, and what a request is refused for.

mod chain;
mod client;
mod leaf;
mod name;

pub use chain::{Purpose, Trust, algorithms};
pub use client::ClientCertificate;
pub use leaf::{AlternativeName, has_alternative_name, public_key};
