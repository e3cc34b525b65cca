//! The TCP sockets of a sample, in groups and with their owners: found out anew, or for samples that are
//! taken for ever.
//!
//! Must not be in here: how sockets are grouped.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::contents::{at, put};
use super::holders::{Holders, NewSocket, Search};
use super::processes::{self, Owners};
use super::sock_diag::{self, Question, SocketEntry};
use crate::read::sockets::Groups;
use crate::sample::{Absence, Sample};
use crate::sockets::{Owner, SocketGroup, State};

/// The path of the groups in a sample.
pub(super) const PATH: &str = "forebay/sockets.json";

/// Groups of outgoing connections of a sample among those that are taken for ever, and of incoming ones.
const GROUPS_MAX: usize = 64;

/// CPU time that the list of sockets may take for each of the samples that are taken for ever. A list that
/// takes so many times more is read for one in so many samples only.
const TIME_OF_SAMPLE: Duration = Duration::from_millis(3);

/// Samples that have the same list, at most.
const SAMPLES_OF_LIST: u32 = 6;

/// New sockets of one sample whose owners are looked for; those beyond have none.
const NEW_MAX: usize = 16 << 10;

/// Reads the sockets, and the descriptors of all processes. Returns the processes that listen.
pub(super) fn read(sample: &mut Sample) -> BTreeSet<u32> {
    let owners = Owners::of(&processes::all());
    let groups = || -> io::Result<Vec<SocketGroup>> {
        let mut groups = Groups::new(sock_diag::listening_ports()?);
        sock_diag::each(Question { states: State::ALL, segments: true }, |found| {
            groups.add(&found.socket, owners.of_socket(found.inode));
        })?;
        Ok(groups.finish(usize::MAX, owners.all()))
    };
    match groups() {
        Ok(groups) => {
            sample.put(PATH, text(&groups));
            listening(&groups)
        }
        Err(error) => {
            put_files(&error, sample);
            BTreeSet::new()
        }
    }
}

/// Reads the sockets of samples that are taken for ever. Segments are not asked for: the proxy that takes the
/// samples counts its connections and requests itself.
#[derive(Default)]
pub(super) struct SocketReader {
    holders: Holders,
    last: Option<List>,
    /// Whether all processes are to be searched for the next list.
    is_everywhere_due: bool,
}

/// A list of sockets.
struct List {
    groups: Result<String, Absence>,
    listening: BTreeSet<u32>,
    /// When it was read, in seconds since the first sample.
    seconds: f64,
    /// Samples that repeat it.
    left: u32,
}

impl SocketReader {
    /// Reads the sockets, or repeats the last list if that took long. Returns the processes that listen.
    pub(super) fn read(&mut self, search: Search<'_>, sample: &mut Sample) -> BTreeSet<u32> {
        self.is_everywhere_due |= search.everywhere;
        if let Some(last) = self.last.as_mut().filter(|last| last.left > 0) {
            last.left -= 1;
            sample.put(PATH, last.groups.clone());
            sample.taken.listed_seconds = Some(last.seconds);
            return last.listening.clone();
        }
        let begun = cpu_time();
        let everywhere = std::mem::take(&mut self.is_everywhere_due);
        let groups = match self.groups(Search { everywhere, ..search }, GROUPS_MAX) {
            Ok(groups) => groups,
            Err(error) => {
                self.last = None;
                put_files(&error, sample);
                return BTreeSet::new();
            }
        };
        let (groups, listening) = (text(&groups), listening(&groups));
        sample.put(PATH, groups.clone());
        let left = repeats(cpu_time().saturating_sub(begun));
        self.last = Some(List { groups, listening: listening.clone(), seconds: sample.taken.seconds, left });
        listening
    }

    /// The groups, of which `max` are of outgoing connections at most, and as many of incoming ones.
    fn groups(&mut self, search: Search<'_>, max: usize) -> io::Result<Vec<SocketGroup>> {
        let mut groups = Groups::new(sock_diag::listening_ports()?);
        let mut new: Vec<SocketEntry> = Vec::new();
        self.holders.begin(search);
        sock_diag::each(Question { states: State::ALL, segments: false }, |found| {
            match self.holders.of_listed(found.inode, search) {
                Ok(owner) => groups.add(&found.socket, owner),
                Err(NewSocket) if new.len() < NEW_MAX => new.push(found),
                Err(NewSocket) => groups.add(&found.socket, None),
            }
        })?;
        self.holders.find(new.iter().map(|found| found.inode), search);
        for found in new {
            let owner = self.holders.of_listed(found.inode, search).unwrap_or_default();
            groups.add(&found.socket, owner);
        }
        self.holders.end();
        Ok(groups.finish(max, self.holders.owners()))
    }
}

/// The number of samples that repeat a list which took so much CPU time.
fn repeats(took: Duration) -> u32 {
    let times = took.as_micros() / TIME_OF_SAMPLE.as_micros();
    u32::try_from(times).unwrap_or(u32::MAX).min(SAMPLES_OF_LIST - 1)
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn text(groups: &[SocketGroup]) -> Result<String, Absence> {
    serde_json::to_string(groups).map_err(|error| Absence::Unreadable(error.to_string()))
}

fn listening(groups: &[SocketGroup]) -> BTreeSet<u32> {
    let listeners = groups.iter().filter(|group| group.state == State::Listen);
    listeners.filter_map(|group| group.owner.as_ref()).map(|owner: &Owner| owner.pid).collect()
}

/// Reads the files with all sockets instead.
fn put_files(error: &io::Error, sample: &mut Sample) {
    sample.put(PATH, Err(Absence::Unreadable(format!("sock_diag: {error}"))));
    for path in ["proc/net/tcp", "proc/net/tcp6"] {
        put(sample, path, &at(path));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::sockets::Direction;

    #[test]
    fn a_list_that_takes_long_is_repeated() {
        let milliseconds = |number| repeats(Duration::from_millis(number));
        assert_eq!([0, 2, 3, 8, 9, 1000].map(milliseconds), [0, 0, 1, 2, 3, SAMPLES_OF_LIST - 1]);
        let mut reader = SocketReader::default();
        let own = [std::process::id()];
        let search = Search { tree: &own, everywhere: false };
        let mut take = |seconds: f64| {
            let mut sample = Sample::default();
            sample.taken.seconds = seconds;
            reader.read(search, &mut sample);
            if let Some(last) = &mut reader.last {
                last.left = u32::from(seconds == 0.0);
            }
            sample
        };
        let _listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let all = [0.0, 10.0, 20.0].map(&mut take);
        let listed: Vec<_> = all.iter().map(|sample| sample.taken.listed_seconds).collect();
        assert_eq!(listed, [None, Some(0.0), None]);
        assert_eq!(all[0].text(PATH).ok(), all[1].text(PATH).ok());
    }

    #[test]
    fn sockets_of_this_process_have_it_as_their_owner_at_once() {
        let mut reader = SocketReader::default();
        let own = [std::process::id()];
        let search = Search { tree: &own, everywhere: false };
        // Other programs may have many groups in this namespace.
        let mut groups = || reader.groups(search, usize::MAX).expect("an answer");
        groups();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let _client = TcpStream::connect(address).expect("it listens");
        for _ in 0..2 {
            let groups = groups();
            let of = |direction, place: fn(&SocketGroup) -> &String| {
                let is_it = |group: &&SocketGroup| {
                    group.direction == direction && *place(group) == address.to_string()
                };
                groups.iter().find(is_it).and_then(|group| group.owner.as_ref()).map(|owner| owner.pid)
            };
            assert_eq!(of(Direction::Listening, |group| &group.local), Some(own[0]));
            assert_eq!(of(Direction::Outgoing, |group| &group.remote), Some(own[0]));
        }
    }
}
