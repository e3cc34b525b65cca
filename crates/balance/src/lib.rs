//! Load balancing decisions without IO: which endpoint takes a request, how many requests it has at a time,
//! which requests wait for a slot, which endpoints are ejected, and how often connects and requests are tried
//! again.
//!
//! All of it but `rollout` and `retry_constraint` is one worker's, and learns from what that worker sees.
//! Time and random numbers are arguments, so that simulations drive the same code. Must not be in here:
//! sockets, HTTP, and whatever reads the machine's clock.

mod canary;
pub mod checks;
mod concurrency;
mod copies;
mod failover;
mod limits;
mod outlier;
mod pace;
mod retry_budget;
mod retry_constraint;
mod ring;
mod rollout;
pub mod slow_start;
mod sticky;

pub use canary::CanaryChoice;
pub use concurrency::{
    ClusterLimits, EndpointLimit, Limited, NoSlot, Overuse, Queued, Slot, SlotRequest, WorkerShare,
    is_served_last,
};
pub use copies::Copies;
pub use failover::{Standing, Usability, choose as choose_cluster};
pub use outlier::{HealthRecord, Observed, Outcome, Outliers};
pub use pace::Pacer;
pub use retry_budget::RetryBudget;
pub use retry_constraint::SharedRetries;
pub use ring::{Ring, draw};
pub use rollout::{
    KeptRun, RolloutNews, RolloutOutcome, RolloutState, RolloutStatus, Rollouts, Run, Stopped,
};
pub use sticky::Sticky;
