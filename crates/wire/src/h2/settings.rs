//! Settings of a connection (RFC 9113 section 6.5, RFC 8441 section 3, RFC 9218 section 2.1).

use super::code::Code;
use super::frame::{self, MAX_31_BITS, PAYLOAD_BYTES_MAX, flag, kind};

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// Length of one setting.
const SETTING_BYTES: usize = 6;
/// Initial value of the windows (RFC 9113 section 6.9.2).
pub(super) const WINDOW_BYTES_INITIAL: u32 = 65_535;
/// Initial length of the table of header compression.
const TABLE_BYTES_INITIAL: u32 = 4096;

/// The limits of this side, each of which is announced where it is not the protocol's initial value.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams that the peer may have open; only a server has a limit.
    pub streams_max: u32,
    /// Bytes of a head, counted as RFC 9113 section 6.5.2 says.
    pub head_bytes_max: u32,
    /// Bytes of the tables of header compression, in each direction.
    pub table_bytes_max: u32,
    /// Bytes of content that the peer may send on a stream before they are read, at first.
    pub stream_window_bytes: u32,
    /// The same where the peer sends as fast as it is read.
    pub stream_window_bytes_max: u32,
    /// The same for all streams of the connection.
    pub connection_window_bytes: u32,
    /// Bytes of frames that wait to be written, beyond which no stream has room for content.
    pub unwritten_bytes_max: usize,
}

/// The settings of the peer that matter here.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSettings {
    pub(super) streams_max: u32,
    pub(super) window_bytes: u32,
    pub(super) payload_bytes_max: usize,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            streams_max: u32::MAX,
            window_bytes: WINDOW_BYTES_INITIAL,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        }
    }
}

impl PeerSettings {
    /// Applies the payload of a SETTINGS frame. Each length of the table of header compression goes to
    /// `set_table_bytes`: the smallest of them counts too (RFC 7541 section 4.2).
    pub(super) fn apply(
        &mut self,
        payload: &[u8],
        is_server: bool,
        mut set_table_bytes: impl FnMut(u32),
    ) -> Result<(), Code> {
        let (settings, []) = payload.as_chunks::<SETTING_BYTES>() else {
            return Err(Code::FRAME_SIZE_ERROR);
        };
        for &[i0, i1, v0, v1, v2, v3] in settings {
            let value = frame::number([v0, v1, v2, v3]);
            match u16::from_be_bytes([i0, i1]) {
                HEADER_TABLE_SIZE => set_table_bytes(value),
                // A server must not allow pushes to it (RFC 9113 section 6.5.2).
                ENABLE_PUSH if value > u32::from(is_server) => return Err(Code::PROTOCOL_ERROR),
                MAX_CONCURRENT_STREAMS => self.streams_max = value,
                INITIAL_WINDOW_SIZE if value > MAX_31_BITS => return Err(Code::FLOW_CONTROL_ERROR),
                INITIAL_WINDOW_SIZE => self.window_bytes = value,
                MAX_FRAME_SIZE if !(16_384..=16_777_215).contains(&value) => {
                    return Err(Code::PROTOCOL_ERROR);
                }
                MAX_FRAME_SIZE => self.payload_bytes_max = PAYLOAD_BYTES_MAX,
                ENABLE_CONNECT_PROTOCOL | NO_RFC7540_PRIORITIES if value > 1 => {
                    return Err(Code::PROTOCOL_ERROR);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Limits {
    /// Appends the SETTINGS frame that announces the limits, and the window of the connection.
    pub(super) fn announce(&self, is_server: bool, out: &mut Vec<u8>) {
        let mut settings = Vec::with_capacity(6 * SETTING_BYTES);
        let mut set = |id: u16, value: u32| {
            settings.extend_from_slice(&id.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        };
        if self.table_bytes_max != TABLE_BYTES_INITIAL {
            set(HEADER_TABLE_SIZE, self.table_bytes_max);
        }
        if is_server {
            set(MAX_CONCURRENT_STREAMS, self.streams_max);
            set(ENABLE_CONNECT_PROTOCOL, 1);
            set(NO_RFC7540_PRIORITIES, 1);
        } else {
            set(ENABLE_PUSH, 0);
        }
        if self.stream_window_bytes != WINDOW_BYTES_INITIAL {
            set(INITIAL_WINDOW_SIZE, self.stream_window_bytes);
        }
        set(MAX_HEADER_LIST_SIZE, self.head_bytes_max);
        frame::write(kind::SETTINGS, 0, 0, &settings, out);
        let more = self.connection_window_bytes.saturating_sub(WINDOW_BYTES_INITIAL);
        if more > 0 {
            frame::write(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes(), out);
        }
    }
}

/// Appends the acknowledgement of the peer's settings.
pub(super) fn acknowledge(out: &mut Vec<u8>) {
    frame::write(kind::SETTINGS, flag::ACK, 0, &[], out);
}
