//! Combines the outcomes of plans that ran one after the other.
//!
//! Must not be in here: the parts of one plan, which run at the same time.

use super::Outcome;

impl Outcome {
    /// The outcome of this plan and of `next`, which began after this one had ended.
    #[must_use]
    pub fn then(self, next: &Outcome) -> Outcome {
        let (duration, elapsed) = (self.duration + next.duration, self.elapsed + next.elapsed);
        let per_second = [&self.per_second[..], &next.per_second].concat();
        Outcome { per_second, duration, elapsed, ..self.merge(next) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_comes_later_takes_its_own_time() {
        let second = Duration::from_secs(1);
        let outcome = |answered| Outcome {
            answered,
            duration: second,
            per_second: vec![answered],
            ..Outcome::new(2 * second)
        };
        let both = outcome(3).then(&outcome(5));
        assert_eq!((both.answered, both.duration, both.elapsed), (8, 2 * second, 4 * second));
        assert_eq!((both.rate(), both.per_second), (4.0, vec![3, 5]));
    }
}
