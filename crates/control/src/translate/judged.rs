//! Decides which endpoints of a Service may be used, and reports the others.
//!
//! The owner of a name decides its addresses and can change them at each look-up. So addresses are checked
//! each time that they become known.

use std::net::{IpAddr, SocketAddr};

use model::Endpoint;

use super::inputs::Inputs;
use crate::objects::{Service, Sourced};
use crate::problem::{Problem, Reason, Severity};
use crate::reach;

/// The most refused addresses that a problem lists one by one.
const NAMED_MAX: usize = 3;

/// The usable endpoints, and the refused addresses.
pub(super) struct Judged {
    pub(super) endpoints: Vec<Endpoint>,
    refused: Vec<(SocketAddr, &'static str)>,
}

impl Judged {
    /// Endpoints that need no check.
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

    /// Whether an address was refused.
    pub(super) fn is_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// The reason for refusing an address, if one was refused.
    pub(super) fn refusal(&self) -> Option<String> {
        self.refused.first().map(|(address, why)| format!("{address} is refused: {why}"))
    }

    /// The problem about refused addresses; none if no address was refused. `source` names their origin,
    /// `outcome` the effect on requests if no endpoint is left.
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
    /// Checks the addresses of an external name.
    pub(super) fn judge_outside(&self, endpoints: Vec<Endpoint>) -> Judged {
        Judged::new(endpoints, |address| {
            let (ip, allowed) = (address.ip(), &self.options.external_name_allow);
            let is_closed = !allowed.is_empty() && !reach::is_within(allowed, ip);
            reach::refusal(ip)
                .or_else(|| self.is_own(ip).then_some(OWN))
                .or_else(|| is_closed.then_some("it is in none of the networks of --external-name-allow"))
        })
    }

    /// Whether a URL in a file names an address of this machine and a port that is not Forebay's own. Files
    /// belong to the operator, whose auth service may be on the same machine.
    pub(super) fn is_allowed_on_this_machine(&self, host: &str, port: u16) -> bool {
        let is_of_machine = |ip: IpAddr| ip.to_canonical().is_loopback() || self.is_own(ip);
        !self.options.judges_endpoints && host.parse().is_ok_and(is_of_machine) && !self.is_own_port(port)
    }

    /// Checks the addresses that the cluster gives for a Service.
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

    /// Whether Forebay itself listens on this port.
    fn is_own_port(&self, port: u16) -> bool {
        let options = self.options;
        let is_reserved = options.reserved_ports.iter().any(|(own, _)| *own == port);
        let of_streams = [&options.tcp_services_configmap, &options.udp_services_configmap];
        let mut of_streams = of_streams.into_iter().flatten().filter_map(|name| self.configmap(name));
        is_reserved || of_streams.any(|it| it.data.keys().any(|key| key.trim().parse() == Ok(port)))
    }
}

const OWN: &str = "it is Forebay's own address";
