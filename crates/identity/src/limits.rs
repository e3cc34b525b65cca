//! The bounds of this crate.

use std::time::Duration;

/// Longest token, in bytes. A longer one does not fit into the head of a request anyway.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Longest identifier of a key (`kid`), in bytes.
pub const KEY_ID_BYTES_MAX: usize = 512;

/// Most keys in a set. Large issuers have some dozen.
pub const KEYS_MAX: usize = 256;

/// Longest document with keys, in bytes.
pub const KEYS_BYTES_MAX: usize = 1 << 20;

/// Most keys that one signature is checked with, if a token does not say which key it was signed with.
pub const TRIES_MAX: usize = 8;

/// Fewest bits of an RSA key (RFC 7518 section 3.3).
pub const RSA_BITS_MIN: usize = 2048;

/// Most bits of an RSA key.
pub const RSA_BITS_MAX: usize = 8192;

/// Longest text of an expression about claims, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 4096;

/// Deepest nesting of an expression about claims.
pub const EXPRESSION_DEPTH_MAX: usize = 32;

/// Most rules of a route.
pub const RULES_MAX: usize = 256;

/// Least time between two requests of workers for new keys of one issuer.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// Most requests that wait for the keys of one issuer.
pub const WAITING_MAX: usize = 4096;
