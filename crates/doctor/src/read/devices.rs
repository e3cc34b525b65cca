//! Reads the counters of network devices: `/proc/net/dev` (`proc_pid_net(5)`) and `/proc/net/softnet_stat`
//! (the kernel's `net-procfs.c`).

use crate::sample::{Sample, Unknown};
use crate::text::say;

/// Counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Flow {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Packets that were dropped for want of room in the ring or above it.
    pub(crate) dropped: u64,
}

/// Counters of one device.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) received: Flow,
    pub(crate) sent: Flow,
}

/// Losses and delays of packets between the devices and the network stack, on all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Softnet {
    pub(crate) processed: u64,
    /// Packets dropped because a CPU's queue (`net.core.netdev_max_backlog`) was full.
    pub(crate) dropped: u64,
    /// Polling turns that ended with packets left, since their time or budget (`net.core.netdev_budget`) was
    /// used up.
    pub(crate) squeezed: u64,
}

/// All devices of the network namespace.
pub(crate) fn devices(sample: &Sample) -> Result<Vec<Device>, Unknown> {
    let text = sample.text("proc/net/dev")?;
    Ok(text.lines().skip(2).filter_map(device).collect())
}

/// The counters, summed over the CPUs.
pub(crate) fn softnet(sample: &Sample) -> Result<Softnet, Unknown> {
    let path = "proc/net/softnet_stat";
    let mut sum = Softnet::default();
    for line in sample.text(path)?.lines() {
        let mut columns = line.split_whitespace().map_while(|column| u64::from_str_radix(column, 16).ok());
        let (Some(processed), Some(dropped), Some(squeezed)) =
            (columns.next(), columns.next(), columns.next())
        else {
            return Err(Unknown(say!("/{} has a line that is none: {}", path, format!("{line:?}"))));
        };
        sum.processed += processed;
        sum.dropped += dropped;
        sum.squeezed += squeezed;
    }
    Ok(sum)
}

/// The capacity of a link in one direction, in bytes per second. `None` for a virtual device: the kernel
/// knows no speed of it, or one that does not limit it.
pub(crate) fn link_bytes_per_second(sample: &Sample, device: &str) -> Option<f64> {
    const MEGABITS_MAX: u64 = 1_000_000;
    let folder = format!("sys/class/net/{device}");
    let is_virtual = sample.lacks(&format!("{folder}/device/uevent"));
    let megabits: u64 = sample.number(&format!("{folder}/speed")).ok()?;
    // Old kernels show 65535 or 4294967295 for an unknown speed.
    let is_speed = (1..=MEGABITS_MAX).contains(&megabits) && megabits != 65_535;
    (is_speed && !is_virtual).then_some(megabits as f64 * 1e6 / 8.0)
}

fn device(line: &str) -> Option<Device> {
    let (name, counters) = line.split_once(':')?;
    let counters: Vec<u64> = counters.split_whitespace().map_while(|counter| counter.parse().ok()).collect();
    let flow = |at: usize| {
        Some(Flow {
            bytes: *counters.get(at)?,
            packets: *counters.get(at + 1)?,
            dropped: *counters.get(at + 3)?,
        })
    };
    Some(Device { name: name.trim().to_owned(), received: flow(0)?, sent: flow(8)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scene;

    #[test]
    fn counters_are_read() {
        let samples = scene()
            .file(
                "proc/net/dev",
                "Inter-|   Receive                                                |  Transmit\n\
                 \x20face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
                 \x20   lo:      70       7    0    1    0     0          0         0       70       7    0    0    0     0       0          0\n\
                 \x20 eth0: 808119646   49954    0    3    0     0          0         0  3540715   34164    0    4    0     0       0          0\n",
            )
            .file(
                "proc/net/softnet_stat",
                "00000010 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n\
                 000000ff 00000002 00000003 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000000 00000000\n",
            )
            .samples();
        let sample = samples.last().unwrap();
        let eth0 = Device {
            name: "eth0".into(),
            received: Flow { bytes: 808_119_646, packets: 49_954, dropped: 3 },
            sent: Flow { bytes: 3_540_715, packets: 34_164, dropped: 4 },
        };
        assert_eq!(devices(sample).expect("two")[1], eth0);
        assert_eq!(softnet(sample), Ok(Softnet { processed: 271, dropped: 3, squeezed: 5 }));
    }

    #[test]
    fn virtual_links_have_no_speed() {
        let samples = scene()
            .file("sys/class/net/eth0/speed", "10000\n")
            .file("sys/class/net/veth0/speed", "10000\n")
            .lacks("sys/class/net/veth0/device/uevent")
            .file("sys/class/net/virtio/speed", "-1\n")
            .file("sys/class/net/old/speed", "65535\n")
            .samples();
        let speed = |device| link_bytes_per_second(samples.last().unwrap(), device);
        assert_eq!(
            ["eth0", "veth0", "virtio", "old", "none"].map(speed),
            [Some(1.25e9), None, None, None, None]
        );
    }
}
