use std::net::IpAddr;

use serde::Serialize;

use crate::ClusterId;

/// The replicas that share a cache, each of which is the home of a part of the objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replicas {
    /// The cluster that has the replicas' addresses as its endpoints.
    pub cluster: ClusterId,
    /// The address of this process among them.
    pub own: IpAddr,
    /// Replicas that are listed and get no new requests: they start, or finish what they have begun.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<IpAddr>,
}
