//! What is done when more requests come than endpoints can answer. Never in here: how a limit is found, and what waits.

use std::num::NonZeroU32;
use std::time::Duration;

/// Settings of a route for overload. Routes that ask for nothing share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Overload {
    /// Whether anything is done.
    pub mode: Mode,
    /// How many requests an endpoint has at a time.
    pub concurrency: Concurrency,
    /// How long a request waits for a place at an endpoint; zero where none waits.
    pub queue_timeout: Duration,
    /// Whether endpoints that fail, or are slow beside the others of their cluster, are left out for a time.
    pub ejection: bool,
    /// How long the share of an endpoint grows after it has become ready until it is a full one; zero where it has that at once.
    pub slow_start: Duration,
    /// Part of a cluster's requests, in percent, that may be tried again; none where only the number of tries of each is bounded.
    pub retry_budget: Option<u8>,
}

/// Whether what is found out has consequences: about overload of endpoints, about shortages of the process itself, about clients that are far off
/// the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Nothing is found out. A route without overload has no [`Overload`].
    Off,
    /// Everything is found out and shown, and nothing is done.
    #[default]
    Watch,
    /// What is found out has its consequences.
    Enforce,
}

/// How many requests an endpoint has at a time, those of all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// As many as it answers without delay, which is found from its response times.
    #[default]
    Auto,
    /// This many.
    Fixed(NonZeroU32),
    /// As many as there are.
    Off,
}

/// Who is served first where not everybody can be, the most important one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// It is served before others.
    Critical,
    /// It asks for nothing.
    #[default]
    Normal,
    /// It is refused before others.
    Sheddable,
}

impl Default for Overload {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            concurrency: Concurrency::default(),
            queue_timeout: Duration::from_secs(1),
            ejection: true,
            slow_start: Duration::ZERO,
            retry_budget: Some(20),
        }
    }
}
