//! A share of a worker's time for one kind of costly work, such as the signatures of tokens that nobody
//! knows: others are served between two pieces of it, and a flood of it takes no more than the share.
//!
//! One piece is done in each turn of the loop, and the time that it takes is paid for by waiting. A piece
//! that comes alone waits for nothing. Must not be in here: the work.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use clock::{Clock, Moment};

use crate::io::line::Line;
use crate::io::turn;
use crate::limits::{CPU_SHARE_AHEAD, CPU_SHARE_PART, CPU_SHARE_SUSPECTS_MAX, CPU_SHARE_WAITING_MAX};

/// The share, and the tasks that wait for their part of it.
#[derive(Default)]
pub(crate) struct CpuShare {
    waiting: Line,
    /// Tasks of clients that are suspected of an attack: they pass when nobody else waits.
    suspects: Line,
    /// When the time that was used is paid for.
    paid: Paid,
    /// The turn of the loop in which a piece was last done.
    turn: Cell<Option<Moment>>,
    /// A task lets others pass.
    is_attended: Cell<bool>,
}

/// A piece of work that is being done. Its time is counted until this is dropped.
pub(crate) struct Piece {
    share: Rc<CpuShare>,
    clock: Clock,
    begin: Instant,
}

/// A moment up to which the share is used up.
struct Paid(Cell<Moment>);

impl CpuShare {
    /// Waits for a turn to do a piece of work; none if too many wait already.
    pub(crate) async fn enter(self: &Rc<Self>, clock: &Clock, is_suspect: bool) -> Option<Piece> {
        if !self.is_free(clock.now()) {
            let (line, max) = if is_suspect {
                (&self.suspects, CPU_SHARE_SUSPECTS_MAX)
            } else {
                (&self.waiting, CPU_SHARE_WAITING_MAX)
            };
            if line.len() >= max {
                return None;
            }
            let permission = line.join();
            if !self.is_attended.replace(true) {
                reactor::spawn_detached(attend(Rc::clone(self), clock.clone()));
            }
            permission.await;
        }
        self.turn.set(Some(clock.now()));
        Some(Piece { share: Rc::clone(self), clock: clock.clone(), begin: clock::instant() })
    }

    fn is_free(&self, now: Moment) -> bool {
        let nobody_waits = self.waiting.is_empty() && self.suspects.is_empty();
        nobody_waits && self.turn.get() != Some(now) && self.paid.wait(now).is_none()
    }
}

/// Lets waiting tasks pass, one in each turn of the loop at most, while there are any.
async fn attend(share: Rc<CpuShare>, clock: Clock) {
    while !share.waiting.is_empty() || !share.suspects.is_empty() {
        turn::yield_now(&clock).await;
        match share.paid.wait(clock.now()) {
            Some(time) => reactor::sleep(time).await,
            None => _ = share.waiting.let_one_pass() || share.suspects.let_one_pass(),
        }
    }
    share.is_attended.set(false);
}

impl Drop for Piece {
    fn drop(&mut self) {
        let spent = clock::instant().saturating_duration_since(self.begin);
        self.share.paid.charge(spent, self.clock.now());
    }
}

impl Default for Paid {
    fn default() -> Self {
        Self(Cell::new(Moment::BEGIN))
    }
}

impl Paid {
    /// Time to wait until the work may go on; none where it may at once.
    fn wait(&self, now: Moment) -> Option<Duration> {
        let ahead = self.0.get().since(now.after(CPU_SHARE_AHEAD));
        (!ahead.is_zero()).then_some(ahead)
    }

    fn charge(&self, spent: Duration, now: Moment) {
        self.0.set(self.0.get().max(now).after(spent * CPU_SHARE_PART));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::io::event_loop::EventLoop;

    fn run(test: impl Future<Output = ()>) {
        EventLoop::new(|| ()).expect("an event loop").run(test);
    }

    #[test]
    fn the_share_is_paid_for_by_waiting() {
        let (paid, now) = (Paid::default(), Moment::BEGIN);
        assert_eq!(paid.wait(now), None);
        let spent = CPU_SHARE_AHEAD / CPU_SHARE_PART + Duration::from_millis(3);
        paid.charge(spent, now);
        let wait = CPU_SHARE_PART * Duration::from_millis(3);
        assert_eq!(paid.wait(now), Some(wait));
        assert_eq!(paid.wait(now.after(wait)), None);
        let later = now.after(Duration::from_secs(60));
        paid.charge(spent, later);
        assert_eq!(paid.wait(later), Some(wait), "what was not used is not saved up");
    }

    #[test]
    fn a_piece_alone_waits_for_nothing_and_others_pass_in_turns() {
        run(async {
            let (share, clock) = (Rc::new(CpuShare::default()), Clock::new(Clock::begin()));
            drop(share.enter(&clock, true).await.expect("nobody waits"));
            assert!(!share.is_attended.get(), "nothing was waited for");
            let order = Rc::new(RefCell::new(Vec::new()));
            let tasks = [(1, true), (2, true), (3, false), (4, false)].map(|(number, is_suspect)| {
                let (share, order) = (Rc::clone(&share), Rc::clone(&order));
                let clock = clock.clone();
                reactor::spawn(async move {
                    let piece = share.enter(&clock, is_suspect).await.expect("there is room");
                    order.borrow_mut().push(number);
                    drop(piece);
                })
            });
            for task in tasks {
                task.await.expect("no panic");
            }
            assert_eq!(*order.borrow(), [3, 4, 1, 2], "suspects come last");
            while share.is_attended.get() {
                reactor::yield_now().await;
            }
        });
    }

    #[test]
    fn no_more_wait_than_may() {
        run(async {
            let (share, clock) = (Rc::new(CpuShare::default()), Clock::new(Clock::begin()));
            let first = share.enter(&clock, false).await;
            assert!(first.is_some());
            let waiting: Vec<_> = (0..CPU_SHARE_SUSPECTS_MAX).map(|_| share.suspects.join()).collect();
            assert!(share.enter(&clock, true).await.is_none());
            drop(waiting);
        });
    }
}
