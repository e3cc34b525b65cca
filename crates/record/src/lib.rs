//! The flight recorder's record: what a process and its machine were like, every few seconds, in a bounded
//! ring on disk or in memory that can be read after a crash.
//!
//! A [`Frame`] holds the contents of files at one moment, by path; an [`Event`] is one thing that happened.
//! Frames are alike, so that each is stored as its difference to the one before: a text is split into pieces,
//! each piece into its shape and its numbers, and only the differences of numbers are written. Each frame is
//! given to the kernel at once, in a file called tail. A tail that is full is compressed into a block, which
//! is appended to a segment; if there are more bytes than allowed, the oldest segment is removed.
//!
//! Never in here: the meaning of what is recorded, clocks, threads, sockets.

mod bands;
mod bytes;
mod coder;
mod decoder;
mod folder;
mod frame;
mod limits;
mod pack;
mod packer;
mod reader;
mod recorder;
mod shape;
#[cfg(test)]
mod tests;

pub use bands::{Band, Bands, Left};
pub use frame::{Absent, Event, Frame, Item, kind};
pub use limits::SIZE_MIN;
pub use reader::Record;
pub use recorder::Recorder;
