//! The input of checks: the samples of one machine.
//!
//! Must not be in here: verdicts.

use crate::read;
use crate::sample::{Sample, Unknown};
use crate::sockets::{SocketGroup, State};
use crate::text::say;
use crate::ticks::Ticks;

/// The samples of one machine, in the order in which they were taken.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// The samples. Checks compare the counters of the first with those of the last.
    pub all: Vec<Sample>,
    /// Requests that the process served between the first and the last sample; none if nobody counted them.
    pub requests: Option<u64>,
    /// Connections that whoever sent the requests opened in the network namespace of the process.
    pub own_connections: u64,
}

impl Samples {
    /// The last sample.
    ///
    /// # Errors
    ///
    /// When there is no sample.
    pub fn last(&self) -> Result<&Sample, Unknown> {
        self.all.last().ok_or_else(|| Unknown(say!("nothing was captured")))
    }

    /// The first and the last sample.
    ///
    /// # Errors
    ///
    /// When there are fewer than two samples.
    pub fn ends(&self) -> Result<(&Sample, &Sample), Unknown> {
        match &self.all[..] {
            [first, .., last] => Ok((first, last)),
            _ => Err(Unknown(say!("it takes two samples"))),
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
        if seconds > 0.0 { Ok(seconds) } else { Err(Unknown(say!("no time passed between the samples"))) }
    }

    /// The growth of a counter between the first and the last sample, which `read` finds in a sample.
    ///
    /// # Errors
    ///
    /// When there are fewer than two samples, or `read` fails.
    pub fn growth(&self, read: impl Fn(&Sample) -> Result<u64, Unknown>) -> Result<u64, Unknown> {
        let (first, last) = self.ends()?;
        Ok(read(last)?.saturating_sub(read(first)?))
    }

    /// The sockets in the last sample.
    ///
    /// # Errors
    ///
    /// When there is no sample, or it has no sockets.
    pub fn sockets(&self) -> Result<Vec<SocketGroup>, Unknown> {
        read::sockets::of(self.last()?)
    }

    /// The number of local ports for outgoing connections.
    ///
    /// # Errors
    ///
    /// When there is no sample, or it does not hold the range.
    pub fn ports(&self) -> Result<u64, Unknown> {
        Ok(read::ports::range(self.last()?)?.size)
    }

    /// The examined processes, at least one.
    ///
    /// # Errors
    ///
    /// When there is none. The error says whether rights were missing.
    pub fn pids(&self) -> Result<&[u32], Unknown> {
        let pids = &self.last()?.taken.pids;
        if !pids.is_empty() {
            return Ok(pids);
        }
        let is_hidden = self.sockets()?.iter().any(|group| group.state == State::Listen);
        Err(Unknown(if is_hidden {
            say!("no process was given (--pid), and this user may not see who listens here")
        } else {
            say!("no process was given (--pid), and none listens here")
        }))
    }

    /// The readings between the samples.
    ///
    /// # Errors
    ///
    /// When there is no sample, or it has no readings.
    pub fn ticks(&self) -> Result<Ticks, Unknown> {
        self.last()?.json("forebay/ticks.json")
    }
}
