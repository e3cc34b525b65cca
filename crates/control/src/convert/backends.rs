//! The backends of rules: Services with the numbers of their ports, and the canaries beside them.
//!
//! Never in here: paths and filters.

use std::collections::BTreeMap;

use super::annotations::Annotations;
use super::filters::backend;
use super::hosts::{Name, declare, rules};
use crate::index::Index;
use crate::names::{NsName, PortRef};
use crate::objects::gateway_api::{BackendRef, HttpMatch, ValueMatch, ValueMatchType};
use crate::objects::{At, Backend};
use crate::problem::{Problem, Reason, Severity};

/// The total that `canary-weight` is a share of, unless `canary-weight-total` is greater.
const WEIGHT_TOTAL: u32 = 100;

/// A Service and the number of its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) port: u16,
}

/// An Ingress that receives a share of another Ingress's requests.
pub(super) struct Canary<'i> {
    annotations: &'i Annotations<'i>,
    backend: &'i Backend,
}

/// Canaries by namespace, host, path and whether the path is exact.
pub(super) struct Canaries<'i>(BTreeMap<(&'i str, Name, &'i str, bool), Canary<'i>>);

/// Requests of a path that go to the same backends.
pub(super) struct Share {
    /// The headers that requests need in addition to their path.
    pub(super) headers: Vec<ValueMatch>,
    pub(super) backends: Vec<At<BackendRef>>,
    pub(super) remark: Option<String>,
}

impl<'i> Canaries<'i> {
    /// Collects the canaries. If a path has several, the first one counts.
    pub(super) fn new(annotations: &'i [Annotations<'i>]) -> Self {
        let mut canaries = BTreeMap::new();
        for one in annotations {
            for rule in rules(one.ingress) {
                for path in &rule.paths {
                    let declared = declare(&path.value, None);
                    let key = (one.ingress.namespace(), rule.host.clone(), declared.path, declared.is_exact);
                    let canary = Canary { annotations: one, backend: &path.value.backend };
                    canaries.entry(key).or_insert(canary);
                }
            }
        }
        Self(canaries)
    }

    pub(super) fn find(
        &self,
        namespace: &'i str,
        host: &Name,
        path: &'i str,
        is_exact: bool,
    ) -> Option<&Canary<'i>> {
        self.0.get(&(namespace, host.clone(), path, is_exact))
    }
}

/// The Service that a backend names, or the reason why there is none.
pub(super) fn service(backend: &Backend, namespace: &str, index: &Index) -> Result<Service, String> {
    let (name, port) = backend.service().ok_or("no Service with a port is named")?;
    let number = match &port {
        PortRef::Number(number) => *number,
        PortRef::Name(port) => {
            let key = NsName::new(namespace, name);
            let service = index.services.get(&key).ok_or_else(|| {
                format!("Service {key} is not among the objects that were read, so that the number of its port {port} is not known")
            })?;
            let found = service.spec.ports.iter().find(|one| one.name.as_deref() == Some(port));
            found.map(|port| port.port).ok_or_else(|| format!("Service {key} has no port {port}"))?
        }
    };
    Ok(Service { name: name.to_owned(), port: number })
}

/// The backends of a path, by header conditions; shares with conditions come first.
pub(super) fn shares(
    main: &Service,
    canary: Option<&Canary<'_>>,
    index: &Index,
    findings: &mut Vec<Problem>,
) -> Vec<Share> {
    let to = |service: &Service| vec![backend(&service.name, service.port, None)];
    let rest = |backends, remark| Share { headers: Vec::new(), backends, remark };
    let Some(canary) = canary else { return vec![rest(to(main), None)] };
    let ingress = canary.annotations.ingress;
    let second = match service(canary.backend, ingress.namespace(), index) {
        Ok(second) => second,
        Err(why) => {
            let message = format!("{why}; the canary gets no requests");
            findings.push(Problem::of(Severity::Warning, ingress, message.clone()).because(Reason::Missing));
            return vec![rest(to(main), Some(message))];
        }
    };
    let remark = format!("With canary {}.", ingress.key());
    let mut shares = Vec::new();
    for (condition, is_canary) in canary.conditions() {
        let backends = to(if is_canary { &second } else { main });
        shares.push(Share { headers: vec![condition], backends, remark: None });
    }
    let weight = canary.annotations.number::<i64>("canary-weight").unwrap_or_default();
    let total = canary.annotations.number::<u32>("canary-weight-total").unwrap_or_default().max(WEIGHT_TOTAL);
    let weight = u32::try_from(weight.max(0)).unwrap_or(total).min(total);
    let backends = match weight {
        0 => to(main),
        weight => vec![
            backend(&main.name, main.port, Some(total - weight)),
            backend(&second.name, second.port, Some(weight)),
        ],
    };
    shares.push(rest(backends, None));
    shares[0].remark = Some(remark);
    shares
}

impl Canary<'_> {
    /// Header conditions, which take precedence over weights, each with whether its requests go to the
    /// canary.
    fn conditions(&self) -> Vec<(ValueMatch, bool)> {
        let text = |name| self.annotations.text(name);
        let matching =
            |kind, name: &str, value: &str| ValueMatch { kind, name: name.into(), value: value.into() };
        let mut conditions = Vec::new();
        if let Some(name) = text("canary-by-header") {
            let name = name.replace('_', "-");
            match (text("canary-by-header-value"), text("canary-by-header-pattern")) {
                (Some(value), _) => conditions.push((matching(ValueMatchType::Exact, &name, value), true)),
                (None, Some(pattern)) => {
                    let anywhere = format!(".*(?:{pattern}).*");
                    conditions.push((matching(ValueMatchType::RegularExpression, &name, &anywhere), true));
                }
                (None, None) => {
                    conditions.push((matching(ValueMatchType::Exact, &name, "always"), true));
                    conditions.push((matching(ValueMatchType::Exact, &name, "never"), false));
                }
            }
        }
        if let Some(name) = text("canary-by-cookie") {
            for (value, is_canary) in [("always", true), ("never", false)] {
                let cookie = format!("(?:.*; *)?{}={value}(?:;.*)?", name.replace('.', "\\."));
                conditions.push((matching(ValueMatchType::RegularExpression, "Cookie", &cookie), is_canary));
            }
        }
        conditions
    }
}

/// A match with further headers.
pub(super) fn with_headers(one: &HttpMatch, headers: &[ValueMatch]) -> HttpMatch {
    let headers = one.headers.iter().chain(headers).cloned().collect();
    HttpMatch { headers, ..one.clone() }
}
