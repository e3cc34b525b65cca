//! The way that a request went after it had been admitted.

use crate::admit::Admitted;
use crate::answer::attempted::CookieLine;
use crate::request::AfterRequest;
use crate::request::stop::Stop;

/// The way that a request went: to a response, or to an answer of our own that is still to be sent.
pub(crate) struct Passed<'a> {
    pub(crate) result: Result<AfterRequest, Stop>,
    /// The affinity cookie that the client is given with the answer.
    pub(crate) cookie: Option<Box<CookieLine>>,
    /// The request as another cluster was asked for it: the error backend, or one that the route falls back
    /// to.
    pub(crate) elsewhere: Option<Box<Admitted<'a>>>,
}

impl From<Result<AfterRequest, Stop>> for Passed<'_> {
    #[inline]
    fn from(result: Result<AfterRequest, Stop>) -> Self {
        Self { result, cookie: None, elsewhere: None }
    }
}

impl From<Stop> for Passed<'_> {
    #[cold]
    fn from(stop: Stop) -> Self {
        Err(stop).into()
    }
}
