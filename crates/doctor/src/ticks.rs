//! Readings many times a second between two samples, since averages hide bursts.
//!
//! Must not be in here: clocks, or the meaning of the readings.

use serde::{Deserialize, Serialize};

/// Readings between the first and the last sample. Times are in milliseconds since the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ticks {
    /// CPU time, every 10 ms.
    pub cpu: Vec<CpuTicks>,
    /// Outgoing connections, every 100 ms.
    pub connections: Vec<ConnectionTick>,
}

/// CPU time of the examined processes or of a cgroup at each reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTicks {
    /// `processes` for the examined processes, or the folder of a cgroup (`sys/fs/cgroup/...`).
    pub of: String,
    /// Times of the readings.
    pub at_ms: Vec<u64>,
    /// CPU time in microseconds, counted from some time before the first reading.
    pub used_us: Vec<u64>,
}

/// Outgoing connections to one address at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionTick {
    /// Time of the reading.
    pub at_ms: u64,
    /// The address as `address:port`.
    pub remote: String,
    /// The process that holds the established ones; none if it is not known.
    pub pid: Option<u32>,
    /// Number of established connections.
    pub established: u64,
    /// Number of connections in `TIME_WAIT`, which no process holds.
    pub time_wait: u64,
}
