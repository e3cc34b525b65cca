//! CPU time of processes.
//!
//! Must not be in here: its interpretation.

use std::fs;
use std::time::Duration;

use anyhow::Result;

/// Time on a CPU, in user space and in the kernel, of all processes of a group that still run, with all of
/// their threads.
pub(crate) fn time_of_group(group: u32) -> Result<Duration> {
    let mut ticks = 0;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) else {
            continue;
        };
        // A process that has ended meanwhile has no file.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        ticks += ticks_in_group(&stat, group).unwrap_or(0);
    }
    Ok(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second())?)
}

/// The ticks of a process from its `stat`, if the process belongs to the group.
fn ticks_in_group(stat: &str, group: u32) -> Option<u64> {
    // The name of the program, in parentheses, may have spaces and parentheses in it. The fields behind it
    // begin with the third.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let number = |place: usize| fields.get(place - 3)?.parse::<u64>().ok();
    (number(5)? == u64::from(group)).then_some(number(14)? + number(15)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_the_group() {
        let stat = "12 (a) b (c) S 1 77 12 0 -1 4194560 5 6 7 8 30 12 0 0 20 0 1 0 9 10 11";
        assert_eq!(ticks_in_group(stat, 77), Some(42));
        assert_eq!((ticks_in_group(stat, 12), ticks_in_group("", 12)), (None, None));
    }
}
