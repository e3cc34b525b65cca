//! The sockets of a sample: as they were collected, or from `/proc/net/tcp` if nothing else was captured.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::sample::{Sample, Unknown};
use crate::sockets::{Direction, Owner, SocketGroup, State};

/// One socket, before it is grouped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) state: State,
    /// For a listener: waiting connections, and the length of the queue. For others: bytes received and not
    /// read.
    pub(crate) queued: u64,
    pub(crate) backlog: u64,
    /// Data segments received and sent; none if the kernel does not report them.
    pub(crate) segments: Option<(u64, u64)>,
}

/// Groups sockets as they are read: there may be 100,000, which should not all be in memory.
pub(crate) struct Groups<'o> {
    /// The ports on which a socket listens: connections with one of these as local port are incoming.
    listening: HashSet<u16>,
    groups: BTreeMap<Key<'o>, SocketGroup>,
}

/// The properties that the sockets of one group share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'o> {
    direction: Direction,
    state: State,
    local: SocketAddr,
    remote: SocketAddr,
    owner: Option<&'o Owner>,
}

/// Stands for an address that is left out of the key.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The sockets of a sample.
pub(crate) fn of(sample: &Sample) -> Result<Vec<SocketGroup>, Unknown> {
    match sample.json("forebay/sockets.json") {
        Ok(groups) => Ok(groups),
        Err(unknown) => of_proc(sample).map_err(|_| unknown),
    }
}

fn of_proc(sample: &Sample) -> Result<Vec<SocketGroup>, Unknown> {
    let v4 = sample.text("proc/net/tcp")?;
    let v6 = sample.text("proc/net/tcp6").unwrap_or_default();
    let sockets: Vec<Socket> = v4.lines().chain(v6.lines()).filter_map(parse).collect();
    let listeners = sockets.iter().filter(|socket| socket.state == State::Listen);
    let mut groups = Groups::new(listeners.map(|socket| socket.local.port()).collect());
    for socket in &sockets {
        groups.add(socket, None);
    }
    Ok(groups.finish())
}

impl<'o> Groups<'o> {
    pub(crate) fn new(listening: HashSet<u16>) -> Groups<'o> {
        Groups { listening, groups: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, socket: &Socket, owner: Option<&'o Owner>) {
        let (local, remote) = (plain(socket.local), plain(socket.remote));
        let (direction, local, remote) = match socket.state {
            State::Listen => (Direction::Listening, local, ANY),
            _ if self.listening.contains(&local.port()) => (Direction::Incoming, local, ANY),
            _ => (Direction::Outgoing, SocketAddr::new(local.ip(), 0), remote),
        };
        let key = Key { direction, state: socket.state, local, remote, owner };
        self.groups.entry(key).or_insert_with(|| empty(key)).add(socket);
    }

    pub(crate) fn finish(self) -> Vec<SocketGroup> {
        self.groups.into_values().collect()
    }
}

/// An IPv4-mapped IPv6 address as the IPv4 address.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn empty(key: Key<'_>) -> SocketGroup {
    let Key { direction, state, local, remote, owner } = key;
    let is_outgoing = direction == Direction::Outgoing;
    SocketGroup {
        direction,
        state,
        local: if is_outgoing { local.ip().to_string() } else { local.to_string() },
        remote: if is_outgoing { remote.to_string() } else { String::new() },
        owner: owner.cloned(),
        count: 0,
        queued: 0,
        backlog: 0,
        counted: 0,
        sent_once: 0,
        answered: 0,
        segments_received: 0,
        segments_sent: 0,
    }
}

impl SocketGroup {
    fn add(&mut self, socket: &Socket) {
        self.count += 1;
        if socket.state == State::Listen {
            self.queued += socket.queued;
        }
        self.backlog += socket.backlog;
        if let Some((received, sent)) = socket.segments {
            self.counted += 1;
            self.sent_once += u64::from(sent <= 1);
            self.answered += u64::from(received > 0 && socket.queued == 0);
            self.segments_received += received;
            self.segments_sent += sent;
        }
    }
}

/// Parses a line of `/proc/net/tcp` or `tcp6`. Addresses are words in the machine's byte order, here little
/// endian.
fn parse(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, remote) = (address(fields.get(1)?)?, address(fields.get(2)?)?);
    let state = State::of(u8::from_str_radix(fields.get(3)?, 16).ok()?)?;
    let (_, waiting) = fields.get(4)?.split_once(':')?;
    let queued = if state == State::Listen { u64::from_str_radix(waiting, 16).ok()? } else { 0 };
    Some(Socket { local, remote, state, queued, backlog: 0, segments: None })
}

pub(super) fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Option<Vec<[u8; 4]>> = (0..address.len() / 8)
        .map(|word| Some(u32::from_str_radix(address.get(word * 8..word * 8 + 8)?, 16).ok()?.to_le_bytes()))
        .collect();
    let bytes = words?.concat();
    let ip = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(bytes) => IpAddr::V4(Ipv4Addr::from(bytes)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?)),
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_net_tcp_is_read_and_grouped() {
        let mut sample = Sample::default();
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 00000000:0050 00000000:0000 0A 00000000:00000003 00:00000000 00000000 0 0 1 1 0\n\
             1: 0100007F:0050 0100007F:D431 01 00000000:00000000 00:00000000 00000000 0 0 2 1 0\n\
             2: 0100007F:D431 0200000A:1F90 06 00000000:00000000 03:00000000 00000000 0 0 0 3 0\n\
             3: 0100007F:D432 0200000A:1F90 06 00000000:00000000 03:00000000 00000000 0 0 0 3 0\n";
        sample.put("proc/net/tcp", Ok(text.into()));
        let groups = of(&sample).expect("three groups");
        let told: Vec<_> = groups
            .iter()
            .map(|group| (group.direction, group.state, &group.local[..], &group.remote[..], group.count))
            .collect();
        assert_eq!(
            told,
            [
                (Direction::Listening, State::Listen, "0.0.0.0:80", "", 1),
                (Direction::Incoming, State::Established, "127.0.0.1:80", "", 1),
                (Direction::Outgoing, State::TimeWait, "127.0.0.1", "10.0.0.2:8080", 2),
            ]
        );
        assert_eq!(groups[0].queued, 3);
    }

    #[test]
    fn an_ipv4_address_in_ipv6_clothes_is_told_plainly() {
        let line = "0: 0000000000000000FFFF00000100007F:D431 0000000000000000FFFF00000200000A:0050 01 0:0 00:0 0 0 0 9";
        let mut groups = Groups::new(HashSet::new());
        groups.add(&parse(line).expect("a socket"), None);
        let groups = groups.finish();
        assert_eq!((&groups[0].local[..], &groups[0].remote[..]), ("127.0.0.1", "10.0.0.2:80"));
    }
}
