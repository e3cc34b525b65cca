//! The counts that other replicas have reported, for one window of one subject.
//!
//! Must not be in here: the messages between replicas.

use std::time::Duration;

use clock::Moment;

use super::window::Window;
use crate::limits::{QUOTA_TELL_INTERVAL, REPLICAS_MAX};

/// This replica's count as the others get it, and their last reports.
pub(super) struct ReplicaCounts {
    /// Requests admitted here since the counter was made. It is a running total, so that the next report
    /// makes up for a lost one.
    pub(super) admitted: u32,
    /// The part of them that can still be in the window.
    pub(super) recent: Window,
    /// The total in the last report.
    pub(super) reported: u32,
    /// A report is scheduled.
    pub(super) is_due: bool,
    others: Vec<Report>,
}

/// The last report of another replica.
struct Report {
    replica: u64,
    /// Its running total.
    admitted: u32,
    /// Requests that it admits in a second.
    rate: f64,
    at: Moment,
}

impl ReplicaCounts {
    pub(super) fn new(now: Moment) -> Self {
        Self { admitted: 0, recent: Window::new(now), reported: 0, is_due: false, others: Vec::new() }
    }

    /// Takes a report: the total of another replica, and how much of it can still be in the window. Returns
    /// the new requests since its last report. Where there is none, the replica has restarted or was silent
    /// for long, all of its recent requests are new.
    pub(super) fn receive(&mut self, replica: u64, admitted: u32, recent: u32, now: Moment) -> u32 {
        let Some(known) = self.others.iter_mut().find(|known| known.replica == replica) else {
            self.make_room();
            let rate = f64::from(recent) / QUOTA_TELL_INTERVAL.as_secs_f64();
            self.others.push(Report { replica, admitted, rate, at: now });
            return recent;
        };
        let new = admitted.wrapping_sub(known.admitted).min(recent);
        let time = now.since(known.at).clamp(QUOTA_TELL_INTERVAL / 2, QUOTA_TELL_INTERVAL * 2);
        let rate = f64::from(new) / time.as_secs_f64();
        *known = Report { replica, admitted, rate, at: now };
        new
    }

    /// Forgets the replica that has been silent for longest, where there are too many.
    fn make_room(&mut self) {
        if self.others.len() >= REPLICAS_MAX
            && let Some(oldest) = (0..self.others.len()).min_by_key(|&at| self.others[at].at)
        {
            self.others.swap_remove(oldest);
        }
    }

    /// Estimated requests that the others have admitted since their last reports, at the rates of these.
    /// Without the estimate, each replica would admit all free requests on its own until the next report.
    pub(super) fn unreported(&self, now: Moment) -> f64 {
        let of_one = |report: &Report| {
            let silence = now.since(report.at);
            let is_alive = silence < SILENCE_MAX;
            if is_alive { report.rate * silence.min(QUOTA_TELL_INTERVAL * 2).as_secs_f64() } else { 0.0 }
        };
        self.others.iter().map(of_one).sum()
    }
}

/// Silence after which another replica is taken to admit no requests.
const SILENCE_MAX: Duration = QUOTA_TELL_INTERVAL.saturating_mul(4);
