//! Slow clients, by `slowhttptest`: with the head of a request, with its body, or with reading the response.
//!
//! Must not be in here: figures of other clients.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::endpoint::BIG_PATH;
use super::site::Site;
use crate::child::Program;

/// Connections that each kind opens in a second.
const OPENED: usize = 1000;

/// A kind of slowness: its name, what `slowhttptest` is told of it, and what is asked for.
const KINDS: [(&str, &[&str], &str); 3] = [
    ("slow-heads", &["-H", "-i", "5", "-x", "24"], "/"),
    ("slow-bodies", &["-B", "-i", "5", "-x", "24", "-s", "8192"], "/"),
    ("slow-reads", &["-X", "-n", "5", "-z", "32", "-w", "512", "-y", "1024"], BIG_PATH),
];

/// Of so many, those of a situation whose main part lasts that long: where it is short, it is only tried.
pub(super) fn part_of(count: usize, main: Duration) -> usize {
    if main < Duration::from_secs(10) { count / 10 } else { count }
}

/// Time in which so many of them are there.
pub(super) fn opening(count: usize) -> Duration {
    Duration::from_secs(1) + Duration::from_secs_f64(count as f64 / (KINDS.len() * OPENED) as f64)
}

/// Starts so many, a third of each kind. They stay until what is returned is dropped.
pub(super) fn start(site: &Site, proxy: SocketAddr, host: &str, count: usize) -> Result<Vec<Program>> {
    let each = (count / KINDS.len()).to_string();
    let start = |(name, arguments, path): (&str, &[&str], &str)| {
        let mut command = Command::new("slowhttptest");
        // The name in the URL is not resolved where there is a proxy.
        command.args(["-u", &format!("http://{host}{path}"), "-d", &proxy.to_string()]);
        command.args(["-c", &each, "-r", &OPENED.to_string(), "-l", "3600", "-v", "1"]).args(arguments);
        Program::start(name, command, &site.cpus.load, site.folder.path())
            .context("it needs Debian's slowhttptest")
    };
    KINDS.into_iter().map(start).collect()
}
