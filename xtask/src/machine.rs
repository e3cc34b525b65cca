//! The machine that measures: CPUs, limits, sockets, and how it is described beside the figures.
//!
//! Must not be in here: changes that outlive this process.

use std::{fs, thread};

use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for the workloads of ten thousand clients, on both sides of a proxy.
const DESCRIPTORS: u64 = 65_536;

/// The CPUs of a measurement.
pub(crate) struct Cpus {
    /// For the proxy under test.
    pub(crate) proxy: Vec<usize>,
    /// Generator and backend.
    pub(crate) load: Vec<usize>,
}

impl Cpus {
    /// The first CPU that this process may use for the proxy, the second for the load; the same where there
    /// is but one.
    pub(crate) fn choose() -> Result<Cpus> {
        let allowed = rustix::thread::sched_getaffinity(None)?;
        let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let first = cpus.next().unwrap_or(0);
        let second = cpus.next().unwrap_or(first);
        Ok(Cpus { proxy: vec![first], load: vec![second] })
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<usize> {
        [self.proxy.as_slice(), &self.load].concat()
    }
}

/// As many descriptors as this user may have; children inherit it.
pub(crate) fn raise_descriptor_limit() {
    let hard = getrlimit(Resource::Nofile).maximum;
    let wanted =
        Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS.max(hard.unwrap_or(DESCRIPTORS))) };
    if setrlimit(Resource::Nofile, wanted).is_err() {
        // Only root may raise the hard limit.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
    }
}

/// Sockets in `TIME_WAIT` whose remote port is one of `ports`: those that were closed on this side first.
pub(crate) fn time_wait_towards(ports: &[u16]) -> Result<usize> {
    const TIME_WAIT: &str = "06";
    count_sockets(|socket| socket.state == TIME_WAIT && ports.contains(&socket.remote))
}

/// Connections that are open to a port of this machine.
pub(crate) fn connections_at(port: u16) -> Result<usize> {
    const ESTABLISHED: &str = "01";
    count_sockets(|socket| socket.state == ESTABLISHED && socket.local == port)
}

fn count_sockets(is_wanted: impl Fn(&Socket) -> bool) -> Result<usize> {
    let count = |path| -> Result<usize> {
        let table = fs::read_to_string(path)?;
        Ok(table.lines().filter_map(Socket::of_line).filter(&is_wanted).count())
    };
    // A socket that takes both families is one of IPv6.
    Ok(count("/proc/net/tcp")? + count("/proc/net/tcp6").unwrap_or(0))
}

/// Ports and state, as the kernel writes them.
struct Socket<'a> {
    local: u16,
    remote: u16,
    state: &'a str,
}

impl Socket<'_> {
    fn of_line(line: &str) -> Option<Socket<'_>> {
        let mut fields = line.split_whitespace().skip(1);
        let mut port = || u16::from_str_radix(fields.next()?.rsplit_once(':')?.1, 16).ok();
        let (local, remote) = (port()?, port()?);
        Some(Socket { local, remote, state: fields.next()? })
    }
}

/// CPU and kernel, in a few words.
pub(crate) fn describe() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let model = model.trim_start_matches([' ', '\t', ':']);
    format!("{model}, {cores} CPUs to use, Linux {}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_two_ports_and_a_state() {
        let line = "  12: 0100007F:D431 0100007F:1F90 06 00000000:00000000 03:00001234";
        let socket = Socket::of_line(line).expect("a socket");
        assert_eq!((socket.local, socket.remote, socket.state), (54321, 8080, "06"));
        assert!(Socket::of_line("  sl  local_address rem_address   st").is_none());
    }
}
