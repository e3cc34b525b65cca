//! The signals that are counted by client.

/// A kind of behaviour that is counted by client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Requests, errors included.
    Requests,
    /// Requests that were answered with a status of 400 or more.
    Errors,
    /// Connections that ended without a request and without a handshake.
    Unused,
    /// Connections that ended without a request after a TLS handshake had begun.
    Handshakes,
    /// Timeouts for a client that was too slow to send a head or a body, or to take a response.
    Slow,
}

impl Signal {
    /// All signals, in the order of their counts.
    pub(super) const ALL: [Self; 5] =
        [Self::Requests, Self::Errors, Self::Unused, Self::Handshakes, Self::Slow];

    /// The name for operators.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Errors => "errors",
            Self::Unused => "unused-connections",
            Self::Handshakes => "unused-handshakes",
            Self::Slow => "slow",
        }
    }

    /// The signal in a set of bits.
    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether the signal is about connections rather than requests.
    pub(super) fn is_of_connections(self) -> bool {
        matches!(self, Self::Unused | Self::Handshakes | Self::Slow)
    }

    /// Points of one occurrence in the sketch, where a request has one point: in inverse proportion to the
    /// rates that are far off.
    pub(super) fn points(self) -> u16 {
        match self {
            Self::Requests => 1,
            Self::Errors | Self::Unused | Self::Handshakes => 5,
            Self::Slow => u16::MAX,
        }
    }
}

/// The index in [`Counts`] of the points that a client may have had in a window before it was noticed.
pub(super) const HIDDEN: usize = Signal::ALL.len();

/// The number of each signal, and the [`HIDDEN`] points.
pub(super) type Counts = [u32; HIDDEN + 1];

/// The same in a second, or as sums that decay.
pub(super) type Rates = [f32; HIDDEN + 1];
