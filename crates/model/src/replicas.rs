use std::net::IpAddr;

use crate::ClusterId;

/// The processes among which objects of the cache have their homes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Their addresses.
    pub cluster: ClusterId,
    /// Which of them this process is.
    pub own: IpAddr,
}
