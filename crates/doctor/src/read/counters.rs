//! Reads `/proc/net/snmp` and `/proc/net/netstat`: a line of names and a line of values for each protocol
//! (`proc_pid_net(5)`).

use crate::sample::{Sample, Unknown};
use crate::text::say;

/// A counter of `TcpExt` in `/proc/net/netstat`.
pub(crate) fn tcp_ext(sample: &Sample, name: &str) -> Result<u64, Unknown> {
    counter(sample, "proc/net/netstat", "TcpExt", name)
}

/// A counter of `Tcp` in `/proc/net/snmp`.
pub(crate) fn tcp(sample: &Sample, name: &str) -> Result<u64, Unknown> {
    counter(sample, "proc/net/snmp", "Tcp", name)
}

/// A counter of `Udp` in `/proc/net/snmp`, with that of IPv6 where there is one.
pub(crate) fn udp(sample: &Sample, name: &str) -> Result<u64, Unknown> {
    let v4 = counter(sample, "proc/net/snmp", "Udp", name)?;
    let v6 = sample.text("proc/net/snmp6").ok().and_then(|text| find_v6(text, &format!("Udp6{name}")));
    Ok(v4 + v6.unwrap_or(0))
}

fn counter(sample: &Sample, path: &str, protocol: &str, name: &str) -> Result<u64, Unknown> {
    let text = sample.text(path)?;
    find(text, protocol, name).ok_or_else(|| Unknown(say!("/{} has no {} {}", path, protocol, name)))
}

fn find(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
    let (names, values) = (lines.next()?, lines.next()?);
    let (_, value) = names.split(' ').zip(values.split(' ')).find(|(known, _)| *known == name)?;
    value.parse().ok()
}

/// In `/proc/net/snmp6` each counter has a line with its name and its value.
fn find_v6(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines.find(|rest| rest.starts_with([' ', '\t']))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_name() {
        let text = "TcpExt: A B\nTcpExt: 1 2\nTcp: A C\nTcp: 3 4\n";
        assert_eq!(
            (find(text, "TcpExt", "B"), find(text, "Tcp", "A"), find(text, "Tcp", "B")),
            (Some(2), Some(3), None)
        );
    }

    #[test]
    fn both_families_are_added() {
        let mut sample = Sample::default();
        sample.put("proc/net/snmp", Ok("Udp: InErrors RcvbufErrors\nUdp: 5 2\n".into()));
        assert_eq!(udp(&sample, "RcvbufErrors"), Ok(2));
        let v6 = "Udp6RcvbufErrorsOther           \t9\nUdp6RcvbufErrors                \t3\n";
        sample.put("proc/net/snmp6", Ok(v6.into()));
        assert_eq!(udp(&sample, "RcvbufErrors"), Ok(5));
    }
}
