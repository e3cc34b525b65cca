//! HTTP, TCP and UDP services, with raw bytes at both ends and the whole data plane between them.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test is no worker")]

mod explaining;
mod http;
mod tcp;
mod tls;
mod udp;
mod world;
