//! Which of the endpoints that a Service is said to have are used, and what there is to say of the others.
//!
//! A name leads where its owner wants, and elsewhere at the next look-up: addresses are judged, whenever they are known anew.

use std::net::{IpAddr, SocketAddr};

use model::Endpoint;

use super::inputs::Inputs;
use crate::objects::{Service, Sourced};
use crate::problem::{Problem, Reason, Severity};
use crate::reach;

/// Refused addresses that a problem names one by one.
const NAMED_MAX: usize = 3;

/// Endpoints that are used, and addresses that are not.
pub(super) struct Judged {
    pub(super) endpoints: Vec<Endpoint>,
    refused: Vec<(SocketAddr, &'static str)>,
}

impl Judged {
    /// These, all of which are used.
    pub(super) fn unasked(endpoints: Vec<Endpoint>) -> Self {
        Self { endpoints, refused: Vec::new() }
    }

    fn new(endpoints: Vec<Endpoint>, refusal: impl Fn(SocketAddr) -> Option<&'static str>) -> Self {
        let mut judged = Self::unasked(Vec::with_capacity(endpoints.len()));
        for endpoint in endpoints {
            match refusal(endpoint.address) {
                Some(why) => judged.refused.push((endpoint.address, why)),
                None => judged.endpoints.push(endpoint),
            }
        }
        judged
    }

    /// Whether some are not used.
    pub(super) fn is_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// What there is to say of addresses that are refused. `source` is where they come from, `outcome` what becomes of requests if
    /// none is left.
    pub(super) fn problem(&self, service: &Sourced<Service>, source: &str, outcome: &str) -> Option<Problem> {
        let named = self.refused.iter().take(NAMED_MAX);
        let named: Vec<_> = named.map(|(address, why)| format!("{address} is refused: {why}")).collect();
        if named.is_empty() {
            return None;
        }
        let others = match self.refused.len() - named.len() {
            0 => String::new(),
            count => format!("; and {count} more"),
        };
        let outcome =
            if self.endpoints.is_empty() { format!("; none is left: {outcome}") } else { String::new() };
        let message = format!("{source}{}{others}{outcome}", named.join("; "));
        let line = service.spec.external_name.as_ref();
        let problem = match line {
            Some(name) => Problem::at(Severity::Error, service, name, message),
            None => Problem::of(Severity::Error, service, message),
        };
        Some(problem.because(Reason::Forbidden))
    }
}

impl Inputs<'_> {
    /// Judges the addresses of a name outside the cluster.
    pub(super) fn judge_outside(&self, endpoints: Vec<Endpoint>) -> Judged {
        Judged::new(endpoints, |address| {
            let (ip, allowed) = (address.ip(), &self.options.external_name_allow);
            let is_closed = !allowed.is_empty() && !reach::is_within(allowed, ip);
            reach::refusal(ip)
                .or_else(|| self.is_own(ip).then_some(OWN))
                .or_else(|| is_closed.then_some("it is in none of the networks of --external-name-allow"))
        })
    }

    /// Judges the addresses that a cluster says a Service has.
    pub(super) fn judge_inside(&self, endpoints: Vec<Endpoint>) -> Judged {
        if !self.options.judges_endpoints {
            return Judged::unasked(endpoints);
        }
        Judged::new(endpoints, |address| {
            let is_own = || {
                self.is_own(address.ip())
                    && (!self.options.shares_addresses || self.is_own_port(address.port()))
            };
            reach::refusal(address.ip()).or_else(|| is_own().then_some(OWN))
        })
    }

    fn is_own(&self, ip: IpAddr) -> bool {
        reach::is_one_of(&self.options.own_addresses, ip)
    }

    /// Whether Forebay listens there itself.
    fn is_own_port(&self, port: u16) -> bool {
        let options = self.options;
        let is_reserved = options.reserved_ports.iter().any(|(own, _)| *own == port);
        let of_streams = [&options.tcp_services_configmap, &options.udp_services_configmap];
        let mut of_streams = of_streams.into_iter().flatten().filter_map(|name| self.configmap(name));
        is_reserved || of_streams.any(|it| it.data.keys().any(|key| key.trim().parse() == Ok(port)))
    }
}

const OWN: &str = "it is Forebay's own address";
