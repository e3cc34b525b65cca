//! One watch of `EndpointSlices` for several replicas: a relay watches the API server and sends what it gets
//! to other replicas, its followers.
//!
//! ```text
//! members   the replicas, and which of them are relays
//! seal      how replicas authenticate each other, and how their messages are encrypted
//! hub       the slices of this replica, and the last events about them
//! figures   the counts that others see
//! wire      slices and events as the API server writes them
//! asked     the requests of followers
//! server    lists and watches for followers
//! source    a client that sends requests for slices to a relay, or to the API server
//! body      the answer of a relay
//! ```
//!
//! A relay answers as the API server does: pages of a list, and lines of events and bookmarks with the API
//! server's resource versions. So a follower's watch can go on at the API server, or at another relay, where
//! it ended, and no event is lost or comes twice.
//!
//! Never in here: objects of other kinds. No Secret leaves a replica by this way.

mod asked;
mod body;
mod figures;
mod hub;
mod members;
mod seal;
mod server;
mod source;
mod wire;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub use self::figures::Figures;
use self::hub::Hub;
pub(crate) use self::hub::Slice;
use self::seal::Key;
use crate::names::NsName;

/// The facts by which replicas share watches.
#[derive(Clone)]
pub struct RelayOptions {
    /// Replicas for each watch at the API server, the relay included.
    pub per_watch: usize,
    /// The TCP port at which relays answer, the same for all.
    pub port: u16,
    /// The Service whose endpoints are the replicas.
    pub service: NsName,
    /// The address of this replica.
    pub own: IpAddr,
    /// The secret that all replicas share.
    pub secret: Vec<u8>,
}

/// This replica as a relay and as a follower of one. A clone is the same one.
#[derive(Clone)]
pub struct Relay(Arc<Shared>);

struct Shared {
    own: IpAddr,
    port: u16,
    per_watch: usize,
    service: NsName,
    key: Key,
    pace: Pace,
    hub: Hub,
    /// Whether slices of the replicas' Service have changed since the replicas were listed.
    members_changed: AtomicBool,
    /// Failures of relays, after each of which another one or the API server was asked.
    fallbacks: AtomicU64,
}

/// The times that relays and followers keep.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Longest wait for a connection, and for the first bytes of an answer.
    answer: Duration,
    /// Longest wait for a page of a list. A relay that starts lists at the API server first.
    list: Duration,
    /// Time after which a relay sends a bookmark if there was no event.
    bookmark: Duration,
    /// Time without event or bookmark after which a follower gives a relay up.
    silence: Duration,
    /// Time for which a follower does not ask a relay that has failed, and in which it returns from the API
    /// server.
    rest: Duration,
    /// Longest pause before a follower lists at the API server, so that not all do so at once.
    spread: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(2),
            list: Duration::from_secs(20),
            bookmark: Duration::from_secs(4),
            silence: Duration::from_secs(12),
            rest: Duration::from_secs(30),
            spread: Duration::from_secs(2),
        }
    }
}

impl Relay {
    /// A replica that neither watches nor answers yet.
    pub fn new(options: RelayOptions) -> Self {
        Self::with_pace(options, Pace::default())
    }

    /// A replica whose waits are short, but for those that a busy machine may need.
    #[cfg(test)]
    pub(crate) fn hasty(options: RelayOptions) -> Self {
        let milliseconds = Duration::from_millis;
        let pace = Pace {
            bookmark: milliseconds(50),
            silence: Duration::from_secs(20),
            rest: milliseconds(300),
            spread: milliseconds(20),
            ..Pace::default()
        };
        Self::with_pace(options, pace)
    }

    fn with_pace(options: RelayOptions, pace: Pace) -> Self {
        let RelayOptions { per_watch, port, service, own, secret } = options;
        Self(Arc::new(Shared {
            own,
            port,
            per_watch: per_watch.max(1),
            service,
            key: Key::new(&secret),
            pace,
            hub: Hub::default(),
            members_changed: AtomicBool::default(),
            fallbacks: AtomicU64::default(),
        }))
    }

    /// The address at which this replica answers its followers.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.0.own, self.0.port)
    }

    /// The figures at this moment.
    pub fn figures(&self) -> Figures {
        Figures { fallbacks: self.0.fallbacks.load(Ordering::Relaxed), ..self.0.hub.figures() }
    }

    /// Takes note of what the watch of slices brings.
    pub(crate) fn note(&self, news: News) {
        if let News::Changed(slice) | News::Gone(slice) = &news
            && self.is_of_replicas(slice)
        {
            self.0.members_changed.store(true, Ordering::Relaxed);
        }
        let hub = &self.0.hub;
        match news {
            News::Began => hub.begin_list(),
            News::Listed(slice) => hub.list(slice),
            News::Complete => hub.end_list(),
            News::Changed(slice) => hub.change(slice, false),
            News::Gone(slice) => hub.change(slice, true),
            News::Failed => hub.shut(),
            News::Unversioned => hub.give_up(),
        }
    }

    /// Whether a slice has addresses of replicas.
    fn is_of_replicas(&self, slice: &Slice) -> bool {
        let service = &self.0.service;
        let name = slice.read.as_ref().and_then(|read| read.service_name());
        slice.key.namespace == service.namespace && name == Some(service.name.as_str())
    }

    /// Ends all watches of followers: this replica does not watch any more.
    pub(crate) fn leave(&self) {
        self.0.hub.give_up();
    }
}

/// An event of the watch of slices.
pub(crate) enum News {
    /// A list begins.
    Began,
    /// The list contains this slice.
    Listed(Slice),
    /// The list is complete.
    Complete,
    /// A slice is new or has changed.
    Changed(Slice),
    /// A slice has been deleted.
    Gone(Slice),
    /// The watch has failed, and will be repeated.
    Failed,
    /// The API server's versions are not numbers, so that they cannot be compared.
    Unversioned,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("own", &self.0.own).finish_non_exhaustive()
    }
}

/// A random time below a limit.
fn random_below(limit: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without random numbers there is no jitter, which is no reason to fail.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    limit.mul_f64(f64::from(u32::from_be_bytes(bytes)) / (f64::from(u32::MAX) + 1.0))
}
