//! Requests that are refused because Forebay itself is short of something, the least important ones first.

use model::Forward;
use model::overload::Priority;
use observe::{Counter, Reason};

use crate::admit::access::priority;
use crate::limits::{GUARD_RETRY_AFTER, GUARD_RETRY_JITTER};
use crate::request::Request;
use crate::request::reply::Answer;
use crate::request::report::Excuse;
use crate::request::stop::Stop;

/// Refuses requests for endpoints while the process is short of something. Cached responses are given to
/// everybody: they cost little.
#[inline]
pub(crate) fn check_guard(request: &Request<'_>, forward: &Forward) -> Result<(), Stop> {
    if request.worker.relief().level == 0 { Ok(()) } else { check_shortage(request, forward) }
}

#[cold]
fn check_shortage(request: &Request<'_>, forward: &Forward) -> Result<(), Stop> {
    let (relief, priority) = (request.worker.relief(), priority::of(request, forward.priority));
    let is_sheddable = match priority {
        Priority::Sheddable => true,
        Priority::Normal => false,
        Priority::Critical => return Ok(()),
    };
    if !relief.sheds(priority) {
        return Ok(());
    }
    let recorder = request.worker.recorder.borrow();
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
    request.note_reason(Reason::GuardShed);
    request.report.excuse.set(Some(Excuse::NoRoom));
    // Clients that are refused together are told to come back at different times.
    let seconds = GUARD_RETRY_AFTER + request.worker.random.below(GUARD_RETRY_JITTER);
    Err(Answer::to(Reason::GuardShed).retry_after(seconds as u64).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::guard::Relief;
    use crate::testing::{TWO, World, forward, outcome, route_to};

    #[test]
    fn the_least_important_requests_are_shed_first() {
        let world = World::of(route_to(TWO));
        for (level, only_watches, shed) in [
            (0, false, [false, false, false]),
            (1, false, [false, false, false]),
            (2, false, [true, false, false]),
            (3, false, [true, true, false]),
            (3, true, [false, false, false]),
        ] {
            world.worker.relieve(Relief { level, only_watches, ..Relief::default() });
            let priorities = [Priority::Sheddable, Priority::Normal, Priority::Critical];
            for (priority, is_shed) in priorities.into_iter().zip(shed) {
                world.request("GET /", |request| {
                    let result = check_guard(request, &Forward { priority, ..forward(TWO) });
                    let expected = if is_shed { "503" } else { "goes on" };
                    assert_eq!(outcome(&result), expected, "{level} {priority:?}");
                    assert_eq!(request.report.excuse.get(), is_shed.then_some(Excuse::NoRoom));
                });
            }
        }
    }

    #[test]
    fn clients_that_are_shed_come_back_at_different_times() {
        let world = World::of(route_to(TWO));
        world.worker.relieve(Relief { level: 3, ..Relief::default() });
        let seconds = || {
            world.request("GET /", |request| match check_guard(request, &forward(TWO)) {
                Err(Stop::Answer(answer)) => answer.field("Retry-After").unwrap().parse::<usize>().unwrap(),
                _ => panic!("it is shed"),
            })
        };
        let all: Vec<_> = (0..50).map(|_| seconds()).collect();
        let range = GUARD_RETRY_AFTER..GUARD_RETRY_AFTER + GUARD_RETRY_JITTER;
        assert!(all.iter().all(|seconds| range.contains(seconds)), "{all:?}");
        assert!(all.iter().any(|seconds| *seconds != all[0]), "{all:?}");
    }
}
