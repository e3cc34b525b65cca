//! Samples made by hand, for the tests of checks.
//!
//! Must not be in here: what only one test needs.

use crate::finding::{Finding, Value};
use crate::sample::{Absence, Sample, SampleOrigin};
use crate::samples::Samples;
use crate::sockets::{Direction, Owner, SocketGroup, State};
use crate::table::all;
use crate::ticks::{ConnectionTick, Ticks};

/// Two samples, ten seconds apart by default, and their content.
pub(crate) struct Scene {
    first: Sample,
    last: Sample,
    requests: Option<u64>,
    own_connections: u64,
}

/// A scene with nothing in it.
pub(crate) fn scene() -> Scene {
    let mut last = Sample::default();
    last.taken = SampleOrigin { seconds: 10.0, ..SampleOrigin::default() };
    Scene { first: Sample::default(), last, requests: None, own_connections: 0 }
}

impl Scene {
    /// The time between the samples.
    pub(crate) fn seconds(mut self, seconds: f64) -> Scene {
        self.last.taken.seconds = seconds;
        self
    }

    /// The examined processes; the first is the named one.
    pub(crate) fn pids(mut self, pids: &[u32]) -> Scene {
        for sample in [&mut self.first, &mut self.last] {
            sample.taken.pids = pids.to_vec();
            sample.taken.pid = pids.first().copied();
        }
        self
    }

    /// A file with the same content in both samples.
    pub(crate) fn file(self, path: &str, text: &str) -> Scene {
        self.grows(path, text, text)
    }

    /// A file with its content in the first and in the last sample.
    pub(crate) fn grows(mut self, path: &str, first: &str, last: &str) -> Scene {
        self.first.put(path, Ok(first.into()));
        self.last.put(path, Ok(last.into()));
        self
    }

    /// A file that the machine does not have.
    pub(crate) fn lacks(self, path: &str) -> Scene {
        self.absent(path, &Absence::Missing)
    }

    /// A file that may not be read.
    pub(crate) fn forbids(self, path: &str) -> Scene {
        self.absent(path, &Absence::Unreadable("permission denied".into()))
    }

    fn absent(mut self, path: &str, absence: &Absence) -> Scene {
        self.first.put(path, Err(absence.clone()));
        self.last.put(path, Err(absence.clone()));
        self
    }

    /// Counters of `Tcp` in `/proc/net/snmp` in the last sample; they are 0 in the first.
    pub(crate) fn snmp(self, counters: &[(&str, u64)]) -> Scene {
        self.counters("proc/net/snmp", "Tcp", counters)
    }

    /// Counters of `TcpExt` in `/proc/net/netstat` in the last sample; they are 0 in the first.
    pub(crate) fn netstat(self, counters: &[(&str, u64)]) -> Scene {
        self.counters("proc/net/netstat", "TcpExt", counters)
    }

    fn counters(self, path: &str, protocol: &str, counters: &[(&str, u64)]) -> Scene {
        let names: Vec<_> = counters.iter().map(|(name, _)| *name).collect();
        let text = |value: &dyn Fn(u64) -> u64| {
            let values: Vec<_> = counters.iter().map(|(_, last)| value(*last).to_string()).collect();
            format!("{protocol}: {}\n{protocol}: {}\n", names.join(" "), values.join(" "))
        };
        self.grows(path, &text(&|_| 0), &text(&|last| last))
    }

    /// The sockets of both samples.
    pub(crate) fn sockets(self, groups: &[SocketGroup]) -> Scene {
        self.sockets_grow(groups, groups)
    }

    /// The sockets of the first and of the last sample.
    pub(crate) fn sockets_grow(self, first: &[SocketGroup], last: &[SocketGroup]) -> Scene {
        let json = |groups: &[SocketGroup]| serde_json::to_string(groups).unwrap();
        self.grows("forebay/sockets.json", &json(first), &json(last))
    }

    /// The readings between the samples.
    pub(crate) fn ticks(mut self, ticks: &Ticks) -> Scene {
        self.last.put("forebay/ticks.json", Ok(serde_json::to_string(ticks).unwrap()));
        self
    }

    /// Requests served between the samples.
    pub(crate) fn requests(mut self, requests: u64) -> Scene {
        self.requests = Some(requests);
        self
    }

    /// Connections of whoever sent the requests.
    pub(crate) fn own_connections(mut self, count: u64) -> Scene {
        self.own_connections = count;
        self
    }

    pub(crate) fn samples(self) -> Samples {
        let Scene { first, last, requests, own_connections } = self;
        Samples { all: vec![first, last], requests, own_connections }
    }

    /// The finding of the check with this name.
    pub(crate) fn finding(self, id: &str) -> Finding {
        let check = all().find(|check| check.id == id).unwrap();
        check.examine(&self.samples())
    }
}

impl Finding {
    /// A number in the evidence.
    pub(crate) fn number(&self, name: &str) -> f64 {
        match self.evidence.get(name) {
            Some(Value::Number(number)) => *number,
            other => panic!("{name} is {other:?} in {self:?}"),
        }
    }

    /// Whether a number in the evidence is this one, except for rounding.
    pub(crate) fn tells(&self, name: &str, expected: f64) -> bool {
        (self.number(name) - expected).abs() < 1e-9
    }

    /// A text in the evidence.
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.evidence.get(name) {
            Some(Value::Text(text)) => text,
            other => panic!("{name} is {other:?} in {self:?}"),
        }
    }
}

/// Sockets that listen at `local`.
pub(crate) fn listening(local: &str) -> SocketGroup {
    SocketGroup {
        direction: Direction::Listening,
        state: State::Listen,
        local: local.into(),
        remote: String::new(),
        owner: None,
        count: 1,
        queued: 0,
        backlog: 0,
        counted: 0,
        sent_once: 0,
        answered: 0,
        segments_received: 0,
        segments_sent: 0,
    }
}

/// Incoming connections at `local`.
pub(crate) fn incoming(state: State, local: &str, count: u64) -> SocketGroup {
    SocketGroup { direction: Direction::Incoming, state, count, ..listening(local) }
}

/// Outgoing connections to `remote`.
pub(crate) fn outgoing(state: State, remote: &str, count: u64) -> SocketGroup {
    let remote = remote.to_owned();
    SocketGroup { direction: Direction::Outgoing, state, count, remote, ..listening("10.0.0.1") }
}

impl SocketGroup {
    /// Sets the process that holds them.
    pub(crate) fn of(mut self, pid: u32, name: &str) -> SocketGroup {
        self.owner = Some(Owner { pid, name: name.into() });
        self
    }

    /// Sets the number of connections with one request.
    pub(crate) fn once(mut self, sent_once: u64) -> SocketGroup {
        (self.counted, self.sent_once) = (self.count, sent_once);
        self
    }

    /// Sets the number of connections that have received their answer and are still open.
    pub(crate) fn answered(mut self, answered: u64) -> SocketGroup {
        self.answered = answered;
        self
    }

    /// For a listener: sets the waiting connections and the length of the queue.
    pub(crate) fn queue(mut self, queued: u64, backlog: u64) -> SocketGroup {
        (self.queued, self.backlog) = (queued, backlog);
        self
    }
}

/// Readings, every 100 ms for ten seconds, of a process's connections to `remote`: a constant number
/// established, and a steadily growing number in `TIME_WAIT`.
pub(crate) fn connection_ticks(
    pid: u32,
    remote: &str,
    established: u64,
    time_wait: u64,
) -> Vec<ConnectionTick> {
    let tick = |number: u64| ConnectionTick {
        at_ms: number * 100,
        remote: remote.into(),
        pid: Some(pid),
        established,
        time_wait: time_wait * number / 100,
    };
    (0..=100).map(tick).collect()
}
