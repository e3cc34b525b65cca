//! Readings many times a second, since averages hide bursts: CPU time, and outgoing connections.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{fs, io};

use super::processes::Owners;
use super::sock_diag::{self, Question};
use crate::read::sockets::plain;
use crate::sample::Sample;
use crate::sockets::State;
use crate::ticks::{ConnectionTick, CpuTicks, Ticks};

/// The interval at which the authors of case E read `/proc/PID/stat`.
const PERIOD: Duration = Duration::from_millis(10);

/// Connections are read once in so many readings of CPU time.
const CONNECTIONS_EVERY: u64 = 10;

/// Most remote addresses that are recorded at one moment: those with the most connections.
const REMOTES_MAX: usize = 16;

/// Readings take at most a fourth of the thread's time: if they take long, as with 100,000 sockets, they
/// become rarer.
const BUSY_PART: u32 = 4;

/// Takes readings and keeps them.
pub(super) struct Ticker {
    start: Instant,
    next: Instant,
    count: u64,
    pids: Vec<u32>,
    /// Whether processes were named; otherwise all that listen are examined.
    is_about_processes: bool,
    ticks: Ticks,
}

impl Ticker {
    /// `first` holds the processes and cgroups to read.
    pub(super) fn new(first: &Sample, start: Instant) -> Ticker {
        let is_about_processes = first.taken.pid.is_some();
        let of = is_about_processes.then(|| "processes".to_owned());
        let cpu = of.into_iter().chain(limited(first)).map(|of| CpuTicks { of, ..CpuTicks::default() });
        let ticks = Ticks { cpu: cpu.collect(), connections: Vec::new() };
        Ticker {
            start,
            next: Instant::now(),
            count: 0,
            pids: first.taken.pids.clone(),
            is_about_processes,
            ticks,
        }
    }

    /// Time until the next reading.
    pub(super) fn pause(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    pub(super) fn tick(&mut self) {
        let begin = Instant::now();
        self.read_cpu();
        if self.count.is_multiple_of(CONNECTIONS_EVERY) {
            self.read_connections();
        }
        self.count += 1;
        let now = Instant::now();
        self.next = (self.next + PERIOD).max(now + (now - begin) * (BUSY_PART - 1)).max(now);
    }

    pub(super) fn finish(self) -> Ticks {
        self.ticks
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    fn read_cpu(&mut self) {
        let (start, pids) = (self.start, &self.pids);
        for ticks in &mut self.ticks.cpu {
            let used = if ticks.of == "processes" { used_by(pids) } else { used_by_group(&ticks.of) };
            if let Some(used) = used {
                ticks.at_ms.push(start.elapsed().as_millis() as u64);
                ticks.used_us.push(used);
            }
        }
    }

    /// A reading that fails is left out: the samples hold the error.
    fn read_connections(&mut self) {
        let at_ms = self.now_ms();
        let owners = Owners::of(if self.is_about_processes { &self.pids } else { &[] });
        let Ok(mut counts) = outgoing(&owners) else { return };
        counts.sort_by_key(|(_, (established, time_wait))| Reverse(established + time_wait));
        let ticks = counts.into_iter().take(REMOTES_MAX).map(|((remote, pid), (established, time_wait))| {
            ConnectionTick { at_ms, remote: remote.to_string(), pid, established, time_wait }
        });
        self.ticks.connections.extend(ticks);
    }
}

/// Remote address and owner; the number of established connections, and of those in `TIME_WAIT`.
type Count = ((SocketAddr, Option<u32>), (u64, u64));

fn outgoing(owners: &Owners) -> io::Result<Vec<Count>> {
    let listening = sock_diag::listening_ports()?;
    let mut counts = HashMap::<_, (u64, u64)>::new();
    let question = Question { states: &[State::Established, State::TimeWait], segments: false };
    sock_diag::each(question, |found| {
        if !listening.contains(&found.socket.local.port()) {
            let pid = owners.of_socket(found.inode).map(|owner| owners.all()[owner as usize].pid);
            let (established, time_wait) = counts.entry((plain(found.socket.remote), pid)).or_default();
            *(if found.socket.state == State::TimeWait { time_wait } else { established }) += 1;
        }
    })?;
    Ok(counts.into_iter().collect())
}

/// The cgroups of a sample that have a quota.
fn limited(sample: &Sample) -> Vec<String> {
    let files = sample.under("sys/fs/cgroup/").filter_map(|(path, text)| {
        let (folder, name) = path.rsplit_once('/')?;
        let is_limited = match name {
            "cpu.max" => !text.starts_with("max"),
            "cpu.cfs_quota_us" => !text.starts_with('-'),
            _ => false,
        };
        is_limited.then(|| folder.to_owned())
    });
    files.collect()
}

/// CPU time, in microseconds, of the current threads of these processes. The time of a thread that has ended
/// is lost.
fn used_by(pids: &[u32]) -> Option<u64> {
    let mut sum = None;
    for pid in pids {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let nanoseconds = text.split(' ').next().and_then(|first| first.parse::<u64>().ok());
            sum = nanoseconds.map(|one| sum.unwrap_or(0) + one / 1000).or(sum);
        }
    }
    sum
}

/// CPU time of a cgroup, of version 2 or 1, in microseconds. Version 1 may count it in another hierarchy than
/// that of the quota.
fn used_by_group(folder: &str) -> Option<u64> {
    let v2 = fs::read_to_string(format!("/{folder}/cpu.stat")).ok()?;
    if let Some(used) = v2.lines().find_map(|line| line.strip_prefix("usage_usec ")) {
        return used.parse().ok();
    }
    let beside = folder.replacen("sys/fs/cgroup/cpu/", "sys/fs/cgroup/cpuacct/", 1);
    let usage = [folder, &beside]
        .into_iter()
        .find_map(|folder| fs::read_to_string(format!("/{folder}/cpuacct.usage")).ok())?;
    usage.trim().parse::<u64>().ok().map(|nanoseconds| nanoseconds / 1000)
}
