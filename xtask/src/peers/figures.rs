//! Figures by name, and their medians over the rounds.
//!
//! Must not be in here: what they ought to be.

use std::collections::BTreeMap;

use bench::cpu::CpuTime;
use bench::generator::Outcome;
use serde::Deserialize;

use super::proxy::Peer;
use crate::measured::median;

/// How far two rates may be apart, as a share, where both carried the load.
pub(super) const CARRIED_AS_MUCH: f64 = 0.02;

/// Declares the figures: name, heading of the column, and digits behind the point.
macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident: $heading:literal, $digits:literal;)*) => {
        /// One kind of figure. The order is the tables'.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub(crate) enum Figure { $($(#[$doc])* $name,)* }

        impl Figure {
            /// The column's heading.
            pub(crate) fn heading(self) -> &'static str {
                match self { $(Figure::$name => $heading,)* }
            }

            fn digits(self) -> usize {
                match self { $(Figure::$name => $digits,)* }
            }
        }
    };
}

figures! {
    /// Answers a second at the load that was made.
    Rate: "requests/s", 0;
    /// CPU microseconds per request, all of the proxy's threads and processes.
    Cpu: "CPU us/request", 1;
    CpuUser: "user/system", 1;
    CpuSystem: "system", 1;
    /// Latencies in microseconds.
    P50: "p50 us", 0;
    P99: "p99 us", 0;
    /// Requests a second in wrk's closed loop.
    RateMax: "requests/s with wrk", 0;
    /// Requests a second in a closed loop of the load that was made, and the CPU microseconds of each.
    RateClosed: "requests/s in a closed loop", 0;
    CpuClosed: "CPU us/request there", 1;
    /// New upstream connections, per 100 requests.
    OpenedPercent: "upstream connections per 100 requests", 2;
    /// New upstream connections after the first burst.
    OpenedLater: "upstream connections after the first burst", 0;
    /// Sockets in `TIME_WAIT` on the proxy's side, towards the upstreams.
    TimeWait: "TIME_WAIT towards upstreams", 0;
    /// Evictions that were followed by a new connection.
    Regretted: "regretted evictions", 0;
    /// New upstream connections with one worker, and with two.
    OpenedByOne: "upstream connections, 1 worker", 0;
    OpenedByTwo: "upstream connections, 2 workers", 0;
    /// Resident bytes for each idle client.
    IdleBytes: "bytes per idle client", 0;
    /// CPU microseconds per request with 5 Ingresses, and with 5,000.
    CpuFew: "CPU us/request, 5 Ingresses", 1;
    CpuMany: "CPU us/request, 5,000 Ingresses", 1;
    /// The same with 100,000, and the milliseconds from the start until it was ready.
    CpuMost: "CPU us/request, 100,000 Ingresses", 1;
    ReadyMillis: "ms until ready", 0;
    /// Mebibytes resident then.
    ResidentMib: "MiB resident", 0;
    /// CPU microseconds per request with HTTP/1 upstreams, and with h2c.
    CpuHttp1: "CPU us/request, HTTP/1 upstream", 1;
    CpuH2c: "CPU us/request, h2c upstream", 1;
    /// The same with all streams in use.
    CpuHttp1Closed: "HTTP/1 upstream, all streams in use", 1;
    CpuH2cClosed: "h2c upstream, all streams in use", 1;
    /// CPU microseconds per request of a route with conditions, and of one without.
    CpuConditional: "CPU us/request, 16 conditions", 0;
    CpuUnconditional: "CPU us/request, none", 0;
    /// Microseconds, while nobody makes handshakes, and while many do.
    P50Quiet: "p50 us, quiet", 0;
    P99Quiet: "p99 us, quiet", 0;
    P50Flooded: "p50 us, flooded", 0;
    P99Flooded: "p99 us, flooded", 0;
    /// A second, meanwhile.
    Handshakes: "handshakes/s meanwhile", 0;
    Refused: "wrong passwords/s refused meanwhile", 0;
    /// Microseconds, while every request is copied.
    P50Mirrored: "p50 us, mirrored", 0;
    P99Mirrored: "p99 us, mirrored", 0;
    /// A second, of the copies.
    Dropped: "dropped copies/s", 0;
    /// Mebibytes that became resident meanwhile.
    GrownMib: "MiB grown meanwhile", 2;
    /// CPU microseconds per request that is passed on, beside those that are answered from the cache.
    CpuProxied: "CPU us/request, passed on", 1;
    /// Requests that reached the backend.
    AskedBackend: "requests to the backend", 0;
    /// Milliseconds until the last of many had its answer.
    LastMillis: "ms until the last answer", 0;
    /// Percent of the requests that did not reach the backend, and what a cache of as many bytes would have
    /// that drops what was used least recently.
    HitPercent: "% hits", 1;
    LruPercent: "% hits of an LRU", 1;
    /// Resident memory over the size that the cache may have.
    ResidentShare: "resident / size of the cache", 2;
    /// Milliseconds from a start until something was found on disk, and what there was, in gibibytes.
    DiskHitMillis: "ms until a hit from the disk", 0;
    DiskGib: "GiB on disk", 1;
    /// Calls of the kernel, and waits for it.
    SystemCalls: "system calls/request", 2;
    WakeUps: "wake-ups/request", 2;
    /// CPU microseconds per request without a feature, and what the feature adds.
    CpuPlain: "CPU us/request without it", 1;
    CpuAdded: "CPU us/request that it adds", 1;
    /// Microseconds that the feature adds to the median response time.
    P50Added: "us that it adds to p50", 0;
    /// Percent of the contents that are left of them.
    LeftPercent: "% of the bytes left", 1;
}

/// The figures of one peer in one round, or their medians.
pub(crate) type Figures = BTreeMap<Figure, f64>;

/// All rounds of one workload.
#[derive(Default)]
pub(crate) struct Results(BTreeMap<Peer, Vec<Figures>>);

impl Figure {
    /// A value as the tables show it.
    pub(crate) fn show(self, value: f64) -> String {
        format!("{value:.0$}", self.digits())
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

    /// The peers that have figures.
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

/// The figures of a run of the generator.
pub(crate) fn of_outcome(outcome: &Outcome) -> Figures {
    let percentile = |percent| outcome.latency.percentile(percent).as_secs_f64() * 1e6;
    Figures::from([
        (Figure::Rate, outcome.rate()),
        (Figure::P50, percentile(50.0)),
        (Figure::P99, percentile(99.0)),
    ])
}

/// The CPU time of a proxy per request.
pub(crate) fn of_cpu(spent: CpuTime, requests: u64) -> Figures {
    let per_request = |time: std::time::Duration| time.as_secs_f64() * 1e6 / requests.max(1) as f64;
    Figures::from([
        (Figure::Cpu, per_request(spent.total)),
        (Figure::CpuUser, per_request(spent.user())),
        (Figure::CpuSystem, per_request(spent.system())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_needs_both() {
        let mut results = Results::default();
        results.add(Peer::Forebay, Figures::from([(Figure::Cpu, 15.0)]));
        assert_eq!(results.ratio(Peer::Forebay, Peer::Nginx, Figure::Cpu), None);
        results.add(Peer::Nginx, Figures::from([(Figure::Cpu, 20.0)]));
        assert_eq!(results.ratio(Peer::Forebay, Peer::Nginx, Figure::Cpu), Some(0.75));
    }
}
