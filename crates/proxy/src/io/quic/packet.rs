//! A packet, how it came, and the owner of its connection.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use quinn_proto::EcnCodepoint;

/// The name of a replica in its connection ids.
pub(super) type ServerId = [u8; SERVER_ID_BYTES];

pub(super) const SERVER_ID_BYTES: usize = 8;

/// A packet, and how it came.
pub(crate) struct Packet {
    pub(crate) remote: SocketAddr,
    pub(crate) local: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(crate) bytes: BytesMut,
    /// The replica that has forwarded it, if one has.
    pub(super) via: Option<Via>,
}

/// The way back to a client whose packets another replica forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Via {
    pub(super) replica: SocketAddr,
    /// The address of that replica that the client sends to.
    pub(super) local: Option<IpAddr>,
}

/// The owner of the connection that a packet belongs to, by its connection id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The id is none of ours: the packet may begin a connection.
    Nobody,
    /// A worker of this process.
    Worker(u32),
    /// The process that this one replaces, or that replaces this one.
    Process(Neighbour),
    Replica(IpAddr),
    /// A replica that is not there any more.
    Gone(IpAddr),
}

/// Another process of this replica, during an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Neighbour {
    Predecessor,
    Successor,
}

/// The beginning of a forwarded packet. It is not that of a packet of QUIC: one with a short header goes on
/// with a connection id, and the second byte begins with the bits that no id of ours begins with.
pub(super) const MARK: [u8; 3] = [0x0e, 0xfb, 0x51];
