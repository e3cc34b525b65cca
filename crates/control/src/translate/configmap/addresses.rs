//! The addresses of the listeners.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::translate::value;

/// Addresses by family, and a remark about invalid items. A list without any address is an error.
pub(super) type Addresses = (Vec<Ipv4Addr>, Vec<Ipv6Addr>);

pub(super) fn bind_addresses(text: &str) -> value::Parsed<(Addresses, Option<String>)> {
    let (mut v4, mut v6, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for item in value::list(text) {
        match item.trim_start_matches('[').trim_end_matches(']').parse() {
            Ok(IpAddr::V4(address)) => v4.push(address),
            Ok(IpAddr::V6(address)) => v6.push(address),
            Err(_) => refused.push(format!("{item:?}")),
        }
    }
    if v4.is_empty() && v6.is_empty() {
        return Err(format!("{text:?} names no address"));
    }
    let remark =
        (!refused.is_empty()).then(|| format!("ignored: {}, which is no address", refused.join(", ")));
    Ok(((v4, v6), remark))
}
