//! Shows the progress of a measurement on standard error once per second; nothing if that is not a terminal.
//!
//! Must not be in here: results.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ::bench::generator::{self, GeneratorError, Outcome, Plan, Progress, SoFar};

use super::format::{bytes, grouped};

const EVERY: Duration = Duration::from_secs(1);

/// Moves to the start of the line and erases the line (ECMA-48: EL).
const CLEAR: &str = "\r\x1b[K";

/// Runs the plan.
pub(super) fn run(plan: &Plan, progress: &Progress) -> Result<Outcome, GeneratorError> {
    if !io::stderr().is_terminal() {
        return generator::run_watched(plan, progress);
    }
    thread::scope(|scope| {
        let (running, ended) = mpsc::channel::<()>();
        let generator = scope.spawn(move || {
            let _dropped_at_the_end = running;
            generator::run_watched(plan, progress)
        });
        let start = Instant::now();
        let mut before = SoFar::default();
        while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            let now = progress.read();
            tell(&format!("{CLEAR}{}", line(start.elapsed(), now, before)));
            before = now;
        }
        tell(CLEAR);
        generator.join().expect("the generator does not panic")
    })
}

/// Prints. An error does not matter, since this is only progress.
fn tell(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The line after this time; `before` holds the values of a second ago.
fn line(elapsed: Duration, now: SoFar, before: SoFar) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = grouped((now.answered as f64 / seconds).round());
    let last = grouped((now.answered - before.answered) as f64);
    let (opened, errors) = (grouped(now.connections_opened as f64), grouped(now.failed as f64));
    let received = bytes(now.body_bytes);
    format!(
        "{seconds:.0} s: {rate} requests/s ({last} now), {opened} connections, {received}, {errors} errors"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_mean_and_the_last_second() {
        let before = SoFar { answered: 1000, ..SoFar::default() };
        let now = SoFar { answered: 3000, failed: 4, connections_opened: 64, body_bytes: 3_072_000 };
        assert_eq!(
            line(Duration::from_secs(2), now, before),
            "2 s: 1,500 requests/s (2,000 now), 64 connections, 3.1 MB, 4 errors"
        );
    }
}
