//! UDP, on which HTTP/3 runs: buffers, losses, and what the kernel does for many datagrams at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::count;
use crate::read::udp::{self, UdpSocket};
use crate::read::{counters, kernel};
use crate::sample::{Sample, Unknown};
use crate::samples::Samples;
use crate::sockets::{SocketGroup, State};
use crate::text::{Text, say};

/// Bytes that Forebay asks for, for each of the two buffers of a socket.
const BUFFER_BYTES: u64 = 4 << 20;

/// Share of datagrams whose loss slows every connection down: congestion control takes each for a full link.
const LOST_SHARE: f64 = 0.001;

/// The first kernel with both segmentation of what is sent (`UDP_SEGMENT`, 4.18) and the reverse for what is
/// received (`UDP_GRO`).
const OFFLOADS: kernel::Version = (5, 0);

pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "udp-buffers",
        category: "udp",
        what: "sockets for HTTP/3 have smaller buffers than they ask for: a burst of datagrams finds no room, and is lost",
        how: "rmem_max and wmem_max in /proc/sys/net/core against the 4 MiB that Forebay asks for; UDP sockets at a port that is \
              listened at over TCP too (/proc/net/udp)",
        severity: Verdict::Warning,
        remedy: "sysctl -w net.core.rmem_max=4194304 net.core.wmem_max=4194304, on the node where they are not of the network namespace; \
                 then restart the process",
        case: "none",
        look: buffers,
    },
    Check {
        id: "udp-drops",
        category: "udp",
        what: "datagrams are dropped since a socket's buffer is full: its process reads too slowly, or the buffer is too small for bursts",
        how: "RcvbufErrors, SndbufErrors and MemErrors of Udp in /proc/net/snmp and /proc/net/snmp6 against InDatagrams and OutDatagrams; \
              drops of each socket in /proc/net/udp: one in a thousand is a failure",
        severity: Verdict::Failure,
        remedy: "larger buffers (udp-buffers), more CPU or workers",
        case: "none",
        look: drops,
    },
    Check {
        id: "udp-offload",
        category: "udp",
        what: "the kernel sends or receives each datagram by itself: HTTP/3 costs more CPU time, most of all for large responses",
        how: "the kernel's release: UDP_SEGMENT came with 4.18, UDP_GRO with 5.0; UDP sockets at a port that is listened at over \
              TCP too (/proc/net/udp)",
        severity: Verdict::Warning,
        remedy: "a kernel of version 5.0 or later",
        case: "none",
        look: offload,
    },
];

/// The UDP sockets at ports that are listened at over TCP too, as those of HTTP/3 are.
fn beside_listeners(samples: &Samples) -> Result<Vec<UdpSocket>, Unknown> {
    let listening = samples.sockets()?;
    let port = |group: &SocketGroup| group.local.rsplit_once(':')?.1.parse::<u16>().ok();
    let ports: Vec<u16> =
        listening.iter().filter(|group| group.state == State::Listen).filter_map(port).collect();
    let sockets = udp::of(samples.last()?)?;
    Ok(sockets.into_iter().filter(|socket| ports.contains(&socket.local.port())).collect())
}

fn buffers(samples: &Samples) -> Result<Outcome, Unknown> {
    let sample = samples.last()?;
    let bytes = |name: &str| sample.number::<u64>(&format!("proc/sys/net/core/{name}"));
    let received = bytes("rmem_max")?;
    let sent = bytes("wmem_max")?;
    let sockets = beside_listeners(samples)?;
    let smallest = received.min(sent);
    let outcome = match sockets.first() {
        None => Outcome::ok(say!("no socket for HTTP/3 is open")),
        Some(_) if smallest >= BUFFER_BYTES => {
            Outcome::ok(say!("sockets for HTTP/3 may have buffers of {} bytes", count(smallest)))
        }
        Some(socket) => Outcome::warning(say!(
            "sockets for HTTP/3, such as {}, have buffers of at most {} bytes to receive and {} to send; Forebay asks for {}",
            socket.local.to_string(),
            count(received),
            count(sent),
            count(BUFFER_BYTES)
        )),
    };
    Ok(outcome
        .with("rmem_max", received)
        .with("wmem_max", sent)
        .with("asked", BUFFER_BYTES)
        .with("sockets", sockets.len() as u64))
}

fn drops(samples: &Samples) -> Result<Outcome, Unknown> {
    let grown = |name| samples.growth(|sample| counters::udp(sample, name));
    let not_received = grown("RcvbufErrors")?;
    let not_sent = grown("SndbufErrors")?;
    let received = grown("InDatagrams")?;
    let sent = grown("OutDatagrams")?;
    // Kernels before 5.5 do not have it.
    let no_memory = grown("MemErrors").unwrap_or(0);
    let fullest = fullest(samples);
    let lost = not_received + not_sent + no_memory;
    let share = lost as f64 / (received + sent + lost).max(1) as f64;
    let at = fullest.as_ref().map_or_else(Text::none, |(local, drops)| {
        say!("; most of them at {}: {}", local.to_string(), count(*drops))
    });
    let message = say!(
        "{} datagrams that arrived and {} that were to be sent found no room in a buffer{}",
        count(not_received + no_memory),
        count(not_sent),
        at
    );
    let outcome = if lost > 0 && share >= LOST_SHARE {
        Outcome::failure(message)
    } else if lost > 0 {
        Outcome::warning(message)
    } else {
        Outcome::ok(say!("no datagram was dropped for want of room"))
    };
    let outcome = match fullest {
        Some((local, drops)) => outcome.with("socket", local.to_string()).with("socket_drops", drops),
        None => outcome,
    };
    Ok(outcome
        .with("receive_buffer_errors", not_received)
        .with("send_buffer_errors", not_sent)
        .with("memory_errors", no_memory)
        .with("received", received)
        .with("sent", sent))
}

/// The address whose sockets dropped most meanwhile, and how many datagrams; none if nothing shows it.
fn fullest(samples: &Samples) -> Option<(SocketAddr, u64)> {
    // Several sockets may have one address: with SO_REUSEPORT each worker has its own.
    let by_address = |sample: &Sample| -> Option<BTreeMap<SocketAddr, u64>> {
        let mut sums = BTreeMap::new();
        for socket in udp::of(sample).ok()? {
            *sums.entry(socket.local).or_insert(0) += socket.drops;
        }
        Some(sums)
    };
    let (first, last) = samples.ends().ok()?;
    let before = by_address(first)?;
    let grown = by_address(last)?
        .into_iter()
        .map(|(local, drops)| (local, drops.saturating_sub(before.get(&local).copied().unwrap_or(0))));
    grown.filter(|(_, drops)| *drops > 0).max_by_key(|(_, drops)| *drops)
}

fn offload(samples: &Samples) -> Result<Outcome, Unknown> {
    let (version, release) = kernel::version(samples.last()?)?;
    let outcome = if version >= OFFLOADS {
        Outcome::ok(say!("kernel {} sends and receives many datagrams at once", &release))
    } else if beside_listeners(samples)?.is_empty() {
        Outcome::ok(say!("no socket for HTTP/3 is open"))
    } else {
        Outcome::warning(say!("kernel {} sends or receives each datagram by itself", &release))
    };
    Ok(outcome.with("release", release))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, listening, scene};

    const SNMP: &str = "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors\nUdp: ";

    fn socket(local: &str, drops: u64) -> UdpSocket {
        UdpSocket { local: local.parse().unwrap(), queued: 0, drops }
    }

    fn json(sockets: &[UdpSocket]) -> String {
        serde_json::to_string(sockets).unwrap()
    }

    fn with_buffers(rmem: &str, wmem: &str) -> Scene {
        scene()
            .file("proc/sys/net/core/rmem_max", rmem)
            .file("proc/sys/net/core/wmem_max", wmem)
            .sockets(&[listening("0.0.0.0:443")])
    }

    fn after(values: &str) -> Scene {
        scene().grows("proc/net/snmp", &format!("{SNMP}0 0 0 0 0 0 0 0 0\n"), &format!("{SNMP}{values}\n"))
    }

    #[test]
    fn small_buffers_matter_where_http3_is_served() {
        let quic = json(&[socket("0.0.0.0:53", 0), socket("0.0.0.0:443", 0)]);
        let finding = with_buffers("212992\n", "212992\n").file("forebay/udp-sockets.json", &quic);
        let finding = finding.finding("udp-buffers");
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(
            finding.message,
            "sockets for HTTP/3, such as 0.0.0.0:443, have buffers of at most 212,992 bytes to receive and 212,992 to send; \
             Forebay asks for 4,194,304"
        );
        assert!(finding.tells("sockets", 1.0) && finding.tells("asked", 4_194_304.0));
        let finding = with_buffers("8388608", "4194304").file("forebay/udp-sockets.json", &quic);
        assert_eq!(finding.finding("udp-buffers").verdict, Verdict::Ok);
        let finding = with_buffers("212992", "212992").file("forebay/udp-sockets.json", "[]");
        assert_eq!(finding.finding("udp-buffers").message, "no socket for HTTP/3 is open");
        assert_eq!(with_buffers("212992", "212992").finding("udp-buffers").verdict, Verdict::Unknown);
    }

    #[test]
    fn datagrams_that_find_no_room_are_counted_and_placed() {
        let finding = after("9000 0 0 8000 30 0 0 0 5")
            .grows(
                "forebay/udp-sockets.json",
                &json(&[socket("0.0.0.0:443", 100), socket("0.0.0.0:443", 0), socket("0.0.0.0:53", 50)]),
                &json(&[socket("0.0.0.0:443", 120), socket("0.0.0.0:443", 10), socket("0.0.0.0:53", 51)]),
            )
            .finding("udp-drops");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(
            finding.message,
            "35 datagrams that arrived and 0 that were to be sent found no room in a buffer; most of them at 0.0.0.0:443: 30"
        );
        assert!(finding.tells("receive_buffer_errors", 30.0) && finding.tells("socket_drops", 30.0));
        assert_eq!(after("90000 0 0 80000 0 3 0 0 0").finding("udp-drops").verdict, Verdict::Warning);
        let finding = after("9000 7 7 8000 0 0 7 0 0").finding("udp-drops");
        assert_eq!(
            (finding.verdict, &*finding.message),
            (Verdict::Ok, "no datagram was dropped for want of room")
        );
    }

    #[test]
    fn kernels_before_5_0_send_or_receive_one_by_one() {
        let with = |release: &str, sockets: &[UdpSocket]| {
            let scene =
                scene().file("proc/sys/kernel/osrelease", release).sockets(&[listening("0.0.0.0:443")]);
            scene.file("forebay/udp-sockets.json", &json(sockets)).finding("udp-offload")
        };
        let of = |release: &str| with(release, &[socket("0.0.0.0:443", 0)]);
        assert_eq!(of("6.18.44\n").verdict, Verdict::Ok);
        assert_eq!(of("5.0.0\n").verdict, Verdict::Ok);
        let old = of("4.19.0-27-amd64\n");
        assert_eq!(old.verdict, Verdict::Warning);
        assert_eq!(old.message, "kernel 4.19.0-27-amd64 sends or receives each datagram by itself");
        let unused = with("4.19.0-27-amd64\n", &[]);
        assert_eq!((unused.verdict, &*unused.message), (Verdict::Ok, "no socket for HTTP/3 is open"));
        let hidden = scene().file("proc/sys/kernel/osrelease", "4.19.0-27-amd64\n").finding("udp-offload");
        assert_eq!(hidden.verdict, Verdict::Unknown);
    }
}
