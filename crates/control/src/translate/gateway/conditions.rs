//! The types and reasons of conditions, as the specification names them.
//!
//! Never in here: the decision which condition is met.

use super::report::{Condition, Subject};
use crate::objects::{Resource, Sourced};
use crate::problem::{Problem, Reason, Severity, SourceLocation};

pub(super) const ACCEPTED: &str = "Accepted";
pub(super) const PROGRAMMED: &str = "Programmed";
pub(super) const RESOLVED_REFS: &str = "ResolvedRefs";
pub(super) const CONFLICTED: &str = "Conflicted";
pub(super) const OVERLAPPING_TLS: &str = "OverlappingTLSConfig";
pub(super) const PARTIALLY_INVALID: &str = "PartiallyInvalid";
pub(super) const INSECURE_VALIDATION: &str = "InsecureFrontendValidationMode";

/// A fault of an object or a reference: the reason of a condition, and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The condition `Accepted`.
pub(super) fn accepted(fault: Option<&Fault>) -> Condition {
    of(ACCEPTED, ACCEPTED, "it is valid", fault)
}

/// The condition `ResolvedRefs`.
pub(super) fn resolved(fault: Option<&Fault>) -> Condition {
    of(RESOLVED_REFS, RESOLVED_REFS, "all references lead somewhere", fault)
}

/// The condition `Programmed`.
pub(super) fn programmed(fault: Option<&Fault>) -> Condition {
    of(PROGRAMMED, PROGRAMMED, "it is served", fault)
}

fn of(kind: &'static str, reason: &'static str, message: &str, fault: Option<&Fault>) -> Condition {
    match fault {
        None => Condition::yes(kind, reason, message),
        Some(fault) => Condition::no(kind, fault.reason, fault.message.clone()),
    }
}

/// The object that a report is about.
pub(super) fn subject<T: Resource>(object: &Sourced<T>) -> Subject {
    let metadata = object.metadata();
    Subject {
        object: object.reference(),
        uid: metadata.uid().map(str::to_owned),
        generation: metadata.generation(),
    }
}

/// The sort key that puts the oldest object first, and among equally old ones the first "in alphabetical
/// order by `{namespace}/{name}`". Objects without a creation time, such as those in files, are the youngest.
pub(super) fn age<T: Resource>(object: &Sourced<T>) -> (u64, &str, &str) {
    let time = object.metadata().created();
    let digits = |time: &str| {
        let digits = time.bytes().filter(u8::is_ascii_digit).take(14);
        digits.fold(0, |number, digit| 10 * number + u64::from(digit - b'0'))
    };
    (time.map_or(u64::MAX, digits), object.namespace(), object.name())
}

/// A fault as a problem, for the log and `check`.
pub(super) fn problem(place: &SourceLocation, begin: &str, fault: &Fault) -> Problem {
    let reason = match fault.reason {
        "HostnameConflict" | "ProtocolConflict" | "PortUnavailable" | "Conflicted" => Reason::Conflict,
        "RefNotPermitted" | "NotAllowedByListeners" | "NotAllowed" => Reason::Forbidden,
        "InvalidCertificateRef" | "InvalidClientCertificateRef" => Reason::Secret,
        "BackendNotFound" | "InvalidCACertificateRef" | "NoMatchingParent" | "TargetNotFound" => {
            Reason::Missing
        }
        "UnsupportedValue" | "UnsupportedProtocol" | "UnsupportedAddress" | "InvalidKind" => {
            Reason::Unsupported
        }
        _ => Reason::Invalid,
    };
    let message = format!("{begin}{} ({})", fault.message, fault.reason);
    Problem::in_place(Severity::Error, place, message).because(reason)
}
