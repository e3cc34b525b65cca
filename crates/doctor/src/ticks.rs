//! What was looked at many times a second between two samples, since averages hide it.
//!
//! Must not be in here: clocks, or what it means.

use serde::{Deserialize, Serialize};

/// Readings between the first and the last sample. Times are milliseconds since the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ticks {
    /// Every 10 ms.
    pub cpu: Vec<CpuTicks>,
    /// Every 100 ms: connections that went out.
    pub connections: Vec<ConnectionTick>,
}

/// The CPU time that a process or a cgroup had used, at each reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTicks {
    /// `processes` for those that were asked about, or the folder of a cgroup (`sys/fs/cgroup/...`).
    pub of: String,
    /// When.
    pub at_ms: Vec<u64>,
    /// How much, in microseconds, since some time before the first.
    pub used_us: Vec<u64>,
}

/// Connections that went out to one address, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionTick {
    /// When.
    pub at_ms: u64,
    /// `address:port`.
    pub remote: String,
    /// The process that holds those that are established, where it is known.
    pub pid: Option<u32>,
    /// Established ones.
    pub established: u64,
    /// Those in `TIME_WAIT`, which no process holds.
    pub time_wait: u64,
}
