//! The codes with which a stream or a connection ends early.

/// An error code of `RST_STREAM` and GOAWAY (RFC 9113 section 7). A peer may send others than those below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    /// The end is no error.
    pub const NO_ERROR: Self = Self(0x0);
    /// The peer has broken the protocol.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// A fault of the implementation.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// The peer has sent more than the window allows.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// A frame came on a stream that has ended.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame has a length that its kind does not allow.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The request has not been processed.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is needed no more.
    pub const CANCEL: Self = Self(0x8);
    /// The table of header compression is out of step.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The peer costs too much.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
}
