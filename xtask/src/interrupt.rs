//! Ctrl-C and SIGTERM as an error, so that everything that was started is dropped in order: killed, waited
//! for, removed.
//!
//! Must not be in here: exits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How long an interrupt can go unnoticed.
const TICK: Duration = Duration::from_millis(10);

/// Whether the user has had enough.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the signals no longer end the process by themselves.
    pub(crate) fn install() -> Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Interrupt(flag))
    }

    /// An error once interrupted.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!self.0.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }

    /// Waits until something holds, for `limit` at most; an error then.
    pub(crate) fn await_that(
        &self,
        limit: Duration,
        what: &str,
        mut holds: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let holds = self.poll(limit, || Ok(holds()?.then_some(())))?;
        holds.with_context(|| format!("waited in vain for {what}"))
    }

    /// Asks again and again until there is an answer, for `limit` at most; `None` then.
    pub(crate) fn poll<T>(
        &self,
        limit: Duration,
        mut ask: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let end = Instant::now() + limit;
        loop {
            self.check()?;
            if let Some(answer) = ask()? {
                return Ok(Some(answer));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            thread::sleep(TICK);
        }
    }
}
