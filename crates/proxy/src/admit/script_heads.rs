//! The changes that scripts make to heads: those of requests for endpoints and auth services, and those of
//! responses.
//!
//! Never in here: how a script is run, which is `route`'s.

use model::{Headers, Reach, ResponseEdit};

use crate::admit::{Admitted, Targeted};
use crate::request::head::{HeadEdits, begins_with};
use crate::request::reply::Scope;
use crate::route::script_state::ScriptState;
use crate::route::values::{self, HasValues, Scope as Values};

/// Changes the head of a response with this status, whoever made it. `last_modified` is called only where a
/// script needs it.
pub(crate) fn edit_response<'e>(
    admitted: &'e Admitted<'_>,
    status: u16,
    scope: Scope,
    last_modified: impl FnOnce() -> Option<u64>,
    edits: &mut HeadEdits<'e>,
) {
    let Some(state) = &admitted.script else { return };
    let expires = match admitted.final_scope(scope) {
        Scope::Location => state.headers().rev().find_map(|headers| headers.expires),
        _ => state.outer_headers().rev().find_map(|headers| headers.expires),
    };
    if admitted.final_scope(scope) == Scope::Location {
        // Of several levels only the innermost one that adds headers does so.
        let script = admitted.route.and_then(|route| route.script.as_deref());
        let inherited = script.is_some_and(|script| script.adds_headers && script.host.is_some());
        edit_as(admitted, status, state.headers(), usize::from(inherited), edits);
    } else {
        edit_as(admitted, status, state.outer_headers(), 0, edits);
    }
    if let Some(expires) = expires {
        let (now, seconds) =
            (admitted.worker.clock.unix().as_secs(), |time: u64| i64::try_from(time).unwrap_or(i64::MAX));
        let modified = last_modified().map(seconds);
        if let Some((until, control)) = expires.said(status, seconds(now), modified) {
            edits.set("Expires", wire::date::imf_fixdate(until.unsigned_abs()).into_bytes());
            edits.set("Cache-Control", control.into_bytes());
        }
    }
}

/// Changes a head as some levels say. The first `inherited` of them add no headers.
fn edit_as<'e>(
    admitted: &'e Admitted<'_>,
    status: u16,
    levels: impl DoubleEndedIterator<Item = &'e Headers> + Clone,
    inherited: usize,
    edits: &mut HeadEdits<'e>,
) {
    let changes = levels.clone().flat_map(|headers| &headers.response);
    let mut changes = changes.filter(|edit| edit.statuses.is_empty() || edit.statuses.contains(&status));
    while let Some(edit) = changes.next() {
        let value = edit.value.as_ref().map(|value| values::expand_field_for(admitted, status, value));
        let value = value.filter(|value| !value.is_empty());
        match (edit.reach, value) {
            (Reach::Beginning, _) => edits.remove_beginning(edit.name.trim_end_matches('*')),
            (Reach::Beside, Some(value)) if !changes.clone().any(|later| takes_back(later, &edit.name)) => {
                edits.add(&edit.name, value);
            }
            (Reach::Beside, _) => {}
            (Reach::Name | Reach::Present, Some(value)) => edits.set(&edit.name, value),
            (Reach::Name | Reach::Present, None) => edits.remove(&edit.name),
        }
    }
    let levels = levels.skip(inherited);
    let added = levels.filter(|headers| !headers.added.is_empty()).last().map(|headers| &headers.added);
    for header in added.into_iter().flatten().filter(|header| header.is_for(status)) {
        let value = values::expand_field_for(admitted, status, &header.value);
        if !value.is_empty() {
            edits.add(&header.name, value);
        }
    }
}

/// Whether a change has no header of this name, which another one has added before.
fn takes_back(edit: &ResponseEdit, name: &str) -> bool {
    match edit.reach {
        Reach::Name | Reach::Present => edit.name.eq_ignore_ascii_case(name),
        Reach::Beside => false,
        Reach::Beginning => begins_with(name.as_bytes(), edit.name.trim_end_matches('*')),
    }
}

/// Removes the headers of an endpoint that clients are not to see.
pub(crate) fn hide<'e>(admitted: &'e Admitted<'_>, edits: &mut HeadEdits<'e>) {
    let Some(state) = &admitted.script else { return };
    for name in state.headers().flat_map(|headers| &headers.hidden) {
        edits.hide(name);
    }
}

/// Changes the head of a request for an endpoint.
pub(crate) fn edit_request<'e>(admitted: &'e Admitted<'_>, edits: &mut HeadEdits<'e>) {
    if let Some(state) = &admitted.script {
        edit(admitted.scope(), state, Recipient::Endpoint, edits);
    }
}

/// Changes the head of a request to an auth service as if the client had sent it so.
pub(crate) fn edit_input<'e>(targeted: &'e Targeted<'_>, edits: &mut HeadEdits<'e>) {
    if let Some(state) = &targeted.script {
        edit(targeted.scope(), state, Recipient::ServiceOfRoute, edits);
    }
}

/// Changes the head of a request to an auth service as its own snippet says.
pub(crate) fn edit_question<'e>(
    targeted: &'e Targeted<'_>,
    state: &'e ScriptState<'_>,
    edits: &mut HeadEdits<'e>,
) {
    edit(targeted.scope(), state, Recipient::Service, edits);
}

/// The recipient of a request, and whose snippet changes its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recipient {
    Endpoint,
    /// An auth service, by the script of the route: only what is as if the client had said it.
    ServiceOfRoute,
    /// An auth service, by the script of the question.
    Service,
}

fn edit<'e>(at: Values<'e>, state: &'e ScriptState<'_>, recipient: Recipient, edits: &mut HeadEdits<'e>) {
    let is_own = |name: &str| is_own(name) || (recipient != Recipient::Endpoint && is_own_of_question(name));
    let all = state.headers().flat_map(|headers| &headers.request);
    let inputs = all.clone().filter(|edit| edit.is_input && !is_own(&edit.name));
    let others = all.filter(|edit| !edit.is_input && recipient != Recipient::ServiceOfRoute);
    for edit in inputs.chain(others).filter(|edit| !edit.name.eq_ignore_ascii_case("host")) {
        let fields = &at.routed.request.parsed.fields;
        if edit.reach == Reach::Beginning {
            let begin = edit.name.trim_end_matches('*');
            let names = fields
                .iter()
                .filter_map(|field| std::str::from_utf8(field.name(at.routed.request.head)).ok());
            let names = names.filter(|name| begins_with(name.as_bytes(), begin) && !is_own(name));
            names.for_each(|name| edits.remove(name));
            continue;
        }
        if edit.reach == Reach::Present && fields.find_name(at.routed.head, edit.name.as_bytes()).is_none() {
            continue;
        }
        let value = edit.value.as_ref().map(|value| values::expand_field_with(&at, state, value));
        match value.filter(|value| !value.is_empty()) {
            Some(value) => edits.set(&edit.name, value),
            None => edits.remove(&edit.name),
        }
    }
}

/// `Host` for an endpoint, if a script sets it.
pub(crate) fn host(admitted: &Admitted<'_>) -> Option<Vec<u8>> {
    let all = admitted.script.as_ref()?.headers().flat_map(|headers| &headers.request);
    let last = all.filter(|edit| edit.name.eq_ignore_ascii_case("host")).max_by_key(|edit| !edit.is_input)?;
    let value = values::expand_field(admitted, last.value.as_ref()?);
    (!value.is_empty()).then_some(value)
}

/// Whether the proxy says it itself whatever the client has said.
fn is_own(name: &str) -> bool {
    const OWN: &[&str] = &[
        "x-real-ip",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-forwarded-scheme",
        "x-scheme",
        "x-request-id",
        "proxy",
    ];
    OWN.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether the proxy says it itself to every auth service.
fn is_own_of_question(name: &str) -> bool {
    const OWN: &[&str] = &["x-original-url", "x-original-method", "x-sent-from", "x-auth-request-redirect"];
    OWN.iter().any(|own| name.eq_ignore_ascii_case(own))
}
