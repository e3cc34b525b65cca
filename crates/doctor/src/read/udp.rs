//! The UDP sockets of a sample: as they were collected, or from `/proc/net/udp` if nothing else was captured.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::sockets::{address, plain};
use crate::sample::{Sample, Unknown};

/// A UDP socket without a peer, which receives from anybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UdpSocket {
    pub(crate) local: SocketAddr,
    /// Bytes received and not read, with what the kernel needs for them.
    pub(crate) queued: u64,
    /// Datagrams that were dropped since the socket was opened, for want of room in its buffer as a rule.
    pub(crate) drops: u64,
}

/// The sockets of a sample.
pub(crate) fn of(sample: &Sample) -> Result<Vec<UdpSocket>, Unknown> {
    match sample.json("forebay/udp-sockets.json") {
        Ok(sockets) => Ok(sockets),
        Err(unknown) => {
            let v4 = sample.text("proc/net/udp").map_err(|_| unknown)?;
            let v6 = sample.text("proc/net/udp6").unwrap_or_default();
            Ok(parse(&[v4, v6].concat()))
        }
    }
}

/// Parses lines of `/proc/net/udp` and `udp6`.
pub(crate) fn parse(text: &str) -> Vec<UdpSocket> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<UdpSocket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let remote = address(fields.get(2)?)?;
    if remote.port() != 0 {
        return None;
    }
    let (_, queued) = fields.get(4)?.split_once(':')?;
    Some(UdpSocket {
        local: plain(address(fields.get(1)?)?),
        queued: u64::from_str_radix(queued, 16).ok()?,
        drops: fields.get(12)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a kernel 6.18.
    const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
        12345: 00000000:01BB 00000000:0000 07 00000000:00021300 00:00000000 00000000     0        0 32765 2 0000000012345678 417\n\
        12346: 0100007F:D431 0100007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 32766 2 0000000012345679 0\n";
    const UDP6: &str = "12347: 00000000000000000000000001000000:01BB 00000000000000000000000000000000:0000 07 0:0 00:0 0 0 0 1 2 0 3\n";

    #[test]
    fn sockets_without_a_peer_are_read() {
        let mut sample = Sample::default();
        sample.put("proc/net/udp", Ok(UDP.into()));
        sample.put("proc/net/udp6", Ok(UDP6.into()));
        let expected = [
            UdpSocket { local: "0.0.0.0:443".parse().expect("an address"), queued: 0x21300, drops: 417 },
            UdpSocket { local: "[::1]:443".parse().expect("an address"), queued: 0, drops: 3 },
        ];
        assert_eq!(of(&sample), Ok(expected.to_vec()));
        let json = serde_json::to_string(&expected[1..]).expect("JSON");
        sample.put("forebay/udp-sockets.json", Ok(json));
        assert_eq!(of(&sample), Ok(expected[1..].to_vec()));
    }
}
