//! TCP sockets of a network namespace, those that are alike as one.
//!
//! Must not be in here: where they are read from.

use serde::{Deserialize, Serialize};

/// Sockets that are alike. Ports and addresses that tell clients apart are left out: a support case needs none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketGroup {
    /// Who connected.
    pub direction: Direction,
    /// What all of them are in.
    pub state: State,
    /// `address:port` of a listener and of what came in by it; of what went out the address alone.
    pub local: String,
    /// `address:port` of what went out; otherwise empty.
    pub remote: String,
    /// The process, where one that could be looked at holds them.
    pub owner: Option<Owner>,
    /// How many there are.
    pub count: u64,
    /// Connections that wait to be accepted, of a listener.
    pub queued: u64,
    /// How many may wait, of a listener; 0 where it is not known.
    pub backlog: u64,
    /// Those of them of which the kernel told how many segments with data they sent and received.
    pub counted: u64,
    /// Those of `counted` that have sent no more than one segment with data: no second small request.
    pub sent_once: u64,
    /// Those of `counted` that have received data and read all of it: what is still open then is kept for more.
    #[serde(default)]
    pub answered: u64,
    /// Segments with data that `counted` received.
    pub segments_received: u64,
    /// Segments with data that `counted` sent.
    pub segments_sent: u64,
}

/// The process that holds a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Its name, up to 15 bytes (`proc_pid_comm(5)`).
    pub name: String,
}

/// Who connected: a socket whose local port somebody listens on came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Takes connections.
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
