//! The shared parts of the writers of statuses: the loop that waits for changes, and the table of writes.
//!
//! Never in here: the kinds of objects, and the contents of their statuses.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::addresses::Addresses;
use super::server::{Backoff, Failure};
use crate::translate::Translation;

/// The last translation that every worker serves; none before the first.
pub type Programmed = watch::Receiver<Option<Arc<Translation>>>;

/// A writer of the statuses of some kinds of objects.
pub(super) trait StatusWriter {
    /// Least time between two passes over all objects, even if they change more often.
    const SPACING: Duration;

    /// Time after which all objects are compared again although nothing has changed.
    fn interval(&self) -> Duration;

    /// Writes the statuses that differ from a translation that every worker serves. Returns false if a write
    /// has to be repeated.
    async fn write_all(&mut self, translation: &Translation, addresses: &Addresses) -> bool;

    /// Prepares for the pass at an interval.
    fn begin_interval(&mut self) {}
}

/// Writes whenever the served translation or the addresses change, and compares all objects again at each
/// interval.
pub(super) async fn run<W: StatusWriter>(
    writer: &mut W,
    mut programmed: Programmed,
    mut addresses: watch::Receiver<Addresses>,
) {
    let interval = writer.interval();
    let mut tick = interval_at(Instant::now() + interval, interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut backoff = Backoff::default();
    loop {
        let published = addresses.borrow_and_update().clone();
        let translation = programmed.borrow_and_update().clone();
        let is_done = match translation {
            Some(translation) => writer.write_all(&translation, &published).await,
            None => true,
        };
        let again = if is_done {
            backoff.reset();
            interval
        } else {
            backoff.next().min(interval)
        };
        sleep(W::SPACING).await;
        tokio::select! {
            () = changed(&mut programmed) => {}
            () = changed(&mut addresses) => {}
            _ = tick.tick() => writer.begin_interval(),
            () = sleep(again) => {}
        }
    }
}

/// Waits for a new value; for ever after the sender is dropped.
pub(super) async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        pending::<()>().await;
    }
}

/// The writes so far, by the uid of their object. They are recorded because the watch reports a write later
/// than the response arrives.
pub(super) struct WriteTable<W> {
    pub(super) writes: HashMap<String, Write<W>>,
    /// Time after which a refused write is repeated.
    pub(super) interval: Duration,
    /// The last reason for which the API server refused a status; a reason is logged only once.
    refusal: Option<String>,
}

/// A write to an object.
pub(super) struct Write<W> {
    pub(super) content: W,
    /// The time to repeat the write; none if it succeeded.
    pub(super) until: Option<Instant>,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing has to be done until this time; none if the object is up to date.
    Until(Option<Instant>),
    /// The object has changed meanwhile: the write is repeated soon.
    Conflict,
    /// The API server does not answer: any further write would fail now.
    Unserved,
}

impl<W> Write<W> {
    /// Whether the time to repeat the write has come.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl<W> WriteTable<W> {
    pub(super) fn new(interval: Duration) -> Self {
        Self { writes: HashMap::new(), interval, refusal: None }
    }

    /// Records the result of a write at `now` to an object.
    pub(super) fn end(
        &mut self,
        object: &dyn std::fmt::Display,
        outcome: Result<(), Failure>,
        now: Instant,
    ) -> Ended {
        match outcome {
            Ok(()) | Err(Failure::NotFound) => Ended::Until(None),
            Err(Failure::Conflict) => Ended::Conflict,
            Err(Failure::Unserved) => Ended::Unserved,
            Err(Failure::Denied) => Ended::Until(Some(now + self.interval)),
            Err(Failure::Refused(why)) => {
                if self.refusal.as_ref() != Some(&why) {
                    tracing::warn!(%object, why, "a status is refused");
                    self.refusal = Some(why);
                }
                Ended::Until(Some(now + self.interval))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_says_when_to_try_again() {
        let (interval, now) = (Duration::from_secs(60), Instant::now());
        let mut table = WriteTable::<()>::new(interval);
        let refused = || Err(Failure::Refused("too long".to_owned()));
        for (outcome, expected) in [
            (Ok(()), Ended::Until(None)),
            (Err(Failure::NotFound), Ended::Until(None)),
            (Err(Failure::Conflict), Ended::Conflict),
            (Err(Failure::Unserved), Ended::Unserved),
            (Err(Failure::Denied), Ended::Until(Some(now + interval))),
            (refused(), Ended::Until(Some(now + interval))),
        ] {
            assert_eq!(table.end(&"default/web", outcome.clone(), now), expected, "{outcome:?}");
        }
    }

    #[test]
    fn a_write_is_due_once_its_time_has_come() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        for (until, expected) in [(None, false), (Some(later), false), (Some(now), true)] {
            assert_eq!(Write { content: (), until }.is_due(now), expected);
        }
    }
}
