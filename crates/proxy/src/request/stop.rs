//! Why a request goes no further, and what comes to that.

use observe::Reason;

use crate::request::reply::Answer;

/// Why a request goes no further.
pub(crate) enum Stop {
    /// It is answered here. On the heap, so that what nearly no request comes to takes little room on the
    /// way of all.
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
