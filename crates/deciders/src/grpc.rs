//! gRPC without a connection: messages in their frames, and the outcome of a call.

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use prost::Message;

/// Value of `Content-Type` in both directions.
pub const CONTENT_TYPE: &str = "application/grpc";

/// Bytes before each message: whether it is compressed, and its length.
pub const PREFIX_BYTES: usize = 5;

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The announced length is more than the receiver takes.
    #[error("a gRPC message of {0} bytes is too long")]
    TooLong(u32),
    /// Compression was not offered.
    #[error("a gRPC message is compressed, which was not offered")]
    Compressed,
    /// The stream has ended inside a message.
    #[error("a gRPC message is incomplete")]
    Incomplete,
}

/// Appends a message in its frame.
pub fn write(message: &impl Message, out: &mut Vec<u8>) {
    let start = out.len();
    let len = message.encoded_len();
    out.reserve(PREFIX_BYTES + len);
    out.push(0);
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    message.encode_raw(out);
    debug_assert_eq!(out.len() - start, PREFIX_BYTES + len);
}

/// Cuts a stream of bytes into messages. What is buffered is bounded by the longest message that is accepted
/// and the last piece of input.
#[derive(Debug)]
pub struct Deframer {
    bytes: Vec<u8>,
    message_bytes_max: usize,
}

impl Deframer {
    /// A receiver of messages of up to this length.
    pub fn new(message_bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), message_bytes_max }
    }

    /// Adds bytes that have been received.
    pub fn push(&mut self, input: &[u8]) {
        self.bytes.extend_from_slice(input);
    }

    /// Takes the next message if it is complete.
    ///
    /// # Errors
    /// The next bytes are no message, or one that is too long.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let Some(range) = message(&self.bytes, self.message_bytes_max)? else { return Ok(None) };
        let rest = self.bytes.split_off(range.end);
        let mut whole = std::mem::replace(&mut self.bytes, rest);
        whole.drain(..range.start);
        Ok(Some(whole))
    }

    /// Whether no part of a message is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// The place of the first message in some bytes; none if it is incomplete.
///
/// # Errors
/// The bytes begin with no message, or with one that is too long.
pub fn message(bytes: &[u8], message_bytes_max: usize) -> Result<Option<Range<usize>>, FrameError> {
    let Some((&prefix, _)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return if bytes.first().is_some_and(|&flag| flag != 0) {
            Err(FrameError::Compressed)
        } else {
            Ok(None)
        };
    };
    let [flag, length @ ..] = prefix;
    let length = u32::from_be_bytes(length);
    if flag != 0 {
        return Err(FrameError::Compressed);
    }
    let len = usize::try_from(length).unwrap_or(usize::MAX);
    if len > message_bytes_max {
        return Err(FrameError::TooLong(length));
    }
    let end = PREFIX_BYTES + len;
    Ok((bytes.len() >= end).then_some(PREFIX_BYTES..end))
}

/// The outcome of a call, from its trailers or, if there are no messages, from its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Code of `grpc-status`; 0 stands for success.
    pub code: u32,
    /// Text of `grpc-message`, for logs.
    pub message: String,
}

impl Status {
    /// Code of a fault that has no other (`UNKNOWN`).
    pub const UNKNOWN: u32 = 2;
    /// Code of a call whose time was up (`DEADLINE_EXCEEDED`).
    pub const DEADLINE_EXCEEDED: u32 = 4;
    /// Code of a message that cannot be read, or of a broken protocol (`INTERNAL`).
    pub const INTERNAL: u32 = 13;
    /// Code of a service without a connection (`UNAVAILABLE`).
    pub const UNAVAILABLE: u32 = 14;

    /// The outcome by the values of `grpc-status` and `grpc-message`. A value that is no code is `UNKNOWN`,
    /// as gRPC demands.
    pub fn of(code: &[u8], message: Option<&[u8]>) -> Self {
        let text = std::str::from_utf8(code).ok();
        let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let code = text.filter(is_number).and_then(|text| text.parse().ok()).unwrap_or(Self::UNKNOWN);
        Self { code, message: message.map(decode_message).unwrap_or_default() }
    }

    /// The code for a call whose response has neither `grpc-status` nor messages, by its HTTP status.
    pub fn of_http(status: u16) -> u32 {
        match status {
            400 => Self::INTERNAL,
            401 => 16,
            403 => 7,
            404 => 12,
            429 | 502..=504 => Self::UNAVAILABLE,
            _ => Self::UNKNOWN,
        }
    }

    /// Whether the call has succeeded.
    pub fn is_ok(&self) -> bool {
        self.code == 0
    }
}

/// Decodes the escapes of `grpc-message`. An escape that is none stays as it is.
fn decode_message(text: &[u8]) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        if let (b'%', Some(high), Some(low)) = (byte, digit(text.get(at + 1)), digit(text.get(at + 2))) {
            out.push((high * 16 + low) as u8);
            at += 3;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The value of `grpc-message` for a text: bytes that are no visible characters of ASCII are escaped.
pub fn encode_message(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'%' | ..b' ' | 0x7f.. => {
                let _ = write!(out, "%{byte:02X}");
            }
            _ => out.push(char::from(byte)),
        }
    }
    out
}

/// The value of `grpc-timeout`: at most eight digits and a unit.
pub fn timeout(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..=99_999_999 => format!("{millis}m"),
        _ => format!("{}S", time.as_secs().min(99_999_999)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proto::{HeaderValue, RpcStatus};

    fn framed(messages: &[RpcStatus]) -> Vec<u8> {
        let mut out = Vec::new();
        for message in messages {
            write(message, &mut out);
        }
        out
    }

    fn status(code: i32) -> RpcStatus {
        RpcStatus { code, message: "x".repeat(code.unsigned_abs() as usize % 50) }
    }

    #[test]
    fn a_frame_has_flag_length_and_message() {
        let message = HeaderValue { key: "a".to_owned(), value: "b".to_owned(), raw_value: Vec::new() };
        let mut out = Vec::new();
        write(&message, &mut out);
        assert_eq!(out, b"\x00\x00\x00\x00\x06\x0a\x01a\x12\x01b");
    }

    #[test]
    fn a_bad_prefix_is_an_error_at_once() {
        assert_eq!(message(&[1], 100), Err(FrameError::Compressed));
        assert_eq!(message(&[1, 0, 0, 0, 0], 100), Err(FrameError::Compressed));
        assert_eq!(message(&[0, 0, 0, 0, 101], 100), Err(FrameError::TooLong(101)));
        assert_eq!(message(&[0, 255, 255, 255, 255], 100), Err(FrameError::TooLong(u32::MAX)));
        assert_eq!(message(&[0, 0, 0], 100), Ok(None));
        assert_eq!(message(&[0, 0, 0, 0, 2, 9], 100), Ok(None));
        assert_eq!(message(&[0, 0, 0, 0, 1, 9, 7], 100), Ok(Some(5..6)));
    }

    #[test]
    fn statuses() {
        assert!(Status::of(b"0", None).is_ok());
        assert_eq!(
            Status::of(b"7", Some(b"no%20entry%")),
            Status { code: 7, message: "no entry%".to_owned() }
        );
        for code in [&b""[..], b"x", b"-1", b"+0", b"99999999999", b"\xff"] {
            assert_eq!(Status::of(code, None).code, Status::UNKNOWN, "{code:?}");
        }
    }

    #[test]
    fn messages_have_no_line_break() {
        let text = encode_message("50 %\r\n\u{e4}".as_bytes());
        assert_eq!(text, "50 %25%0D%0A%C3%A4");
        assert_eq!(decode_message(text.as_bytes()), "50 %\r\n\u{e4}");
    }

    #[test]
    fn timeouts_have_eight_digits() {
        assert_eq!(timeout(Duration::from_millis(200)), "200m");
        assert_eq!(timeout(Duration::from_secs(1_000_000)), "1000000S");
        assert_eq!(timeout(Duration::MAX), "99999999S");
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_messages(codes: Vec<i32>, size in 1_usize..20) {
            let messages: Vec<_> = codes.into_iter().map(status).collect();
            let (mut deframer, mut found) = (Deframer::new(1000), Vec::new());
            for piece in framed(&messages).chunks(size) {
                deframer.push(piece);
                while let Some(bytes) = deframer.next_message().unwrap() {
                    found.push(RpcStatus::decode(&*bytes).unwrap());
                }
            }
            prop_assert!(deframer.is_empty());
            prop_assert_eq!(found, messages);
        }
    }
}
