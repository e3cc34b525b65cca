//! Frames: their header, kinds and flags (RFC 9113 sections 4 and 6).

/// Length of a frame's header (RFC 9113 section 4.1).
pub(super) const HEADER_BYTES: usize = 9;
/// The longest payload that either side sends: the initial `SETTINGS_MAX_FRAME_SIZE`, which is not changed
/// here (RFC 9113 section 4.2). A longer one would keep other streams waiting.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;
/// The largest window, and the largest stream identifier (RFC 9113 sections 6.9.1 and 5.1.1).
pub(super) const MAX_31_BITS: u32 = 0x7fff_ffff;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) len: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// The stream; 0 for the connection.
    pub(super) stream: u32,
}

/// The kinds of frames.
pub(super) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PUSH_PROMISE: u8 = 0x5;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
    /// RFC 9218 section 7.1.
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

/// The flags of frames.
pub(super) mod flag {
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

impl Header {
    /// Reads the header at the front of `bytes`; none if it is incomplete.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, s0, s1, s2, s3] = bytes.first_chunk::<HEADER_BYTES>()?;
        Some(Self {
            len: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & MAX_31_BITS,
        })
    }

    /// The header as bytes.
    pub(super) fn bytes(self) -> [u8; HEADER_BYTES] {
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s0, s1, s2, s3]
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame.
pub(super) fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&Header { len: payload.len(), kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

/// A length as the windows count, which may be below zero.
pub(super) fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// The number in four bytes.
pub(super) fn number(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes)
}

/// The payload without its padding (RFC 9113 section 6.1); none where the padding is as long as the payload.
pub(super) fn unpadded(header: Header, payload: &[u8]) -> Option<&[u8]> {
    if !header.has(flag::PADDED) {
        return Some(payload);
    }
    let (&padding, content) = payload.split_first()?;
    content.get(..content.len().checked_sub(usize::from(padding))?)
}
