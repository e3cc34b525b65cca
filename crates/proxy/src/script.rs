//! Runs the programs that snippets have become: their steps on the request, and then what they say of heads.
//!
//! Never in here: where a request goes on, which is `serve`'s.

use model::template::{Part, Template, Variable};
use model::{
    AfterRewrite, Block, Check, Headers, Reach, ResponseEdit, Return, ReturnContent, ScriptRewrite, Step,
    Test, TooManySteps,
};
use observe::Reason;
use wire::path::{climbs, escape, escape_if, escape_unprintable, of_target, query_of_target};

use crate::exchange::Exchange;
use crate::filters::{own_origin, printable};
use crate::head::{HeadEdits, begins_with};
use crate::limits::SCRIPT_VALUE_BYTES_MAX;
use crate::reply::{Answer, NO_RESPONSE, Scope};
use crate::script_state::ScriptState;
use crate::values;

/// Why a request goes no further.
pub(crate) enum Ended {
    /// It is answered.
    Answer(Answer),
    /// It is refused.
    Refuse(Reason),
}

/// How a level has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// With its last step.
    GoOn,
    /// Before, and the request stays where it is.
    Stay,
    /// Before, and another route may take it.
    FindRoute,
}

/// Runs the steps of a level. An answer or a refusal ends all.
pub(crate) fn run<'s>(
    exchange: &Exchange<'_>,
    state: &mut ScriptState<'s>,
    steps: &'s [Step],
) -> Result<Flow, Ended> {
    for step in steps {
        let flow = match step {
            Step::Set(name, value) => {
                let value = text(exchange, state, value);
                if value.len() > SCRIPT_VALUE_BYTES_MAX {
                    return Err(Ended::Refuse(Reason::HeadTooLarge));
                }
                state.set(name, value);
                Flow::GoOn
            }
            Step::If(test, Block { steps, headers }) => {
                if holds(exchange, state, test)? {
                    state.enter_condition(headers);
                    run(exchange, state, steps)?
                } else {
                    Flow::GoOn
                }
            }
            Step::Return(with) => return Err(Ended::Answer(answer(exchange, state, with))),
            Step::Rewrite(rewrite) => apply(exchange, state, rewrite)?,
            Step::Break => Flow::Stay,
        };
        if flow != Flow::GoOn {
            return Ok(flow);
        }
    }
    Ok(Flow::GoOn)
}

fn text(exchange: &Exchange<'_>, state: &ScriptState<'_>, template: &Template) -> Vec<u8> {
    values::expand_with(exchange, state, template)
}

fn holds(exchange: &Exchange<'_>, state: &mut ScriptState<'_>, test: &Test) -> Result<bool, Ended> {
    let value = text(exchange, state, &test.subject);
    let is_so = match &test.check {
        Check::IsTrue => !value.is_empty() && value != b"0",
        Check::Equals(other) => value == text(exchange, state, other),
        Check::Matches(pattern) => match pattern.captures(&value, &exchange.steps) {
            Ok(Some(captures)) => {
                state.remember(&captures, &value);
                true
            }
            Ok(None) => false,
            Err(TooManySteps) => return Err(Ended::Refuse(Reason::ExpressionSteps)),
        },
    };
    // The subject may be the value of a table of expressions.
    if exchange.steps.is_undecided() {
        return Err(Ended::Refuse(Reason::ExpressionSteps));
    }
    Ok(is_so != test.is_negated)
}

fn answer(exchange: &Exchange<'_>, state: &ScriptState<'_>, with: &Return) -> Answer {
    match &with.content {
        ReturnContent::Nothing if with.status == NO_RESPONSE => Answer::none(),
        // What is no fault has no page, but a text that is empty.
        ReturnContent::Nothing if with.status < 400 => of_media_type(state, with.status, String::new()),
        ReturnContent::Nothing => Answer::with_status(with.status),
        ReturnContent::Text(template) => {
            let body = String::from_utf8_lossy(&text(exchange, state, template)).into_owned();
            of_media_type(state, with.status, body)
        }
        ReturnContent::Location(template) => {
            Answer::redirect(with.status, location(exchange, state, &text(exchange, state, template)))
        }
    }
}

fn of_media_type(state: &ScriptState<'_>, status: u16, body: String) -> Answer {
    let media_type = state.headers().rev().find_map(|headers| headers.media_type.as_deref());
    Answer::text(status, media_type.unwrap_or("text/html"), body)
}

/// A target as a client is to see it: a path becomes a URL of the host, unless the route wants it as it is.
fn location(exchange: &Exchange<'_>, state: &ScriptState<'_>, target: &[u8]) -> String {
    let target = printable(target);
    let form = exchange.route.get().filter(|_| !state.is_of_host).map(|route| route.slash_redirect);
    let form = form.unwrap_or_default();
    if !target.starts_with('/') || form.relative {
        return target;
    }
    let port = form.names_port.then_some(exchange.conn.local.port());
    own_origin(exchange.forwarded.own_scheme, exchange.host(), port) + &target
}

/// nginx's `rewrite`.
fn apply(
    exchange: &Exchange<'_>,
    state: &mut ScriptState<'_>,
    rewrite: &ScriptRewrite,
) -> Result<Flow, Ended> {
    let path = current_path(exchange, state).to_vec();
    let captures = match rewrite.pattern.captures(&path, &exchange.steps) {
        Ok(Some(captures)) => captures,
        Ok(None) => return Ok(Flow::GoOn),
        Err(TooManySteps) => return Err(Ended::Refuse(Reason::ExpressionSteps)),
    };
    state.remember(&captures, &path);
    let asked = exchange.request.origin_target(exchange.head);
    let has_escapes = memchr::memchr(b'%', of_target(asked)).is_some();
    let old = state.query().or_else(|| query_of_target(asked)).unwrap_or_default();
    let own = rewrite.query.as_ref().map(|query| {
        let mut escaped = Vec::new();
        escape_unprintable(&text(exchange, state, query), &mut escaped);
        escaped
    });
    let kept = if rewrite.keeps_query { old } else { &[] };
    let query = match own {
        Some(own) if kept.is_empty() => own,
        Some(own) => [&own, &b"&"[..], kept].concat(),
        None => kept.to_vec(),
    };
    if let AfterRewrite::Redirect(status) = rewrite.next {
        let is_escaped = |byte: u8| !byte.is_ascii_graphic() || (has_escapes && b"\"#%".contains(&byte));
        let mut target =
            new_path(exchange, state, &rewrite.target, |found, out| escape_if(found, is_escaped, out));
        if !query.is_empty() {
            target.push(b'?');
            target.extend_from_slice(&query);
        }
        return Err(Ended::Answer(Answer::redirect(status, location(exchange, state, &target))));
    }
    let mut path = new_path(exchange, state, &rewrite.target, |found, out| out.extend_from_slice(found));
    if path.first() != Some(&b'/') {
        path.insert(0, b'/');
    }
    // What a client says in a header is no path that was looked at.
    if climbs(&path) || path.contains(&0) {
        return Err(Ended::Refuse(Reason::BadTarget));
    }
    if path.len() + query.len() > SCRIPT_VALUE_BYTES_MAX {
        return Err(Ended::Refuse(Reason::LineTooLong));
    }
    let target = target_of(&path, &query, has_escapes);
    state.go_to(path, query, target);
    Ok(match rewrite.next {
        AfterRewrite::GoOn | AfterRewrite::Redirect(_) => Flow::GoOn,
        AfterRewrite::FindRoute => Flow::FindRoute,
        AfterRewrite::Stay => Flow::Stay,
    })
}

/// Path and query as an endpoint is asked for them. nginx escapes what it makes of a path that came with escapes, and passes other
/// characters on as they came.
fn target_of(path: &[u8], query: &[u8], has_escapes: bool) -> Vec<u8> {
    let mut target = Vec::with_capacity(path.len() + query.len() + 16);
    if has_escapes {
        escape(path, &mut target);
    } else {
        escape_if(path, |byte| (byte.is_ascii() && !byte.is_ascii_graphic()) || byte == b'?', &mut target);
    }
    if !query.is_empty() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

/// A template's text. `add` takes what a group has found.
fn new_path(
    exchange: &Exchange<'_>,
    state: &ScriptState<'_>,
    template: &Template,
    add: impl Fn(&[u8], &mut Vec<u8>),
) -> Vec<u8> {
    let mut out = Vec::new();
    for part in template.parts() {
        match part {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Variable(Variable::Capture(group)) => {
                add(state.capture(*group).unwrap_or_default(), &mut out);
            }
            Part::Variable(other) => {
                escape_unprintable(&text(exchange, state, &Template::from(other.clone())), &mut out);
            }
        }
    }
    out
}

/// The path as it is now.
pub(crate) fn current_path<'s>(exchange: &'s Exchange<'_>, state: &'s ScriptState<'_>) -> &'s [u8] {
    state.path().unwrap_or_else(|| exchange.client_path())
}

// === heads ===

/// Changes the head of a response with this status, whoever made it. `last_modified` is called only where a script
/// needs it.
pub(crate) fn edit_response<'e>(
    exchange: &'e Exchange<'_>,
    status: u16,
    scope: Scope,
    last_modified: impl FnOnce() -> Option<u64>,
    edits: &mut HeadEdits<'e>,
) {
    let Some(state) = exchange.script.get() else { return };
    let expires = match exchange.final_scope(scope) {
        Scope::Location => state.headers().rev().find_map(|headers| headers.expires),
        _ => state.outer_headers().rev().find_map(|headers| headers.expires),
    };
    if exchange.final_scope(scope) == Scope::Location {
        // Of several levels only the innermost one that adds headers does so.
        let script = exchange.route.get().and_then(|route| route.script.as_deref());
        let inherited = script.is_some_and(|script| script.adds_headers && script.host.is_some());
        edit_as(exchange, status, state.headers(), usize::from(inherited), edits);
    } else {
        edit_as(exchange, status, state.outer_headers(), 0, edits);
    }
    if let Some(expires) = expires {
        let (now, seconds) =
            (exchange.worker.clock.unix().as_secs(), |time: u64| i64::try_from(time).unwrap_or(i64::MAX));
        let modified = last_modified().map(seconds);
        if let Some((until, control)) = expires.said(status, seconds(now), modified) {
            edits.set("Expires", wire::date::imf_fixdate(until.unsigned_abs()).into_bytes());
            edits.set("Cache-Control", control.into_bytes());
        }
    }
}

/// Changes a head as some levels say. The first `inherited` of them add no headers.
fn edit_as<'e>(
    exchange: &'e Exchange<'_>,
    status: u16,
    levels: impl DoubleEndedIterator<Item = &'e Headers> + Clone,
    inherited: usize,
    edits: &mut HeadEdits<'e>,
) {
    let changes = levels.clone().flat_map(|headers| &headers.response);
    let mut changes = changes.filter(|edit| edit.statuses.is_empty() || edit.statuses.contains(&status));
    while let Some(edit) = changes.next() {
        let value = edit.value.as_ref().map(|value| values::expand_field_for(exchange, status, value));
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
        let value = values::expand_field_for(exchange, status, &header.value);
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

/// Leaves the headers of an endpoint out that clients are not to see.
pub(crate) fn hide<'e>(exchange: &'e Exchange<'_>, edits: &mut HeadEdits<'e>) {
    let Some(state) = exchange.script.get() else { return };
    for name in state.headers().flat_map(|headers| &headers.hidden) {
        if !edits.replaces(name.as_bytes()) {
            edits.remove(name);
        }
    }
}

/// What an endpoint is told.
pub(crate) fn edit_request<'e>(exchange: &'e Exchange<'_>, edits: &mut HeadEdits<'e>) {
    if let Some(state) = exchange.script.get() {
        edit(exchange, state, Told::Endpoint, edits);
    }
}

/// What an auth service is told as if the client had said it.
pub(crate) fn edit_input<'e>(exchange: &'e Exchange<'_>, edits: &mut HeadEdits<'e>) {
    if let Some(state) = exchange.script.get() {
        edit(exchange, state, Told::ServiceOfRoute, edits);
    }
}

/// Changes the head of a request to an auth service as its own snippet says.
pub(crate) fn edit_question<'e>(
    exchange: &'e Exchange<'_>,
    state: &'e ScriptState<'_>,
    edits: &mut HeadEdits<'e>,
) {
    edit(exchange, state, Told::Service, edits);
}

/// The recipient of a request, and whose snippet changes its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Endpoint,
    /// An auth service, by the script of the route: only what is as if the client had said it.
    ServiceOfRoute,
    /// An auth service, by the script of the question.
    Service,
}

fn edit<'e>(exchange: &'e Exchange<'_>, state: &'e ScriptState<'_>, told: Told, edits: &mut HeadEdits<'e>) {
    let is_own = |name: &str| is_own(name) || (told != Told::Endpoint && is_own_of_question(name));
    let all = state.headers().flat_map(|headers| &headers.request);
    let inputs = all.clone().filter(|edit| edit.is_input && !is_own(&edit.name));
    let others = all.filter(|edit| !edit.is_input && told != Told::ServiceOfRoute);
    for edit in inputs.chain(others).filter(|edit| !edit.name.eq_ignore_ascii_case("host")) {
        let fields = &exchange.request.fields;
        if edit.reach == Reach::Beginning {
            let begin = edit.name.trim_end_matches('*');
            let names = fields.iter().filter_map(|field| std::str::from_utf8(field.name(exchange.head)).ok());
            let names = names.filter(|name| begins_with(name.as_bytes(), begin) && !is_own(name));
            names.for_each(|name| edits.remove(name));
            continue;
        }
        if edit.reach == Reach::Present && fields.find_name(exchange.head, edit.name.as_bytes()).is_none() {
            continue;
        }
        let value = edit.value.as_ref().map(|value| values::expand_field_with(exchange, state, value));
        match value.filter(|value| !value.is_empty()) {
            Some(value) => edits.set(&edit.name, value),
            None => edits.remove(&edit.name),
        }
    }
}

/// `Host` for an endpoint, if a script says which.
pub(crate) fn host(exchange: &Exchange<'_>) -> Option<Vec<u8>> {
    let all = exchange.script.get()?.headers().flat_map(|headers| &headers.request);
    let last = all.filter(|edit| edit.name.eq_ignore_ascii_case("host")).max_by_key(|edit| !edit.is_input)?;
    let value = values::expand_field(exchange, last.value.as_ref()?);
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
