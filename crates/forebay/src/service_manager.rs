//! The process in the hands of a service manager: sockets that it has opened (systemd's `LISTEN_FDS`), the
//! state that it is told (`sd_notify`), and sockets of the Forebay that this one replaces.
//!
//! Must not be in here: the start of a successor, which is `successor`'s.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::Context;
use proxy::{HandedSockets, handed_descriptor};

/// Variable with the numbers of descriptors that the Forebay before hands over: listening sockets.
pub(crate) const SOCKETS: &str = "FOREBAY_HANDED_SOCKETS";

/// Variable with the numbers of descriptors for QUIC: a channel to the Forebay before, and its sockets.
pub(crate) const QUIC: &str = "FOREBAY_HANDED_QUIC";

/// Variable with the ports that the Forebay before got from the kernel, as in `http=40001,admin=40002`.
pub(crate) const PORTS: &str = "FOREBAY_HANDED_PORTS";

/// Variable with the addresses of sockets that the service manager keeps, as in `[::]:80,[::]:443`.
pub(crate) const KEPT: &str = "FOREBAY_HANDED_KEPT";

/// Variable with the number of the descriptor into which the successor writes when it serves.
pub(crate) const READY: &str = "FOREBAY_HANDED_READY";

/// The first descriptor that systemd hands over (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;

/// Most sockets that systemd may hand over.
const SOCKETS_MAX: RawFd = 4096;

/// The sockets that this process was handed.
///
/// # Errors
/// A variable or a descriptor is not as it should be.
pub(crate) fn handed_sockets() -> anyhow::Result<HandedSockets> {
    if let Ok(numbers) = env::var(SOCKETS) {
        let numbers = list(&numbers).with_context(|| format!("{SOCKETS}={numbers}"))?;
        let ports = env::var(PORTS).unwrap_or_default();
        let ports = ports_of(&ports).with_context(|| format!("{PORTS}={ports}"))?;
        let kept = env::var(KEPT).unwrap_or_default();
        let kept = addresses(&kept).with_context(|| format!("{KEPT}={kept}"))?;
        let quic = env::var(QUIC).unwrap_or_default();
        let quic = list(&quic).with_context(|| format!("{QUIC}={quic}"))?;
        let sockets = HandedSockets::new(&numbers, &[], ports).context(SOCKETS)?.with_kept(kept);
        return sockets.with_quic(&quic).context(QUIC);
    }
    let is_ours = env::var("LISTEN_PID").is_ok_and(|pid| pid == std::process::id().to_string());
    let count = env::var("LISTEN_FDS").unwrap_or_default();
    if !is_ours || count.is_empty() {
        return Ok(HandedSockets::default());
    }
    let count = count.parse().ok().filter(|count| (0..=SOCKETS_MAX).contains(count));
    let count = count.context("LISTEN_FDS is not a number of descriptors")?;
    let numbers: Vec<_> = (FIRST..FIRST + count).collect();
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<_> = names.split(':').collect();
    let sockets = HandedSockets::new(&numbers, &names, BTreeMap::new()).context("LISTEN_FDS")?;
    let kept = sockets.addresses();
    Ok(sockets.with_kept(kept))
}

fn list(text: &str) -> anyhow::Result<Vec<RawFd>> {
    let numbers = text.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().with_context(|| format!("{number:?} is no descriptor"))).collect()
}

fn addresses(text: &str) -> anyhow::Result<Vec<std::net::SocketAddr>> {
    let addresses = text.split(',').filter(|address| !address.is_empty());
    addresses.map(|address| address.parse().with_context(|| format!("{address:?} is no address"))).collect()
}

fn ports_of(text: &str) -> anyhow::Result<BTreeMap<String, u16>> {
    let port = |pair: &str| {
        let (name, port) = pair.split_once('=').with_context(|| format!("{pair:?} has no port"))?;
        anyhow::Ok((name.to_owned(), port.parse()?))
    };
    text.split(',').filter(|pair| !pair.is_empty()).map(port).collect()
}

/// Whether this process replaces another Forebay, which goes on until this one serves.
pub(crate) fn is_successor() -> bool {
    env::var_os(READY).is_some()
}

/// Tells the Forebay that this one replaces, and the service manager, that this process serves.
pub(crate) fn tell_ready() {
    if let Ok(number) = env::var(READY) {
        let told = number.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let told =
            told.and_then(handed_descriptor).and_then(|pipe| std::fs::File::from(pipe).write_all(b"."));
        if let Err(error) = told {
            tracing::warn!(%error, "the process that this one replaces does not hear that it serves");
        }
    }
    notify(&format!("READY=1\nMAINPID={}", std::process::id()));
}

/// Tells the service manager that this process ends.
pub(crate) fn tell_stopping() {
    notify("STOPPING=1");
}

/// Sends a state to the service manager, if there is one (`sd_notify(3)`).
fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else { return };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "the service manager (NOTIFY_SOCKET) cannot be told how this process does");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        assert_eq!(list("7,12").unwrap(), [7, 12]);
        assert_eq!(addresses("[::]:80,0.0.0.0:81").unwrap().len(), 2);
        assert!(addresses("").unwrap().is_empty() && addresses("80").is_err());
        assert!(list("").unwrap().is_empty() && list("7,x").is_err());
        let ports = ports_of("http=40001,admin=40002").unwrap();
        assert_eq!((ports["http"], ports["admin"]), (40_001, 40_002));
        assert!(ports_of("http").is_err() && ports_of("http=x").is_err());
    }
}
