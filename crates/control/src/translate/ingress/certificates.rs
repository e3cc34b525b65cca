//! The certificate of an Ingress for its hosts (`spec.tls`).

use std::sync::Arc;

use model::HostName;

use super::acme;
use crate::names::NsName;
use crate::objects::{Ingress, IngressTls, Sourced};
use crate::problem::{Problem, Reason, Severity};
use crate::translate::certificates::{INSTEAD, fault_of_time, find, remark};
use crate::translate::claim::{CertificateClaim, HostCertificate, www};
use crate::translate::inputs::Inputs;

/// Reports the faults of the Secrets that an Ingress names, whether a host uses them or not.
pub(super) fn check(ingress: &Sourced<Ingress>, inputs: &Inputs<'_>, problems: &mut Vec<Problem>) {
    for name in ingress.spec.tls.iter().filter_map(|tls| tls.value.secret_name.as_ref()) {
        let key = NsName::new(ingress.namespace(), &name.value);
        let said = match find(inputs, &key) {
            Err(fault) => Some((Reason::Secret, format!("{fault}; {INSTEAD}"))),
            Ok((secret, pair)) => remark(inputs, secret, pair),
        };
        let problem = said.map(|(reason, said)| {
            let message = format!("TLS Secret {:?} {said}", name.value);
            Problem::at(Severity::Warning, ingress, name, message).because(reason)
        });
        problems.extend(problem);
    }
}

/// The certificate for a host from the `tls:` entries of an Ingress: the default certificate if no entry is
/// for the host. None without entries.
pub(super) fn claim(
    ingress: &Sourced<Ingress>,
    settings: acme::Settings,
    host: &HostName,
    inputs: &Inputs<'_>,
) -> Option<CertificateClaim> {
    if ingress.spec.tls.is_empty() {
        return None;
    }
    let mut claim = CertificateClaim::default();
    let entry = entry(ingress, host, inputs);
    if settings.obtains() && entry.is_some_and(|entry| entry.secret_name.is_none()) {
        acme::claim(ingress, host, inputs, &mut claim);
        return Some(claim);
    }
    let Some(name) = entry.and_then(|entry| entry.secret_name.as_ref()) else { return Some(claim) };
    claim.secret = Some(name.value.clone());
    // The problem of the Secret itself has been reported by `check`.
    let Ok((_, pair)) = find(inputs, &NsName::new(ingress.namespace(), &name.value)) else {
        return Some(claim);
    };
    claim.found = Some(Arc::clone(&pair.certificate));
    claim.told = Some(HostCertificate { host: host.to_string(), info: pair.certificate.info.clone() });
    if !pair.is_for(&host.to_string()) {
        let whom = if *host == HostName::Any { "hosts without a rule" } else { "host" };
        let name_of_host = if *host == HostName::Any { String::new() } else { format!(" {host}") };
        let names = pair.names();
        let message =
            format!("TLS Secret {:?} is for {names}, not for {whom}{name_of_host}; {INSTEAD}", name.value);
        let problem = Problem::at(Severity::Warning, ingress, name, message);
        claim.problem = Some(problem.because(Reason::Secret));
    } else if fault_of_time(inputs, pair).is_none() {
        claim.shown = Some(Arc::clone(&pair.certificate));
        claim.names = pair.each_name().filter_map(|name| HostName::parse(name).ok()).collect();
        claim.covers_www = www(host).is_some_and(|www| pair.is_for(&www));
    }
    Some(claim)
}

/// The entry for a host: "The Secret of the entry that lists the host; if none does, of the first whose
/// certificate is for the host."
fn entry<'i>(ingress: &'i Sourced<Ingress>, host: &HostName, inputs: &Inputs<'_>) -> Option<&'i IngressTls> {
    let entries = || ingress.spec.tls.iter().map(|entry| &entry.value);
    let lists = |fits: fn(&HostName, &HostName) -> bool| {
        entries().find(|entry| {
            let mut listed = entry.hosts.iter().filter_map(|listed| HostName::parse(listed).ok());
            listed.any(|listed| fits(&listed, host))
        })
    };
    let has_certificate = |entry: &&IngressTls| {
        let name = entry.secret_name.as_ref();
        let secret = name.and_then(|name| inputs.secret(&NsName::new(ingress.namespace(), &name.value)));
        secret.is_some_and(|secret| secret.pair().as_ref().is_ok_and(|pair| pair.is_for(&host.to_string())))
    };
    lists(|listed, host| listed == host)
        .or_else(|| lists(takes))
        .or_else(|| entries().find(has_certificate))
        .or_else(|| entries().find(|entry| entry.hosts.is_empty()))
}

/// Whether a name in `tls:` covers a host: a wildcard covers one label.
fn takes(listed: &HostName, host: &HostName) -> bool {
    match (listed, host) {
        (HostName::OneLabel(suffix), HostName::Exact(name)) => {
            name.split_once('.').is_some_and(|(_, rest)| rest == suffix)
        }
        _ => false,
    }
}
