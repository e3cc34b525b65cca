//! The identity of a client: JSON Web Keys (RFC 7517) and JSON Web Tokens (RFC 7519) that are signed
//! (RFC 7515), and rules about their claims.
//!
//! Everything here is pure: bytes go in, and a decision comes out. Time is an argument. Must not be in here:
//! sockets, clocks, threads, and HTTP.

pub mod algorithm;
mod base64url;
pub mod claims;
pub mod json;
pub mod jwk;
pub mod jws;
pub mod jwt;
pub mod keys;
pub mod limits;
pub mod oidc;
mod refusal;
pub mod rules;

pub use algorithm::{Algorithm, Algorithms};
pub use claims::Expression;
pub use jwk::{KeySet, Origin};
pub use jwt::{Terms, Token};
pub use keys::KeySource;
pub use refusal::Refusal;
pub use rules::Rules;
