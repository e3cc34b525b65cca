//! Certificates that Forebay obtains for the hosts of an Ingress (`forebay.io/acme`).

use std::sync::Arc;

use model::HostName;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress as OfIngress;
use super::annotation::annotations;
use crate::acme::HostState;
use crate::objects::{Ingress, Sourced};
use crate::problem::{Problem, Reason, Severity, SourceLocation};
use crate::translate::certificates::INSTEAD;
use crate::translate::claim::{AcmeClaim, CertificateClaim, HostCertificate};
use crate::translate::inputs::Inputs;
use crate::translate::value::{self, set};

annotations! {
    "acme", OfIngress, "false", Supported(|s, v| set(&mut s.acme.is_on, value::boolean(v))),
        "Obtains certificates for the hosts in `tls` entries without `secretName`, from the authorities of the ConfigMap's `forebay-acme-directories`.";
}

/// The annotation, with its prefix.
const NAME: &str = "forebay.io/acme";

/// Settings of certificates that are obtained.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(in crate::translate) is_on: bool,
    /// There are authorities, and a place for keys.
    pub(in crate::translate) is_available: bool,
}

impl Settings {
    /// Whether certificates are obtained.
    pub(super) fn obtains(self) -> bool {
        self.is_on && self.is_available
    }
}

/// Reports hosts of an Ingress for which no certificate can be obtained.
pub(super) fn check(ingress: &Sourced<Ingress>, settings: Settings, problems: &mut Vec<Problem>) {
    if !settings.is_on {
        return;
    }
    let is_own = ingress.metadata.annotations.get(NAME).is_some();
    let mut report = |reason: Reason, why: &str| {
        let message = format!("annotation {NAME}: {why}");
        let problem = Problem::of_annotation(Severity::Warning, ingress, NAME, message);
        problems.push(problem.because(reason));
    };
    if !settings.is_available {
        if is_own {
            report(
                Reason::NoEffect,
                "no certificate is obtained: the ConfigMap has no usable forebay-acme-directories",
            );
        }
        return;
    }
    let mut without = ingress.spec.tls.iter().filter(|tls| tls.value.secret_name.is_none()).peekable();
    if without.peek().is_none() && is_own {
        report(Reason::NoEffect, "no entry of tls is without secretName, so that no certificate is obtained");
    }
    for host in without.flat_map(|tls| &tls.value.hosts) {
        if !matches!(HostName::parse(host), Ok(HostName::Exact(_))) {
            let why = format!(
                "no certificate is obtained for {host}: that takes the challenge dns-01, which is not supported"
            );
            report(Reason::Unsupported, &why);
        }
    }
}

/// Adds the certificate of a host that Forebay obtains, the answer to a challenge, and the fault of the last
/// order.
pub(super) fn claim(
    ingress: &Sourced<Ingress>,
    host: &HostName,
    inputs: &Inputs<'_>,
    claim: &mut CertificateClaim,
) {
    let HostName::Exact(name) = host else { return };
    let state: Arc<HostState> = inputs.acme(name).unwrap_or_default();
    if let Some(pair) = &state.pair {
        claim.found = Some(Arc::clone(&pair.certificate));
        claim.told = Some(HostCertificate { host: name.clone(), info: pair.certificate.info.clone() });
        for turn in [pair.not_before(), pair.not_after() + 1] {
            inputs.note_turn(turn);
        }
        if (pair.not_before()..=pair.not_after()).contains(&inputs.now) {
            claim.shown = Some(Arc::clone(&pair.certificate));
            claim.names = pair.each_name().filter_map(|name| HostName::parse(name).ok()).collect();
        }
    }
    claim.problem = state.fault.as_ref().map(|fault| {
        let remains = match claim.shown {
            Some(_) => "the one that is there stays in use",
            None => INSTEAD,
        };
        let message = format!("no certificate was obtained for host {name}: {fault}; {remains}");
        Problem::of(Severity::Warning, ingress, message).because(Reason::Secret)
    });
    claim.acme = Some(AcmeClaim { place: SourceLocation::of(ingress), answer: state.answer.clone() });
}
