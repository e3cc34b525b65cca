//! The past of a machine: the checks over a sequence of samples that were recorded, and when each finding
//! began and ended.
//!
//! [`Judge`] gives each check a window that slides over the samples, so that a check sees no more of the past
//! than it sees of the present: two samples, some seconds apart. [`compare()`] says what differs between two
//! times.
//!
//! Must not be in here: reading records, events, clocks, or the judgement of a window, which is the checks'.

mod compare;
mod course;
mod figures;
mod traffic;
mod window;

pub use compare::{Change, CheckChange, Comparison, Held, Time, compare};
pub use course::{Episode, Failed, Judge, Judged};
pub use figures::{Figures, Kind, Spread};
pub use traffic::Traffic;
pub use window::{Break, Why};
