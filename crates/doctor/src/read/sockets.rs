//! The sockets of a sample: as they were collected, or from `/proc/net/tcp` if nothing else was captured.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use foldhash::fast::FixedState;

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

/// Groups sockets as they are read: there may be 100,000, which should not all be in memory. Addresses stay
/// numbers until the groups are finished: only the groups that are kept become text.
pub(crate) struct Groups {
    /// The ports on which a socket listens: connections with one of these as local port are incoming.
    listening: HashSet<u16>,
    groups: HashMap<Key, Tally, FixedState>,
}

/// The properties that the sockets of one group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    direction: Direction,
    state: State,
    local: Place,
    remote: Place,
    /// An index into the owners that the groups are finished with.
    owner: Option<u32>,
}

/// An address and a port; an IPv4 address is IPv4-mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    ip: [u8; 16],
    port: u16,
}

/// The figures of one group.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    count: u32,
    counted: u32,
    sent_once: u32,
    answered: u32,
    queued: u64,
    backlog: u64,
    segments_received: u64,
    segments_sent: u64,
}

/// Groups in the order in which they are kept: those with the most sockets first. Among groups of about the
/// same size those with low addresses are first, so that they are the same each time.
type Rank = (Reverse<u32>, Place, Key);

/// The address of connections that are added up.
pub(crate) const OTHERS: &str = "others";

/// Stands for an address that is left out of the key.
const ANY: Place = Place { ip: [0; 16], port: 0 };

/// The sockets of a sample.
pub(crate) fn of(sample: &Sample) -> Result<Vec<SocketGroup>, Unknown> {
    sample.sockets(parse_all).clone()
}

fn parse_all(sample: &Sample) -> Result<Vec<SocketGroup>, Unknown> {
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
    Ok(groups.finish(usize::MAX, &[]))
}

impl Groups {
    pub(crate) fn new(listening: HashSet<u16>) -> Groups {
        Groups { listening, groups: HashMap::default() }
    }

    /// Adds a socket; `owner` is an index into the owners that [`finish`](Self::finish) is given.
    pub(crate) fn add(&mut self, socket: &Socket, owner: Option<u32>) {
        let (local, remote) = (Place::of(socket.local), Place::of(socket.remote));
        let (direction, local, remote) = match socket.state {
            State::Listen => (Direction::Listening, local, ANY),
            _ if self.listening.contains(&local.port) => (Direction::Incoming, local, ANY),
            _ => (Direction::Outgoing, Place { port: 0, ..local }, remote),
        };
        let key = Key { direction, state: socket.state, local, remote, owner };
        self.groups.entry(key).or_default().add(socket);
    }

    /// The groups, of which at most `max` are of outgoing connections and as many of incoming ones: those
    /// with the most sockets. The others are added up by state and owner, and have the address [`OTHERS`]:
    /// outgoing ones as the remote address, incoming ones as the local one.
    pub(crate) fn finish(self, max: usize, owners: &[Owner]) -> Vec<SocketGroup> {
        let outgoing = self.last_kept(Direction::Outgoing, max);
        let incoming = self.last_kept(Direction::Incoming, max);
        let mut kept = Vec::new();
        let mut others: BTreeMap<Key, Tally> = BTreeMap::new();
        for (key, tally) in self.groups {
            let last = match key.direction {
                Direction::Listening => None,
                Direction::Outgoing => outgoing,
                Direction::Incoming => incoming,
            };
            if last.is_none_or(|last| key.rank(&tally) <= last) {
                kept.push((key, tally));
                continue;
            }
            let is_outgoing = key.direction == Direction::Outgoing;
            let key = Key { remote: ANY, local: if is_outgoing { key.local } else { ANY }, ..key };
            others.entry(key).or_default().add_tally(&tally);
        }
        kept.sort_unstable_by_key(|(key, _)| *key);
        let kept = kept.iter().map(|(key, tally)| key.group(tally, owners));
        let others = others.iter().map(|(key, tally)| {
            let mut group = key.group(tally, owners);
            let is_outgoing = key.direction == Direction::Outgoing;
            OTHERS.clone_into(if is_outgoing { &mut group.remote } else { &mut group.local });
            group
        });
        kept.chain(others).collect()
    }

    /// The last group of a direction that is kept; none if all of them are.
    fn last_kept(&self, direction: Direction, max: usize) -> Option<Rank> {
        let all = self.groups.iter().filter(|(key, _)| key.direction == direction);
        let mut ranks: Vec<Rank> = all.map(|(key, tally)| key.rank(tally)).collect();
        let last = max.checked_sub(1)?;
        (max < ranks.len()).then(|| *ranks.select_nth_unstable(last).1)
    }
}

/// An IPv4-mapped IPv6 address as the IPv4 address.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Place {
    fn of(address: SocketAddr) -> Place {
        let ip = match address.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Place { ip: ip.octets(), port: address.port() }
    }

    fn address(self) -> SocketAddr {
        SocketAddr::new(IpAddr::V6(Ipv6Addr::from(self.ip)).to_canonical(), self.port)
    }
}

impl Key {
    fn rank(&self, tally: &Tally) -> Rank {
        (Reverse(tally.count.max(1).ilog2()), self.remote, *self)
    }

    fn group(&self, tally: &Tally, owners: &[Owner]) -> SocketGroup {
        let is_outgoing = self.direction == Direction::Outgoing;
        let local = self.local.address();
        SocketGroup {
            direction: self.direction,
            state: self.state,
            local: if is_outgoing { local.ip().to_string() } else { local.to_string() },
            remote: if is_outgoing { self.remote.address().to_string() } else { String::new() },
            owner: self.owner.and_then(|index| owners.get(index as usize)).cloned(),
            count: tally.count.into(),
            queued: tally.queued,
            backlog: tally.backlog,
            counted: tally.counted.into(),
            sent_once: tally.sent_once.into(),
            answered: tally.answered.into(),
            segments_received: tally.segments_received,
            segments_sent: tally.segments_sent,
        }
    }
}

impl Tally {
    fn add(&mut self, socket: &Socket) {
        self.count += 1;
        if socket.state == State::Listen {
            self.queued += socket.queued;
        }
        self.backlog += socket.backlog;
        if let Some((received, sent)) = socket.segments {
            self.counted += 1;
            self.sent_once += u32::from(sent <= 1);
            self.answered += u32::from(received > 0 && socket.queued == 0);
            self.segments_received += received;
            self.segments_sent += sent;
        }
    }

    fn add_tally(&mut self, other: &Tally) {
        self.count += other.count;
        self.queued += other.queued;
        self.backlog += other.backlog;
        self.counted += other.counted;
        self.sent_once += other.sent_once;
        self.answered += other.answered;
        self.segments_received += other.segments_received;
        self.segments_sent += other.segments_sent;
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
    fn many_groups_are_those_with_the_most_sockets_and_a_sum() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let socket = |remote: String| Socket {
            local: address("10.0.0.1:40000"),
            remote: address(&remote),
            state: State::Established,
            queued: 0,
            backlog: 0,
            segments: Some((3, 2)),
        };
        let mut groups = Groups::new(HashSet::from([80]));
        for host in 0..200 {
            for _ in 0..if host == 150 { 9 } else { 1 } {
                groups.add(&socket(format!("10.0.1.{host}:80")), None);
            }
        }
        for host in 0..5 {
            let local = address(&format!("10.0.0.{host}:80"));
            groups.add(&Socket { local, ..socket("10.0.9.9:5000".to_owned()) }, None);
        }
        let groups = groups.finish(3, &[]);
        let incoming = groups.iter().filter(|group| group.direction == Direction::Incoming);
        let incoming: Vec<_> = incoming.map(|group| (&*group.local, group.count)).collect();
        assert_eq!(incoming, [("10.0.0.0:80", 1), ("10.0.0.1:80", 1), ("10.0.0.2:80", 1), (OTHERS, 2)]);
        let outgoing = groups.iter().filter(|group| group.direction == Direction::Outgoing);
        let outgoing: Vec<_> = outgoing.map(|group| (&*group.remote, group.count)).collect();
        let expected = [("10.0.1.0:80", 1), ("10.0.1.1:80", 1), ("10.0.1.150:80", 9), (OTHERS, 197)];
        assert_eq!(outgoing, expected);
        assert!(groups.iter().any(|group| group.segments_received == 197 * 3));
    }

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
        let groups = groups.finish(usize::MAX, &[]);
        assert_eq!((&groups[0].local[..], &groups[0].remote[..]), ("127.0.0.1", "10.0.0.2:80"));
    }
}
