//! Certificates that Forebay obtains for listeners of Gateways and `ListenerSet`s (`forebay.io/acme`).
//!
//! A listener that asks for it, and whose Secrets do not exist, has the certificate for its hostname that
//! `crate::acme` obtains. A Secret that exists takes precedence, usable or not.
//!
//! Never in here: orders, other settings of listeners, and the hosts that answer challenges.

use std::sync::Arc;

use model::{Certificate, HostName, Route};

use super::conditions::Fault;
use crate::objects::gateway_api::Listener;
use crate::objects::{Resource, Sourced};
use crate::problem::{Problem, Reason, Severity, SourceLocation};
use crate::translate::acme;
use crate::translate::claim::{AcmeClaim, HostCertificate};
use crate::translate::ingress::acme::Settings;
use crate::translate::inputs::Inputs;
use crate::translate::origin::RouteOrigin;
use crate::translate::value;

/// The annotation of the object, and the option of a listener's `tls`, which takes precedence.
const NAME: &str = "forebay.io/acme";

/// The wishes of one Gateway or `ListenerSet`.
pub(super) struct Asking {
    settings: Settings,
    /// The annotation asks for the certificates of all listeners.
    is_on: bool,
}

/// The findings about certificates beside the listeners.
#[derive(Default)]
pub(super) struct Found {
    /// Remarks and faults that are no listener's fault.
    pub(super) problems: Vec<Problem>,
    /// The next second since 1970 from which a certificate becomes valid or expires; none without one.
    pub(super) turn: Option<i64>,
}

/// The certificate of a listener that Forebay obtains.
pub(super) struct Obtained {
    claim: AcmeClaim,
    /// The certificate, if it is valid now.
    pub(super) shown: Option<Arc<Certificate>>,
    /// The description for metrics; none before the first certificate.
    pub(super) told: Option<HostCertificate>,
    /// Why the last order failed.
    pub(super) fault: Option<String>,
}

impl Asking {
    /// Reads the annotation of an object.
    pub(super) fn of<T: Resource>(object: &Sourced<T>, settings: Settings, found: &mut Found) -> Self {
        let annotation = object.metadata().annotations.get(NAME);
        let mut tell = |severity, reason, why: &str| {
            let message = format!("annotation {NAME}: {why}");
            found.problems.push(Problem::of_annotation(severity, object, NAME, message).because(reason));
        };
        let is_on = match annotation.map(|text| value::boolean(&text.value)) {
            None => false,
            Some(Ok(is_on)) => is_on,
            Some(Err(why)) => {
                tell(Severity::Error, Reason::Invalid, &why);
                false
            }
        };
        if is_on && !settings.is_available {
            tell(Severity::Warning, Reason::NoEffect, UNAVAILABLE);
        }
        Self { settings, is_on }
    }

    /// The certificate for a listener without Secrets; none if it is not asked for, or cannot be obtained.
    /// `place` locates the listener.
    pub(super) fn obtain(
        &self,
        listener: &Listener,
        hostname: &HostName,
        place: &dyn Fn() -> SourceLocation,
        inputs: &Inputs<'_>,
        found: &mut Found,
    ) -> Option<Obtained> {
        if !self.is_wanted(listener, place, found) || !self.settings.is_available {
            return None;
        }
        let HostName::Exact(name) = hostname else {
            found.problems.push(unobtainable(&listener.name, hostname, &place()));
            return None;
        };
        let state = inputs.acme(name).unwrap_or_default();
        let claim = AcmeClaim { place: place(), answer: state.answer.clone() };
        let mut obtained = Obtained { claim, shown: None, told: None, fault: state.fault.clone() };
        if let Some(pair) = &state.pair {
            let info = pair.certificate.info.clone();
            obtained.told = Some(HostCertificate { host: name.clone(), info });
            for turn in [pair.not_before(), pair.not_after() + 1] {
                found.note_turn(turn, inputs.now);
            }
            let is_valid = (pair.not_before()..=pair.not_after()).contains(&inputs.now);
            obtained.shown = is_valid.then(|| Arc::clone(&pair.certificate));
        }
        if let (Some(fault), Some(_)) = (&obtained.fault, &obtained.shown) {
            let message = format!(
                "no certificate was obtained for host {name}: {fault}; the one that is there stays in use"
            );
            let problem = Problem::in_place(Severity::Warning, &place(), message);
            found.problems.push(problem.because(Reason::Secret));
        }
        Some(obtained)
    }

    /// Whether a listener asks for a certificate.
    fn is_wanted(&self, listener: &Listener, place: &dyn Fn() -> SourceLocation, found: &mut Found) -> bool {
        let option = listener.tls.as_ref().and_then(|tls| tls.options.get(NAME));
        let Some(text) = option else { return self.is_on };
        let name = &listener.name;
        let mut tell = |severity, reason, why: &str| {
            let message = format!("listener {name}: option {NAME}: {why}");
            found.problems.push(Problem::in_place(severity, &place(), message).because(reason));
        };
        match value::boolean(text) {
            Ok(is_on) => {
                if is_on && !self.settings.is_available {
                    tell(Severity::Warning, Reason::NoEffect, UNAVAILABLE);
                }
                is_on
            }
            Err(why) => {
                tell(Severity::Error, Reason::Invalid, &why);
                false
            }
        }
    }
}

/// Why the annotation has no effect.
const UNAVAILABLE: &str = "no certificate is obtained: the ConfigMap has no usable forebay-acme-directories";

/// The report of a listener without a single host.
fn unobtainable(listener: &str, hostname: &HostName, place: &SourceLocation) -> Problem {
    let why = match hostname {
        HostName::Any => "it has no hostname".to_owned(),
        other => format!("{other} takes the challenge dns-01, which is not supported"),
    };
    let message = format!(
        "listener {listener}: no certificate is obtained: {why}; use a listener for each host, or cert-manager"
    );
    Problem::in_place(Severity::Warning, place, message).because(Reason::Unsupported)
}

impl Found {
    fn note_turn(&mut self, second: i64, now: i64) {
        if second > now {
            self.turn = Some(self.turn.map_or(second, |turn| turn.min(second)));
        }
    }
}

impl Obtained {
    /// The certificate that answers a challenge in a handshake; none without such a challenge.
    pub(super) fn challenge(&self) -> Option<Arc<Certificate>> {
        acme::certificate(&self.claim)
    }

    /// The route that answers a challenge over HTTP; none without such a challenge.
    pub(super) fn route(&self, host: &HostName) -> Option<(Route, RouteOrigin)> {
        acme::route(host, &self.claim)
    }

    /// Why the listener has no certificate yet.
    pub(super) fn lack(&self, host: &HostName) -> Fault {
        let message = match &self.fault {
            Some(fault) => format!("no certificate was obtained for host {host}: {fault}"),
            None => format!("the certificate for host {host} is being obtained"),
        };
        Fault::new("InvalidCertificateRef", message)
    }
}

#[cfg(test)]
mod tests;
