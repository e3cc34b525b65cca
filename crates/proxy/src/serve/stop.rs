//! Why a request goes no further, and what comes to that.

use observe::Reason;

use crate::caching::Unanswered;
use crate::error_backend::NoPage;
use crate::filters::FilterResult;
use crate::reply::Answer;
use crate::script::Ended;

/// Why a request goes no further.
pub(crate) enum Stop {
    /// It is answered here. On the heap, so that what nearly no request comes to takes little room on the way of all.
    Answer(Box<Answer>),
    /// It is refused, or has failed.
    Fault(Reason),
}

impl From<Reason> for Stop {
    #[cold]
    fn from(reason: Reason) -> Self {
        Self::Fault(reason)
    }
}

impl From<Answer> for Stop {
    #[cold]
    fn from(answer: Answer) -> Self {
        Self::Answer(Box::new(answer))
    }
}

impl From<NoPage> for Stop {
    fn from(none: NoPage) -> Self {
        match none {
            NoPage::BuiltIn => Answer::not_found().into(),
            NoPage::Failed(reason) => reason.into(),
        }
    }
}

impl From<Ended> for Stop {
    #[cold]
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Answer(answer) => answer.into(),
            Ended::Refuse(reason) => reason.into(),
        }
    }
}

impl From<Unanswered> for Stop {
    #[cold]
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::OnlyIfCached => Answer::not_cached().into(),
            Unanswered::Failed(reason) => reason.into(),
        }
    }
}

impl From<FilterResult> for Result<(), Stop> {
    fn from(result: FilterResult) -> Self {
        match result {
            FilterResult::Continue => Ok(()),
            FilterResult::Answer(answer) => Err(answer.into()),
            FilterResult::Refuse(reason) => Err(reason.into()),
        }
    }
}
