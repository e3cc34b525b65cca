//! SETTINGS (RFC 9114 section 7.2.4).

use super::code::{Code, Fault};
use super::frame;
use crate::varint;

/// The settings of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bound of the fields of a message, counted as RFC 9114 section 4.2.2 says; none for no bound.
    pub field_section_bytes_max: Option<u64>,
    /// The side takes extended CONNECT (RFC 9220).
    pub takes_extended_connect: bool,
    /// Bound of the dynamic table of QPACK that the side keeps for the other side's fields.
    pub qpack_table_bytes_max: u64,
    /// Number of streams whose fields may wait for entries of that table.
    pub qpack_blocked_streams_max: u64,
}

/// Settings of a peer that has said nothing.
impl Default for Settings {
    fn default() -> Self {
        Self {
            field_section_bytes_max: None,
            takes_extended_connect: false,
            qpack_table_bytes_max: 0,
            qpack_blocked_streams_max: 0,
        }
    }
}

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const QPACK_BLOCKED_STREAMS: u64 = 0x7;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;

/// Settings that a frame may have: known ones, and those that are there to be ignored.
const SETTINGS_MAX: usize = 64;

impl Settings {
    /// Appends the SETTINGS frame.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        let mut add = |id, value| {
            varint::write(id, &mut payload);
            varint::write(value, &mut payload);
        };
        if let Some(max) = self.field_section_bytes_max {
            add(MAX_FIELD_SECTION_SIZE, max);
        }
        if self.takes_extended_connect {
            add(ENABLE_CONNECT_PROTOCOL, 1);
        }
        if self.qpack_table_bytes_max > 0 {
            add(QPACK_MAX_TABLE_CAPACITY, self.qpack_table_bytes_max);
        }
        if self.qpack_blocked_streams_max > 0 {
            add(QPACK_BLOCKED_STREAMS, self.qpack_blocked_streams_max);
        }
        frame::write(frame::kind::SETTINGS, &payload, out);
    }

    /// Reads the payload of a SETTINGS frame.
    pub(super) fn read(mut payload: &[u8]) -> Result<Self, Fault> {
        const BROKEN: Fault = Fault::of_connection(Code::FRAME_ERROR);
        const WRONG: Fault = Fault::of_connection(Code::SETTINGS_ERROR);
        let mut settings = Self::default();
        let mut seen = Vec::new();
        while !payload.is_empty() {
            let (id, len) = varint::read(payload).ok_or(BROKEN)?;
            payload = &payload[len..];
            let (value, len) = varint::read(payload).ok_or(BROKEN)?;
            payload = &payload[len..];
            if seen.contains(&id) || seen.len() == SETTINGS_MAX {
                return Err(WRONG);
            }
            seen.push(id);
            match id {
                MAX_FIELD_SECTION_SIZE => settings.field_section_bytes_max = Some(value),
                ENABLE_CONNECT_PROTOCOL if value > 1 => return Err(WRONG),
                ENABLE_CONNECT_PROTOCOL => settings.takes_extended_connect = value == 1,
                QPACK_MAX_TABLE_CAPACITY => settings.qpack_table_bytes_max = value,
                QPACK_BLOCKED_STREAMS => settings.qpack_blocked_streams_max = value,
                // HTTP/2 has these, and HTTP/3 has not (RFC 9114 section 7.2.4.1).
                0x2..=0x5 => return Err(WRONG),
                _ => {}
            }
        }
        Ok(settings)
    }
}
