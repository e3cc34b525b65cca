//! The endpoints in the page of the flight recorder: the busiest ones, and all others together.
//!
//! There may be thousands, of which a page has few: their figures are added up one by one, and no list of
//! them is made but for a choice. Never in here: how often that is.

use std::iter::Peekable;
use std::net::SocketAddr;
use std::slice;

use super::super::super::lock;
use super::super::super::names::{self, Metric};
use super::super::super::registry::Registry;
use super::super::super::upstream::{Failure, Plain, Totals};
use super::super::{Page, labels};

/// Endpoints that have lines of their own.
const ENDPOINTS: usize = 64;

/// The metrics of endpoints that are written, in the order of [`figures`].
const METRICS: [&Metric; 8] = [
    &names::UPSTREAM_OPENED,
    &names::UPSTREAM_REUSED,
    &names::UPSTREAM_REGRETTED,
    &names::UPSTREAM_REQUESTS,
    &names::UPSTREAM_SERVER_ERRORS,
    &names::UPSTREAM_IDLE,
    &names::OVERLOAD_EJECTED,
    &names::OVERLOAD_EJECTIONS,
];

type Figures = [u64; METRICS.len()];

/// All endpoints together, and those among them that are not in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointSums {
    /// Requests sent, retries included.
    pub requests: u64,
    /// Connections that were opened.
    pub opened: u64,
    /// Endpoints that are ejected, or fail their health check, by address.
    pub out: Vec<SocketAddr>,
}

/// The endpoints that have lines of their own.
#[derive(Debug, Default)]
pub(super) struct BusyEndpoints {
    /// Their addresses, in order.
    chosen: Vec<SocketAddr>,
    /// All endpoints by address, each with its requests and connections at the last choice.
    before: Vec<(SocketAddr, u64)>,
}

/// The figures of a page, while the endpoints are visited by address.
struct Visit<'a> {
    chosen: Peekable<slice::Iter<'a, SocketAddr>>,
    busy: Vec<(String, Figures)>,
    others: Figures,
    failures: [u64; Failure::ALL.len()],
    sums: EndpointSums,
}

impl Registry {
    /// Appends the lines of endpoints.
    pub(super) fn encode_endpoints(&self, busy: &BusyEndpoints, page: &mut Page<'_>) -> EndpointSums {
        let mut visit = Visit {
            chosen: busy.chosen.iter().peekable(),
            busy: Vec::with_capacity(busy.chosen.len()),
            others: Figures::default(),
            failures: [0; Failure::ALL.len()],
            sums: EndpointSums::default(),
        };
        self.each_endpoint(|address, totals| visit.add(address, totals));
        for (at, metric) in METRICS.iter().enumerate() {
            for (address, figures) in &visit.busy {
                let labels = labels(&[("endpoint", address)]);
                page.sample(metric.name, &labels, figures[at].cast_signed().max(0));
            }
            page.sample(metric.name, "endpoint=\"others\"", visit.others[at].cast_signed().max(0));
        }
        for (failure, count) in Failure::ALL.iter().zip(visit.failures) {
            page.sample(names::UPSTREAM_FAILURES.name, &labels(&[("reason", failure.name())]), count);
        }
        let ports = lock(&self.upstreams).port_sums();
        page.sample(names::PORTS_IN_USE.name, "", ports.in_use);
        page.sample(names::PORTS_EXHAUSTED.name, "", ports.exhausted);
        visit.sums
    }
}

impl Visit<'_> {
    fn add(&mut self, address: SocketAddr, totals: &Totals) {
        let plain = totals.by_name();
        self.sums.requests = self.sums.requests.wrapping_add(plain.requests);
        self.sums.opened = self.sums.opened.wrapping_add(plain.opened);
        if plain.ejected > 0 || plain.check_failing > 0 {
            self.sums.out.push(address);
        }
        self.failures.iter_mut().zip(&totals.failures).for_each(|(all, one)| *all = all.wrapping_add(*one));
        while self.chosen.next_if(|next| **next < address).is_some() {}
        if self.chosen.next_if_eq(&&address).is_some() {
            self.busy.push((address.to_string(), figures(&plain)));
            return;
        }
        for (all, one) in self.others.iter_mut().zip(figures(&plain)) {
            // An idle connection that one worker took from another counts as less than none here.
            *all = all.wrapping_add(one);
        }
    }
}

impl BusyEndpoints {
    /// Chooses the busiest endpoints since the last choice.
    pub(super) fn choose(&mut self, registry: &Registry) {
        let mut now = Vec::with_capacity(self.before.len());
        let mut grown: Vec<(u64, bool, SocketAddr)> = Vec::with_capacity(self.before.len());
        // Both are by address.
        let mut before = self.before.iter().peekable();
        registry.each_endpoint(|address, totals| {
            let plain = totals.by_name();
            let count = plain.requests.wrapping_add(plain.opened);
            while before.next_if(|(next, _)| *next < address).is_some() {}
            let known = before.next_if(|(next, _)| *next == address).map_or(0, |(_, count)| *count);
            let is_chosen = self.chosen.binary_search(&address).is_ok();
            grown.push((weight(count.saturating_sub(known), is_chosen), is_chosen, address));
            now.push((address, count));
        });
        if grown.len() > ENDPOINTS {
            grown.select_nth_unstable_by(ENDPOINTS, |one, other| other.cmp(one));
            grown.truncate(ENDPOINTS);
        }
        self.chosen = grown.into_iter().map(|(_, _, address)| address).collect();
        self.chosen.sort_unstable();
        self.before = now;
    }
}

/// The figures of an endpoint that are written.
fn figures(plain: &Plain) -> Figures {
    [
        plain.opened,
        plain.reused,
        plain.regretted,
        plain.requests,
        plain.server_errors,
        plain.idle,
        plain.ejected,
        plain.ejections,
    ]
}

/// A choice is only changed for twice as many requests.
pub(super) fn weight(grown: u64, is_chosen: bool) -> u64 {
    if is_chosen { grown.saturating_mul(2) } else { grown }
}

#[cfg(test)]
mod tests {
    use super::super::BriefReader;
    use super::*;
    use crate::{MetricsOptions, Process};

    fn address(number: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], number))
    }

    fn page(registry: &Registry, reader: &mut BriefReader) -> (String, EndpointSums) {
        let mut text = String::new();
        let sums = registry.encode_brief(reader, &Process::default(), &mut text);
        (text, sums)
    }

    #[test]
    fn endpoints_beyond_the_busiest_are_added_up() {
        let registry = Registry::new(MetricsOptions::default());
        let cells: Vec<_> = (0..200).map(|at| registry.endpoint(address(at))).collect();
        for one in &cells {
            one.opened.inc();
        }
        cells[7].opened.add(9);
        let (text, sums) = page(&registry, &mut BriefReader::default());
        let opened: Vec<_> =
            text.lines().filter(|line| line.starts_with(names::UPSTREAM_OPENED.name)).collect();
        assert_eq!(opened.len(), ENDPOINTS + 1);
        let total: u64 =
            opened.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!((total, sums.opened), (209, 209));
        assert!(text.contains(&format!("{}{{endpoint=\"192.0.2.1:7\"}} 10\n", names::UPSTREAM_OPENED.name)));
    }

    #[test]
    fn sums_and_lines_are_of_the_moment_in_each_page() {
        let registry = Registry::new(MetricsOptions::default());
        let mut reader = BriefReader::default();
        let cells: Vec<_> = (0..600).map(|at| registry.endpoint(address(at))).collect();
        for one in &cells[..100] {
            one.requests.inc();
        }
        assert_eq!(page(&registry, &mut reader).1.out, []);
        // An endpoint that was not busy at the last choice, and one that was.
        cells[599].requests.add(5);
        cells[599].ejected.inc();
        cells[50].requests.add(2);
        cells[50].check_failing.inc();
        let (text, sums) = page(&registry, &mut reader);
        assert_eq!(sums, EndpointSums { requests: 107, opened: 0, out: vec![address(50), address(599)] });
        let requests: u64 = text
            .lines()
            .filter(|line| line.starts_with(&format!("{}{{", names::UPSTREAM_REQUESTS.name)))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(requests, 107);
    }

    #[test]
    fn the_busiest_since_the_last_choice_are_chosen() {
        let registry = Registry::new(MetricsOptions::default());
        let cells: Vec<_> = (0..200).map(|at| registry.endpoint(address(at))).collect();
        let mut busy = BusyEndpoints::default();
        cells[..64].iter().for_each(|one| one.requests.add(100));
        busy.choose(&registry);
        assert_eq!(busy.chosen, (0..64).map(address).collect::<Vec<_>>());
        cells[199].requests.add(7);
        cells[..63].iter().for_each(|one| one.requests.add(4));
        busy.choose(&registry);
        assert!(busy.chosen.contains(&address(199)) && !busy.chosen.contains(&address(63)));
    }
}
