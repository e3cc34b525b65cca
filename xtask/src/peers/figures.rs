//! What was measured: figures by name, and their medians over the rounds.
//!
//! Must not be in here: what they ought to be.

use std::collections::BTreeMap;

use bench::cpu::CpuTime;
use bench::generator::Outcome;

use super::proxy::Peer;

/// How far two rates may be apart, as a share, where both carried the load.
pub(super) const CARRIED_AS_MUCH: f64 = 0.02;

/// One kind of figure. The order is the tables'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    /// Answers a second at the load that was made.
    Rate,
    /// CPU microseconds per request, all of the proxy's threads and processes.
    Cpu,
    CpuUser,
    CpuSystem,
    /// Microseconds.
    P50,
    P99,
    /// Requests a second in wrk's closed loop.
    RateMax,
    /// Requests a second in a closed loop of the load that was made, and the CPU microseconds of each.
    RateClosed,
    CpuClosed,
    /// New upstream connections, per 100 requests.
    OpenedPercent,
    /// New upstream connections after the first burst.
    OpenedLater,
    /// Sockets in `TIME_WAIT` on the proxy's side, towards the upstreams.
    TimeWait,
    /// Evictions that were followed by a new connection.
    Regretted,
    /// New upstream connections with one worker, and with two.
    OpenedByOne,
    OpenedByTwo,
    /// Resident bytes for each idle client.
    IdleBytes,
    /// CPU microseconds per request with 5 Ingresses, and with 5,000.
    CpuFew,
    CpuMany,
    /// The same with 100,000, and the milliseconds from the start until it was ready.
    CpuMost,
    ReadyMillis,
    /// Mebibytes resident then.
    ResidentMib,
    /// CPU microseconds per request with HTTP/1 upstreams, and with h2c.
    CpuHttp1,
    CpuH2c,
    /// The same with all streams in use.
    CpuHttp1Closed,
    CpuH2cClosed,
    /// CPU microseconds per request of a route with conditions, and of one without.
    CpuConditional,
    CpuUnconditional,
    /// Microseconds, while nobody makes handshakes, and while many do.
    P50Quiet,
    P99Quiet,
    P50Flooded,
    P99Flooded,
    /// A second, meanwhile.
    Handshakes,
    Refused,
    /// Microseconds, while every request is copied.
    P50Mirrored,
    P99Mirrored,
    /// A second, of the copies.
    Dropped,
    /// Mebibytes that became resident meanwhile.
    GrownMib,
    /// CPU microseconds per request that is passed on, beside those that are answered from the cache.
    CpuProxied,
    /// Requests that reached the backend.
    AskedBackend,
    /// Milliseconds until the last of many had its answer.
    LastMillis,
    /// Percent of the requests that did not reach the backend, and what a cache of as many bytes would have that drops what was used
    /// least recently.
    HitPercent,
    LruPercent,
    /// Resident memory over the size that the cache may have.
    ResidentShare,
    /// Milliseconds from a start until something was found on disk, and what there was, in gibibytes.
    DiskHitMillis,
    DiskGib,
    /// Percent of the contents that are left of them.
    LeftPercent,
}

/// The figures of one peer in one round, or their medians.
pub(crate) type Figures = BTreeMap<Figure, f64>;

/// All rounds of one workload.
#[derive(Default)]
pub(crate) struct Results(BTreeMap<Peer, Vec<Figures>>);

impl Figure {
    /// The column's heading.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Figure::Rate => "requests/s",
            Figure::Cpu => "CPU us/request",
            Figure::CpuUser => "user/system",
            Figure::CpuSystem => "system",
            Figure::P50 => "p50 us",
            Figure::P99 => "p99 us",
            Figure::RateMax => "requests/s with wrk",
            Figure::RateClosed => "requests/s in a closed loop",
            Figure::CpuClosed => "CPU us/request there",
            Figure::OpenedPercent => "upstream connections per 100 requests",
            Figure::OpenedLater => "upstream connections after the first burst",
            Figure::TimeWait => "TIME_WAIT towards upstreams",
            Figure::Regretted => "regretted evictions",
            Figure::OpenedByOne => "upstream connections, 1 worker",
            Figure::OpenedByTwo => "upstream connections, 2 workers",
            Figure::IdleBytes => "bytes per idle client",
            Figure::CpuFew => "CPU us/request, 5 Ingresses",
            Figure::CpuMany => "CPU us/request, 5,000 Ingresses",
            Figure::CpuMost => "CPU us/request, 100,000 Ingresses",
            Figure::ReadyMillis => "ms until ready",
            Figure::ResidentMib => "MiB resident",
            Figure::CpuHttp1 => "CPU us/request, HTTP/1 upstream",
            Figure::CpuH2c => "CPU us/request, h2c upstream",
            Figure::CpuHttp1Closed => "HTTP/1 upstream, all streams in use",
            Figure::CpuH2cClosed => "h2c upstream, all streams in use",
            Figure::CpuConditional => "CPU us/request, 16 conditions",
            Figure::CpuUnconditional => "CPU us/request, none",
            Figure::P50Quiet => "p50 us, quiet",
            Figure::P99Quiet => "p99 us, quiet",
            Figure::P50Flooded => "p50 us, flooded",
            Figure::P99Flooded => "p99 us, flooded",
            Figure::Handshakes => "handshakes/s meanwhile",
            Figure::Refused => "wrong passwords/s refused meanwhile",
            Figure::P50Mirrored => "p50 us, mirrored",
            Figure::P99Mirrored => "p99 us, mirrored",
            Figure::Dropped => "dropped copies/s",
            Figure::GrownMib => "MiB grown meanwhile",
            Figure::CpuProxied => "CPU us/request, passed on",
            Figure::AskedBackend => "requests to the backend",
            Figure::LastMillis => "ms until the last answer",
            Figure::HitPercent => "% hits",
            Figure::LruPercent => "% hits of an LRU",
            Figure::ResidentShare => "resident / size of the cache",
            Figure::DiskHitMillis => "ms until a hit from the disk",
            Figure::DiskGib => "GiB on disk",
            Figure::LeftPercent => "% of the bytes left",
        }
    }

    /// A value as the tables show it.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Figure::Cpu
            | Figure::CpuUser
            | Figure::CpuSystem
            | Figure::CpuProxied
            | Figure::HitPercent
            | Figure::LruPercent
            | Figure::DiskGib
            | Figure::LeftPercent
            | Figure::CpuClosed
            | Figure::CpuFew
            | Figure::CpuMany
            | Figure::CpuMost
            | Figure::CpuHttp1
            | Figure::CpuH2c
            | Figure::CpuHttp1Closed
            | Figure::CpuH2cClosed => format!("{value:.1}"),
            Figure::OpenedPercent | Figure::GrownMib | Figure::ResidentShare => format!("{value:.2}"),
            _ => format!("{value:.0}"),
        }
    }
}

impl Results {
    pub(crate) fn add(&mut self, peer: Peer, figures: Figures) {
        self.0.entry(peer).or_default().push(figures);
    }

    /// Forgets what was measured of a peer that failed later.
    pub(crate) fn remove(&mut self, peer: Peer) {
        self.0.remove(&peer);
    }

    /// Who was measured.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Peer> {
        self.0.keys().copied()
    }

    /// The median over the rounds; `None` where it was not measured.
    pub(crate) fn median(&self, peer: Peer, figure: Figure) -> Option<f64> {
        median(self.0.get(&peer)?.iter().filter_map(|figures| figures.get(&figure).copied()).collect())
    }

    /// One peer's median over another's.
    pub(crate) fn ratio(&self, peer: Peer, other: Peer, figure: Figure) -> Option<f64> {
        Some(self.median(peer, figure)? / self.median(other, figure)?)
    }

    /// Every figure that some peer has.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let mut figures: Vec<_> = self.0.values().flatten().flat_map(Figures::keys).copied().collect();
        figures.sort_unstable();
        figures.dedup();
        figures
    }
}

/// What the generator saw.
pub(crate) fn of_outcome(outcome: &Outcome) -> Figures {
    let percentile = |percent| outcome.latency.percentile(percent).as_secs_f64() * 1e6;
    Figures::from([
        (Figure::Rate, outcome.rate()),
        (Figure::P50, percentile(50.0)),
        (Figure::P99, percentile(99.0)),
    ])
}

/// What the proxy spent on so many requests.
pub(crate) fn of_cpu(spent: CpuTime, requests: u64) -> Figures {
    let per_request = |time: std::time::Duration| time.as_secs_f64() * 1e6 / requests.max(1) as f64;
    Figures::from([
        (Figure::Cpu, per_request(spent.total)),
        (Figure::CpuUser, per_request(spent.user())),
        (Figure::CpuSystem, per_request(spent.system())),
    ])
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn a_ratio_needs_both() {
        let mut results = Results::default();
        results.add(Peer::Forebay, Figures::from([(Figure::Cpu, 15.0)]));
        assert_eq!(results.ratio(Peer::Forebay, Peer::Nginx, Figure::Cpu), None);
        results.add(Peer::Nginx, Figures::from([(Figure::Cpu, 20.0)]));
        assert_eq!(results.ratio(Peer::Forebay, Peer::Nginx, Figure::Cpu), Some(0.75));
    }
}
