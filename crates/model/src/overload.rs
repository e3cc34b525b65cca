//! Behaviour of a route when endpoints receive more requests than they can answer. Never in here: how a limit
//! is found, and the queue itself.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Serialize;

/// Overload settings of a route. Routes without settings of their own share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Overload {
    /// Whether anything is done.
    pub mode: Mode,
    /// How many requests an endpoint has at a time.
    pub concurrency: Concurrency,
    /// How long a request waits for a slot at an endpoint; zero to refuse it at once.
    pub queue_timeout: Duration,
    /// Whether endpoints that fail, or are slow beside the others of their cluster, are left out for a time.
    pub ejection: bool,
    /// How long the share of an endpoint that has become ready grows until it is a full one; zero for a full
    /// share at once.
    pub slow_start: Duration,
    /// Part of a cluster's requests, in percent, that may be tried again; none where only the number of tries
    /// of each is bounded.
    pub retry_budget: Option<u8>,
}

/// Whether detection has consequences: of overloaded endpoints, of shortages of the process itself, of
/// unusual clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum Mode {
    /// No detection. A route in this mode has no [`Overload`].
    Off,
    /// Detection and reports without consequences.
    #[default]
    Watch,
    /// Detection with consequences.
    Enforce,
}

/// The concurrency limit of an endpoint, over all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum Concurrency {
    /// A limit that is derived from the endpoint's response times.
    #[default]
    Auto,
    /// This number of concurrent requests.
    Fixed(NonZeroU32),
    /// As many as there are.
    Off,
}

/// Priority of requests in an overload, the highest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Priority {
    /// Served before all others.
    Critical,
    /// Neither preferred nor shed first.
    #[default]
    Normal,
    /// Refused before all others.
    Sheddable,
}

impl Overload {
    /// Counts requests and does nothing else: for a route without overload settings whose Service bounds
    /// retries by its requests.
    pub fn counting() -> Self {
        Self {
            mode: Mode::Watch,
            concurrency: Concurrency::Off,
            queue_timeout: Duration::ZERO,
            ejection: false,
            slow_start: Duration::ZERO,
            retry_budget: None,
        }
    }
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
