//! What is counted of a client.

/// What is counted of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Requests.
    Requests,
    /// Of them, those that were answered with a status of 400 or more.
    Errors,
    /// Connections that ended without a request and without a handshake.
    Unused,
    /// Connections that ended without a request after a TLS handshake had begun.
    Handshakes,
    /// Times that the client was too slow: to send a head or a body, or to take a response.
    Slow,
}

impl Signal {
    pub(crate) const ALL: [Self; 5] =
        [Self::Requests, Self::Errors, Self::Unused, Self::Handshakes, Self::Slow];

    /// The name for operators.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Errors => "errors",
            Self::Unused => "unused-connections",
            Self::Handshakes => "unused-handshakes",
            Self::Slow => "slow",
        }
    }

    /// As a set of one.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether it is seen on connections rather than in requests.
    pub(crate) fn is_of_connections(self) -> bool {
        matches!(self, Self::Unused | Self::Handshakes | Self::Slow)
    }

    /// What one of them counts for in the sketch, where a request counts one: in proportion to the rates that each takes to be far off.
    pub(super) fn points(self) -> u16 {
        match self {
            Self::Requests => 1,
            Self::Errors | Self::Unused | Self::Handshakes => 5,
            Self::Slow => u16::MAX,
        }
    }
}

/// Where the points stand, beside the signals, that a client may have had in a window before it was noticed.
pub(super) const HIDDEN: usize = Signal::ALL.len();

/// How many of each, and of [`HIDDEN`] points.
pub(super) type Counts = [u32; HIDDEN + 1];

/// How many of each in a second, or over a while with what is long ago counting less.
pub(super) type Rates = [f32; HIDDEN + 1];
