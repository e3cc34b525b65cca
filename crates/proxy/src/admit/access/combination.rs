//! The combination of several checks of a client by nginx's `satisfy`.

use model::Satisfy;
use observe::Reason;

use crate::request::reply::Answer;
use crate::route::filters::FilterResult;

/// The checks of a client so far. With `all` the first refusal decides. With `any` the first check that lets
/// the client in decides; if none does, a redirect to where the client signs in takes precedence over a 401,
/// which has the challenges of all checks, and a 401 over any other refusal. A check that has failed, rather
/// than refused the client, decides in either case.
pub(super) struct Combination {
    is_any: bool,
    /// The result if no further check is made.
    result: FilterResult,
}

impl Combination {
    pub(super) fn new(satisfy: Satisfy) -> Self {
        Self { is_any: satisfy == Satisfy::Any, result: FilterResult::Continue }
    }

    /// Adds the result of a check. Returns whether the result of all is known.
    pub(super) fn add(&mut self, result: FilterResult) -> bool {
        let is_known = match &result {
            FilterResult::Continue => self.is_any,
            FilterResult::Refuse(Reason::AddressDenied | Reason::PlaceDenied) | FilterResult::Answer(_) => {
                !self.is_any
            }
            FilterResult::Refuse(_) => true,
        };
        if is_known {
            self.result = result;
        } else if result != FilterResult::Continue {
            self.refuse(result);
        }
        is_known
    }

    /// The result of the checks that were added.
    pub(super) fn result(self) -> FilterResult {
        self.result
    }

    /// Keeps a refusal, which holds if no later check lets the client in.
    fn refuse(&mut self, refusal: FilterResult) {
        match (&self.result, &refusal) {
            (FilterResult::Answer(earlier), FilterResult::Answer(later))
                if earlier.status == 401 && later.status == 401 =>
            {
                let mut challenges = earlier.challenges();
                challenges.extend(later.challenges());
                self.result = FilterResult::Answer(Answer::refusal(401, &challenges));
            }
            (earlier, later) if precedence(later) > precedence(earlier) => self.result = refusal,
            _ => {}
        }
    }
}

fn precedence(result: &FilterResult) -> u8 {
    match result {
        FilterResult::Continue => 0,
        FilterResult::Refuse(_) => 1,
        FilterResult::Answer(answer) => match answer.status {
            300..=399 => 3,
            401 => 2,
            _ => 1,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, challenges: &[&str]) -> FilterResult {
        let challenges: Vec<_> = challenges.iter().map(|text| text.as_bytes().to_vec()).collect();
        FilterResult::Answer(Answer::refusal(status, &challenges))
    }

    fn redirect() -> FilterResult {
        FilterResult::Answer(Answer::redirect(302, "/login".to_owned()))
    }

    /// The result, and how many checks were made for it.
    fn combined(satisfy: Satisfy, results: impl IntoIterator<Item = FilterResult>) -> (FilterResult, usize) {
        let (mut checks, mut made) = (Combination::new(satisfy), 0);
        for result in results {
            made += 1;
            if checks.add(result) {
                break;
            }
        }
        (checks.result(), made)
    }

    const DENIED: FilterResult = FilterResult::Refuse(Reason::AddressDenied);
    const FAILED: FilterResult = FilterResult::Refuse(Reason::AuthFailed);
    const ADMITTED: FilterResult = FilterResult::Continue;

    #[test]
    fn all_of_them_or_the_first_refusal() {
        assert_eq!(combined(Satisfy::All, [ADMITTED, ADMITTED]), (ADMITTED, 2));
        assert_eq!(combined(Satisfy::All, [ADMITTED, DENIED, refusal(401, &[])]), (DENIED, 2));
        let (result, made) = combined(Satisfy::All, [refusal(401, &["Basic"]), refusal(401, &["Bearer"])]);
        assert_eq!((result, made), (refusal(401, &["Basic"]), 1));
        assert_eq!(combined(Satisfy::All, []), (ADMITTED, 0));
    }

    #[test]
    fn any_of_them() {
        assert_eq!(combined(Satisfy::Any, [DENIED, ADMITTED, FAILED]), (ADMITTED, 2));
        assert_eq!(combined(Satisfy::Any, [DENIED, FAILED, ADMITTED]), (FAILED, 2));
        assert_eq!(combined(Satisfy::Any, [DENIED, refusal(403, &[])]), (DENIED, 2));
        let both = [refusal(401, &["Bearer"]), refusal(403, &[]), refusal(401, &["Basic"])];
        assert_eq!(combined(Satisfy::Any, both), (refusal(401, &["Bearer", "Basic"]), 3));
        let with_login = [refusal(401, &["Bearer"]), redirect(), refusal(401, &["Basic"])];
        assert_eq!(combined(Satisfy::Any, with_login), (redirect(), 3));
        assert_eq!(combined(Satisfy::Any, [DENIED]), (DENIED, 1));
    }
}
