//! The kernel's counters of connections that were refused, dropped or delayed.

use std::fs;

/// Counters of this network namespace, all of them of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Connections that found an accept queue full (`ListenOverflows`).
    pub overflows: u64,
    /// SYNs, and connections, that a listener dropped for any reason (`ListenDrops`).
    pub drops: u64,
    /// SYNs that were sent again (`TCPSynRetrans`): a connect that took a second or longer.
    pub syn_retransmits: u64,
    /// Segments that were sent again (`RetransSegs`).
    pub retransmits: u64,
}

impl Drops {
    /// Reads the counters.
    pub fn read() -> Self {
        let netstat = fs::read_to_string("/proc/net/netstat").unwrap_or_default();
        let snmp = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
        Self {
            overflows: counter(&netstat, "TcpExt", "ListenOverflows"),
            drops: counter(&netstat, "TcpExt", "ListenDrops"),
            syn_retransmits: counter(&netstat, "TcpExt", "TCPSynRetrans"),
            retransmits: counter(&snmp, "Tcp", "RetransSegs"),
        }
    }

    /// The increase since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            overflows: self.overflows - earlier.overflows,
            drops: self.drops - earlier.drops,
            syn_retransmits: self.syn_retransmits - earlier.syn_retransmits,
            retransmits: self.retransmits - earlier.retransmits,
        }
    }
}

/// A counter of a table in which a line of names precedes a line of values. Zero where a kernel does not have
/// it.
fn counter(table: &str, group: &str, name: &str) -> u64 {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(": "));
    let (names, values) = (lines.next(), lines.next());
    let at = names.and_then(|names| names.split(' ').position(|one| one == name));
    at.and_then(|at| values?.split(' ').nth(at)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let table = "IpExt: A\nIpExt: 1\nTcpExt: A ListenDrops\nTcpExt: 3 42\n";
        assert_eq!(counter(table, "TcpExt", "ListenDrops"), 42);
        assert_eq!(counter(table, "TcpExt", "Other"), 0);
    }
}
