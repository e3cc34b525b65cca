//! Reads `/proc/PID/limits`: columns of name, soft limit, hard limit and unit (`proc_pid_limits(5)`).

use crate::sample::{Sample, Unknown};
use crate::text::say;

/// Soft and hard limit of open files; `u64::MAX` for unlimited.
pub(crate) fn open_files(sample: &Sample, pid: u32) -> Result<(u64, u64), Unknown> {
    let path = format!("proc/{pid}/limits");
    let line = sample.text(&path)?.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut values = line.into_iter().flat_map(str::split_whitespace).map(limit);
    match (values.next().flatten(), values.next().flatten()) {
        (Some(soft), Some(hard)) => Ok((soft, hard)),
        _ => Err(Unknown(say!("/{} has no limit of open files", path))),
    }
}

fn limit(text: &str) -> Option<u64> {
    if text == "unlimited" { Some(u64::MAX) } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let mut sample = Sample::default();
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max cpu time              unlimited            unlimited            seconds   \n\
                    Max open files            1024                 unlimited            files     \n";
        sample.put("proc/7/limits", Ok(text.into()));
        sample.put("proc/8/limits", Ok("Limit\n".into()));
        assert_eq!(open_files(&sample, 7), Ok((1024, u64::MAX)));
        assert!(open_files(&sample, 8).is_err() && open_files(&sample, 9).is_err());
    }
}
