//! Services that serve while the backend is out of use (`forebay.io/fallback`).

use std::ops::RangeInclusive;
use std::time::Duration;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::errors::service_name;
use super::resolve::{Context, Findings, Resolve};
use crate::names::{NsName, PortRef};
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::{DraftRoute, FallbackDraft, NamedPort};
use crate::translate::value::{self, Parsed, set};

annotations! {
    "fallback", Location, "", Supported(|s, v| set(&mut s.fallback.services, services(v))),
        "Services that serve, in this order, while no endpoint of those before them is in use: `standby:80, other/standby`.";
    "fallback-recovery", Location, "10s", Supported(|s, v| set(&mut s.fallback.recovery, recovery(v))),
        "Time for which a Service has to be in use again before it gets requests back.";
}

/// Name of the annotation with the Services.
pub(in crate::translate) const NAME: &str = "fallback";

/// Most Services in the list.
const SERVICES_MAX: usize = 8;
/// Range of the time.
const RECOVERY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);

/// A Service of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::translate) struct Named {
    /// None for the namespace of the object.
    pub(in crate::translate) namespace: Option<String>,
    pub(in crate::translate) name: String,
    /// None for the first port of the Service.
    pub(in crate::translate) port: Option<PortRef>,
}

/// Settings of failover.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    services: Vec<Named>,
    recovery: Duration,
    /// The Services that may be named, with their ports.
    found: Vec<NamedPort>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { services: Vec::new(), recovery: Duration::from_secs(10), found: Vec::new() }
    }
}

impl Resolve for Settings {
    type Resolved = ();

    /// Looks up the Services. One that may not be named, or has no port, is left out of the list.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        self.found.clear();
        for named in &self.services {
            match find(named, context) {
                Ok(found) => self.found.push(found),
                Err((reason, why)) => {
                    if let Some(place) = context.asker.given(NAME) {
                        let message = format!("{}: {why}; it is left out", context.asker.called(NAME));
                        let problem = Problem::in_place(Severity::Warning, &place, message);
                        findings.problems.push(problem.because(reason));
                    }
                }
            }
        }
    }
}

fn find(named: &Named, context: &Context<'_, '_>) -> Result<NamedPort, (Reason, String)> {
    let Context { asker, inputs, crosses_namespaces } = context;
    let namespace = named.namespace.as_deref().unwrap_or_else(|| asker.namespace());
    let service = NsName::new(namespace, named.name.as_str());
    if namespace != asker.namespace() && !crosses_namespaces {
        let why = format!(
            "Service {service} is of another namespace, which allow-cross-namespace-resources has to allow"
        );
        return Err((Reason::Forbidden, why));
    }
    if let Some(port) = &named.port {
        return Ok(NamedPort { service, port: port.clone() });
    }
    let found = inputs.service(&service);
    let first = found.and_then(|service| service.spec.ports.first());
    match first {
        Some(first) => Ok(NamedPort { service, port: PortRef::Number(first.port) }),
        None if found.is_some() => Err((Reason::Missing, format!("Service {service} has no port"))),
        None => Err((Reason::Missing, format!("Service {service} is missing"))),
    }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let Settings { recovery, found, .. } = settings;
    route.fallback =
        (!found.is_empty()).then(|| FallbackDraft { services: found.clone(), recovery: *recovery });
}

/// Parses Services, separated by commas.
pub(in crate::translate) fn services(text: &str) -> Parsed<Vec<Named>> {
    let items = value::list(text);
    if items.is_empty() || items.len() > SERVICES_MAX {
        return Err(format!("{text:?} has not from 1 to {SERVICES_MAX} Services"));
    }
    items.iter().map(|item| service(item)).collect()
}

fn service(text: &str) -> Parsed<Named> {
    let (namespace, rest) = match text.split_once('/') {
        Some((namespace, rest)) => (Some(service_name(namespace)?), rest),
        None => (None, text),
    };
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, Some(port_of(port)?)),
        None => (rest, None),
    };
    Ok(Named { namespace, name: service_name(name)?, port })
}

fn port_of(text: &str) -> Parsed<PortRef> {
    let text = text.trim();
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match PortRef::parse(text) {
        PortRef::Number(0) => Err("0 is no port".to_owned()),
        PortRef::Name(name)
            if name.len() > 15
                || !name.bytes().all(is_name)
                || !name.bytes().any(|byte| byte.is_ascii_lowercase()) =>
        {
            Err(format!("{text:?} is neither the number nor the name of a port"))
        }
        port => Ok(port),
    }
}

fn recovery(text: &str) -> Parsed<Duration> {
    let time = value::duration(text)?;
    if RECOVERY.contains(&time) { Ok(time) } else { Err(format!("{text:?} is not a time from 0 to 1h")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_namespaces_and_ports_if_they_are_said() {
        let named = |namespace: Option<&str>, name: &str, port: Option<&str>| Named {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            port: port.map(PortRef::parse),
        };
        let expected = vec![
            named(None, "b", Some("80")),
            named(Some("other"), "c", None),
            named(None, "d", Some("http")),
        ];
        assert_eq!(services("b:80, other/c,d:http"), Ok(expected));
        for text in ["", ",", "B", "a:", "a:0", "a:70000", "/a", "a/b/c", "a b", "a:UP", "1,2,3,4,5,6,7,8,9"]
        {
            assert!(services(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_recovery_is_within_bounds() {
        assert_eq!((recovery("0"), recovery("1h")), (Ok(Duration::ZERO), Ok(Duration::from_secs(3600))));
        assert!(recovery("2h").is_err() && recovery("soon").is_err());
    }
}
