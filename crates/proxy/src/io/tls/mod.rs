//! TLS towards clients and endpoints. All code that uses rustls is in here.
//!
//! Must not be in here: HTTP, and what happens to a client whose certificate is not valid.

mod certificate;
mod client;
mod client_auth;
mod handshake;
mod handshake_limiter;
mod listeners;
mod negotiation;
mod provider;
mod quic;
mod quic_keys;
mod record;
mod resumption;
mod server_configs;
mod session;
mod several;
pub(crate) mod upstream;

#[cfg(test)]
mod tests;

pub(crate) use client::{ClientTls, Verdict};
pub(crate) use handshake::{Refused, accept};
pub(crate) use handshake_limiter::HandshakeLimiter;
pub(crate) use listeners::TlsListeners;
pub(crate) use quic::{QuicConfigs, quic_fault};
pub(crate) use server_configs::{ServerConfigs, SharedTls};
pub(crate) use session::Session;
