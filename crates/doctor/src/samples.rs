//! What a check has before it: samples of one machine, one after the other.
//!
//! Must not be in here: verdicts.

use crate::read;
use crate::sample::{Sample, Unknown};
use crate::sockets::{SocketGroup, State};
use crate::ticks::Ticks;

/// The samples of one machine, in the order in which they were taken.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Counters are judged by the difference of the last and the first.
    pub all: Vec<Sample>,
    /// The requests that the process served between the first and the last sample, where whoever sent them says so.
    pub requests: Option<u64>,
    /// The connections that whoever sent them opened in the same network namespace as the process is in.
    pub own_connections: u64,
}

impl Samples {
    /// The last sample: how it stands.
    ///
    /// # Errors
    ///
    /// When there is no sample.
    pub fn last(&self) -> Result<&Sample, Unknown> {
        self.all.last().ok_or_else(|| Unknown("nothing was captured".into()))
    }

    /// The first and the last sample, which must be two.
    ///
    /// # Errors
    ///
    /// When there are fewer than two samples.
    pub fn ends(&self) -> Result<(&Sample, &Sample), Unknown> {
        match &self.all[..] {
            [first, .., last] => Ok((first, last)),
            _ => Err(Unknown("it takes two samples".into())),
        }
    }

    /// Seconds between the first and the last sample, more than none.
    ///
    /// # Errors
    ///
    /// When there are fewer than two samples, or no time passed between them.
    pub fn seconds(&self) -> Result<f64, Unknown> {
        let (first, last) = self.ends()?;
        let seconds = last.taken.seconds - first.taken.seconds;
        if seconds > 0.0 { Ok(seconds) } else { Err(Unknown("no time passed between the samples".into())) }
    }

    /// By how much a counter grew: `read` finds it in a sample.
    ///
    /// # Errors
    ///
    /// When there are fewer than two samples, or `read` cannot tell.
    pub fn growth(&self, read: impl Fn(&Sample) -> Result<u64, Unknown>) -> Result<u64, Unknown> {
        let (first, last) = self.ends()?;
        Ok(read(last)?.saturating_sub(read(first)?))
    }

    /// The sockets as they were last.
    ///
    /// # Errors
    ///
    /// When there is no sample, or it has no sockets.
    pub fn sockets(&self) -> Result<Vec<SocketGroup>, Unknown> {
        read::sockets::of(self.last()?)
    }

    /// How many local ports there are for connections that go out.
    ///
    /// # Errors
    ///
    /// When there is no sample, or it does not tell the range.
    pub fn ports(&self) -> Result<u64, Unknown> {
        Ok(read::ports::range(self.last()?)?.size)
    }

    /// The processes that were looked at, at least one.
    ///
    /// # Errors
    ///
    /// When there is none. The text says whether that is for lack of rights.
    pub fn pids(&self) -> Result<&[u32], Unknown> {
        let pids = &self.last()?.taken.pids;
        if !pids.is_empty() {
            return Ok(pids);
        }
        let is_hidden = self.sockets()?.iter().any(|group| group.state == State::Listen);
        let who = if is_hidden { "this user may not see who listens" } else { "none listens" };
        Err(Unknown(format!("no process was given (--pid), and {who} here")))
    }

    /// What was looked at many times a second.
    ///
    /// # Errors
    ///
    /// When there is no sample, or nobody looked so often.
    pub fn ticks(&self) -> Result<Ticks, Unknown> {
        self.last()?.json("forebay/ticks.json")
    }
}
