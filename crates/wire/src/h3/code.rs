//! The codes with which a stream or a connection ends early.

/// An error code of HTTP/3 (RFC 9114 section 8.1) or QPACK (RFC 9204 section 6). A peer may send others than
/// those below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u64);

impl Code {
    /// The end is no error.
    pub const NO_ERROR: Self = Self(0x100);
    /// The peer has broken the protocol in a way that has no code of its own.
    pub const GENERAL_PROTOCOL_ERROR: Self = Self(0x101);
    /// A fault of the implementation.
    pub const INTERNAL_ERROR: Self = Self(0x102);
    /// The peer has opened a stream that it may not open.
    pub const STREAM_CREATION_ERROR: Self = Self(0x103);
    /// A stream has ended that the connection needs.
    pub const CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame came where its kind is not allowed.
    pub const FRAME_UNEXPECTED: Self = Self(0x105);
    /// A frame has a layout or a length that its kind does not allow.
    pub const FRAME_ERROR: Self = Self(0x106);
    /// The peer costs too much.
    pub const EXCESSIVE_LOAD: Self = Self(0x107);
    /// An identifier is out of its range, or has grown where it may only shrink.
    pub const ID_ERROR: Self = Self(0x108);
    /// The payload of a SETTINGS frame is not valid.
    pub const SETTINGS_ERROR: Self = Self(0x109);
    /// The control stream does not begin with SETTINGS.
    pub const MISSING_SETTINGS: Self = Self(0x10a);
    /// The request has not been processed.
    pub const REQUEST_REJECTED: Self = Self(0x10b);
    /// The request, or its response, is needed no more.
    pub const REQUEST_CANCELLED: Self = Self(0x10c);
    /// The stream has ended before the request was whole.
    pub const REQUEST_INCOMPLETE: Self = Self(0x10d);
    /// The message is malformed.
    pub const MESSAGE_ERROR: Self = Self(0x10e);
    /// A header block cannot be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: Self = Self(0x200);
    /// An instruction on the peer's encoder stream is not valid.
    pub const QPACK_ENCODER_STREAM_ERROR: Self = Self(0x201);
    /// An instruction on the peer's decoder stream is not valid.
    pub const QPACK_DECODER_STREAM_ERROR: Self = Self(0x202);
}

/// The peer has broken the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("HTTP/3 error {:#x}", code.0)]
pub struct Fault {
    /// The code that the peer is sent.
    pub code: Code,
    /// The whole connection has to end; otherwise the stream is reset.
    pub is_of_connection: bool,
}

impl Fault {
    /// A fault for which the connection has to end.
    pub const fn of_connection(code: Code) -> Self {
        Self { code, is_of_connection: true }
    }

    /// A fault for which the stream is reset.
    pub const fn of_stream(code: Code) -> Self {
        Self { code, is_of_connection: false }
    }
}
