//! Reads the kernel's version and its parameters.

use crate::sample::{Sample, Unknown};
use crate::text::say;

/// The first two numbers of a release, such as `(5, 9)`.
pub(crate) type Version = (u32, u32);

/// The kernel's version, from `/proc/sys/kernel/osrelease` or, if that was not captured, `/proc/version`.
pub(crate) fn version(sample: &Sample) -> Result<(Version, String), Unknown> {
    let release = match sample.text("proc/sys/kernel/osrelease") {
        Ok(release) => release.trim().to_owned(),
        Err(unknown) => {
            let text = sample.text("proc/version").map_err(|_| unknown)?;
            text.strip_prefix("Linux version ")
                .unwrap_or(text)
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_owned()
        }
    };
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => Ok(((major, minor), release)),
        _ => Err(Unknown(say!("{} is no kernel's release", format!("{release:?}")))),
    }
}

/// Parameters in the output of `sysctl -a` or a file of sysctl.conf(5), by their path below `/proc/sys`.
pub(crate) fn parameters(text: &str) -> impl Iterator<Item = (String, String)> {
    text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])).filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim().trim_start_matches('-');
        // sysctl.d(5): the first separator in a name is its separator; the other character stands for itself.
        let path = if name.find('/') < name.find('.') && name.contains('/') {
            name.to_owned()
        } else {
            name.replace('.', "/")
        };
        Some((path, plain(value)))
    })
}

/// A value whose fields are separated by one space.
pub(crate) fn plain(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_distributions_are_read() {
        let of = |path: &str, text: &str| {
            let mut sample = Sample::default();
            sample.put(path, Ok(text.into()));
            version(&sample).map(|(version, _)| version)
        };
        assert_eq!(of("proc/sys/kernel/osrelease", "3.10.0-1160.el7.x86_64\n"), Ok((3, 10)));
        assert_eq!(of("proc/sys/kernel/osrelease", "6.18-rc1\n"), Ok((6, 18)));
        assert_eq!(of("proc/version", "Linux version 5.4.0-91-generic (b@h) (gcc) #1 SMP\n"), Ok((5, 4)));
        assert!(of("proc/sys/kernel/osrelease", "new\n").is_err());
        assert!(version(&Sample::default()).is_err());
    }

    #[test]
    fn both_ways_to_write_a_parameter_are_read() {
        let text =
            "# a comment\nnet.ipv4.ip_local_port_range = 1024\t65535\n-net/core/somaxconn=9\nno value\n";
        let read: Vec<_> = parameters(text).collect();
        let expected = [("net/ipv4/ip_local_port_range", "1024 65535"), ("net/core/somaxconn", "9")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
