//! Reads the ports that the kernel gives to outgoing connections (ip-sysctl: `ip_local_port_range`,
//! `ip_local_reserved_ports`).

use crate::sample::{Sample, Unknown};
use crate::text::say;

/// The range, and the number of its ports that are not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) size: u64,
}

const RANGE: &str = "proc/sys/net/ipv4/ip_local_port_range";

/// The range of a sample. If the reserved ports are not known, none are assumed.
pub(crate) fn range(sample: &Sample) -> Result<Range, Unknown> {
    let text = sample.text(RANGE)?;
    let reserved = sample.text("proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
    parse(text, reserved)
        .ok_or_else(|| Unknown(say!("/{} holds {}, which is no range", RANGE, format!("{:?}", text.trim()))))
}

fn parse(text: &str, reserved: &str) -> Option<Range> {
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    let (first, last): (u16, u16) = (numbers.next()??, numbers.next()??);
    let is_reserved: u64 = reserved.trim().split(',').filter_map(|part| overlap(part, first, last)).sum();
    let size = (u64::from(last) + 1).checked_sub(u64::from(first))?;
    Some(Range { first, last, size: size.saturating_sub(is_reserved) })
}

/// The number of ports that `8080` or `10000-10100` takes from the range.
fn overlap(part: &str, first: u16, last: u16) -> Option<u64> {
    let (from, to) = part.split_once('-').unwrap_or((part, part));
    let (from, to): (u16, u16) = (from.parse().ok()?, to.parse().ok()?);
    (u64::from(to.min(last)) + 1).checked_sub(u64::from(from.max(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_are_no_part_of_the_range() {
        let size = |text, reserved| parse(text, reserved).map(|range| range.size);
        assert_eq!(size("32768\t60999\n", "\n"), Some(28_232));
        assert_eq!(size("1024 65535", "80,8080,65000-65535,30000-30009"), Some(64_512 - 1 - 536 - 10));
        assert_eq!((size("nothing", ""), size("5 4", "")), (None, Some(0)));
    }
}
