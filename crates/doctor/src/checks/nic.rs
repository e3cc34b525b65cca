//! Saturated links, and packets lost by network devices.

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::{count, rate};
use crate::read::devices::{self, Device, Flow, Softnet};
use crate::sample::{Sample, Unknown};
use crate::samples::Samples;
use crate::text::{Text, say};

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "nic",
    category: "network",
    what: "a link is saturated, or packets are lost in a device's ring or a CPU's queue",
    how: "bytes of /proc/net/dev against /sys/class/net/DEVICE/speed; drops there, rx_missed_errors, and dropped and \
          time_squeeze of /proc/net/softnet_stat, between two samples",
    severity: Verdict::Failure,
    remedy: "a faster link, or fewer bytes: compression and caching in the proxy",
    case: "C, D",
    look: nic,
}];

/// Shares of a link's speed. The frames' overhead is not counted, and takes at least 5 % of the link.
const LINK_WARNING: f64 = 0.80;
const LINK_FAILURE: f64 = 0.95;

/// Shares of packets that are lost: TCP halves its sending rate at each loss. The drops of a device include
/// frames for unknown protocols.
const DEVICE_WARNING: f64 = 0.001;
const QUEUE_WARNING: f64 = 0.0001;
const LOSS_FAILURE: f64 = 0.01;
const LOST_MIN: u64 = 10;

/// Times per second that the kernel ended a polling turn with packets left.
const SQUEEZED_PER_SECOND: f64 = 1000.0;

fn nic(samples: &Samples) -> Result<Outcome, Unknown> {
    let (first, last) = samples.ends()?;
    let seconds = samples.seconds()?;
    let (before, after) = (devices::devices(first)?, devices::devices(last)?);
    let mut outcomes = vec![judge_queues(devices::softnet(first)?, devices::softnet(last)?, seconds)];
    let mut without_speed = Vec::new();
    for now in after.iter().filter(|device| device.name != "lo") {
        let Some(was) = before.iter().find(|was| was.name == now.name) else { continue };
        outcomes.extend(judge_drops(first, last, was, now));
        match devices::link_bytes_per_second(last, &now.name) {
            Some(speed) => outcomes.push(judge_link(was, now, speed, seconds)),
            None => without_speed.push(&now.name[..]),
        }
    }
    let worst = outcomes.into_iter().max_by_key(|outcome| outcome.verdict);
    let worst = worst.ok_or_else(|| Unknown(say!("no queue was captured")))?;
    Ok(if without_speed.is_empty() {
        worst
    } else {
        worst.with("without_link_speed", without_speed.join(" "))
    })
}

fn judge_link(was: &Device, now: &Device, speed: f64, seconds: f64) -> Outcome {
    let flow = |now: Flow, was: Flow| now.bytes.saturating_sub(was.bytes) as f64 / seconds;
    let (received, sent) = (flow(now.received, was.received), flow(now.sent, was.sent));
    let used = sent.max(received);
    let share = used / speed;
    let verdict = match share {
        share if share >= LINK_FAILURE => Verdict::Failure,
        share if share >= LINK_WARNING => Verdict::Warning,
        _ => Verdict::Ok,
    };
    let gigabits = |bytes: f64| format!("{:.2}", bytes * 8.0 / 1e9);
    let name = &now.name;
    let used_bits = gigabits(used);
    let speed_bits = gigabits(speed);
    let percent = format!("{:.0}", share * 100.0);
    Outcome::new(
        verdict,
        if sent > received {
            say!("{} sends {} of {} Gbit/s ({} %)", name, used_bits, speed_bits, percent)
        } else {
            say!("{} receives {} of {} Gbit/s ({} %)", name, used_bits, speed_bits, percent)
        },
    )
    .with("device", name.clone())
    .with("received_bytes_per_second", received)
    .with("sent_bytes_per_second", sent)
    .with("link_bytes_per_second", speed)
    .with("used_percent", share * 100.0)
}

/// The verdict on dropped packets; `None` if no relevant packet was dropped.
fn judge_drops(first: &Sample, last: &Sample, was: &Device, now: &Device) -> Option<Outcome> {
    let grown = |now: u64, was: u64| now.saturating_sub(was);
    let received = grown(now.received.dropped, was.received.dropped);
    let sent = grown(now.sent.dropped, was.sent.dropped);
    let packets = grown(now.received.packets + now.sent.packets, was.received.packets + was.sent.packets);
    // Packets for which the device itself had no room. The driver counts them here, and /proc/net/dev
    // includes them in the drops.
    let path = format!("sys/class/net/{}/statistics/rx_missed_errors", now.name);
    let missed = |sample: &Sample| sample.number::<u64>(&path).unwrap_or(0);
    let missed = grown(missed(last), missed(first));
    let verdict = judge_loss(received + sent, packets, DEVICE_WARNING);
    if verdict == Verdict::Ok {
        return None;
    }
    let (name, remedy) = if missed > 0 {
        (
            say!("{}'s ring", now.name),
            say!("ethtool -G {} rx MAX (ethtool -g {} says how many)", now.name, now.name),
        )
    } else if sent > received {
        (Text::from(&now.name), say!("tc -s qdisc show dev {}; a longer queue or a faster link", now.name))
    } else {
        (
            Text::from(&now.name),
            say!("ethtool -S {} says why; sysctl -w net.core.netdev_max_backlog=16384", now.name),
        )
    };
    Some(
        Outcome::new(
            verdict,
            say!("{} dropped {} of {} packets", name, count(received + sent), count(packets)),
        )
        .remedy(remedy)
        .with("device", now.name.clone())
        .with("received_dropped", received)
        .with("received_missed", missed)
        .with("sent_dropped", sent)
        .with("packets", packets),
    )
}

fn judge_queues(was: Softnet, now: Softnet, seconds: f64) -> Outcome {
    let processed = now.processed.saturating_sub(was.processed);
    let dropped = now.dropped.saturating_sub(was.dropped);
    let squeezed = now.squeezed.saturating_sub(was.squeezed) as f64 / seconds;
    let verdict = judge_loss(dropped, processed, QUEUE_WARNING);
    let outcome = if verdict > Verdict::Ok {
        let text = say!(
            "the CPUs' queues dropped {} of {} packets, as they were full",
            count(dropped),
            count(processed + dropped)
        );
        Outcome::new(verdict, text).remedy(say!("sysctl -w net.core.netdev_max_backlog=16384"))
    } else if squeezed >= SQUEEZED_PER_SECOND {
        Outcome::warning(say!(
            "CPUs ended {} turns a second with packets left to receive (time_squeeze)",
            rate(squeezed)
        ))
        .remedy(say!("sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000"))
    } else {
        Outcome::ok(say!("no link is full, and no packets are lost in devices and queues"))
    };
    outcome
        .with("softnet_processed", processed)
        .with("softnet_dropped", dropped)
        .with("softnet_squeezed_per_second", squeezed)
}

fn judge_loss(lost: u64, of: u64, warning: f64) -> Verdict {
    let share = lost as f64 / (of + lost).max(1) as f64;
    match share {
        _ if lost < LOST_MIN || share < warning => Verdict::Ok,
        share if share >= LOSS_FAILURE => Verdict::Failure,
        _ => Verdict::Warning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::testing::{Scene, scene};

    const SOFTNET: &str = "proc/net/softnet_stat";

    fn dev(bytes: u64, packets: u64, rx_dropped: u64, tx_dropped: u64) -> String {
        format!(
            "Inter-|   Receive                                                |  Transmit\n\
             \x20face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
             \x20   lo: {bytes} {packets} 0 {packets} 0 0 0 0 {bytes} {packets} 0 0 0 0 0 0\n\
             \x20 eth0: {bytes} {packets} 0 {rx_dropped} 0 0 0 0 7 0 0 {tx_dropped} 0 0 0 0\n"
        )
    }

    fn softnet(processed: u32, dropped: u32, squeezed: u32) -> String {
        format!(
            "{processed:08x} {dropped:08x} {squeezed:08x} 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n"
        )
    }

    fn machine(bytes: u64, packets: u64, rx_dropped: u64, tx_dropped: u64) -> Scene {
        scene()
            .grows(
                "proc/net/dev",
                &dev(5, 5, 5, 5),
                &dev(5 + bytes, 5 + packets, 5 + rx_dropped, 5 + tx_dropped),
            )
            .file(SOFTNET, &softnet(9, 9, 9))
            .file("sys/class/net/eth0/speed", "1000\n")
            .file("sys/class/net/eth0/device/uevent", "DRIVER=igb\n")
    }

    fn nic_of(scene: Scene) -> Finding {
        scene.finding("nic")
    }

    #[test]
    fn a_full_link_is_found() {
        let full = nic_of(machine(1_220_000_000, 800_000, 0, 0));
        assert_eq!(full.verdict, Verdict::Failure);
        assert_eq!(full.message, "eth0 receives 0.98 of 1.00 Gbit/s (98 %)");
        assert!((full.number("used_percent") - 97.6).abs() < 1e-9);
        assert_eq!(nic_of(machine(1_060_000_000, 800_000, 0, 0)).verdict, Verdict::Warning);
        assert_eq!(nic_of(machine(500_000_000, 800_000, 0, 0)).verdict, Verdict::Ok);
    }

    #[test]
    fn a_virtual_link_has_no_speed_to_be_judged_by() {
        let scene = machine(1_220_000_000, 800_000, 0, 0).file("sys/class/net/eth0/speed", "-1\n");
        let finding = nic_of(scene);
        assert_eq!((finding.verdict, finding.text("without_link_speed")), (Verdict::Ok, "eth0"));
    }

    #[test]
    fn drops_are_found_where_they_matter() {
        let ring = machine(1000, 100_000, 2000, 0)
            .grows("sys/class/net/eth0/statistics/rx_missed_errors", "4\n", "1900\n")
            .finding("nic");
        assert_eq!(ring.verdict, Verdict::Failure);
        assert_eq!(ring.message, "eth0's ring dropped 2,000 of 100,000 packets");
        assert_eq!(ring.remedy, "ethtool -G eth0 rx MAX (ethtool -g eth0 says how many)");
        assert_eq!(nic_of(machine(1000, 100_000, 0, 200)).verdict, Verdict::Warning);
        // Frames for unknown protocols, and drops of lo.
        assert_eq!(nic_of(machine(1000, 100_000, 20, 0)).verdict, Verdict::Ok);
    }

    #[test]
    fn full_queues_and_short_turns_are_found() {
        let with = |dropped: u32, squeezed: u32| {
            let last = softnet(9 + 1_000_000, 9 + dropped, 9 + squeezed);
            nic_of(machine(0, 0, 0, 0).grows(SOFTNET, &softnet(9, 9, 9), &last))
        };
        let dropped = with(500, 0);
        assert_eq!(dropped.verdict, Verdict::Warning);
        assert_eq!(dropped.message, "the CPUs' queues dropped 500 of 1,000,500 packets, as they were full");
        assert_eq!(with(50_000, 0).verdict, Verdict::Failure);
        assert_eq!(with(0, 20_000).verdict, Verdict::Warning);
        assert_eq!(with(9, 90).verdict, Verdict::Ok);
    }

    #[test]
    fn without_the_counters_it_is_unknown() {
        let hidden = scene().file("proc/net/dev", &dev(0, 0, 0, 0)).forbids(SOFTNET).finding("nic");
        assert_eq!(hidden.verdict, Verdict::Unknown);
        assert!(hidden.message.contains("permission denied"), "{}", hidden.message);
        let mut samples = machine(0, 0, 0, 0).samples();
        samples.all.pop();
        assert!(nic(&samples).is_err());
    }
}
