//! The requests that were sent, and the lines of the access log about them: each answered request must have
//! one line, with the status that the client has seen.
//!
//! Must not be in here: whether an answer was right.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::lock::locked;

/// The end of a request for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With an answer of this status, all of it.
    Answered(u16),
    /// Without one, or with a part: a line may exist or not.
    Broken,
}

/// Time in which a line of the access log reaches the pipe, of a process that is killed meanwhile.
const FLUSH: Duration = Duration::from_secs(5);
/// On a busy machine it is so many times the longest that a line has taken so far.
const DELAYS: u32 = 4;

#[derive(Debug)]
struct Entry {
    host: &'static str,
    outcome: Option<Outcome>,
    begun: Instant,
    ended: Instant,
    record: Option<u16>,
}

/// Sums over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Requests that were sent.
    pub(crate) sent: u64,
    /// Requests with an answer and one line of the same status.
    pub(crate) settled: u64,
    /// Requests that were broken off, with a line.
    pub(crate) broken_recorded: u64,
    /// Requests that were broken off, without a line: the proxy need not have seen them.
    pub(crate) broken_unrecorded: u64,
    /// Answered requests whose line was lost with a killed process.
    pub(crate) lost_by_kill: u64,
}

/// All requests that are not settled yet, and sums.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    next: u64,
    open: HashMap<u64, Entry>,
    sums: Sums,
    statuses: BTreeMap<(&'static str, u16), u64>,
    faults: Vec<String>,
    /// Requests that were struck without a line, which may come late.
    unrecorded: HashMap<u64, Entry>,
    /// The longest time from the end of a request until its line came.
    slowest: Duration,
}

impl Ledger {
    /// Notes that a request is going to be sent; its identifier.
    pub(crate) fn begin(&self, host: &'static str) -> u64 {
        let mut book = self.book();
        book.next += 1;
        let id = book.next;
        book.sums.sent += 1;
        let now = Instant::now();
        book.open.insert(id, Entry { host, outcome: None, begun: now, ended: now, record: None });
        id
    }

    /// Notes how it ended.
    pub(crate) fn end(&self, id: u64, outcome: Outcome) {
        let mut book = self.book();
        if let Some(entry) = book.open.get_mut(&id) {
            entry.outcome = Some(outcome);
            entry.ended = Instant::now();
        }
        book.settle(id);
    }

    /// Notes a line of the access log.
    pub(crate) fn record(&self, id: u64, status: u16) {
        let mut book = self.book();
        book.expect_again(id);
        match book.open.get_mut(&id) {
            Some(entry) if entry.record.is_none() => {
                entry.record = Some(status);
                let delay = entry.outcome.map_or(Duration::ZERO, |_| entry.ended.elapsed());
                book.slowest = book.slowest.max(delay);
            }
            _ => {
                let told = format!("request {id} was recorded with status {status}, though it was settled");
                book.faults.push(told);
            }
        }
        book.settle(id);
    }

    /// The number of requests without an outcome.
    pub(crate) fn in_flight(&self) -> usize {
        self.book().open.values().filter(|entry| entry.outcome.is_none()).count()
    }

    /// The number of answered requests without a line, but for those whose lines the kills may have cost.
    pub(crate) fn unrecorded(&self, kills: &[Instant]) -> usize {
        let book = self.book();
        let answered = book.open.values().filter(|entry| matches!(entry.outcome, Some(Outcome::Answered(_))));
        answered.filter(|entry| !book.may_lack_line(entry, kills)).count()
    }

    /// Closes the books when no request is in flight: requests without a line are faults, unless the process
    /// that wrote it had been killed at one of these moments.
    pub(crate) fn close(&self, kills: &[Instant]) {
        let mut book = self.book();
        for (id, entry) in std::mem::take(&mut book.open) {
            match entry.outcome {
                Some(Outcome::Answered(_)) if book.may_lack_line(&entry, kills) => {
                    book.sums.lost_by_kill += 1;
                    book.unrecorded.insert(id, entry);
                }
                Some(Outcome::Answered(status)) => {
                    let host = entry.host;
                    book.faults
                        .push(format!("request {id} to {host} was answered with {status} and has no line"));
                }
                Some(Outcome::Broken) => {
                    book.sums.broken_unrecorded += 1;
                    book.unrecorded.insert(id, entry);
                }
                None => book.faults.push(format!("request {id} to {} has not ended", entry.host)),
            }
        }
    }

    /// The sums so far.
    pub(crate) fn sums(&self) -> Sums {
        self.book().sums
    }

    /// Answers by host and status.
    pub(crate) fn statuses(&self) -> BTreeMap<(&'static str, u16), u64> {
        self.book().statuses.clone()
    }

    /// The faults that were found since the last call.
    pub(crate) fn faults(&self) -> Vec<String> {
        std::mem::take(&mut self.book().faults)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        locked(&self.0)
    }
}

impl Book {
    /// Whether a kill came before its line may have reached the pipe, and not before it was sent.
    fn may_lack_line(&self, entry: &Entry, kills: &[Instant]) -> bool {
        let flush = FLUSH.max(self.slowest * DELAYS);
        kills.iter().any(|kill| entry.begun <= *kill && *kill <= entry.ended + flush)
    }

    /// Takes a request back that was struck without a line.
    fn expect_again(&mut self, id: u64) {
        let Some(entry) = self.unrecorded.remove(&id) else { return };
        match entry.outcome {
            Some(Outcome::Broken) => self.sums.broken_unrecorded -= 1,
            _ => self.sums.lost_by_kill -= 1,
        }
        self.open.insert(id, entry);
    }

    /// Strikes a request of which both sides are known.
    fn settle(&mut self, id: u64) {
        let Some(Entry { host, outcome: Some(outcome), record: Some(record), .. }) = self.open.get(&id)
        else {
            return;
        };
        let (host, record) = (*host, *record);
        let outcome = *outcome;
        self.open.remove(&id);
        match outcome {
            Outcome::Answered(status) => {
                *self.statuses.entry((host, status)).or_default() += 1;
                self.sums.settled += 1;
                if status != record {
                    let told =
                        format!("request {id} to {host} was answered with {status} and recorded as {record}");
                    self.faults.push(told);
                }
            }
            Outcome::Broken => self.sums.broken_recorded += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_and_recorded_alike_is_settled_in_any_order() {
        let ledger = Ledger::default();
        let [first, second] = [(); 2].map(|()| ledger.begin("a"));
        ledger.end(first, Outcome::Answered(200));
        assert_eq!((ledger.in_flight(), ledger.unrecorded(&[])), (1, 1));
        ledger.record(first, 200);
        ledger.record(second, 404);
        ledger.end(second, Outcome::Answered(404));
        ledger.close(&[]);
        assert_eq!(ledger.faults(), Vec::<String>::new());
        assert_eq!(ledger.sums(), Sums { sent: 2, settled: 2, ..Sums::default() });
        assert_eq!(ledger.statuses()[&("a", 404)], 1);
    }

    #[test]
    fn what_does_not_match_is_a_fault() {
        let ledger = Ledger::default();
        let ids = [(); 4].map(|()| ledger.begin("a"));
        ledger.end(ids[0], Outcome::Answered(200));
        ledger.record(ids[0], 502);
        ledger.end(ids[1], Outcome::Answered(200));
        ledger.end(ids[2], Outcome::Broken);
        ledger.record(ids[0], 200);
        ledger.close(&[]);
        let faults = ledger.faults();
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert!(faults[0].contains("recorded as 502") && faults[1].contains("though it was settled"));
        assert_eq!(ledger.sums().broken_unrecorded, 1);
    }

    #[test]
    fn a_kill_takes_the_last_lines_with_it_and_no_others() {
        let (ledger, before) = (Ledger::default(), Instant::now());
        let id = ledger.begin("a");
        ledger.end(id, Outcome::Answered(200));
        let now = Instant::now();
        let kills = [now];
        assert_eq!((ledger.unrecorded(&[]), ledger.unrecorded(&kills)), (1, 0));
        ledger.close(&kills);
        assert_eq!((ledger.sums().lost_by_kill, ledger.faults().len()), (1, 0));
        for kill in [now + Duration::from_secs(100), before] {
            let id = ledger.begin("a");
            ledger.end(id, Outcome::Answered(200));
            ledger.close(&[kill]);
            assert_eq!((ledger.sums().lost_by_kill, ledger.faults().len()), (1, 1));
        }
    }

    #[test]
    fn a_line_may_come_after_the_books_were_closed() {
        let ledger = Ledger::default();
        let [lost, broken] = [(); 2].map(|()| ledger.begin("a"));
        ledger.end(lost, Outcome::Answered(200));
        ledger.end(broken, Outcome::Broken);
        ledger.close(&[Instant::now()]);
        ledger.record(lost, 200);
        ledger.record(broken, 499);
        assert_eq!(ledger.faults(), Vec::<String>::new());
        assert_eq!(ledger.sums(), Sums { sent: 2, settled: 1, broken_recorded: 1, ..Sums::default() });
        ledger.record(lost, 200);
        assert_eq!(ledger.faults().len(), 1);
    }
}
