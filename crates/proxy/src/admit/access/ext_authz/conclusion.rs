//! The effects of an authorization service's verdict on a request.

use deciders::authz::{Allowed, Denial, EditAction, Verdict, edit_query};
use model::AuthzCheck;
use observe::Reason;

use super::answer::NoVerdict;
use crate::admit::Targeted;
use crate::request::decision::Decision;
use crate::request::reply::Answer;
use crate::route::filters::FilterResult;

/// Tells the endpoint that the request was let in although its service gave no answer.
const FAILURE_ALLOWED: &str = "x-envoy-auth-failure-mode-allowed";

/// Removes the client's headers that only the service sets.
pub(super) fn forget_client_s(check: &AuthzCheck, decision: &mut Decision) {
    for name in check.upstream_headers.iter().flatten() {
        decision.tell(name, None);
    }
    if check.fails_open {
        decision.tell(FAILURE_ALLOWED, None);
    }
}

/// Applies a verdict, or does what the route says for requests without one.
pub(super) fn apply(
    targeted: &Targeted<'_>,
    check: &AuthzCheck,
    verdict: Result<&Verdict, NoVerdict>,
    decision: &mut Decision,
) -> FilterResult {
    match verdict {
        Ok(Verdict::Allowed(allowed)) => {
            allow(targeted, check, allowed, decision);
            FilterResult::Continue
        }
        Ok(Verdict::Denied(denial)) => FilterResult::Answer(answer(denial, check.status_on_error)),
        Ok(Verdict::Undecided(_)) | Err(NoVerdict::Missing) if check.fails_open => {
            decision.tell(FAILURE_ALLOWED, Some(b"true".to_vec()));
            FilterResult::Continue
        }
        Ok(Verdict::Undecided(Some(denial))) => {
            targeted.note_reason(Reason::AuthFailed);
            FilterResult::Answer(answer(denial, check.status_on_error))
        }
        Ok(Verdict::Undecided(None)) | Err(_) => {
            targeted.note_reason(Reason::AuthFailed);
            FilterResult::Answer(Answer::with_status(check.status_on_error))
        }
    }
}

fn answer(denial: &Denial, status_on_error: u16) -> Answer {
    Answer::of_service(denial.status.unwrap_or(status_on_error), &denial.headers, &denial.body)
}

fn allow(targeted: &Targeted<'_>, check: &AuthzCheck, allowed: &Allowed, decision: &mut Decision) {
    let may_set = |name: &str| match &check.upstream_headers {
        Some(names) => names.iter().any(|known| known.eq_ignore_ascii_case(name)),
        None => true,
    };
    for edit in allowed.request.iter().filter(|edit| may_set(&edit.name)) {
        let present = present(targeted, decision, &edit.name);
        let value = match (edit.action, present) {
            (EditAction::AddIfAbsent, Some(_)) | (EditAction::SetIfPresent, None) => continue,
            (EditAction::Append, Some(present)) => [&present, &b", "[..], &edit.value].concat(),
            _ => edit.value.clone(),
        };
        decision.tell(&edit.name, Some(value));
    }
    for name in &allowed.removed {
        decision.tell(name, None);
    }
    decision.response.extend(allowed.response.iter().cloned());
    if allowed.changes_query() {
        let target = decision.target.as_deref().unwrap_or_else(|| {
            let of_script = || targeted.script.as_ref().and_then(|script| script.target.as_deref());
            targeted.rewritten_target().or_else(of_script).unwrap_or_else(|| targeted.sent_target())
        });
        decision.target = Some(edit_query(target, &allowed.set_query, &allowed.removed_query));
    }
}

/// The value of a header as the endpoint would get it; none where it would get none.
fn present(targeted: &Targeted<'_>, decision: &Decision, name: &str) -> Option<Vec<u8>> {
    if let Some((_, value)) = decision.upstream.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return value.clone();
    }
    let head = targeted.head;
    let named = |field: &&wire::Field| field.name(head).eq_ignore_ascii_case(name.as_bytes());
    let values: Vec<_> = targeted.parsed.fields.iter().filter(named).map(|field| field.value(head)).collect();
    (!values.is_empty()).then(|| values.join(&b", "[..]))
}
