//! HTTP/2: what its frames can say that HTTP/1 cannot, and what they can cost.

mod abuse;
mod generated;

use adversary::Attack;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "http2-never-idle", cases: 0, play: abuse::frames_do_not_keep_an_idle_connection },
    Attack { name: "http2-heads", cases: 300, play: generated::heads },
    Attack { name: "http2-floods", cases: 12, play: generated::floods },
    Attack { name: "http2-resets", cases: 0, play: abuse::resets_of_requests_in_progress },
    Attack { name: "http2-unread", cases: 0, play: abuse::streams_that_nobody_reads },
    Attack { name: "http2-empty-posts", cases: 0, play: abuse::announced_bodies_that_do_not_come },
];

/// An error code (RFC 9113 section 7).
const ENHANCE_YOUR_CALM: u32 = 11;

/// Settings (RFC 9113 section 6.5.2).
const INITIAL_WINDOW_SIZE: u16 = 4;
