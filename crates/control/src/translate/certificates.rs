//! Certificates in Secrets, and the default certificate.
//!
//! A host whose certificate cannot be used is still served, with the default certificate.

use std::sync::Arc;

use model::{Certificate, HostName};

use super::claim::HostCertificate;
use super::inputs::Inputs;
use crate::certificate::{Pair, date};
use crate::names::NsName;
use crate::objects::{Secret, Sourced};
use crate::problem::{Problem, Reason, Severity};

/// Seconds before the end of validity from which a certificate is reported as about to expire, as in
/// ingress-nginx.
const ENDING_S: i64 = 10 * 86_400;

/// The end of messages about a host whose certificate cannot be used.
pub(super) const INSTEAD: &str = "the default certificate is shown instead";

/// The certificate for hosts without one.
#[derive(Default)]
pub(super) struct DefaultCertificate {
    pub(super) certificate: Option<Arc<Certificate>>,
    /// The description for metrics.
    pub(super) told: Option<HostCertificate>,
    pub(super) problem: Option<Problem>,
}

/// The certificate that the options name. An expired certificate is still used: clients know it better than a
/// self-signed one.
pub(super) fn default(inputs: &Inputs<'_>) -> DefaultCertificate {
    let Some(name) = inputs.options.default_ssl_certificate.as_ref() else {
        return DefaultCertificate::default();
    };
    let (severity, reason, said, pair) = match find(inputs, name) {
        Err(fault) => {
            let said = format!("{fault}; a self-signed certificate is shown instead");
            (Severity::Error, Reason::Secret, Some(said), None)
        }
        Ok((_, pair)) => {
            let ending = (pair.not_after() - ENDING_S <= inputs.now).then(|| ending(pair));
            let said = fault_of_time(inputs, pair).or(ending);
            (Severity::Warning, Reason::Note, said, Some(pair))
        }
    };
    let problem = said.map(|said| {
        let message = format!("Secret {name} (--default-ssl-certificate) {said}");
        Problem::new(severity, message).because(reason)
    });
    let host = || HostName::Any.to_string();
    let told = pair.map(|pair| HostCertificate { host: host(), info: pair.certificate.info.clone() });
    DefaultCertificate { certificate: pair.map(|pair| Arc::clone(&pair.certificate)), told, problem }
}

/// The Secret with this name and the certificate in it, or the fault of either.
pub(super) fn find<'a>(
    inputs: &Inputs<'a>,
    name: &NsName,
) -> Result<(&'a Sourced<Secret>, &'a Pair), String> {
    let secret = inputs.secret(name).ok_or("is missing")?;
    if !is_of_type(secret) && !secret.has_pair() {
        return Err(format!("is of type {}, not {TLS_TYPE}", type_of(secret)));
    }
    let pair = secret.pair().as_ref().map_err(|why| format!("cannot be used: {why}"))?;
    for turn in [pair.not_before(), pair.not_after() - ENDING_S, pair.not_after() + 1] {
        inputs.note_turn(turn);
    }
    Ok((secret, pair))
}

/// The reason why a certificate is not valid at this time; none if it is valid.
pub(super) fn fault_of_time(inputs: &Inputs<'_>, pair: &Pair) -> Option<String> {
    if inputs.now < pair.not_before() {
        Some(format!("is not valid before {}", date(pair.not_before())))
    } else if inputs.now > pair.not_after() {
        Some(format!("has expired on {}", date(pair.not_after())))
    } else {
        None
    }
}

/// A remark about a usable certificate; none for a certificate without peculiarities. The type of the Secret
/// only leads to a remark, because ingress-nginx does not check it.
pub(super) fn remark(inputs: &Inputs<'_>, secret: &Secret, pair: &Pair) -> Option<(Reason, String)> {
    if let Some(fault) = fault_of_time(inputs, pair) {
        Some((Reason::Secret, format!("{fault}; {INSTEAD}")))
    } else if pair.not_after() - ENDING_S <= inputs.now {
        Some((Reason::Note, ending(pair)))
    } else if is_of_type(secret) {
        None
    } else {
        let said =
            format!("is of type {}, not {TLS_TYPE}; its certificate is used all the same", type_of(secret));
        Some((Reason::Note, said))
    }
}

const TLS_TYPE: &str = "kubernetes.io/tls";

fn is_of_type(secret: &Secret) -> bool {
    secret.kind.as_deref() == Some(TLS_TYPE)
}

fn type_of(secret: &Secret) -> &str {
    secret.kind.as_deref().unwrap_or("Opaque")
}

fn ending(pair: &Pair) -> String {
    format!("expires on {}", date(pair.not_after()))
}
