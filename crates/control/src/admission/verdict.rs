//! The verdict on an object, and its form as an `AdmissionReview`.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::problem::{Problem, Reason};

/// Longest warning, in bytes. Kubernetes recommends at most 120 characters and cuts a warning at 256.
const WARNING_BYTES_MAX: usize = 256;

/// Bytes of all warnings together. Kubernetes drops warnings beyond 4096 bytes.
const WARNINGS_BYTES_MAX: usize = 4096;

/// Number of reasons that a refusal lists one by one; the others are only counted.
const REASONS_MAX: usize = 20;

/// Longest reason, in bytes. It needs a bound since a reason may quote a value of the object.
const REASON_BYTES_MAX: usize = 512;

/// The verdict: the refusals, and the warnings for the author. An object with a refusal is not stored.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    refusals: Vec<String>,
    warnings: Vec<String>,
}

impl Verdict {
    /// The verdict on an object with these problems.
    pub(super) fn of(problems: &[Problem]) -> Self {
        let mut told = HashSet::new();
        let mut of_weight = |weight| {
            let heavy = problems.iter().filter(|problem| weight_of(problem.reason) == weight);
            let new = heavy.filter(|problem| told.insert(problem.message.as_str()));
            new.map(|problem| problem.message.clone()).collect()
        };
        Self { refusals: of_weight(Weight::Refusal), warnings: of_weight(Weight::Warning) }
    }

    /// The verdict on an object that cannot be decoded.
    pub(super) fn unreadable(why: &str) -> Self {
        Self { refusals: vec![format!("it cannot be read: {why}")], warnings: Vec::new() }
    }

    /// The answer to the review with this `uid`.
    pub(super) fn review(&self, uid: &str) -> Vec<u8> {
        let mut response = json!({"uid": uid, "allowed": self.refusals.is_empty()});
        if !self.refusals.is_empty() {
            response["status"] = json!({
                "status": "Failure",
                "code": 400,
                "reason": "BadRequest",
                "message": self.message(),
            });
        }
        let warnings = self.warnings();
        if !warnings.is_empty() {
            response["warnings"] = warnings.into_iter().map(Value::String).collect();
        }
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": response,
        });
        review.to_string().into_bytes()
    }

    /// The message of the refusal: the reasons, and that the object would not be served as it is.
    fn message(&self) -> String {
        let intro = "it would not be served as it says:";
        let shown = self.refusals.iter().take(REASONS_MAX).map(|reason| clipped(reason, REASON_BYTES_MAX));
        let mut shown: Vec<_> = shown.collect();
        if let [only] = shown.as_slice() {
            return format!("{intro} {only}");
        }
        let rest = self.refusals.len() - shown.len();
        if rest > 0 {
            shown.push(format!("and {rest} more"));
        }
        format!("{intro}\n- {}", shown.join("\n- "))
    }

    fn warnings(&self) -> Vec<String> {
        let mut shown = Vec::new();
        let mut room = WARNINGS_BYTES_MAX;
        for (told, warning) in self.warnings.iter().enumerate() {
            let warning = clipped(warning, WARNING_BYTES_MAX);
            let rest = format!("and {} more", self.warnings.len() - told);
            if warning.len() + rest.len() > room {
                shown.push(rest);
                break;
            }
            room -= warning.len();
            shown.push(warning);
        }
        shown
    }
}

/// The consequence of a problem for the review.
#[derive(Clone, Copy, PartialEq)]
enum Weight {
    /// The object is refused.
    Refusal,
    /// The object is stored, and its author gets a warning.
    Warning,
    /// The problem has no consequence: it cannot be judged now, or the author need not know of it.
    Nothing,
}

/// The consequence of each kind of problem. Manifests may be applied in any order, so a missing object is no
/// reason to refuse. A feature that Forebay does not have is no reason either: ingress-nginx admits the
/// object.
fn weight_of(reason: Reason) -> Weight {
    match reason {
        Reason::Invalid
        | Reason::Annotation
        | Reason::FirewallRules
        | Reason::Undecodable
        | Reason::Forbidden
        | Reason::Conflict
        | Reason::NotOwner => Weight::Refusal,
        Reason::Missing | Reason::Unsupported | Reason::NoEffect | Reason::Note => Weight::Warning,
        // The index holds only the Secrets that stored Ingresses name, so this Secret may well exist.
        Reason::Secret => Weight::Nothing,
    }
}

/// A text as a single line of at most `bytes_max` bytes.
fn clipped(text: &str, bytes_max: usize) -> String {
    const ELLIPSIS: &str = "...";
    let is_line = |char: char| if char.is_control() { ' ' } else { char };
    if text.len() <= bytes_max {
        return text.chars().map(is_line).collect();
    }
    let end = text.floor_char_boundary(bytes_max - ELLIPSIS.len());
    text[..end].chars().map(is_line).chain(ELLIPSIS.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(refusals: usize, warnings: usize) -> Verdict {
        let many = |count| (0..count).map(|number| format!("{number} {}", "é".repeat(400))).collect();
        Verdict { refusals: many(refusals), warnings: many(warnings) }
    }

    #[test]
    fn warnings_keep_to_what_kubernetes_passes_on() {
        let warnings = verdict(0, 100).warnings();
        assert!(warnings.iter().all(|warning| warning.len() <= 256));
        assert!(warnings.iter().map(String::len).sum::<usize>() <= 4096);
        assert_eq!(warnings.len(), 16);
        assert_eq!(warnings[15], "and 85 more");
        assert_eq!(verdict(0, 2).warnings().len(), 2);
    }

    #[test]
    fn a_refusal_does_not_grow_with_the_object() {
        let message = verdict(10_000, 0).message();
        assert!(message.len() < 16 << 10, "{}", message.len());
        assert!(message.ends_with("\n- and 9980 more"));
        assert_eq!(message.lines().count(), 22);
    }

    #[test]
    fn what_is_told_has_no_control_characters() {
        assert_eq!(clipped("a\r\nb\u{1b}c", 10), "a  b c");
        assert_eq!(clipped("0123456789x", 10), "0123456...");
        assert_eq!(clipped("ééééé", 8), "éé...");
    }
}
