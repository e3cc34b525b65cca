//! Bounds of a record, of its writer and of its reader: a file may come from another machine.

/// Fewest bytes of a ring: it has room for some blocks.
pub const SIZE_MIN: u64 = 2 << 20;

/// Frames in a block. The first frame of a block is complete, and costs as much as some ten of the others.
pub(crate) const BLOCK_FRAMES: u32 = 180;

/// A block also ends when its frames have so many bytes before they are compressed.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// A ring has so many segments; the oldest one is removed as a whole.
pub(crate) const SEGMENTS: u64 = 16;

/// Frames that are not tried to be written after one that could not be.
pub(crate) const FRAMES_WITHOUT_TRIAL: u32 = 6;

/// Most bytes of a block that a reader decompresses.
pub(crate) const BLOCK_BYTES_READ: usize = 32 << 20;

/// Most frames of a block that a reader decodes.
pub(crate) const BLOCK_FRAMES_READ: u32 = 4096;

/// Most bytes of text in a frame: the contents of its files.
pub(crate) const FRAME_BYTES: usize = 16 << 20;

/// Most pieces of text in a frame, and most numbers.
pub(crate) const FRAME_PIECES: usize = 1 << 20;

/// Most paths in a block.
pub(crate) const PATHS_READ: usize = 1 << 16;

/// Most bytes of a text in an event.
pub(crate) const EVENT_BYTES: usize = 4096;

/// Level of compression of zstd: blocks are compressed on a thread that nobody waits for.
pub(crate) const LEVEL: i32 = 6;
