//! `OpenID Connect` as a relying party: the authorization code flow with PKCE, sessions in cookies, refresh
//! and logout.
//!
//! [`login`] begins a sign-in and reads what the provider sends back, [`tokens`] checks what the token
//! endpoint answers, [`session`] is what remains of it, and [`cookies`] has its form at the client,
//! encrypted by [`seal`]. [`logout`] ends sessions, and [`relay`] tells other replicas. [`provider`] is
//! where workers and the control plane meet: the workers put questions, the control plane asks the
//! provider over HTTP and answers.

pub mod cookies;
pub mod directory;
pub mod form;
pub mod login;
pub mod logout;
pub mod metadata;
pub mod provider;
pub mod relay;
pub mod seal;
pub mod session;
pub mod tokens;

/// Seconds since 1970, by the clock of this machine.
pub type Seconds = u64;

/// A number of seconds in JSON, without its fraction. A time before 1970 is long ago.
fn seconds(value: &serde_json::Value) -> Option<Seconds> {
    let number = value.as_f64()?.max(0.0);
    std::time::Duration::try_from_secs_f64(number).ok().map(|time| time.as_secs())
}

/// Difference between the clocks of replicas that is tolerated, in seconds.
pub const CLOCK_DIFFERENCE_MAX: Seconds = 300;
