//! Bounds of the coders of a worker.

/// Bytes of the active coders of one worker, at most; further responses are sent uncompressed.
pub(crate) const CODER_BYTES_MAX: usize = 256 << 20;
/// Idle coders of each coding that a worker caches.
pub(crate) const CODERS_KEPT_MAX: usize = 16;
/// Bits of the window of gzip, which has no larger one.
pub(crate) const GZIP_WINDOW_BITS: u8 = 15;
/// Bytes of an encoder of gzip with this window.
pub(crate) const GZIP_STATE_BYTES: usize = 288 << 10;
/// Bits of the window of brotli: 512 KiB, as nginx's module has it.
pub(crate) const BROTLI_WINDOW_BITS: u32 = 19;
/// The same for contents that are known to be short.
pub(crate) const BROTLI_WINDOW_BITS_MIN: u32 = 12;
/// Bytes of an encoder of brotli with this window, up to level 9.
pub(crate) const BROTLI_STATE_BYTES: usize = 4 << 20;
/// The same from level 10 on.
pub(crate) const BROTLI_STATE_BYTES_HIGH: usize = 24 << 20;
/// Bits of the window of zstd: 512 KiB.
pub(crate) const ZSTD_WINDOW_BITS: u32 = 19;
/// Bytes of an encoder of zstd with this window, up to level 9.
pub(crate) const ZSTD_STATE_BYTES: usize = 6 << 20;
/// The same from level 10 on.
pub(crate) const ZSTD_STATE_BYTES_HIGH: usize = 16 << 20;
/// Bits of the largest window of zstd that is taken from an endpoint: 8 MiB, as RFC 9659 has it.
pub(crate) const ZSTD_DECODED_WINDOW_BITS: u32 = 23;
/// Bytes of a decoder: the largest window of brotli, and its other state.
pub(crate) const DECODER_STATE_BYTES: usize = 17 << 20;
/// Decoded bytes for each coded byte, over a whole content except its beginning. A content that expands more
/// is a bomb.
pub(crate) const DECODED_RATIO_MAX: u64 = 256;
/// Decoded bytes at the beginning of a content for which the ratio does not count.
pub(crate) const DECODED_BYTES_FREE: u64 = 1 << 20;
/// Decoded bytes of a content, whatever its coded length.
pub(crate) const DECODED_BYTES_MAX: u64 = 4 << 30;
/// Steps by which compression levels fall to the lowest one while a worker is short of CPU.
pub(crate) const EASE_STEPS_MAX: u8 = 4;
/// Thousandths of a worker's time above which it is short of CPU.
pub(crate) const LOAD_PERMILLE_HIGH: u16 = 850;
/// Thousandths of a worker's time below which levels rise again.
pub(crate) const LOAD_PERMILLE_LOW: u16 = 600;
/// Milliseconds by which a tick may be late before the worker counts as short of CPU.
pub(crate) const EASE_LATE_MAX_MS: u32 = 50;
/// Ticks between two steps down.
pub(crate) const EASE_TICKS_DOWN: u8 = 5;
/// Ticks between two steps up: more, so that levels do not swing.
pub(crate) const EASE_TICKS_UP: u8 = 20;
/// Bytes by which room for output grows.
pub(crate) const OUTPUT_STEP_BYTES: usize = 4 << 10;
