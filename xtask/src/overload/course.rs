//! A situation's course through one proxy: its phases one after the other, and the figures of them.
//!
//! Must not be in here: which situations there are.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::endpoint::{ENDPOINTS, Endpoint, share, taken};
use super::load::{Plan, Stream};
use super::records::Records;
use super::site::{HOST, Peer, Setup, Site};
use super::situation::{Figure, Phase, Requests, Situation, Value};
use super::slow;
use crate::machine::connections_at;
use crate::measured::Findings;

/// The interval at which the return of an endpoint is looked for.
const LOOK: Duration = Duration::from_millis(500);
/// A p99 of at most this many times the unloaded one is well.
const WELL: f64 = 1.3;
/// A pause after slow clients, so that their connections are gone when the next proxy starts.
const REST: Duration = Duration::from_secs(1);

/// A phase's time, since the begin of the load.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    begin: Duration,
    end: Duration,
}

/// The state at a phase's end, and what was seen while it lasted.
#[derive(Default)]
struct Seen {
    span: Span,
    /// Requests that each endpoint had had at the begin, and at the end.
    taken_before: Vec<u64>,
    taken: Vec<u64>,
    connections: usize,
    resident_bytes: u64,
    /// From its begin until the first endpoint had its part of the requests again.
    back: Option<Duration>,
}

/// The phases and requests of a situation, through one proxy.
struct Course {
    phases: BTreeMap<String, Seen>,
    records: Records,
}

/// Makes the situation with each of the peers.
pub(super) fn run(site: &Site, situation: &Situation, peers: &[Peer]) -> Result<Findings> {
    let mut findings = Findings::with(situation.columns.iter().map(|column| column.heading.as_str()));
    let mut courses: Vec<(Peer, Course)> = Vec::new();
    for peer in peers {
        eprintln!("  {}", peer.name());
        courses.push((*peer, Course::of(site, situation, *peer)?));
        let value = |value: &Value| of_peer(&courses, *peer, value);
        let shown =
            situation.columns.iter().map(|column| show(&column.value, value(&column.value), &courses));
        findings.row(peer.name(), shown.collect());
        if *peer == Peer::Forebay {
            for goal in &situation.goals {
                let is_met = goal.all.iter().all(|bound| bound.holds(value(&bound.value)));
                findings.goal(goal.what.clone(), is_met);
            }
        }
    }
    Ok(findings)
}

/// The figure of a peer, which may be one over another's.
fn of_peer(courses: &[(Peer, Course)], peer: Peer, value: &Value) -> Option<f64> {
    let of = |peer: Peer| courses.iter().find(|(one, _)| *one == peer)?.1.value(value);
    match value.of {
        Some(other) => Some(of(peer)? / of(other)?),
        None => of(peer),
    }
}

fn show(value: &Value, figure: Option<f64>, courses: &[(Peer, Course)]) -> String {
    match (value.figure, figure, courses.last()) {
        (Figure::SecondsUntilWell, None, Some((_, course))) => {
            format!("over {}", course.span(&value.during).lasts().as_secs())
        }
        _ => value.show(figure),
    }
}

impl Span {
    fn lasts(self) -> Duration {
        self.end.saturating_sub(self.begin)
    }
}

impl Course {
    fn of(site: &Site, situation: &Situation, peer: Peer) -> Result<Course> {
        let mut endpoints = Endpoint::start_many(site, ENDPOINTS, situation.work)?;
        if let Some(held) = situation.held {
            let [time, period] = [held.time_ms, held.period_ms].map(Duration::from_millis);
            endpoints[0].hold(time, period).context("no cgroup can be made for an endpoint")?;
        }
        let proxy = peer.start(site, &setup(situation, peer, &endpoints))?;
        let spans = spans(&situation.phases, site.time);
        let streams = situation.streams.iter().map(|requests| stream(requests, &situation.phases, &spans));
        let plan = Plan { proxies: vec![proxy.address], streams: streams.collect(), seed: situation.seed };
        let load = plan.start(&site.cpus.load)?;
        let mut phases = BTreeMap::new();
        let mut slow_clients = Vec::new();
        let mut taken_before = taken(&endpoints)?;
        for (phase, span) in situation.phases.iter().zip(spans) {
            if let Some(order) = &phase.tell {
                endpoints[0].tell(order)?;
            }
            if let Some(count) = phase.slow_clients {
                slow_clients = slow::start(site, proxy.address, HOST, slow::part_of(count, site.time))?;
            }
            let back = if phase.watch { await_share(site, &endpoints, span.lasts())? } else { None };
            load.sleep_until(span.end);
            let taken = taken(&endpoints)?;
            let seen = Seen {
                span,
                taken_before: std::mem::replace(&mut taken_before, taken.clone()),
                taken,
                connections: connections_at(proxy.address.port())?,
                resident_bytes: proxy.program.resident_bytes()?,
                back,
            };
            phases.insert(phase.name.clone(), seen);
        }
        let records = load.finish()?;
        site.interrupt.check()?;
        if !slow_clients.is_empty() {
            drop(slow_clients);
            drop(proxy);
            thread::sleep(REST);
        }
        Ok(Course { phases, records })
    }

    /// The time of phases in a row.
    fn span(&self, during: &[String]) -> Span {
        let spans = || during.iter().filter_map(|name| self.phases.get(name)).map(|seen| seen.span);
        let begin = spans().map(|span| span.begin).min().unwrap_or_default();
        Span { begin, end: spans().map(|span| span.end).max().unwrap_or_default() }
    }

    /// A figure, or its ratio to another one.
    fn value(&self, value: &Value) -> Option<f64> {
        let figure = self.figure(value, &value.during)?;
        if value.figure == Figure::SecondsUntilWell {
            return Some(figure);
        }
        let other = value.over.as_ref().map(|phase| self.figure(value, std::slice::from_ref(phase)));
        let divisor = other.unwrap_or(Some(value.divided_by.unwrap_or(1.0)))?;
        Some(figure / divisor)
    }

    fn figure(&self, value: &Value, during: &[String]) -> Option<f64> {
        let span = self.span(during);
        let records = self.records_in(value, span);
        let percent = |count: usize| 100.0 * count as f64 / records.len().max(1) as f64;
        let last = self.phases.get(during.last()?)?;
        match value.figure {
            Figure::GoodPerSecond => Some(records.good() as f64 / span.lasts().as_secs_f64()),
            Figure::Refused => Some(records.refused() as f64),
            Figure::RefusedPercent => Some(percent(records.refused())),
            Figure::FailedPercent => Some(100.0 * records.failed_share()),
            Figure::P99Ms => records.p99_ms(),
            Figure::SharePercent => Some(100.0 * share(&last.taken_before, &last.taken, 0)),
            Figure::SecondsUntilWell => {
                let unloaded = self.records_in(value, self.span(value.over.as_slice()));
                let limit = WELL * unloaded.p99_ms().unwrap_or(0.0);
                Some(self.records.recovery(span.begin, span.end, limit)?.as_secs_f64())
            }
            Figure::SecondsUntilBack => Some(last.back?.as_secs_f64()),
            Figure::MemoryMb => Some(last.resident_bytes as f64 / f64::from(1 << 20)),
            Figure::Connections => Some(last.connections as f64),
        }
    }

    fn records_in(&self, value: &Value, span: Span) -> Records {
        let records = self.records.between(span.begin, span.end);
        value.stream.map_or(records.clone(), |stream| records.of(stream))
    }
}

fn setup(situation: &Situation, peer: Peer, endpoints: &[Endpoint]) -> Setup {
    let addresses: Vec<_> = endpoints.iter().map(|endpoint| endpoint.address).collect();
    let mut setup = Setup::to(&addresses, situation.work.parallel);
    if !situation.hosts.is_empty() {
        setup.hosts = situation.hosts.clone();
    }
    setup.settings.extend(situation.settings.clone());
    if peer == Peer::ForebayOff {
        setup.settings.extend(situation.settings_off.clone());
    }
    setup
}

/// The time of each phase.
fn spans(phases: &[Phase], main: Duration) -> Vec<Span> {
    let mut begin = Duration::ZERO;
    let mut spans = Vec::new();
    for phase in phases {
        let end = begin + phase.lasts(main);
        spans.push(Span { begin, end });
        begin = end;
    }
    spans
}

/// The requests of a kind, in the time of their phases.
fn stream(requests: &Requests, phases: &[Phase], spans: &[Span]) -> Stream {
    let is_in = |phase: &Phase| requests.during.is_empty() || requests.during.contains(&phase.name);
    let during = || phases.iter().zip(spans).filter(|(phase, _)| is_in(phase)).map(|(_, span)| *span);
    Stream {
        rate: requests.rate,
        from: during().next().unwrap_or_default().begin,
        until: during().next_back().unwrap_or_default().end,
        host: requests.host.clone().unwrap_or_else(|| HOST.into()),
        path: "/".into(),
        clients: requests.clients,
        proxy: 0,
    }
}

/// The time until the first endpoint has at least half of its part again; `None` where that takes too long.
fn await_share(site: &Site, endpoints: &[Endpoint], limit: Duration) -> Result<Option<Duration>> {
    let begin = Instant::now();
    let mut before = taken(endpoints)?;
    while begin.elapsed() < limit {
        site.interrupt.check()?;
        thread::sleep(LOOK);
        let after = taken(endpoints)?;
        if share(&before, &after, 0) >= 0.5 / endpoints.len() as f64 {
            return Ok(Some(begin.elapsed()));
        }
        before = after;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::records::{Outcome, Record};
    use super::*;

    fn course() -> Course {
        let second = Duration::from_secs(1);
        let phase = |number: u32, taken: [u64; 2]| Seen {
            span: Span { begin: second * number, end: second * (number + 1) },
            taken_before: vec![0, 0],
            taken: taken.into(),
            ..Seen::default()
        };
        let phases = [("quiet".into(), phase(0, [5, 5])), ("loud".into(), phase(1, [1, 3]))].into();
        let record = |ms: u64, took: u64, status| Record {
            at: Duration::from_millis(ms),
            stream: usize::from(status != 200),
            outcome: Outcome::Status(status),
            took: Duration::from_millis(took),
        };
        let records = Records(vec![record(10, 20, 200), record(1010, 50, 200), record(1020, 1, 503)]);
        Course { phases, records }
    }

    #[test]
    fn figures_are_of_phases_and_streams_and_may_be_ratios() {
        let course = course();
        let value = |yaml: &str| {
            let value: Value = serde_saphyr::from_str(&format!("{{{yaml}}}")).expect("a value");
            value.show(course.value(&value))
        };
        assert_eq!(value("figure: p99-ms, during: [quiet]"), "20.0");
        assert_eq!(value("figure: p99-ms, during: [loud], over: quiet"), "2.50");
        assert_eq!(value("figure: refused-percent, during: [quiet, loud]"), "33.33");
        assert_eq!(value("figure: refused, during: [loud], stream: 0"), "0");
        assert_eq!(value("figure: good-per-second, during: [loud], divided-by: 2"), "0.50");
        assert_eq!(value("figure: share-percent, during: [loud]"), "25.00");
        assert_eq!(value("figure: seconds-until-back, during: [loud]"), "-");
    }
}
