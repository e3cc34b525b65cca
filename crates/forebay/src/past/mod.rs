//! Asking the past: `forebay doctor --since`, `forebay doctor diff`, `forebay record export` and `forebay
//! record watch`. How a time is judged is in the crate `doctor`; how it is kept is in the crate `record`.
//!
//! Must not be in here: checks; the format of a record; the admin server's answers ([`answer`] makes their
//! content).

pub(crate) mod answer;
mod changes;
mod command;
mod diff;
mod judge;
mod options;
mod sample;
mod show;
mod show_diff;
mod side;
mod source;
mod watch;
mod when;
mod words;

pub(crate) use command::{Records, run};
pub(crate) use diff::{Diff, run as run_diff};
pub(crate) use judge::{Told, judge};
pub(crate) use options::Past;
pub(crate) use show::{Manner, exit_verdict, text};
pub(crate) use source::{read, target};
pub(crate) use when::{Range, When};
