//! Reads `/proc/net/ip_vs`: virtual services and their destinations (written by the kernel's `ip_vs_ctl.c`;
//! see ipvsadm(8)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One destination of one virtual service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Destination {
    /// `TCP 10.96.0.1:443`, or `FWM 1` for a service that is defined by a firewall mark.
    pub(crate) service: String,
    pub(crate) address: SocketAddr,
    /// Weight; 0 while it is draining, which gives it no new connections.
    pub(crate) weight: u64,
    /// Number of established connections.
    pub(crate) active: u64,
    /// Other connections in the table, most of them closed.
    pub(crate) inactive: u64,
}

impl Destination {
    pub(crate) fn connections(&self) -> u64 {
        self.active + self.inactive
    }
}

/// Whether there is any virtual service.
pub(crate) fn has_services(text: &str) -> bool {
    text.lines().any(|line| service(line).is_some())
}

/// All destinations of all services.
pub(crate) fn destinations(text: &str) -> Vec<Destination> {
    let mut of = String::new();
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(service) = service(line) {
            of = service;
        } else if let Some(destination) = destination(&of, line) {
            found.push(destination);
        }
    }
    found
}

fn service(line: &str) -> Option<String> {
    let mut fields = line.split_whitespace();
    let (protocol, name) = (fields.next()?, fields.next()?);
    match protocol {
        "TCP" | "UDP" | "SCTP" => Some(format!("{protocol} {}", address(name)?)),
        "FWM" => Some(format!("FWM {}", u32::from_str_radix(name, 16).ok()?)),
        _ => None,
    }
}

fn destination(service: &str, line: &str) -> Option<Destination> {
    let fields: Vec<&str> = line.trim_start().strip_prefix("->")?.split_whitespace().collect();
    let [name, _forward, weight, active, inactive] = fields[..] else { return None };
    Some(Destination {
        service: service.to_owned(),
        address: address(name)?,
        weight: weight.parse().ok()?,
        active: active.parse().ok()?,
        inactive: inactive.parse().ok()?,
    })
}

/// Parses `0A600001:01BB` or `[fd00:0000:...:0001]:01BB`; numbers are hexadecimal, with the most significant
/// digit first.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    let ip = match host.strip_prefix('[') {
        Some(host) => IpAddr::V6(host.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?),
        None => IpAddr::V4(Ipv4Addr::from_bits(u32::from_str_radix(host, 16).ok()?)),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "IP Virtual Server version 1.2.1 (size=4096)\n\
        Prot LocalAddress:Port Scheduler Flags\n\
        \x20 -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n";

    #[test]
    fn services_and_destinations_are_read() {
        let text = format!(
            "{HEAD}TCP  0A600001:01BB rr  \n\
             \x20 -> 0A00020F:1F90      Masq    1      3          31999     \n\
             \x20 -> 0A000210:1F90      Masq    0      0          12        \n\
             FWM  00000011 wlc persistent 300 FFFFFFFF\n\
             TCP  [fd00:0000:0000:0000:0000:0000:0000:0001]:0050 rr \n\
             \x20 -> [fd00:0000:0000:0000:0000:0000:0000:0002]:0051      Masq    1      0          0         \n"
        );
        assert!(has_services(&text) && !has_services(HEAD));
        let found = destinations(&text);
        assert_eq!(
            found[1],
            Destination {
                service: "TCP 10.96.0.1:443".into(),
                address: "10.0.2.16:8080".parse().expect("an address"),
                weight: 0,
                active: 0,
                inactive: 12
            }
        );
        assert_eq!((found.len(), found[0].connections()), (3, 32_002));
        assert_eq!((&found[2].service[..], found[2].address.port()), ("TCP [fd00::1]:80", 81));
    }
}
