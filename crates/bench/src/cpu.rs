//! CPU time of threads and processes, from `/proc`.
//!
//! The sum is counted by the scheduler in nanoseconds; its parts, user and system, are known only in clock
//! ticks. Must not be in here: waiting, or arithmetic on requests.

use std::ops::{Add, Sub};
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

/// CPU time of a thread or process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// User and system time together.
    pub total: Duration,
    /// Time that it was ready to run but waited for a CPU.
    pub waited: Duration,
    /// Clock ticks in user mode; only their share of all ticks is used.
    user_ticks: u64,
    system_ticks: u64,
}

impl CpuTime {
    /// The CPU time of the calling thread.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read.
    pub fn of_thread() -> io::Result<CpuTime> {
        CpuTime::read(Path::new("/proc/thread-self"))
    }

    /// The CPU time of the current threads of process `pid`. The time of a thread that has ended is lost.
    ///
    /// # Errors
    ///
    /// When there is no such process, or its `/proc` cannot be read.
    pub fn of_process(pid: u32) -> io::Result<CpuTime> {
        let mut sum = CpuTime::default();
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end between being listed and being read.
            sum = sum + CpuTime::read(&task?.path()).unwrap_or_default();
        }
        Ok(sum)
    }

    /// The time in user mode, estimated from the share of its ticks; half if there are no ticks.
    pub fn user(&self) -> Duration {
        match self.user_ticks + self.system_ticks {
            0 => self.total / 2,
            ticks => self.total.mul_f64(self.user_ticks as f64 / ticks as f64),
        }
    }

    /// The time in the kernel.
    pub fn system(&self) -> Duration {
        self.total.saturating_sub(self.user())
    }

    fn read(task: &Path) -> io::Result<CpuTime> {
        let schedstat = fs::read_to_string(task.join("schedstat"))?;
        let stat = fs::read_to_string(task.join("stat"))?;
        parse(&schedstat, &stat)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unknown form of stat"))
    }
}

impl Add for CpuTime {
    type Output = CpuTime;

    fn add(self, other: CpuTime) -> CpuTime {
        CpuTime {
            total: self.total + other.total,
            waited: self.waited + other.waited,
            user_ticks: self.user_ticks + other.user_ticks,
            system_ticks: self.system_ticks + other.system_ticks,
        }
    }
}

impl Sub for CpuTime {
    type Output = CpuTime;

    /// The time used since `earlier`.
    fn sub(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            total: self.total.saturating_sub(earlier.total),
            waited: self.waited.saturating_sub(earlier.waited),
            user_ticks: self.user_ticks.saturating_sub(earlier.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(earlier.system_ticks),
        }
    }
}

fn parse(schedstat: &str, stat: &str) -> Option<CpuTime> {
    let mut nanoseconds =
        schedstat.split_whitespace().map(|field| field.parse().ok().map(Duration::from_nanos));
    let (total, waited) = (nanoseconds.next()??, nanoseconds.next()??);
    // The command's name is in parentheses and may contain any character; utime and stime are fields 14 and
    // 15 of proc(5).
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user_ticks = fields.next()?.parse().ok()?;
    let system_ticks = fields.next()?.parse().ok()?;
    Some(CpuTime { total, waited, user_ticks, system_ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_split_the_schedulers_sum() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 10 0 0 20 0 1 0";
        let time = parse("8000 1 2", stat).expect("a stat line");
        assert_eq!(
            (time.user().as_nanos(), time.system().as_nanos(), time.waited.as_nanos()),
            (6000, 2000, 1)
        );
    }

    #[test]
    fn a_busy_thread_is_seen_in_its_process() {
        let before = CpuTime::of_thread().expect("own stat");
        while CpuTime::of_thread().expect("own stat").total == before.total {}
        let process = CpuTime::of_process(std::process::id()).expect("own tasks");
        assert!(process.total > before.total);
    }
}
