//! Outgoing connections of the examined processes: what several checks of connections need.
//!
//! Must not be in here: verdicts.

use std::collections::{BTreeMap, BTreeSet};

use super::subject::Subject;
use crate::format::{percent, rate};
use crate::read::metrics::{Pages, REQUESTS_TOTAL, UPSTREAM_IDLE, UPSTREAM_OPENED, UPSTREAM_REQUESTS};
use crate::read::{counters, sockets};
use crate::sample::Unknown;
use crate::samples::Samples;
use crate::sockets::{Direction, SocketGroup, State};
use crate::text::{Text, say};
use crate::ticks::ConnectionTick;

/// Below this rate of new connections per second nothing is reported.
pub(super) const RATE_MIN: f64 = 10.0;

/// New connections per request above which they cost something, and above which they cost QPS.
pub(super) const PER_REQUEST_SOME: f64 = 0.1;
pub(super) const PER_REQUEST_MANY: f64 = 0.5;
/// Of so many open connections some have not received their answer yet if none is kept: the only one that was
/// seen may have been read just before it was closed.
const ANSWERED_MIN: u64 = 8;

/// The outgoing connections between the first and the last sample.
#[derive(Clone, Debug, Default)]
pub(super) struct Outgoing {
    /// New connections per second.
    pub(super) per_second: f64,
    /// New connections per second that may be theirs, although their owner was not seen.
    pub(super) unseen_per_second: f64,
    /// Requests between the samples; none if they were not counted.
    pub(super) requests: Option<f64>,
    /// New connections per request. Where the proxy counts its idle connections, those by which their number
    /// grew are left out.
    pub(super) per_request: Option<f64>,
    /// The address with most of the new connections, and its share of them.
    pub(super) remote: String,
    pub(super) remote_share: f64,
    /// Mean life of a connection in seconds: the number open divided by the rate of opening (Little's law).
    /// Needs ticks.
    pub(super) mean_life: Option<f64>,
    /// Share of open connections that had not carried a second request.
    pub(super) sent_once: Option<f64>,
    /// Share of open connections that had received their answer; none if fewer than [`ANSWERED_MIN`] were
    /// seen.
    pub(super) answered: Option<f64>,
    /// Mean number of data segments that open connections had sent; none if most connections were closed when
    /// sockets were read.
    pub(super) sent_each: Option<f64>,
    /// Share of connections that this side closed first: these are in `TIME_WAIT` here.
    pub(super) closed_here: Option<f64>,
    /// Most connections that one process had open to one address at one moment.
    pub(super) peak: u64,
}

impl Outgoing {
    pub(super) fn of(samples: &Samples) -> Result<Outgoing, Unknown> {
        let opened = samples.growth(|sample| counters::tcp(sample, "ActiveOpens"))?;
        let opened = opened.saturating_sub(samples.own_connections);
        let seconds = samples.seconds()?;
        samples.sockets()?;
        let groups: Vec<SocketGroup> =
            samples.all.iter().flat_map(|sample| sockets::of(sample).unwrap_or_default()).collect();
        let ticks = samples.ticks().map(|ticks| ticks.connections);
        let rows: Vec<&ConnectionTick> = ticks.iter().flatten().filter(|row| row.established > 0).collect();
        let subject = Subject::of(&samples.last()?.taken, &rows, &groups);
        let rows: Vec<_> = rows.into_iter().filter(|row| subject.holds(row.pid, &row.remote)).collect();
        let (theirs, nobodys) = subject.shares(&groups, samples.own_connections > 0);
        let is_one_named = samples.last()?.taken.pid.is_some();
        let unseen = if is_one_named { 0.0 } else { opened as f64 * nobodys };
        let opened = opened as f64 * theirs;
        let (remote, remote_share) = subject.main_remote(&rows, &groups);
        let mean_life = ticks.is_ok().then(|| mean_established(&rows, seconds) * seconds / opened.max(1.0));
        let requests = requests(samples).filter(|requests| *requests > 0.0);
        let peak = peak(&rows);
        let is_typical = subject.largest(&groups) * 2 >= peak;
        let are_enough = subject.number_open(&groups, |group| group.counted) >= ANSWERED_MIN;
        let sent_each = subject.share_of_open(&groups, |group| group.segments_sent);
        Ok(Outgoing {
            per_second: opened / seconds,
            unseen_per_second: unseen / seconds,
            requests,
            per_request: requests.map(|requests| opened / requests),
            remote,
            remote_share,
            mean_life,
            sent_once: subject.share_of_open(&groups, |group| group.sent_once),
            answered: subject.share_of_open(&groups, |group| group.answered).filter(|_| are_enough),
            sent_each: sent_each.filter(|_| is_typical),
            closed_here: Some((closed_here(samples, &subject)? / opened.max(1.0)).min(1.0)),
            peak,
        })
    }

    /// From Forebay's own metrics; none if these are not Forebay's metrics or it has had no upstream yet.
    pub(super) fn counted(samples: &Samples, pages: &Pages<'_>) -> Option<Outgoing> {
        let opened = pages.growth(UPSTREAM_OPENED)?;
        let requests = pages.growth(UPSTREAM_REQUESTS).filter(|requests| *requests > 0.0);
        // Connections by which the number of idle ones grew replace none: after a start, or when more
        // requests come, they fill the pool once.
        let replacing = (opened - pages.growth(UPSTREAM_IDLE).unwrap_or(0.0)).max(0.0);
        let by_endpoint = pages.growth_by(UPSTREAM_OPENED, "endpoint");
        let main = by_endpoint.into_iter().max_by(|(_, one), (_, other)| one.total_cmp(other));
        let (remote, most) = main.filter(|(_, most)| *most > 0.0).unwrap_or_default();
        Some(Outgoing {
            per_second: opened / samples.seconds().ok()?,
            requests,
            per_request: requests.map(|requests| replacing / requests),
            remote,
            remote_share: most / opened.max(1.0),
            ..Outgoing::default()
        })
    }

    /// An error if too many connections without a known owner may be theirs.
    pub(super) fn is_seen(&self) -> Result<(), Unknown> {
        if self.unseen_per_second < RATE_MIN {
            return Ok(());
        }
        let number = rate(self.unseen_per_second);
        Err(Unknown(say!(
            "whose {} new connections a second are was not seen: name the process (--pid)",
            number
        )))
    }

    /// The address with most connections, as a part of a message: `, 98 % of them to 10.0.0.2:80`.
    pub(super) fn destination(&self) -> Text {
        if self.remote.is_empty() {
            return Text::none();
        }
        say!(", {} of them to {}", percent(self.remote_share), &self.remote)
    }
}

/// The requests between the samples, counted by whoever sent them or by the proxy's metrics.
fn requests(samples: &Samples) -> Option<f64> {
    let told = samples.requests.map(|requests| requests as f64);
    told.or_else(|| Pages::of(samples).ok()?.growth(REQUESTS_TOTAL))
}

/// The mean over the ticks. A tick without open connections leaves no row: if more than half of the ticks
/// have none, the number of ticks is taken from the time.
fn mean_established(rows: &[&ConnectionTick], seconds: f64) -> f64 {
    let sum: u64 = rows.iter().map(|row| row.established).sum();
    let told: BTreeSet<u64> = rows.iter().map(|row| row.at_ms).collect();
    let due = seconds * 10.0;
    let ticks = if (told.len() as f64) < due / 2.0 { due } else { told.len() as f64 };
    sum as f64 / ticks.max(1.0)
}

/// Most connections that one process had open to one address. Those without a known owner count for the
/// process with most connections.
fn peak(rows: &[&ConnectionTick]) -> u64 {
    let mut at_once = BTreeMap::<(u64, &String), (u64, u64)>::new();
    for row in rows {
        let (most, unowned) = at_once.entry((row.at_ms, &row.remote)).or_default();
        match row.pid {
            Some(_) => *most = row.established.max(*most),
            None => *unowned += row.established,
        }
    }
    at_once.into_values().map(|(most, unowned)| most + unowned).max().unwrap_or(0)
}

/// Connections that went to `TIME_WAIT` here: the growth of their number, plus those that expired or were
/// replaced meanwhile.
fn closed_here(samples: &Samples, subject: &Subject<'_>) -> Result<f64, Unknown> {
    let (first, last) = samples.ends()?;
    let of = |groups: &[SocketGroup], is_theirs: &dyn Fn(&SocketGroup) -> bool| -> u64 {
        let waiting = groups.iter().filter(|group| group.state == State::TimeWait && is_theirs(group));
        waiting.map(|group| group.count).sum()
    };
    let is_outgoing =
        |group: &SocketGroup| group.direction == Direction::Outgoing && subject.opens_to(&group.remote);
    let before = of(&sockets::of(first).unwrap_or_default(), &is_outgoing);
    let last = sockets::of(last)?;
    let (now, all) = (of(&last, &is_outgoing), of(&last, &|_| true));
    // These counters hold both directions: expired, replaced, and not kept for want of room.
    let ended = ["TW", "TWRecycled", "TCPTimeWaitOverflow"].into_iter();
    let ended: u64 =
        ended.filter_map(|name| samples.growth(|sample| counters::tcp_ext(sample, name)).ok()).sum();
    let ended = ended as f64 * now as f64 / all.max(1) as f64;
    Ok((now as f64 - before as f64 + ended).max(0.0))
}
