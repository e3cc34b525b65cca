//! The slices of this replica, and the last events about them, for followers.
//!
//! All followers read the same row of events, each from its own place, so that a follower costs no memory.
//! The row has a bound; a follower that is so slow that its place has left the row is cut.
//!
//! Never in here: sockets, and what followers may ask.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use super::figures::Figures;
use super::wire;
use crate::names::NsName;
use crate::objects::{EndpointSlice, Sourced};

/// Most bytes of events that are kept for followers that are slow or come back.
const ROW_BYTES_MAX: usize = 32 << 20;

/// Most bytes of events that a follower gets at once.
const READ_BYTES_MAX: usize = 64 << 10;

/// Time for which the later pages of a list can be read.
const PAGES_LAST: Duration = Duration::from_mins(1);

/// Time in which followers that begin to list get the same list.
const LIST_SHARED: Duration = Duration::from_secs(2);

/// A slice, and its version or that of its deletion.
#[derive(Clone)]
pub(crate) struct Slice {
    pub(crate) key: NsName,
    pub(crate) version: u64,
    /// None if the slice cannot be decoded.
    pub(crate) read: Option<Arc<Sourced<EndpointSlice>>>,
}

/// The slices and the events, shared by the control plane and the server of followers.
#[derive(Default)]
pub(super) struct Hub {
    state: Mutex<State>,
    /// Changes whenever followers have something to read.
    news: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    stand: Stand,
    /// The path that this replica watches; the watches of followers must be of the same.
    path: String,
    /// Everything up to this version is known.
    version: u64,
    /// The last version of a slice, or of its deletion.
    last_event: u64,
    slices: BTreeMap<NsName, Held>,
    /// The list in progress.
    listing: Option<BTreeMap<NsName, Held>>,
    row: Row,
    lists: Vec<Arc<List>>,
    lists_begun: u64,
    figures: Figures,
}

/// The source of this replica's slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stand {
    /// Not known yet, or lists at the API server: followers wait a little.
    #[default]
    Starting,
    /// The API server: followers are served.
    Watching,
    /// The API server, which does not answer: followers are refused.
    Failing,
    /// A relay: followers are refused.
    Following,
    /// Followers are refused for good.
    GivenUp,
}

#[derive(Clone)]
struct Held {
    slice: Arc<Sourced<EndpointSlice>>,
    version: u64,
}

/// The last events, oldest first.
#[derive(Default)]
struct Row {
    events: VecDeque<Event>,
    /// The place of the first event.
    first: u64,
    bytes: usize,
    /// All events after this version are in the row.
    since: u64,
}

struct Event {
    version: u64,
    line: Bytes,
}

/// The slices at one version, for the pages of a list.
pub(super) struct List {
    pub(super) number: u64,
    pub(super) version: u64,
    made: Instant,
    slices: Vec<Held>,
}

/// The reason why a follower is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// This replica does not watch the API server, or not with success.
    NotWatching,
    /// It watches another path.
    OtherPath,
    /// It has as many followers as it may.
    Full,
    /// The follower knows more than this replica.
    Behind,
    /// The events after the follower's version are not known any more.
    TooOld,
}

/// A place in the row of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    next: u64,
    /// The follower knows everything up to this version.
    known: u64,
}

/// The versions that a replica has seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Everything up to this version is known.
    pub(super) version: u64,
    /// The last version of a slice, or of its deletion.
    pub(super) event: u64,
}

/// Something for a follower to read.
pub(super) enum Read {
    /// Lines of events, and the place after them.
    Lines(Vec<u8>, Place),
    /// There is nothing new after this version.
    Nothing(u64),
    /// The watch has to end.
    Cut,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes everybody who waits for it.
    fn change_state(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.news.send_replace(());
    }

    pub(super) fn figures(&self) -> Figures {
        self.lock().figures
    }

    pub(super) fn seen(&self) -> Seen {
        let state = self.lock();
        Seen { version: state.version, event: state.last_event }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    // === The control plane's side ===

    /// This replica asks the API server for slices below a path.
    pub(super) fn ask_api_server(&self, path: &str) {
        self.change_state(|state| {
            path.clone_into(&mut state.path);
            state.figures.relay = None;
            if matches!(state.stand, Stand::Following | Stand::Failing) {
                state.stand = Stand::Starting;
            }
        });
    }

    /// This replica asks a relay. Its own followers have to look for another one.
    pub(super) fn ask_relay(&self, relay: IpAddr) {
        self.change_state(|state| {
            state.figures.relay = Some(relay);
            state.row.clear();
            if state.stand != Stand::GivenUp {
                state.stand = Stand::Following;
            }
        });
    }

    /// Everything up to this version is known, since the watch goes on after it.
    pub(super) fn note_known(&self, version: u64) {
        let mut state = self.lock();
        state.version = state.version.max(version);
    }

    /// The API server sends all events after this version. What came before is known, bookmarks included.
    pub(super) fn watches_from(&self, version: u64) {
        self.change_state(|state| {
            state.version = state.version.max(version);
            // While this replica watches, the row has all events, of which there may be none.
            if state.row.events.is_empty() && state.stand != Stand::Watching {
                state.row.since = state.version;
            }
            if state.stand != Stand::GivenUp {
                state.stand = Stand::Watching;
            }
        });
    }

    /// The API server does not send events at this time.
    pub(super) fn shut(&self) {
        self.change_state(|state| {
            if matches!(state.stand, Stand::Watching | Stand::Starting) {
                state.stand = Stand::Failing;
            }
        });
    }

    /// Refuses followers for good.
    pub(super) fn give_up(&self) {
        self.change_state(|state| {
            state.stand = Stand::GivenUp;
            state.row.clear();
        });
    }

    pub(super) fn begin_list(&self) {
        self.change_state(|state| {
            state.listing = Some(BTreeMap::new());
            // Events before the list are lost.
            state.row.clear();
            if state.stand == Stand::Watching {
                state.stand = Stand::Starting;
            }
        });
    }

    pub(super) fn list(&self, slice: Slice) {
        let mut state = self.lock();
        state.note(slice.version);
        let State { listing, slices, .. } = &mut *state;
        let Some(listing) = listing else { return };
        // A slice that cannot be decoded stays as it last was.
        let held = match slice.read {
            Some(read) => Some(Held { slice: read, version: slice.version }),
            None => slices.get(&slice.key).cloned(),
        };
        listing.extend(held.map(|held| (slice.key, held)));
    }

    pub(super) fn end_list(&self) {
        self.change_state(|state| {
            state.slices = state.listing.take().unwrap_or_default();
            state.lists.clear();
        });
    }

    /// A slice has changed, or was deleted.
    pub(super) fn change(&self, slice: Slice, is_gone: bool) {
        let mut state = self.lock();
        state.note(slice.version);
        let Slice { key, version, read } = slice;
        // A slice that cannot be decoded stays as it last was, for followers too.
        let read =
            read.or_else(|| state.slices.get(&key).filter(|_| is_gone).map(|held| Arc::clone(&held.slice)));
        let Some(slice) = read else { return };
        let is_read = state.stand == Stand::Watching;
        let line =
            is_read.then(|| wire::event(if is_gone { "DELETED" } else { "MODIFIED" }, &slice, version));
        if is_gone {
            state.slices.remove(&key);
        } else {
            state.slices.insert(key, Held { slice, version });
        }
        let Some(line) = line else { return };
        state.row.push(Event { version, line });
        drop(state);
        self.news.send_replace(());
    }

    // === The followers' side ===

    /// Whether followers are refused for good.
    pub(super) fn has_given_up(&self) -> bool {
        self.lock().stand == Stand::GivenUp
    }

    /// Whether it may be known soon whether followers are served.
    pub(super) fn is_starting(&self) -> bool {
        self.lock().stand == Stand::Starting
    }

    /// Takes a follower on, at the events after a version. `seen` is the version of the last event that it
    /// has seen. It may be earlier: if this replica knows that event, and the follower knows that there was
    /// none up to `from`, what comes here next is what the follower has to have next.
    pub(super) fn follow(&self, path: &str, from: u64, seen: u64, most: usize) -> Result<Place, Refusal> {
        let mut state = self.lock();
        state.admit(path, seen)?;
        if from < state.row.since {
            return Err(Refusal::TooOld);
        }
        if state.figures.followers >= most {
            return Err(Refusal::Full);
        }
        state.figures.followers += 1;
        Ok(Place { next: state.row.place_after(from), known: from })
    }

    /// A follower has gone.
    pub(super) fn leave(&self) {
        self.lock().figures.followers -= 1;
    }

    /// The events at a place.
    pub(super) fn read(&self, place: Place) -> Read {
        let mut state = self.lock();
        if state.stand != Stand::Watching {
            return Read::Cut;
        }
        let Some(skipped) = place.next.checked_sub(state.row.first) else {
            state.figures.cut += 1;
            return Read::Cut;
        };
        let (mut lines, mut next) = (Vec::new(), place.next);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(state.row.events.len());
        for event in state.row.events.range(skipped..) {
            if !lines.is_empty() && lines.len() + event.line.len() > READ_BYTES_MAX {
                break;
            }
            if event.version > place.known {
                lines.extend_from_slice(&event.line);
            }
            next += 1;
        }
        if lines.is_empty() {
            Read::Nothing(state.version.max(place.known))
        } else {
            Read::Lines(lines, Place { next, ..place })
        }
    }

    /// A list of all slices for a follower that knows everything up to a version.
    pub(super) fn begin_pages(&self, path: &str, seen: u64) -> Result<Arc<List>, Refusal> {
        let mut state = self.lock();
        state.admit(path, seen)?;
        let now = Instant::now();
        state.lists.retain(|list| now.duration_since(list.made) < PAGES_LAST);
        let is_shared = |list: &&Arc<List>| {
            now.duration_since(list.made) < LIST_SHARED
                && list.version >= seen
                && list.version >= state.row.since
        };
        if let Some(list) = state.lists.iter().find(is_shared) {
            return Ok(Arc::clone(list));
        }
        state.lists_begun += 1;
        let slices = state.slices.values().cloned().collect();
        let list = Arc::new(List { number: state.lists_begun, version: state.version, made: now, slices });
        state.lists.push(Arc::clone(&list));
        Ok(list)
    }

    /// The list of a later page; none if it has been dropped.
    pub(super) fn pages(&self, number: u64) -> Option<Arc<List>> {
        let state = self.lock();
        if state.stand != Stand::Watching {
            return None;
        }
        state.lists.iter().find(|list| list.number == number).cloned()
    }

    pub(super) fn note_sent(&self, bytes: usize) {
        self.lock().figures.sent_bytes += bytes as u64;
    }
}

impl State {
    fn note(&mut self, version: u64) {
        self.version = self.version.max(version);
        self.last_event = self.last_event.max(version);
    }

    fn admit(&self, path: &str, known: u64) -> Result<(), Refusal> {
        if self.stand != Stand::Watching {
            Err(Refusal::NotWatching)
        } else if self.path != path {
            Err(Refusal::OtherPath)
        } else if self.version < known {
            Err(Refusal::Behind)
        } else {
            Ok(())
        }
    }
}

impl Row {
    fn push(&mut self, event: Event) {
        self.bytes += event.line.len();
        self.events.push_back(event);
        while self.bytes > ROW_BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.line.len();
            self.first += 1;
            self.since = self.since.max(oldest.version);
        }
    }

    /// Drops all events, so that no place before has anything to read.
    fn clear(&mut self) {
        self.first += self.events.len() as u64 + 1;
        self.since = self.events.back().map_or(self.since, |last| last.version.max(self.since));
        self.bytes = 0;
        self.events = VecDeque::new();
    }

    /// The place of the first event after a version.
    fn place_after(&self, version: u64) -> u64 {
        self.first + self.events.partition_point(|event| event.version <= version) as u64
    }
}

impl List {
    /// A page, and where the next one begins; none after the last page.
    pub(super) fn page(&self, begin: usize, most: usize, token: impl Fn(usize) -> String) -> Vec<u8> {
        let end = begin.saturating_add(most.max(1)).min(self.slices.len());
        let items = self.slices.get(begin..end).unwrap_or_default();
        let next = (end < self.slices.len()).then(|| token(end));
        let items = items.iter().map(|held| (&held.slice.object, held.version));
        wire::page(self.version, items, next)
    }
}

#[cfg(test)]
mod tests;
