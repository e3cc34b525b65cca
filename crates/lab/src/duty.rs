//! A share of a CPU for a process of this user, where no cgroup can be created: the process is stopped when
//! it has used up its time, and continued when the next period begins.
//!
//! A cgroup is better where possible: it counts each microsecond, and the kernel's figures show its effect.
//! Must not be in here: processes of other users.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// Interval at which the used CPU time is read.
const LOOK: Duration = Duration::from_micros(200);

/// Limits a process until it is dropped, which must be before the process is waited for.
#[derive(Debug)]
pub struct Duty {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Duty {
    /// Limits the process `pid` to this CPU time in each period.
    pub fn hold(pid: u32, time: Duration, period: Duration) -> Result<Duty> {
        let target = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process id")?;
        used(pid)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) && run_for_a_period(target, pid, time, period).is_ok() {}
            // Fails only if the process has ended.
            let _ = kill_process(target, Signal::CONT);
        });
        Ok(Duty { is_over, thread: Some(thread) })
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run_for_a_period(target: Pid, pid: u32, time: Duration, period: Duration) -> Result<()> {
    let (begun, before) = (Instant::now(), used(pid)?);
    kill_process(target, Signal::CONT)?;
    while begun.elapsed() < period {
        thread::sleep(LOOK);
        if used(pid)?.saturating_sub(before) >= time {
            kill_process(target, Signal::STOP)?;
            thread::sleep(period.saturating_sub(begun.elapsed()));
        }
    }
    Ok(())
}

/// CPU time of all threads of a process.
fn used(pid: u32) -> Result<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("no process {pid}"))? {
        // A thread may end between being listed and being read.
        let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        nanoseconds += text.split(' ').next().and_then(|used| used.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_busy_process_gets_its_share_and_no_more() {
        let mut busy = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .expect("a shell");
        let duty = Duty::hold(busy.id(), Duration::from_millis(2), Duration::from_millis(20)).expect("ours");
        let share = || {
            let (begun, before) = (Instant::now(), used(busy.id()).expect("it runs"));
            thread::sleep(Duration::from_millis(400));
            used(busy.id()).expect("it runs").saturating_sub(before).div_duration_f64(begun.elapsed())
        };
        // The limit is a tenth. More is used until the excess is noticed, which a busy machine may delay, but
        // not each time.
        let fits = (0..10).any(|_| (0.005..0.5).contains(&share()));
        drop(duty);
        busy.kill().expect("it runs");
        busy.wait().expect("it ends");
        assert!(fits, "more than half of a CPU, or nothing");
    }
}
