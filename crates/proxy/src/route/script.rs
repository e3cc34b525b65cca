//! Runs the programs that snippets have become: their steps on the request.
//!
//! Never in here: the changes that they make to heads, which are `admit`'s.

use model::template::{Part, Template, Variable};
use model::{
    AfterRewrite, Block, Check, PassTarget, Return, ReturnContent, ScriptRewrite, Step, Test, TooManySteps,
};
use observe::Reason;
use wire::path::{climbs, escape, escape_if, escape_unprintable, of_target, query_of_target};

use crate::limits::SCRIPT_VALUE_BYTES_MAX;
use crate::request::Request;
use crate::request::reply::{Answer, NO_RESPONSE};
use crate::request::stop::Stop;
use crate::route::filters::{own_origin, printable};
use crate::route::script_state::ScriptState;
use crate::route::values::{self, Scope as Values};

/// Why a request goes no further.
pub(crate) enum Ended {
    /// It is answered.
    Answer(Answer),
    /// It is refused.
    Refuse(Reason),
}

impl From<Ended> for Stop {
    #[cold]
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Answer(answer) => answer.into(),
            Ended::Refuse(reason) => reason.into(),
        }
    }
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
pub(crate) fn run<'s>(at: Values<'_>, state: &mut ScriptState<'s>, steps: &'s [Step]) -> Result<Flow, Ended> {
    for step in steps {
        let flow = match step {
            Step::Set(name, value) => {
                let value = text(at, state, value);
                if value.len() > SCRIPT_VALUE_BYTES_MAX {
                    return Err(Ended::Refuse(Reason::HeadTooLarge));
                }
                state.set(name, value);
                Flow::GoOn
            }
            Step::If(test, Block { steps, headers }) => {
                if holds(at, state, test)? {
                    state.enter_condition(headers);
                    run(at, state, steps)?
                } else {
                    Flow::GoOn
                }
            }
            Step::Return(with) => return Err(Ended::Answer(answer(at, state, with))),
            Step::Rewrite(rewrite) => apply(at, state, rewrite)?,
            Step::Break => Flow::Stay,
            Step::Pass(pass) => {
                state.pass = Some(pass);
                Flow::GoOn
            }
        };
        if flow != Flow::GoOn {
            return Ok(flow);
        }
    }
    Ok(Flow::GoOn)
}

fn text(at: Values<'_>, state: &ScriptState<'_>, template: &Template) -> Vec<u8> {
    values::expand_with(&at, state, template)
}

fn holds(at: Values<'_>, state: &mut ScriptState<'_>, test: &Test) -> Result<bool, Ended> {
    let value = text(at, state, &test.subject);
    let is_so = match &test.check {
        Check::IsTrue => !value.is_empty() && value != b"0",
        Check::Equals(other) => value == text(at, state, other),
        Check::Matches(pattern) => match pattern.captures(&value, &at.routed.steps) {
            Ok(Some(captures)) => {
                state.remember(&captures, &value);
                true
            }
            Ok(None) => false,
            Err(TooManySteps) => return Err(Ended::Refuse(Reason::ExpressionSteps)),
        },
    };
    // The subject may be the value of a table of expressions.
    if at.routed.steps.is_undecided() {
        return Err(Ended::Refuse(Reason::ExpressionSteps));
    }
    Ok(is_so != test.is_negated)
}

fn answer(at: Values<'_>, state: &ScriptState<'_>, with: &Return) -> Answer {
    match &with.content {
        ReturnContent::Nothing if with.status == NO_RESPONSE => Answer::none(),
        // A status below 400 has no page, and an empty text.
        ReturnContent::Nothing if with.status < 400 => of_media_type(state, with.status, String::new()),
        ReturnContent::Nothing => Answer::with_status(with.status),
        ReturnContent::Text(template) => {
            let body = String::from_utf8_lossy(&text(at, state, template)).into_owned();
            of_media_type(state, with.status, body)
        }
        ReturnContent::Location(template) => {
            Answer::redirect(with.status, location(at, state, &text(at, state, template)))
        }
    }
}

fn of_media_type(state: &ScriptState<'_>, status: u16, body: String) -> Answer {
    let media_type = state.headers().rev().find_map(|headers| headers.media_type.as_deref());
    Answer::text(status, media_type.unwrap_or("text/html"), body)
}

/// A target as a client is to see it: a path becomes a URL of the host, unless the route wants it as it is.
fn location(at: Values<'_>, state: &ScriptState<'_>, target: &[u8]) -> String {
    let target = printable(target);
    let form = at.routed.route.filter(|_| !state.is_of_host).map(|route| route.slash_redirect);
    let form = form.unwrap_or_default();
    if !target.starts_with('/') || form.relative {
        return target;
    }
    let port = form.names_port.then_some(at.routed.conn.local.port());
    own_origin(at.routed.forwarded.own_scheme, at.routed.host(), port) + &target
}

/// Applies nginx's `rewrite` to the path.
fn apply(at: Values<'_>, state: &mut ScriptState<'_>, rewrite: &ScriptRewrite) -> Result<Flow, Ended> {
    let path = current_path(at.routed, state).to_vec();
    let captures = match rewrite.pattern.captures(&path, &at.routed.steps) {
        Ok(Some(captures)) => captures,
        Ok(None) => return Ok(Flow::GoOn),
        Err(TooManySteps) => return Err(Ended::Refuse(Reason::ExpressionSteps)),
    };
    state.remember(&captures, &path);
    let asked = at.routed.sent_target();
    let has_escapes = memchr::memchr(b'%', of_target(asked)).is_some();
    let old = state.query().or_else(|| query_of_target(asked)).unwrap_or_default();
    let own = rewrite.query.as_ref().map(|query| {
        let mut escaped = Vec::new();
        escape_unprintable(&text(at, state, query), &mut escaped);
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
        let mut target = new_path(at, state, &rewrite.target, |found, out| escape_if(found, is_escaped, out));
        if !query.is_empty() {
            target.push(b'?');
            target.extend_from_slice(&query);
        }
        return Err(Ended::Answer(Answer::redirect(status, location(at, state, &target))));
    }
    let mut path = new_path(at, state, &rewrite.target, |found, out| out.extend_from_slice(found));
    if path.first() != Some(&b'/') {
        path.insert(0, b'/');
    }
    // A path from a client's header has not been checked before.
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

/// Changes path and query as a [`Pass`](model::Pass) says.
pub(crate) fn turn(at: Values<'_>, state: &mut ScriptState<'_>, target: &PassTarget) -> Result<(), Ended> {
    let asked = at.routed.sent_target();
    let has_escapes = memchr::memchr(b'%', of_target(asked)).is_some();
    let (path, query, target) = match target {
        PassTarget::Same => return Ok(()),
        PassTarget::Beginning { len, with } => {
            let rest = current_path(at.routed, state).get(*len..).unwrap_or_default();
            let path = [with.as_bytes(), rest].concat();
            let query = state.query().or_else(|| query_of_target(asked)).unwrap_or_default().to_vec();
            let target = target_of(&path, &query, has_escapes);
            (path, query, target)
        }
        PassTarget::Whole(template) => {
            let whole = new_path(at, state, template, escape_unprintable);
            let path = of_target(&whole).to_vec();
            let query = query_of_target(&whole).unwrap_or_default().to_vec();
            (path, query, whole)
        }
    };
    if path.first() != Some(&b'/') || climbs(&path) || path.contains(&0) {
        return Err(Ended::Refuse(Reason::BadTarget));
    }
    if target.len() > SCRIPT_VALUE_BYTES_MAX {
        return Err(Ended::Refuse(Reason::LineTooLong));
    }
    state.go_to(path, query, target);
    Ok(())
}

/// Path and query as an endpoint is asked for them. nginx escapes what it makes of a path that came with
/// escapes, and passes other characters on as they came.
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
    at: Values<'_>,
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
                escape_unprintable(&text(at, state, &Template::from(other.clone())), &mut out);
            }
        }
    }
    out
}

/// The path as it is now.
pub(crate) fn current_path<'s>(request: &'s Request<'_>, state: &'s ScriptState<'_>) -> &'s [u8] {
    state.path().unwrap_or_else(|| request.client_path())
}
