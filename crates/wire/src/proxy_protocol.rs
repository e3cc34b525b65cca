//! The PROXY protocol, versions 1 and 2: the client's address, which a load balancer sends at the front of a
//! connection. Its standard is <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>; section numbers
//! refer to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Length of the longest header that is accepted: room for 4 KiB of addresses and extensions.
pub const HEADER_BYTES_MAX: usize = V2_FIXED_BYTES + (4 << 10);

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The addresses; none if the sender does not state them (`UNKNOWN`, `UNSPEC`, `LOCAL`) or the client
    /// came over a Unix socket. Then the connection's own addresses apply.
    pub addresses: Option<Addresses>,
}

/// The two ends of a client's connection to the sender of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Address of the client.
    pub source: SocketAddr,
    /// Address that the client connected to.
    pub destination: SocketAddr,
}

/// The transport protocol of the client's bytes, for version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A connection of TCP.
    Stream,
    /// Datagrams of UDP.
    Datagram,
}

/// The bytes are no header. The connection must be closed (section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed PROXY header")]
pub struct Malformed;

const V1_START: &[u8] = b"PROXY ";
/// Longest header of version 1 (section 2.1).
const V1_BYTES_MAX: usize = 107;
/// First bytes of version 2 (section 2.2).
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and protocol, length.
const V2_FIXED_BYTES: usize = 16;
const TLV_CRC32C: u8 = 0x03;

/// Parses the header at the front of `bytes`: its content and its length. None while it is incomplete.
///
/// # Errors
/// The bytes are no header, or a header with forbidden content.
pub fn parse(bytes: &[u8]) -> Result<Option<(Header, usize)>, Malformed> {
    let begins = |start: &[u8]| bytes.iter().zip(start).all(|(a, b)| a == b);
    if begins(V2_SIGNATURE) {
        parse_v2(bytes)
    } else if begins(V1_START) {
        parse_v1(bytes)
    } else {
        Err(Malformed)
    }
}

fn parse_v1(bytes: &[u8]) -> Result<Option<(Header, usize)>, Malformed> {
    let line = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = line.iter().position(|b| b"\r\n".contains(b)) else {
        return if line.len() == V1_BYTES_MAX { Err(Malformed) } else { Ok(None) };
    };
    match &line[end..] {
        [b'\r', b'\n', ..] => {}
        // The LF may follow in later bytes.
        [b'\r'] if end + 1 < V1_BYTES_MAX => return Ok(None),
        _ => return Err(Malformed),
    }
    let text = line.get(V1_START.len()..end).ok_or(Malformed)?;
    let (family, rest) = match text.iter().position(|&b| b == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    let addresses = match family {
        b"TCP4" => Some(parse_v1_addresses::<Ipv4Addr>(rest)?),
        b"TCP6" => Some(parse_v1_addresses::<Ipv6Addr>(rest)?),
        // "The receiver must ignore anything presented before the CRLF" (section 2.1).
        b"UNKNOWN" => None,
        _ => return Err(Malformed),
    };
    Ok(Some((Header { addresses }, end + 2)))
}

fn parse_v1_addresses<A: std::str::FromStr + Into<IpAddr>>(text: &[u8]) -> Result<Addresses, Malformed> {
    let text = std::str::from_utf8(text).map_err(|_| Malformed)?;
    let words: Vec<&str> = text.split(' ').collect();
    let [source, destination, source_port, destination_port] = words[..] else { return Err(Malformed) };
    let address = |ip: &str, port: &str| {
        let ip: A = ip.parse().map_err(|_| Malformed)?;
        Ok(SocketAddr::new(ip.into(), parse_port(port)?))
    };
    Ok(Addresses {
        source: address(source, source_port)?,
        destination: address(destination, destination_port)?,
    })
}

/// "Decimal integer in the range [0..65535], without leading zeroes" (section 2.1).
fn parse_port(text: &str) -> Result<u16, Malformed> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().map_err(|_| Malformed) } else { Err(Malformed) }
}

fn parse_v2(bytes: &[u8]) -> Result<Option<(Header, usize)>, Malformed> {
    let command = match bytes.get(12) {
        Some(0x20) => Command::Local,
        Some(0x21) => Command::Proxy,
        Some(_) => return Err(Malformed),
        None => return Ok(None),
    };
    let Some((fixed, rest)) = bytes.split_at_checked(V2_FIXED_BYTES) else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if V2_FIXED_BYTES + len > HEADER_BYTES_MAX {
        return Err(Malformed);
    }
    let Some(block) = rest.get(..len) else { return Ok(None) };
    let total = V2_FIXED_BYTES + len;
    if command == Command::Local {
        // The receiver "must discard the protocol block including the family which is ignored" (section 2.2).
        return Ok(Some((Header { addresses: None }, total)));
    }
    let (addresses, address_bytes) = parse_v2_addresses(fixed[13], block)?;
    check_extensions(&bytes[..total], V2_FIXED_BYTES + address_bytes)?;
    Ok(Some((Header { addresses }, total)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Local,
    Proxy,
}

/// The addresses at the front of the block, and how many bytes they take.
fn parse_v2_addresses(family: u8, block: &[u8]) -> Result<(Option<Addresses>, usize), Malformed> {
    let port = |at: usize| u16::from_be_bytes([block[at], block[at + 1]]);
    let (addresses, len) = match family {
        0x00 => (None, 0),
        0x11 | 0x12 => {
            let block: &[u8; 12] = block.first_chunk().ok_or(Malformed)?;
            let ip = |at: usize| IpAddr::from([block[at], block[at + 1], block[at + 2], block[at + 3]]);
            let addresses = Addresses {
                source: SocketAddr::new(ip(0), port(8)),
                destination: SocketAddr::new(ip(4), port(10)),
            };
            (Some(addresses), 12)
        }
        0x21 | 0x22 => {
            let block: &[u8; 36] = block.first_chunk().ok_or(Malformed)?;
            let (source, rest) = block.split_first_chunk::<16>().expect("16 of 36 bytes");
            let destination = rest.first_chunk::<16>().expect("16 of 20 bytes");
            let addresses = Addresses {
                source: SocketAddr::new((*source).into(), port(32)),
                destination: SocketAddr::new((*destination).into(), port(34)),
            };
            (Some(addresses), 36)
        }
        // Two paths of 108 bytes each.
        0x31 | 0x32 => (None, 216),
        _ => return Err(Malformed),
    };
    if block.len() < len { Err(Malformed) } else { Ok((addresses, len)) }
}

/// Checks the extensions (section 2.2.7), which must fill the rest of the header. Their meaning is ignored,
/// but a checksum must be right (section 2.2.3).
fn check_extensions(header: &[u8], start: usize) -> Result<(), Malformed> {
    let mut at = start;
    while at < header.len() {
        let [kind, high, low, ref rest @ ..] = header[at..] else { return Err(Malformed) };
        let value = rest.get(..usize::from(u16::from_be_bytes([high, low]))).ok_or(Malformed)?;
        if kind == TLV_CRC32C {
            let sent: [u8; 4] = value.try_into().map_err(|_| Malformed)?;
            let before = crc32c(!0, &header[..at + 3]);
            let zeroed = crc32c(before, &[0; 4]);
            if !crc32c(zeroed, &header[at + 7..]) != u32::from_be_bytes(sent) {
                return Err(Malformed);
            }
        }
        at += 3 + value.len();
    }
    Ok(())
}

/// CRC-32C (RFC 4960 appendix B), without the first and the last complement, so that it can be computed in
/// pieces.
fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, &byte| CRC32C[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < table.len() {
        let (mut value, mut bit) = (at as u32, 0);
        while bit < 8 {
            // The polynomial 0x1edc6f41, its bits reversed.
            value = (value >> 1) ^ (0x82f6_3b78 & (value & 1).wrapping_neg());
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
};

/// Appends a header of version 1. Addresses of two families are both written as IPv6.
pub fn write_v1(addresses: Option<Addresses>, out: &mut Vec<u8>) {
    let Some(addresses) = addresses else { return out.extend_from_slice(b"PROXY UNKNOWN\r\n") };
    let (family, source, destination) = match addresses.one_family() {
        OneFamily::V4(source, destination) => ("TCP4", IpAddr::from(source), IpAddr::from(destination)),
        OneFamily::V6(source, destination) => ("TCP6", IpAddr::from(source), IpAddr::from(destination)),
    };
    let (source_port, destination_port) = (addresses.source.port(), addresses.destination.port());
    let line = format!("PROXY {family} {source} {destination} {source_port} {destination_port}\r\n");
    out.extend_from_slice(line.as_bytes());
}

/// Appends a header of version 2, without extensions.
pub fn write_v2(addresses: Option<Addresses>, carrier: Carrier, out: &mut Vec<u8>) {
    out.extend_from_slice(V2_SIGNATURE);
    out.push(0x21);
    let Some(addresses) = addresses else { return out.extend_from_slice(&[0, 0, 0]) };
    let carrier = match carrier {
        Carrier::Stream => 1,
        Carrier::Datagram => 2,
    };
    match addresses.one_family() {
        OneFamily::V4(source, destination) => {
            out.extend_from_slice(&[0x10 | carrier, 0, 12]);
            out.extend_from_slice(&source.octets());
            out.extend_from_slice(&destination.octets());
        }
        OneFamily::V6(source, destination) => {
            out.extend_from_slice(&[0x20 | carrier, 0, 36]);
            out.extend_from_slice(&source.octets());
            out.extend_from_slice(&destination.octets());
        }
    }
    out.extend_from_slice(&addresses.source.port().to_be_bytes());
    out.extend_from_slice(&addresses.destination.port().to_be_bytes());
}

enum OneFamily {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Addresses {
    fn one_family(&self) -> OneFamily {
        let to_v6 = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => OneFamily::V4(source, destination),
            (source, destination) => OneFamily::V6(to_v6(source), to_v6(destination)),
        }
    }
}

#[cfg(test)]
mod tests;
