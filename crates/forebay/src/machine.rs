//! The limits of the machine, such as CPUs and descriptors, and the resources that this process has used.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::{fs, io};

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};

/// Descriptors that are reserved for everything except connections of clients and to endpoints, if there are
/// many descriptors.
const DESCRIPTORS_RESERVED: u64 = 256;

/// Descriptors that a process has open without connections, and those for each worker; counted, with a
/// reserve.
const DESCRIPTORS_OF_PROCESS: u64 = 24;
const DESCRIPTORS_OF_WORKER: u64 = 8;

/// Number of descriptors below which a warning is logged, since clients may be turned away.
const DESCRIPTORS_WANTED: u64 = 4096;

/// Most connections at a time of the admin server, and of the webhook. An API server keeps a few, Prometheus
/// one.
const SIDE_CONNECTIONS_MAX: u64 = 64;

/// The CPUs for `requested` workers: each worker is pinned to its own if they use all CPUs that the process
/// may use; otherwise none is pinned. If a process pinned its workers to some of many CPUs, another process
/// could choose the same.
pub(crate) fn worker_cpus(requested: Option<u16>) -> anyhow::Result<Vec<Option<usize>>> {
    let allowed = allowed_cpus().context("cannot read the affinity mask")?;
    let count =
        requested.map_or_else(|| allowed.len().min(quota().unwrap_or(usize::MAX)).max(1), usize::from);
    if count == allowed.len() { Ok(allowed.into_iter().map(Some).collect()) } else { Ok(vec![None; count]) }
}

/// The numbers of the CPUs that this thread may run on.
fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mask = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect())
}

/// How many CPUs the process may run on, as far as this thread knows: one that is not a worker is pinned to
/// none.
pub(crate) fn cpus() -> usize {
    allowed_cpus().map_or(1, |cpus| cpus.len())
}

/// The CPUs that the cgroups' quota allows; none without a quota.
pub(crate) fn cpu_quota() -> Option<f64> {
    doctor::collect::cpu_quota(std::process::id())
}

/// The number of CPUs that the quota allows, rounded up: more workers would only be throttled.
#[expect(clippy::cast_sign_loss, reason = "a quota is more than nothing")]
fn quota() -> Option<usize> {
    cpu_quota().map(|cpus| cpus.ceil() as usize)
}

/// How the descriptors of this process are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// All descriptors (`ulimit -n`).
    pub(crate) limit: u64,
    /// The descriptors of each worker. The rest is for connections to endpoints. If there are many, a quarter
    /// of all is enough for those: most clients are idle most of the time, and the others share connections.
    /// If there are few, each client connection has one for its endpoint.
    pub(crate) worker: proxy::Budget,
    /// Most connections of the admin server at a time, and of the webhook.
    pub(crate) side_connections: usize,
}

impl Descriptors {
    /// Raises the limit as far as possible, and divides the descriptors among this number of workers, beside
    /// `kept_open` that files and the cache's folder keep. Logs a warning if the limit is low.
    pub(crate) fn share_out(workers: usize, kept_open: u64) -> Self {
        let shares = Self::of(raise_descriptor_limit(), workers as u64, kept_open);
        if shares.limit < DESCRIPTORS_WANTED {
            let (limit, connections) = (shares.limit, shares.worker.connections);
            tracing::warn!(
                limit,
                connections_per_worker = connections,
                "the limit on open files (ulimit -n) is low: further clients are turned away"
            );
        }
        shares
    }

    fn of(limit: u64, workers: u64, kept_open: u64) -> Self {
        let side = (limit / 16).clamp(2, SIDE_CONNECTIONS_MAX);
        let fixed = DESCRIPTORS_OF_PROCESS + DESCRIPTORS_OF_WORKER * workers + 2 * side;
        // Clients keep half, however many files there are: an opening that fails costs a file, a connection
        // that does a client.
        let kept_open = kept_open.min(limit / 2);
        let left = limit.saturating_sub(fixed.max(DESCRIPTORS_RESERVED.min(limit / 8)) + kept_open);
        let of_worker =
            |eighths: u64| usize::try_from(left * eighths / 8 / workers).unwrap_or(usize::MAX).max(1);
        let of_clients = if limit < DESCRIPTORS_WANTED { 3 } else { 5 };
        let worker = proxy::Budget { connections: of_worker(of_clients), datagram_sessions: of_worker(1) };
        Self { limit, worker, side_connections: usize::try_from(side).unwrap_or(usize::MAX) }
    }
}

/// Raises the limit on descriptors as far as possible, and returns it.
pub(crate) fn descriptors_max() -> u64 {
    raise_descriptor_limit().saturating_sub(DESCRIPTORS_RESERVED)
}

fn raise_descriptor_limit() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, the current one holds.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::from(u32::MAX))
}

/// The name of the machine.
pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The resources that this process has used. A figure that cannot be read is zero.
pub(crate) fn process() -> observe::Process {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    // The name in parentheses may contain spaces; the fields after it are numbered from 3 (proc_pid_stat(5)).
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
    let of_io = |name: &str| {
        let value = io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    observe::Process {
        cpu_seconds: (field(14) + field(15)) as f64 / ticks_per_second,
        start_time_seconds: boot_time() + field(22) as f64 / ticks_per_second,
        virtual_bytes: field(23),
        resident_bytes: field(24) * rustix::param::page_size() as u64,
        read_bytes: of_io("rchar"),
        write_bytes: of_io("wchar"),
        memory: observe::HeapPages::default(),
    }
}

/// Start of the machine, in seconds since 1970.
fn boot_time() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|text| text.trim().parse().ok()).unwrap_or(0.0)
}

/// The nice value (`nice(2)`) of threads for which no request waits; that of the workers is 0.
const NICENESS: i32 = 10;

/// Lowers the priority of this thread and of those that it starts from now on, below that of the workers. So
/// requests are not delayed while a configuration of thousands of hosts is made.
pub(crate) fn give_way() {
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
}

/// The wildcard address: of IPv6 and IPv4, or of IPv4 alone if the machine has no IPv6.
pub(crate) fn any_address(port: u16) -> SocketAddr {
    let has_ipv6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    let any = if has_ipv6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    SocketAddr::new(any, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_takes_all_cpus_or_none() {
        let all = worker_cpus(None).unwrap();
        let more = worker_cpus(Some(1024)).unwrap();
        assert!(!all.is_empty() && more.len() == 1024 && more.iter().all(Option::is_none));
    }

    #[test]
    fn descriptors_are_shared_out_in_proportion() {
        for (limit, workers, kept_open, connections, sessions, side) in [
            (20_000, 2, 0, 6170, 1234, 64),
            (20_000, 2, 744, 5937, 1187, 64),
            (1024, 1, 0, 324, 108, 64),
            (1024, 1, 4096, 132, 44, 64),
            (256, 1, 0, 72, 24, 16),
            (64, 1, 0, 9, 3, 4),
            (16, 4, 0, 1, 1, 2),
        ] {
            let shares = Descriptors::of(limit, workers, kept_open);
            let worker = proxy::Budget { connections, datagram_sessions: sessions };
            assert_eq!(shares, Descriptors { limit, worker, side_connections: side });
            let used = workers * (connections + sessions) as u64 + 2 * side as u64 + kept_open.min(limit / 2);
            assert!(used < limit, "{limit}");
        }
    }

    #[test]
    fn the_process_has_used_something() {
        let process = process();
        assert!(process.resident_bytes > 0 && process.virtual_bytes >= process.resident_bytes);
        assert!(process.start_time_seconds > 1e9);
    }
}
