//! Requests that are refused since Forebay itself is short of something, the least important ones first.

use model::Forward;
use observe::Reason;

use super::Stop;
use crate::access::priority;
use crate::exchange::Exchange;
use crate::limits::{GUARD_RETRY_AFTER, GUARD_RETRY_JITTER};
use crate::reply::Answer;

impl Exchange<'_> {
    /// Whether the process has what a request for an endpoint takes. What is kept is given to everybody: it costs little.
    #[inline]
    pub(super) fn check_guard(&self, forward: &Forward) -> Result<(), Stop> {
        let relief = self.worker.relief();
        if relief.level > 0 && relief.sheds(priority::of(self, forward.overload.as_deref())) {
            return Err(self.shed().into());
        }
        Ok(())
    }

    /// Who is refused comes again at a time of its own, and not with all others.
    #[cold]
    fn shed(&self) -> Answer {
        self.worker.recorder.borrow().reason(Reason::GuardShed);
        let seconds = GUARD_RETRY_AFTER + self.worker.random.below(GUARD_RETRY_JITTER);
        Answer::come_again(Reason::GuardShed, seconds)
    }
}
