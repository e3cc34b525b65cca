//! TCP sockets of a network namespace, grouped.
//!
//! Must not be in here: the source of the sockets.

use serde::{Deserialize, Serialize};

/// Sockets with the same properties. Addresses and ports that identify clients are left out, since a support
/// case does not need them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketGroup {
    /// The side that opened the connections.
    pub direction: Direction,
    /// The state of all of them.
    pub state: State,
    /// `address:port` for a listener and for incoming connections; the address alone for outgoing ones.
    pub local: String,
    /// `address:port` for outgoing connections; otherwise empty.
    pub remote: String,
    /// The process that holds them; none if it is not known.
    pub owner: Option<Owner>,
    /// The number of sockets.
    pub count: u64,
    /// For a listener: the number of connections that wait to be accepted.
    pub queued: u64,
    /// For a listener: the length of that queue; 0 if it is not known.
    pub backlog: u64,
    /// The number of sockets of which the kernel reported data segments.
    pub counted: u64,
    /// Sockets among `counted` that have sent at most one data segment: no second small request.
    pub sent_once: u64,
    /// Sockets among `counted` that have received data and read all of it: if such a connection is still
    /// open, it is kept alive.
    #[serde(default)]
    pub answered: u64,
    /// Data segments that `counted` received.
    pub segments_received: u64,
    /// Data segments that `counted` sent.
    pub segments_sent: u64,
}

/// The process that holds a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Id of the process.
    pub pid: u32,
    /// Its name, up to 15 bytes (`proc_pid_comm(5)`).
    pub name: String,
}

/// The side that opened a connection. A connection whose local port has a listener is incoming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// A listening socket.
    Listening,
    /// The other end connected.
    Incoming,
    /// This end connected.
    Outgoing,
}

/// States of a TCP socket, as ss(8) names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "RFC 9293 section 3.3.2")]
pub enum State {
    Established,
    SynSent,
    SynRecv,
    FinWait1,
    FinWait2,
    TimeWait,
    Close,
    CloseWait,
    LastAck,
    Listen,
    Closing,
    NewSynRecv,
}

impl State {
    /// All of them, in the order of the kernel's numbers (`include/net/tcp_states.h`), which begin with 1.
    pub(crate) const ALL: &[State] = &[
        State::Established,
        State::SynSent,
        State::SynRecv,
        State::FinWait1,
        State::FinWait2,
        State::TimeWait,
        State::Close,
        State::CloseWait,
        State::LastAck,
        State::Listen,
        State::Closing,
        State::NewSynRecv,
    ];

    /// By the kernel's number.
    pub(crate) fn of(number: u8) -> Option<State> {
        State::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The kernel's number.
    pub(crate) fn number(self) -> u8 {
        self as u8 + 1
    }
}
