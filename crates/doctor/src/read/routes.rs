//! Reads IPv4 routes and neighbours, and the kinds of devices: `/proc/net/route`, `/proc/net/arp`
//! (`proc_pid_net(5)`) and `/sys/class/net` (the kernel's `ABI/testing/sysfs-class-net`).

use std::net::Ipv4Addr;

use crate::sample::Sample;

// Values of include/uapi/linux/route.h and if_arp.h.
const RTF_UP: u32 = 0x1;
const RTF_REJECT: u32 = 0x200;
const ATF_COM: u32 = 0x2;
const ARPHRD_TUNNEL: &str = "768";

/// A route of the kernel's table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route {
    pub(crate) device: String,
    pub(crate) destination: Ipv4Addr,
    /// Length of the prefix, in bits.
    pub(crate) bits: u32,
    /// Next hop; `None` if the destination is on the link itself.
    pub(crate) gateway: Option<Ipv4Addr>,
}

/// Devices that encapsulate packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    Vxlan,
    Geneve,
    Ipip,
    Wireguard,
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Tunnel(Tunnel),
    /// Neither `/sys` nor its name shows the kind.
    NotKnown,
}

impl Route {
    pub(crate) fn holds(&self, address: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
        address.to_bits() & mask == self.destination.to_bits()
    }

    /// Whether it is the route of a subnet that the device is in.
    pub(crate) fn is_connected(&self) -> bool {
        self.gateway.is_none() && self.bits > 0
    }
}

impl Tunnel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tunnel::Vxlan => "vxlan",
            Tunnel::Geneve => "geneve",
            Tunnel::Ipip => "ipip",
            Tunnel::Wireguard => "wireguard",
        }
    }

    /// Bytes that encapsulation over IPv4 adds to a packet: RFC 7348 section 5, RFC 8926 section 3, RFC 2003
    /// section 3.1, and the `WireGuard` paper, section 5.4.6.
    pub(crate) fn overhead_bytes(self) -> u64 {
        match self {
            Tunnel::Vxlan | Tunnel::Geneve => 50,
            Tunnel::Ipip => 20,
            Tunnel::Wireguard => 60,
        }
    }
}

/// Parses `/proc/net/route`. Addresses are words in the machine's byte order, here little endian.
pub(crate) fn routes(text: &str) -> Vec<Route> {
    text.lines().skip(1).filter_map(route).collect()
}

/// The route that a packet to this address takes.
pub(crate) fn route_to(routes: &[Route], address: Ipv4Addr) -> Option<&Route> {
    routes.iter().filter(|route| route.holds(address)).max_by_key(|route| route.bits)
}

/// Parses `/proc/net/arp`: the addresses that have answered, and their devices.
pub(crate) fn neighbours(text: &str) -> Vec<(Ipv4Addr, &str)> {
    let lines = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let complete = lines.filter_map(|fields| {
        let [address, _type, flags, _hardware, _mask, device] = fields[..] else { return None };
        let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        (flags & ATF_COM != 0).then_some((address.parse().ok()?, device))
    });
    complete.collect()
}

/// The kind of a device, from `/sys` or else from the name that network plugins give it.
pub(crate) fn kind(sample: &Sample, device: &str) -> Kind {
    const NAMES: &[(&str, Tunnel)] = &[
        ("flannel-wg", Tunnel::Wireguard),
        ("flannel-v6", Tunnel::Vxlan),
        ("flannel.ipip", Tunnel::Ipip),
        ("flannel.", Tunnel::Vxlan),
        ("vxlan", Tunnel::Vxlan),
        ("cilium_vxlan", Tunnel::Vxlan),
        ("cilium_geneve", Tunnel::Geneve),
        ("genev", Tunnel::Geneve),
        ("tunl", Tunnel::Ipip),
        ("wireguard", Tunnel::Wireguard),
        ("wg", Tunnel::Wireguard),
    ];
    let file = |name: &str| sample.text(&format!("sys/class/net/{device}/{name}"));
    let (uevent, hardware) = (file("uevent"), file("type"));
    let of_uevent = uevent.as_ref().ok().and_then(|text| {
        text.lines().find_map(|line| match line.strip_prefix("DEVTYPE=")? {
            "vxlan" => Some(Tunnel::Vxlan),
            "geneve" => Some(Tunnel::Geneve),
            "wireguard" => Some(Tunnel::Wireguard),
            _ => None,
        })
    });
    let of_type = hardware.as_ref().ok().filter(|text| text.trim() == ARPHRD_TUNNEL).map(|_| Tunnel::Ipip);
    match of_uevent.or(of_type) {
        Some(tunnel) => Kind::Tunnel(tunnel),
        None if uevent.is_ok() || hardware.is_ok() => Kind::Plain,
        None => {
            let named = NAMES.iter().find(|(prefix, _)| device.starts_with(prefix));
            named.map_or(Kind::NotKnown, |(_, tunnel)| Kind::Tunnel(*tunnel))
        }
    }
}

fn route(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [device, destination, gateway, flags, _, _, _, mask, ..] = fields[..] else { return None };
    let address = |text| Some(Ipv4Addr::from(u32::from_str_radix(text, 16).ok()?.to_le_bytes()));
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let gateway: Ipv4Addr = address(gateway)?;
    (flags & RTF_UP != 0 && flags & RTF_REJECT == 0).then_some(Route {
        device: device.to_owned(),
        destination: address(destination)?,
        bits: u32::from_str_radix(mask, 16).ok()?.count_ones(),
        gateway: (!gateway.is_unspecified()).then_some(gateway),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scene;

    #[test]
    fn routes_and_neighbours_are_read() {
        let text = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
            eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n\
            *\t0001F40A\t00000000\t0201\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            tunl0\t4001F40A\t0C01A8C0\t0003\t0\t0\t0\tC0FFFFFF\t0\t0\t0\n";
        let routes = routes(text);
        assert_eq!(routes.len(), 3);
        assert!(routes[1].is_connected() && !routes[0].is_connected());
        let pods = Route {
            device: "tunl0".into(),
            destination: [10, 244, 1, 64].into(),
            bits: 26,
            gateway: Some([192, 168, 1, 12].into()),
        };
        assert_eq!(routes[2], pods);
        let device = |address: [u8; 4]| route_to(&routes, address.into()).map(|route| &route.device[..]);
        assert_eq!(device([10, 244, 1, 100]), Some("tunl0"));
        assert_eq!(device([10, 244, 1, 128]), Some("eth0"));
        let arp = "IP address       HW type     Flags       HW address            Mask     Device\n\
            192.168.1.12     0x1         0x2         02:00:00:00:00:02     *        eth0\n\
            192.168.1.13     0x1         0x0         00:00:00:00:00:00     *        eth0\n";
        assert_eq!(neighbours(arp), [([192, 168, 1, 12].into(), "eth0")]);
    }

    #[test]
    fn devices_are_told_by_sys_or_by_name() {
        let samples = scene()
            .file("sys/class/net/a/uevent", "DEVTYPE=vxlan\nINTERFACE=a\nIFINDEX=3\n")
            .file("sys/class/net/b/uevent", "INTERFACE=b\nIFINDEX=4\n")
            .file("sys/class/net/b/type", "768\n")
            .file("sys/class/net/c/uevent", "DEVTYPE=wireguard\nINTERFACE=c\nIFINDEX=5\n")
            .file("sys/class/net/vxlan-like/uevent", "INTERFACE=vxlan-like\nIFINDEX=6\n")
            .samples();
        let sample = samples.last().unwrap();
        let kinds = ["a", "b", "c", "vxlan-like", "flannel.1", "eth0"].map(|device| kind(sample, device));
        let expected = [
            Kind::Tunnel(Tunnel::Vxlan),
            Kind::Tunnel(Tunnel::Ipip),
            Kind::Tunnel(Tunnel::Wireguard),
            Kind::Plain,
            Kind::Tunnel(Tunnel::Vxlan),
            Kind::NotKnown,
        ];
        assert_eq!(kinds, expected);
    }
}
