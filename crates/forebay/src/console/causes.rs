//! Reasons of failures, and how often each has occurred.

use observe::Reason;

use super::state::Cause;

/// Most reasons that are shown for a route.
const CAUSES_MAX: usize = 3;

/// Adds counts to the sums by reason.
pub(super) fn add(sums: &mut Vec<(Reason, u64)>, causes: &[(Reason, u64)]) {
    for &(reason, count) in causes {
        match sums.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += count,
            None => sums.push((reason, count)),
        }
    }
}

/// The most frequent reasons of so many errors. Errors without a reason are statuses that the endpoint has
/// returned itself.
pub(super) fn told(causes: &[(Reason, u64)], errors: u64, seconds: f64) -> Vec<Cause> {
    let explained: u64 = causes.iter().map(|(_, count)| count).sum();
    let own = errors.saturating_sub(explained);
    let named = causes.iter().map(|(reason, count)| (Some(*reason), *count));
    let mut all: Vec<_> = named.chain((own > 0).then_some((None, own))).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all.truncate(CAUSES_MAX);
    let cause = |(reason, count): (Option<Reason>, u64)| Cause {
        reason: reason.map(Reason::name),
        meaning: reason.map_or("The endpoint returned the status itself.", Reason::doc),
        per_second: count as f64 / seconds,
    };
    all.into_iter().map(cause).collect()
}
