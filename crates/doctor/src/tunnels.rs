//! Where tunnels lead to.
//!
//! Must not be in here: where that is read from.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// An address that a tunnel's device of this machine sends its packets to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TunnelEnd {
    /// The device.
    pub device: String,
    /// The other machine, as the network below knows it.
    pub remote: IpAddr,
}
