//! Resources that this process uses, compared with its limits once a second: few files, and no sockets but
//! listeners.
//!
//! Must not be in here: thresholds.

use std::fs;
use std::time::Instant;

use rustix::process::{Resource, getrlimit};

use super::cgroups;
use super::contents::{put, read_all};
use super::files;
use super::sock_diag::{self, Question};
use crate::read::usage::{self, Usage};
use crate::sample::Sample;
use crate::sockets::State;

/// Reads the usage of this process.
#[derive(Debug)]
pub struct UsageReader {
    pid: u32,
    /// Cgroups of this process: those that can limit its CPU time, and those that can limit its memory.
    of_cpu: Vec<String>,
    of_memory: Vec<String>,
    begin: Instant,
}

impl Default for UsageReader {
    fn default() -> Self {
        let pid = std::process::id();
        let (of_cpu, of_memory) = (cgroups::of(pid), cgroups::memory_of(pid));
        let (of_cpu, of_memory) = (Vec::from_iter(of_cpu), Vec::from_iter(of_memory));
        UsageReader { pid, of_cpu, of_memory, begin: Instant::now() }
    }
}

impl UsageReader {
    /// Reads it now. `ports` are those that this process listens at.
    pub fn read(&self, ports: &[u16]) -> Usage {
        let mut sample = Sample::default();
        read_all(&mut sample, &format!("proc/{}", self.pid), &["cgroup"]);
        for path in ["proc/sys/net/ipv4/ip_local_port_range", "proc/sys/net/ipv4/ip_local_reserved_ports"] {
            put(&mut sample, path, &format!("/{path}"));
        }
        for group in &self.of_cpu {
            read_all(&mut sample, group, files::OF_CGROUP);
            read_all(&mut sample, group, &["cpu.pressure"]);
        }
        for group in &self.of_memory {
            read_all(&mut sample, group, usage::OF_MEMORY);
        }
        let mut usage = Usage::of(&sample, self.pid, &self.of_memory);
        usage.seconds = self.begin.elapsed().as_secs_f64();
        usage.descriptors = descriptors();
        usage.accept_queue = accept_queue(ports);
        usage
    }
}

/// Open descriptors of this process, of those that it may have. It takes none to know that where there are
/// none: since Linux 6.2 the size of the folder tells, and the limit is a system call.
fn descriptors() -> Option<f64> {
    const FOLDER: &str = "/proc/self/fd";
    let max = getrlimit(Resource::Nofile).current?;
    let open = match fs::metadata(FOLDER).ok()?.len() {
        0 => match fs::read_dir(FOLDER) {
            Ok(open) => open.count() as u64,
            Err(_) => max,
        },
        count => count,
    };
    Some(open as f64 / max.max(1) as f64)
}

/// How full the fullest accept queue is; none where nobody listens at any of the ports.
fn accept_queue(ports: &[u16]) -> Option<f64> {
    let mut fullest = None;
    let question = Question { states: &[State::Listen], segments: false };
    let visit = |found: sock_diag::SocketEntry| {
        let socket = found.socket;
        if ports.contains(&socket.local.port()) && socket.backlog > 0 {
            let fill = socket.queued as f64 / socket.backlog as f64;
            fullest = Some(fill.max(fullest.unwrap_or(0.0)));
        }
    };
    sock_diag::each(question, visit).ok()?;
    fullest
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn this_process_uses_something() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let reader = UsageReader::default();
        let _waits = TcpStream::connect(address).expect("it listens");
        let usage = reader.read(&[address.port()]);
        assert!(usage.accept_queue.is_some_and(|fill| fill > 0.0 && fill < 0.5), "{usage:?}");
        assert!(usage.descriptors.is_some_and(|share| share > 0.0 && share < 1.0), "{usage:?}");
        assert!(usage.port_range.is_some_and(|range| range > 0), "{usage:?}");
        assert_eq!(reader.read(&[]).accept_queue, None);
    }
}
