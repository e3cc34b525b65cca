//! Reads `/proc/net/stat/nf_conntrack`: a line of names, and for each CPU a line of counters in hexadecimal.

use crate::sample::{Sample, Unknown};
use crate::text::say;

/// The file with the counters.
pub(crate) const PATH: &str = "proc/net/stat/nf_conntrack";

/// A counter, summed over the CPUs.
pub(crate) fn counter(sample: &Sample, name: &str) -> Result<u64, Unknown> {
    let mut lines = sample.text(PATH)?.lines();
    let names = lines.next().unwrap_or_default();
    let column = names.split_whitespace().position(|known| known == name);
    let column = column.ok_or_else(|| Unknown(say!("/{} has no {}", PATH, name)))?;
    let values = lines.filter_map(|line| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok());
    Ok(values.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_up_over_cpus() {
        let mut sample = Sample::default();
        sample.put(
            PATH,
            Ok("entries  drop insert_failed\n00000010  0000000a 00000000\n00000010  00000001 00000002\n"
                .into()),
        );
        assert_eq!((counter(&sample, "drop"), counter(&sample, "insert_failed")), (Ok(11), Ok(2)));
        assert!(counter(&sample, "early_drop").is_err());
    }
}
