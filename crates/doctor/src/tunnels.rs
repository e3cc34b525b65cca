//! Remote ends of tunnels.
//!
//! Must not be in here: reading them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// An address to which a tunnel device of this machine sends its packets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TunnelEnd {
    /// Name of the device.
    pub device: String,
    /// The other machine's address in the network below the tunnel.
    pub remote: IpAddr,
}
