//! Requests that are refused since Forebay itself is short of something, the least important ones first.

use model::Forward;
use model::overload::Priority;
use observe::{Counter, Reason};

use super::Stop;
use crate::access::priority;
use crate::exchange::Exchange;
use crate::limits::{GUARD_RETRY_AFTER, GUARD_RETRY_JITTER};
use crate::reply::Answer;
use crate::report::Excuse;

impl Exchange<'_> {
    /// Whether the process has what a request for an endpoint takes. What is kept is given to everybody: it costs little.
    #[inline]
    pub(crate) fn check_guard(&self, forward: &Forward) -> Result<(), Stop> {
        if self.worker.relief().level == 0 { Ok(()) } else { self.check_shortage(forward) }
    }

    #[cold]
    fn check_shortage(&self, forward: &Forward) -> Result<(), Stop> {
        let (relief, priority) = (self.worker.relief(), priority::of(self, forward.priority));
        let is_sheddable = match priority {
            Priority::Sheddable => true,
            Priority::Normal => false,
            Priority::Critical => return Ok(()),
        };
        if !relief.sheds(priority) {
            return Ok(());
        }
        let recorder = self.worker.recorder.borrow();
        if relief.only_watches {
            recorder.count(if is_sheddable {
                Counter::GuardWouldShedSheddable
            } else {
                Counter::GuardWouldShedNormal
            });
            return Ok(());
        }
        recorder.count(if is_sheddable { Counter::GuardShedSheddable } else { Counter::GuardShedNormal });
        drop(recorder);
        self.note_reason(Reason::GuardShed);
        self.report.excuse.set(Some(Excuse::NoRoom));
        // Who is refused comes again at a time of its own, and not with all others.
        let seconds = GUARD_RETRY_AFTER + self.worker.random.below(GUARD_RETRY_JITTER);
        Err(Answer::come_again(Reason::GuardShed, seconds).into())
    }
}
