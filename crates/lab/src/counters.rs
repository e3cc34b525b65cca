//! Counters of the kernel for the network namespace of the calling thread, or of another process.
//!
//! Must not be in here: expected values.

use std::fs;

use anyhow::{Context, Result};

/// Connections of the thread's network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connects begun since the namespace was made (`ActiveOpens`).
    pub opened: u64,
    /// Connections accepted since (`PassiveOpens`).
    pub accepted: u64,
    /// Sockets in `TIME_WAIT` now whose remote port is the requested one.
    pub time_wait: u64,
}

impl Connections {
    /// Reads the counters. `port` is the remote port of the sockets in `TIME_WAIT` to count: of all
    /// connections to that port, these are the ones that were closed at this end first.
    pub fn read(port: u16) -> Result<Connections> {
        Self::read_of("/proc/thread-self", port)
    }

    /// The same for the namespace of the process or thread with this folder below `/proc`.
    pub fn read_of(folder: &str, port: u16) -> Result<Connections> {
        let snmp = fs::read_to_string(format!("{folder}/net/snmp"))?;
        let sockets = fs::read_to_string(format!("{folder}/net/tcp"))?;
        Ok(Connections {
            opened: counter(&snmp, "Tcp", "ActiveOpens")?,
            accepted: counter(&snmp, "Tcp", "PassiveOpens")?,
            time_wait: sockets.lines().filter(|line| is_time_wait_towards(line, port)).count() as u64,
        })
    }

    /// The increase since an earlier reading; `TIME_WAIT` is the current value.
    #[must_use]
    pub fn since(self, earlier: Connections) -> Connections {
        Connections {
            opened: self.opened - earlier.opened,
            accepted: self.accepted - earlier.accepted,
            time_wait: self.time_wait,
        }
    }
}

/// A counter of `/proc/net/snmp` or `/proc/net/netstat`: a line of names, then a line of values.
fn counter(table: &str, group: &str, name: &str) -> Result<u64> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(": "));
    let (names, values) = (lines.next(), lines.next());
    let at = names.and_then(|names| names.split(' ').position(|one| one == name));
    let value = at.and_then(|at| values?.split(' ').nth(at));
    Ok(value.with_context(|| format!("no {group} {name}"))?.parse()?)
}

/// A line of `/proc/net/tcp`.
fn is_time_wait_towards(line: &str, port: u16) -> bool {
    const TIME_WAIT: &str = "06";
    let mut fields = line.split_whitespace().skip(2);
    let (remote, state) = (fields.next().unwrap_or_default(), fields.next());
    state == Some(TIME_WAIT) && remote.ends_with(&format!(":{port:04X}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let table = "Ip: Forwarding\nIp: 1\nTcp: MaxConn ActiveOpens\nTcp: -1 42\n";
        assert_eq!(counter(table, "Tcp", "ActiveOpens").expect("it is there"), 42);
        assert!(counter(table, "Tcp", "PassiveOpens").is_err());
    }

    #[test]
    fn time_wait_is_told_by_its_remote_port() {
        let line = |state| format!("  12: 0100007F:D431 0100007F:0050 {state} 00000000:00000000 03:00001234");
        assert!(is_time_wait_towards(&line("06"), 80));
        assert!(!is_time_wait_towards(&line("06"), 8080));
        assert!(!is_time_wait_towards(&line("01"), 80));
        assert!(!is_time_wait_towards("  sl  local_address rem_address   st", 80));
    }
}
