//! Detection of floods: frames that cost more to handle than to send, counted apart from useful traffic.
//!
//! Rapid resets, CONTINUATION and small DATA frames are bounded by the `h2` crate. It answers or ignores the
//! following frames one by one: PING, SETTINGS, PRIORITY, `WINDOW_UPDATE`, `RST_STREAM`, empty DATA and
//! unknown ones. A connection has a budget for them, which grows with time and with the requests and data
//! that they may belong to. Unfinished frames, such as a head that arrives byte by byte, are reported too.

use std::time::Duration;

/// A connection with too many frames that serve no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a flood of frames that serve no request")]
pub struct Flood;

/// A frame or header block that has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Time of arrival of its first byte.
    pub since: Duration,
    /// Number of its bytes that have arrived, including the headers of its frames.
    pub bytes: usize,
}

/// Follows the frames of one connection.
#[derive(Clone, Debug)]
pub struct FloodGuard {
    received: Frames,
    sent: Frames,
    /// Number of frames that may still arrive.
    budget: u32,
    /// The last time at which the budget grew with time.
    refilled: Duration,
    /// The time at which the unfinished frame or header block began.
    begun: Option<Duration>,
}

/// The positions of frames in one direction of a connection.
#[derive(Clone, Debug)]
struct Frames {
    /// Bytes until the next frame's header.
    skip: usize,
    /// The received part of the header, and the error code after it for `RST_STREAM`.
    header: [u8; FRAME_HEADER_BYTES + CODE_BYTES],
    filled: usize,
    /// The type of the frame whose bytes are skipped.
    kind: u8,
    /// A header block has begun, and its last frame has not (RFC 9113 section 6.10).
    is_in_block: bool,
    /// Nothing was unfinished at some moment since the last query.
    has_rested: bool,
    /// Bytes of the unfinished frame or header block.
    unfinished: usize,
}

/// The properties of a frame that decide about the budget.
struct Frame {
    kind: u8,
    flags: u8,
    len: usize,
    /// The error code; only for `RST_STREAM`.
    code: [u8; CODE_BYTES],
}

/// Length of a frame's header (RFC 9113 section 4.1).
const FRAME_HEADER_BYTES: usize = 9;
/// Length of an error code (RFC 9113 section 6.4).
const CODE_BYTES: usize = 4;
/// Length of the client's preface (RFC 9113 section 3.4).
const PREFACE_BYTES: usize = 24;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The error code `PROTOCOL_ERROR` (RFC 9113 section 7).
const PROTOCOL_ERROR: [u8; CODE_BYTES] = [0, 0, 0, 1];

/// Useless frames that a connection may send at once.
const BURST_FRAMES: u32 = 1000;
/// Useless frames for each second: keep-alive and round-trip measurements need a few.
const FRAMES_PER_SECOND: u32 = 100;
/// Frames that may accompany each request.
const FRAMES_PER_REQUEST: u32 = 8;
/// Frames that may answer each sent DATA frame: window updates for stream and connection, and a PING that
/// measures.
const FRAMES_PER_DATA: u32 = 4;

impl FloodGuard {
    /// Creates a guard for a connection at its preface.
    pub fn new(now: Duration) -> Self {
        Self {
            received: Frames::after(PREFACE_BYTES),
            sent: Frames::after(0),
            budget: BURST_FRAMES,
            refilled: now,
            begun: None,
        }
    }

    /// The unfinished frame or header block of the peer. Content is left out, because its reader has a time
    /// limit of its own.
    pub fn begun(&self) -> Option<Begun> {
        Some(Begun { since: self.begun?, bytes: self.received.unfinished })
    }

    /// Examines received bytes. `now` is time on any clock that does not go back.
    ///
    /// # Errors
    /// The client has sent more frames of a kind than it has use for: the connection has to end.
    pub fn received(&mut self, bytes: &[u8], now: Duration) -> Result<(), Flood> {
        let mut budget = self.budget;
        let mut spent = 0_u32;
        self.received.follow(bytes, |frame| match frame.kind {
            HEADERS => budget = budget.saturating_add(FRAMES_PER_REQUEST),
            DATA if frame.len > 0 || frame.flags & END_STREAM != 0 => {}
            _ => spent += 1,
        });
        let has_rested = std::mem::take(&mut self.received.has_rested);
        self.begun = match self.begun {
            _ if self.received.is_at_rest() => None,
            Some(begun) if !has_rested => Some(begun),
            _ => Some(now),
        };
        self.budget = budget.min(BURST_FRAMES);
        if spent > self.budget {
            self.refill(now);
        }
        self.budget = self.budget.checked_sub(spent).ok_or(Flood)?;
        Ok(())
    }

    /// Examines sent bytes. Returns the number of streams that they reset because of a malformed request.
    pub fn sent(&mut self, bytes: &[u8]) -> u32 {
        let (mut budget, mut malformed) = (self.budget, 0);
        self.sent.follow(bytes, |frame| match frame.kind {
            DATA => budget = budget.saturating_add(FRAMES_PER_DATA),
            RST_STREAM if frame.code == PROTOCOL_ERROR => malformed += 1,
            _ => {}
        });
        self.budget = budget.min(BURST_FRAMES);
        malformed
    }

    fn refill(&mut self, now: Duration) {
        let seconds = now.saturating_sub(self.refilled).as_secs();
        let more = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_mul(FRAMES_PER_SECOND);
        self.budget = self.budget.saturating_add(more).min(BURST_FRAMES);
        self.refilled += Duration::from_secs(seconds);
    }
}

impl Frames {
    fn after(skip: usize) -> Self {
        Self {
            skip,
            header: [0; FRAME_HEADER_BYTES + CODE_BYTES],
            filled: 0,
            kind: DATA,
            is_in_block: false,
            has_rested: false,
            unfinished: 0,
        }
    }

    /// Whether nothing but content is unfinished.
    fn is_at_rest(&self) -> bool {
        self.filled == 0 && !self.is_in_block && (self.skip == 0 || self.kind == DATA)
    }

    /// Calls `on_frame` for each frame whose header is complete.
    fn follow(&mut self, mut bytes: &[u8], mut on_frame: impl FnMut(Frame)) {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            self.unfinished = self.unfinished.saturating_add(skipped);
            if self.is_at_rest() {
                (self.has_rested, self.unfinished) = (true, 0);
            }
            if bytes.is_empty() {
                return;
            }
            let taken = (self.wanted() - self.filled).min(bytes.len());
            self.header[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            self.unfinished = self.unfinished.saturating_add(taken);
            bytes = &bytes[taken..];
            if self.filled < self.wanted() {
                continue;
            }
            let [a, b, c, kind, flags, _, _, _, _, code @ ..] = self.header;
            let len = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            self.skip = len.saturating_sub(self.filled - FRAME_HEADER_BYTES);
            self.filled = 0;
            self.kind = kind;
            if matches!(kind, HEADERS | CONTINUATION) {
                self.is_in_block = flags & END_HEADERS == 0;
            }
            on_frame(Frame { kind, flags, len, code });
        }
    }

    /// Length of the bytes that describe a frame; for an incomplete header, the length of a header.
    fn wanted(&self) -> usize {
        let is_reset = self.filled >= FRAME_HEADER_BYTES
            && self.header[3] == RST_STREAM
            && self.header[2] >= CODE_BYTES as u8;
        FRAME_HEADER_BYTES + if is_reset { CODE_BYTES } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, flags: u8, len: usize) -> Vec<u8> {
        let mut bytes = vec![0, (len >> 8) as u8, len as u8, kind, flags, 0, 0, 0, 1];
        bytes.resize(FRAME_HEADER_BYTES + len, 0);
        bytes
    }

    fn guard() -> FloodGuard {
        let mut guard = FloodGuard::new(Duration::ZERO);
        guard.received(&[0; PREFACE_BYTES], Duration::ZERO).unwrap();
        guard
    }

    #[test]
    fn a_flood_is_one_however_it_is_cut() {
        let flood: Vec<u8> = (0..=BURST_FRAMES).flat_map(|_| frame(PING, 0, 8)).collect();
        for size in [1, 7, 4096] {
            let mut guard = guard();
            let fine =
                flood.chunks(size).take_while(|piece| guard.received(piece, Duration::ZERO).is_ok()).count();
            let last = (flood.len() - 8).div_ceil(size) - 1;
            assert_eq!(fine, last, "{size}");
        }
    }

    #[test]
    fn time_requests_and_sent_data_pay_for_frames() {
        let ping = frame(PING, 0, 8);
        let mut guard = guard();
        for second in 0..100 {
            for _ in 0..FRAMES_PER_SECOND {
                guard.received(&ping, Duration::from_secs(second)).unwrap();
            }
        }
        for _ in 0..10 * BURST_FRAMES {
            guard.received(&frame(HEADERS, 4, 20), Duration::ZERO).unwrap();
            guard.received(&ping, Duration::ZERO).unwrap();
            guard.sent(&frame(DATA, 0, 100));
            guard.received(&ping, Duration::ZERO).unwrap();
        }
    }

    #[test]
    fn what_does_not_end_has_begun() {
        let seconds = Duration::from_secs;
        let block =
            [frame(HEADERS, 0, 3), frame(CONTINUATION, 0, 3), frame(CONTINUATION, END_HEADERS, 3)].concat();
        let whole = [block.clone(), frame(DATA, 0, 100), frame(PING, 0, 8)].concat();
        for (bytes, begun) in [
            (&whole[..], None),
            (&whole[..3], Some(3)),
            (&block[..block.len() - 1], Some(block.len() - 1)),
            (&whole[..block.len() + FRAME_HEADER_BYTES + 50], None),
            (&whole[..whole.len() - 1], Some(FRAME_HEADER_BYTES + 7)),
        ] {
            let begun = begun.map(|bytes| Begun { since: seconds(1), bytes });
            let mut guard = guard();
            guard.received(bytes, seconds(1)).unwrap();
            assert_eq!(guard.begun(), begun, "{bytes:?}");
        }
        // A block that arrives byte by byte stays begun; a following one begins again.
        let mut guard = guard();
        for (second, byte) in (0..).zip(&block[..block.len() - 1]) {
            guard.received(&[*byte], seconds(second)).unwrap();
            assert_eq!(guard.begun(), Some(Begun { since: Duration::ZERO, bytes: second as usize + 1 }));
        }
        guard.received(&[0, 0, 0], seconds(100)).unwrap();
        assert_eq!(
            guard.begun(),
            Some(Begun { since: seconds(100), bytes: 2 }),
            "one byte was the end of the block"
        );
    }

    #[test]
    fn resets_of_malformed_requests_are_counted() {
        let mut reset = frame(RST_STREAM, 0, 4);
        reset[12] = 1;
        let bytes =
            [frame(HEADERS, 5, 9), reset.clone(), frame(RST_STREAM, 0, 4), frame(DATA, 0, 3), reset].concat();
        for size in [1, 5, 100] {
            let mut guard = guard();
            assert_eq!(bytes.chunks(size).map(|piece| guard.sent(piece)).sum::<u32>(), 2, "{size}");
        }
    }

    #[test]
    fn data_is_no_flood_but_empty_data_is() {
        let mut guard = guard();
        for _ in 0..10 * BURST_FRAMES {
            guard.received(&frame(DATA, 0, 1), Duration::ZERO).unwrap();
            guard.received(&frame(DATA, END_STREAM, 0), Duration::ZERO).unwrap();
        }
        let empty = frame(DATA, 0, 0);
        assert!((0..=BURST_FRAMES).any(|_| guard.received(&empty, Duration::ZERO).is_err()));
    }
}
