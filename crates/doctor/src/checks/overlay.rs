//! Tunnels (overlay networks) between machines that could reach each other without one.

use std::net::{IpAddr, Ipv4Addr};

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::{self, machines};
use crate::read::routes::{self, Kind, Route, Tunnel};
use crate::sample::{Sample, Unknown};
use crate::samples::Samples;
use crate::sockets::SocketGroup;
use crate::text::{Text, say};
use crate::tunnels::TunnelEnd;

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "overlay",
    category: "network",
    what: "packets to Pods of other nodes go through a tunnel though the nodes share a subnet, or the tunnel's MTU does not fit \
           the link below it",
    how: "/proc/net/route; vxlan, geneve, ipip and wireguard devices by /sys/class/net; their other ends by gateways and \
          forwarding databases, or as a hint by /proc/net/arp; MTUs",
    severity: Verdict::Failure,
    remedy: "plain routes between the nodes: flannel \"Backend\": {\"Type\": \"host-gw\"}; Calico ipipMode or vxlanMode: \
             CrossSubnet; Cilium routing-mode: native with auto-direct-node-routes: true",
    case: "A, C",
    look: overlay,
}];

/// Share of the possible MTU below which the MTU is too small: each packet costs the same, whatever its size.
const MTU_PART_MIN: f64 = 0.9;

/// A tunnel with routes through it, and the network below it.
struct Overlay<'a> {
    device: &'a str,
    tunnel: Tunnel,
    /// Number of routes.
    routes: usize,
    /// Number of its known remote ends.
    ends: usize,
    /// Number of remote ends that are in a subnet of a plain device.
    near: usize,
    /// The device below; none if it is not known.
    below: Option<&'a str>,
    /// Number of other machines that a plain device reaches directly.
    neighbours: usize,
    mtu: Option<u64>,
    mtu_below: Option<u64>,
    /// Number of connections from this namespace through it.
    connections: u64,
}

const ROUTES: &str = "proc/net/route";

fn overlay(samples: &Samples) -> Result<Outcome, Unknown> {
    let sample = samples.last()?;
    let sockets = samples.sockets().unwrap_or_default();
    // A Pod's namespace has one route, to its node; the other routes are on the node.
    let mut all_plain = Outcome::ok(say!("no route leads through a tunnel"));
    for place in sample.places(ROUTES) {
        let path = format!("{place}{ROUTES}");
        if sample.lacks(&path) {
            continue;
        }
        let routes = routes::routes(sample.text(&path)?);
        let overlays = overlays(sample, place, &routes, &sockets);
        if !overlays.is_empty() {
            return worst(&overlays);
        }
        let unknown = routes.iter().find(|route| kind(sample, place, &route.device) == Kind::NotKnown);
        if let (Some(route), "") = (unknown, *place) {
            let why =
                sample.text("sys/class/net").err().map_or(Text::none(), |Unknown(why)| say!(" ({})", why));
            return Err(Unknown(say!("/sys does not give the kind of device {}{}", route.device, why)));
        }
        all_plain = all_plain.with(format!("{place}routes"), routes.len() as u64);
    }
    Ok(all_plain)
}

/// The kind of a device. `/sys` describes only the examined namespace; devices of the host are known by name
/// alone.
fn kind(sample: &Sample, place: &str, device: &str) -> Kind {
    if place.is_empty() { routes::kind(sample, device) } else { routes::kind(&Sample::default(), device) }
}

fn overlays<'a>(sample: &Sample, place: &str, all: &'a [Route], sockets: &[SocketGroup]) -> Vec<Overlay<'a>> {
    let mut found: Vec<Overlay<'a>> = Vec::new();
    // A default route through a tunnel does not lead to Pods.
    for route in all.iter().filter(|route| route.bits > 0) {
        let Kind::Tunnel(tunnel) = kind(sample, place, &route.device) else { continue };
        if !found.iter().any(|overlay| overlay.device == route.device) {
            found.push(look_below(sample, place, all, &route.device, tunnel, sockets));
        }
    }
    found
}

fn look_below<'a>(
    sample: &Sample,
    place: &str,
    all: &'a [Route],
    device: &'a str,
    tunnel: Tunnel,
    sockets: &[SocketGroup],
) -> Overlay<'a> {
    let is_plain = |route: &&Route| !matches!(kind(sample, place, &route.device), Kind::Tunnel(_));
    let plain: Vec<&Route> = all.iter().filter(is_plain).collect();
    let through = || all.iter().filter(|route| route.device == device && route.bits > 0);
    let connected = |address: Ipv4Addr| {
        plain.iter().find(|route| route.is_connected() && route.holds(address)).map(|route| &route.device[..])
    };
    let ends = ends(sample, place, device, through(), &connected);
    let near: Vec<&str> = ends.iter().filter_map(|end| connected(*end)).collect();
    let default = plain.iter().find(|route| route.bits == 0).map(|route| &route.device[..]);
    let below = near.first().copied().or(default);
    let mtu = |device: &str| sample.number(&format!("sys/class/net/{device}/mtu")).ok();
    let mtu = |device: &str| if place.is_empty() { mtu(device) } else { None };
    let leads_through = |group: &&SocketGroup| {
        let remote = group.remote.parse().map(|address: std::net::SocketAddr| address.ip());
        matches!(remote, Ok(IpAddr::V4(ip)) if routes::route_to(all, ip).is_some_and(|route| route.device == device))
    };
    Overlay {
        device,
        tunnel,
        routes: through().count(),
        ends: ends.len(),
        near: near.len(),
        below,
        neighbours: neighbours(sample, place, all, below),
        mtu: mtu(device),
        mtu_below: below.and_then(mtu),
        connections: sockets.iter().filter(leads_through).map(|group| group.count).sum(),
    }
}

/// The machines at the remote ends: the entries of the device's forwarding database, or gateways that are not
/// addresses within the tunnel itself, as those of vxlan are.
fn ends<'a>(
    sample: &Sample,
    place: &str,
    device: &str,
    through: impl Iterator<Item = &'a Route>,
    connected: &impl Fn(Ipv4Addr) -> Option<&'a str>,
) -> Vec<Ipv4Addr> {
    let told: Vec<TunnelEnd> = sample.json("forebay/tunnel-ends.json").unwrap_or_default();
    let mut ends: Vec<Ipv4Addr> = told
        .iter()
        .filter(|end| place.is_empty() && end.device == device)
        .filter_map(|end| match end.remote {
            IpAddr::V4(remote) if !remote.is_unspecified() && !remote.is_multicast() => Some(remote),
            _ => None,
        })
        .collect();
    if ends.is_empty() {
        let routes: Vec<&Route> = through.collect();
        let is_within = |gateway: Ipv4Addr| routes.iter().any(|route| route.holds(gateway));
        let gateways = routes.iter().filter_map(|route| route.gateway);
        ends = gateways.filter(|gateway| connected(*gateway).is_some() || !is_within(*gateway)).collect();
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// Machines that have answered on the device below, except routers.
fn neighbours(sample: &Sample, place: &str, all: &[Route], below: Option<&str>) -> usize {
    let text = sample.text(&format!("{place}proc/net/arp")).unwrap_or_default();
    let is_router = |address| all.iter().any(|route| route.gateway == Some(address));
    let found = routes::neighbours(text).into_iter();
    found.filter(|(address, device)| Some(*device) == below && !is_router(*address)).count()
}

fn worst(overlays: &[Overlay<'_>]) -> Result<Outcome, Unknown> {
    let judged: Vec<Result<Outcome, Unknown>> = overlays.iter().map(Overlay::judge).collect();
    let bad = judged.iter().flatten().filter(|outcome| outcome.verdict > Verdict::Ok);
    match bad.max_by_key(|outcome| outcome.verdict) {
        Some(worst) => Ok(worst.clone()),
        // A part that could not be read makes the whole unknown.
        None => {
            judged.into_iter().min_by_key(Result::is_ok).unwrap_or_else(|| Err(Unknown(say!("no tunnel"))))
        }
    }
}

impl Overlay<'_> {
    fn judge(&self) -> Result<Outcome, Unknown> {
        let Overlay { device, ends, near, neighbours, .. } = self;
        let below = &self.below.map_or_else(|| say!("the link below"), Text::from);
        let what = say!("{} ({})", device, self.tunnel.name());
        let routes = say!("{} carries {}", what, format::routes(self.routes));
        let to = machines(*ends);
        let outcome = if let Some(outcome) = self.judge_mtu(&what, below) {
            outcome
        } else if *near > 0 {
            Outcome::warning(say!(
                "{} to {}; {} of them in a subnet of {}, where no tunnel is needed",
                routes,
                to,
                near,
                below
            ))
        } else if *ends > 0 {
            Outcome::ok(say!("{} to {}, all of them in other subnets", routes, to))
        } else if *neighbours > 0 {
            Outcome::warning(say!(
                "{}, and {} answered on {} itself: if those are the nodes, no tunnel is needed",
                routes,
                machines(*neighbours),
                below
            ))
        } else {
            return Err(Unknown(say!("{}, and to which machines was not captured", routes)));
        };
        Ok(self.evidence(outcome))
    }

    /// `None` if the MTU is right or not known.
    fn judge_mtu(&self, what: &Text, below: &Text) -> Option<Outcome> {
        let (mtu, link) = self.mtu.zip(self.mtu_below)?;
        let fits = link.saturating_sub(self.tunnel.overhead_bytes());
        let told =
            say!("the MTU of {} is {}, and {} bytes fit into the {} of {}", what, mtu, fits, link, below);
        let remedy = say!(
            "ip link set {} mtu {}, or the network plugin's own setting (Calico mtu, Cilium MTU)",
            self.device,
            fits
        );
        if mtu > fits {
            Some(Outcome::failure(say!("{}: packets are cut in two, or lost", told)).remedy(remedy))
        } else if (mtu as f64) < fits as f64 * MTU_PART_MIN {
            Some(Outcome::warning(say!("{}: it takes more packets than it need", told)).remedy(remedy))
        } else {
            None
        }
    }

    fn evidence(&self, outcome: Outcome) -> Outcome {
        let mut outcome = outcome
            .with("device", self.device)
            .with("tunnel", self.tunnel.name())
            .with("routes", self.routes as u64)
            .with("other_ends", self.ends as u64)
            .with("other_ends_in_a_shared_subnet", self.near as u64)
            .with("neighbours", self.neighbours as u64)
            .with("connections", self.connections);
        for (name, value) in [("mtu", self.mtu), ("mtu_below", self.mtu_below)] {
            outcome = match value {
                Some(value) => outcome.with(name, value),
                None => outcome,
            };
        }
        match self.below {
            Some(below) => outcome.with("device_below", below),
            None => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::NamespaceOwner;
    use crate::sockets::State;
    use crate::testing::{Scene, outgoing, scene};

    const ID: &str = "overlay";

    fn address(text: &str) -> String {
        let address: Ipv4Addr = text.parse().expect("an address");
        format!("{:08X}", u32::from_le_bytes(address.octets()))
    }

    fn line(device: &str, destination: &str, gateway: &str, bits: u32) -> String {
        let mask = Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - bits).unwrap_or(0)).to_string();
        let destination = address(destination);
        let gateway = address(gateway);
        let mask = address(&mask);
        format!("{device}\t{destination}\t{gateway}\t0003\t0\t0\t0\t{mask}\t0\t0\t0\n")
    }

    /// A node in 192.168.1.0/24 with routes through a device to the Pods of two other nodes.
    fn node(device: &str, uevent: &str, hardware: &str, gateways: [&str; 2], mtu: &str) -> Scene {
        let routes = [
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
                .to_owned(),
            line("eth0", "0.0.0.0", "192.168.1.1", 0),
            line("eth0", "192.168.1.0", "0.0.0.0", 24),
            line("cni0", "10.244.0.0", "0.0.0.0", 24),
            line(device, "10.244.1.0", gateways[0], 24),
            line(device, "10.244.2.0", gateways[1], 24),
        ];
        let device_of = |scene: Scene, device: &str, uevent: &str, hardware: &str, mtu: &str| {
            let folder = format!("sys/class/net/{device}");
            scene
                .file(&format!("{folder}/uevent"), uevent)
                .file(&format!("{folder}/type"), hardware)
                .file(&format!("{folder}/mtu"), mtu)
        };
        let scene = device_of(scene(), "eth0", "INTERFACE=eth0\nIFINDEX=2\n", "1\n", "1500\n");
        let scene = device_of(scene, "cni0", "DEVTYPE=bridge\nINTERFACE=cni0\nIFINDEX=4\n", "1\n", "1450\n");
        device_of(scene, device, uevent, hardware, mtu).file("proc/net/route", &routes.concat())
    }

    fn flannel(mtu: &str) -> Scene {
        let uevent = "DEVTYPE=vxlan\nINTERFACE=flannel.1\nIFINDEX=3\n";
        node("flannel.1", uevent, "1\n", ["10.244.1.0", "10.244.2.0"], mtu)
    }

    fn ends(remotes: [&str; 2]) -> String {
        let end = |remote: &str| format!("{{\"device\":\"flannel.1\",\"remote\":\"{remote}\"}}");
        format!("[{}]", remotes.map(end).join(","))
    }

    #[test]
    fn ipip_between_neighbours_is_found() {
        let finding = node(
            "tunl0",
            "INTERFACE=tunl0\nIFINDEX=3\n",
            "768\n",
            ["192.168.1.12", "192.168.2.13"],
            "1480\n",
        )
        .sockets(&[
            outgoing(State::Established, "10.244.1.7:8080", 20),
            outgoing(State::Established, "10.244.0.7:8080", 9),
        ])
        .finding(ID);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(
            finding.message,
            "tunl0 (ipip) carries 2 routes to 2 machines; 1 of them in a subnet of eth0, where no tunnel is needed"
        );
        assert!(finding.remedy.contains("host-gw"), "{}", finding.remedy);
        assert_eq!((finding.number("connections"), finding.text("device_below")), (20.0, "eth0"));
    }

    #[test]
    fn the_ends_of_vxlan_are_in_its_forwarding_database() {
        let shared = flannel("1450\n")
            .file("forebay/tunnel-ends.json", &ends(["192.168.1.12", "192.168.1.13"]))
            .finding(ID);
        assert_eq!(shared.verdict, Verdict::Warning);
        assert!(shared.tells("other_ends_in_a_shared_subnet", 2.0));
        let apart = flannel("1450\n")
            .file("forebay/tunnel-ends.json", &ends(["192.168.2.12", "192.168.3.13"]))
            .finding(ID);
        assert_eq!(apart.verdict, Verdict::Ok, "{}", apart.message);
    }

    #[test]
    fn without_ends_neighbours_are_a_hint_and_without_those_it_is_unknown() {
        let arp = |address: &str| {
            format!(
                "IP address       HW type     Flags       HW address            Mask     Device\n\
                 {address}      0x1         0x2         02:00:00:00:00:02     *        eth0\n\
                 10.244.1.0       0x1         0x6         02:00:00:00:00:03     *        flannel.1\n"
            )
        };
        let hinted = flannel("1450\n").file("proc/net/arp", &arp("192.168.1.12")).finding(ID);
        assert_eq!(hinted.verdict, Verdict::Warning);
        assert!(hinted.message.contains("and 1 machine answered on eth0 itself"), "{}", hinted.message);
        let router_alone = flannel("1450\n").file("proc/net/arp", &arp("192.168.1.1")).finding(ID);
        assert_eq!(router_alone.verdict, Verdict::Unknown);
        assert!(router_alone.message.contains("to which machines was not captured"));
    }

    #[test]
    fn an_mtu_that_does_not_fit_is_found() {
        let large = flannel("1500\n").finding(ID);
        assert_eq!(large.verdict, Verdict::Failure);
        assert_eq!(
            large.message,
            "the MTU of flannel.1 (vxlan) is 1500, and 1450 bytes fit into the 1500 of eth0: packets are cut in two, or lost"
        );
        let small = flannel("1200\n").finding(ID);
        assert_eq!(small.verdict, Verdict::Warning);
        assert!(small.remedy.starts_with("ip link set flannel.1 mtu 1450"), "{}", small.remedy);
    }

    #[test]
    fn no_tunnel_is_fine_and_a_device_of_no_known_kind_is_unknown() {
        let plain =
            node("eth1", "INTERFACE=eth1\nIFINDEX=3\n", "1\n", ["192.168.1.12", "192.168.1.13"], "1500\n");
        assert_eq!(plain.finding(ID).verdict, Verdict::Ok);
        assert_eq!(scene().lacks("proc/net/route").finding(ID).verdict, Verdict::Ok);
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let blind = scene()
            .file("proc/net/route", &format!("{head}{}", line("net1", "10.0.0.0", "0.0.0.0", 8)))
            .forbids("sys/class/net")
            .finding(ID);
        assert_eq!(blind.verdict, Verdict::Unknown);
        assert!(blind.message.contains("permission denied"), "{}", blind.message);
    }

    #[test]
    fn of_a_pod_the_nodes_routes_are_looked_at() {
        let pod =
            || node("eth1", "INTERFACE=eth1\nIFINDEX=3\n", "1\n", ["192.168.1.12", "192.168.1.13"], "1500\n");
        let judge = |scene: Scene| {
            let mut samples = scene.samples();
            samples.all[1].taken.namespace = NamespaceOwner::Other;
            overlay(&samples).map(|outcome| outcome.verdict)
        };
        assert!(judge(pod()).is_err());
        let host = [
            "Iface\n".to_owned(),
            line("eth0", "192.168.1.0", "0.0.0.0", 24),
            line("tunl0", "10.244.1.0", "192.168.1.12", 24),
        ];
        assert_eq!(judge(pod().file("host/proc/net/route", &host.concat())), Ok(Verdict::Warning));
        assert_eq!(judge(pod().file("host/proc/net/route", &host[..2].concat())), Ok(Verdict::Ok));
    }
}
