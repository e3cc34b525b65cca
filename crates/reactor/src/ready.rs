//! The readiness of a socket, as bits.

use std::ops::BitOr;

use rustix::event::epoll::EventFlags;

/// A task's wish for a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest(u8);

/// The operations that a socket is ready for. It is a hint: the attempt decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(u8);

const READABLE: u8 = 1;
const WRITABLE: u8 = 2;
const READ_CLOSED: u8 = 4;
const WRITE_CLOSED: u8 = 8;
const ERROR: u8 = 16;

impl Interest {
    /// To read, or to see the end.
    pub const READABLE: Self = Self(READABLE);
    /// To write, or to see that it is of no use.
    pub const WRITABLE: Self = Self(WRITABLE);
    /// To see an error, which need not make the socket readable.
    pub const ERROR: Self = Self(ERROR);

    /// Whether one wants to read.
    pub fn is_readable(self) -> bool {
        self.0 & READABLE != 0
    }

    /// The bits that make a socket ready for it: an end does so forever.
    fn mask(self) -> u8 {
        let read_closed = if self.is_readable() { READ_CLOSED } else { 0 };
        let write_closed = if self.0 & WRITABLE != 0 { WRITE_CLOSED } else { 0 };
        self.0 | read_closed | write_closed
    }
}

impl BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Ready {
    /// Nothing is known of the socket yet.
    pub const UNKNOWN: Self = Self(0);
    /// The socket may be read and written: whoever tries finds out.
    pub const ASSUMED: Self = Self(READABLE | WRITABLE);

    /// Whether the peer has ended its stream, or the connection has failed: no bytes will arrive but those
    /// that are there.
    pub fn is_read_closed(self) -> bool {
        self.0 & READ_CLOSED != 0
    }

    /// The part that makes a socket ready for an interest.
    pub(crate) fn of(self, interest: Interest) -> Self {
        Self(self.0 & interest.mask())
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The rest when an attempt has found nothing.
    pub(crate) fn without(self, interest: Interest) -> Self {
        Self(self.0 & !interest.0)
    }

    pub(crate) fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    pub(crate) fn wakes_reader(self) -> bool {
        self.0 & (READABLE | READ_CLOSED | ERROR) != 0
    }

    pub(crate) fn wakes_writer(self) -> bool {
        self.0 & (WRITABLE | WRITE_CLOSED | ERROR) != 0
    }

    pub(crate) fn to_bits(self) -> u8 {
        self.0
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
}

impl From<EventFlags> for Ready {
    fn from(flags: EventFlags) -> Self {
        // Nearly all events say no more than this.
        let usual = EventFlags::IN | EventFlags::OUT;
        if flags.difference(usual).is_empty() {
            let readable = u8::from(flags.contains(EventFlags::IN)) * READABLE;
            let writable = u8::from(flags.contains(EventFlags::OUT)) * WRITABLE;
            return Self(readable | writable);
        }
        let has = |flag, bits| if flags.contains(flag) { bits } else { 0 };
        // An error of a socket that cannot be written any more comes with `OUT`, or alone.
        let is_broken =
            flags.contains(EventFlags::ERR) && (flags.contains(EventFlags::OUT) || flags == EventFlags::ERR);
        Self(
            has(EventFlags::IN, READABLE)
                | has(EventFlags::OUT, WRITABLE)
                | has(EventFlags::RDHUP, READ_CLOSED)
                | has(EventFlags::HUP, READ_CLOSED | WRITE_CLOSED)
                | has(EventFlags::ERR, ERROR)
                | if is_broken { WRITE_CLOSED } else { 0 },
        )
    }
}
