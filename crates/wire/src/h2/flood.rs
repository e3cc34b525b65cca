//! Frames that cost more to take than to send: told from traffic by their number.
//!
//! Rapid resets, CONTINUATION and small DATA frames are bounded by the `h2` crate; what is left are frames that it answers or
//! passes over one by one: PING, SETTINGS, PRIORITY, `WINDOW_UPDATE`, `RST_STREAM`, empty DATA and unknown ones. A connection
//! has a budget of them, which grows with time and with the requests and data that they may belong to. What has begun and does
//! not end, as a head that comes byte by byte, is told too.

use std::time::Duration;

/// A connection with too many frames that serve no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a flood of frames that serve no request")]
pub struct Flood;

/// A frame or header block that has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// When its first byte came.
    pub since: Duration,
    /// Bytes of it that have come, those of the headers of its frames included.
    pub bytes: usize,
}

/// Follows the frames of one connection.
#[derive(Clone, Debug)]
pub struct FloodGuard {
    received: Frames,
    sent: Frames,
    /// Frames that may still come.
    budget: u32,
    /// When the budget last grew with time.
    refilled: Duration,
    /// When the frame or header block began that has not ended yet.
    begun: Option<Duration>,
}

/// Where frames begin in one direction of a connection.
#[derive(Clone, Debug)]
struct Frames {
    /// Bytes until the next frame's header.
    skip: usize,
    /// The header so far, and of `RST_STREAM` the error code behind it.
    header: [u8; FRAME_HEADER_BYTES + CODE_BYTES],
    filled: usize,
    /// The type of the frame whose bytes are skipped.
    kind: u8,
    /// A header block has begun, and its last frame has not (RFC 9113 section 6.10).
    is_in_block: bool,
    /// Nothing was unfinished at some point since this was last asked for.
    has_rested: bool,
    /// Bytes of what has begun and not ended.
    unfinished: usize,
}

/// What is to be known of a frame.
struct Frame {
    kind: u8,
    flags: u8,
    len: usize,
    /// Only of `RST_STREAM`.
    code: [u8; CODE_BYTES],
}

/// RFC 9113 section 4.1.
const FRAME_HEADER_BYTES: usize = 9;
/// RFC 9113 section 6.4.
const CODE_BYTES: usize = 4;
/// RFC 9113 section 3.4.
const PREFACE_BYTES: usize = 24;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// RFC 9113 section 7.
const PROTOCOL_ERROR: [u8; CODE_BYTES] = [0, 0, 0, 1];

/// Frames without use that a connection may send at once.
const BURST_FRAMES: u32 = 1000;
/// Frames without use for each second: keep-alive and round-trip measurements need a few.
const FRAMES_PER_SECOND: u32 = 100;
/// Frames that may come with each request.
const FRAMES_PER_REQUEST: u32 = 8;
/// Frames that may answer each DATA frame that is sent: window updates for stream and connection, and a PING that
/// measures.
const FRAMES_PER_DATA: u32 = 4;

impl FloodGuard {
    /// A guard for a connection at its preface.
    pub fn new(now: Duration) -> Self {
        Self {
            received: Frames::after(PREFACE_BYTES),
            sent: Frames::after(0),
            budget: BURST_FRAMES,
            refilled: now,
            begun: None,
        }
    }

    /// The frame or header block that the peer has begun, and of which the end has not come. Content is left out: who waits for it has a
    /// time limit of their own.
    pub fn begun(&self) -> Option<Begun> {
        Some(Begun { since: self.begun?, bytes: self.received.unfinished })
    }

    /// Takes note of bytes that were received. `now` is time on any clock that does not go back.
    ///
    /// # Errors
    /// More frames of a kind have come than a client has use for: the connection is to end.
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

    /// Takes note of bytes that were sent. Returns how many streams they reset because a request was malformed.
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

    /// Whether nothing has begun that has not ended, but for content.
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

    /// Bytes that tell what is to be known of a frame; of an incomplete header, those of a header.
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
        // Byte by byte it stays begun; one that follows another begins anew.
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
