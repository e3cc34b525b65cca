//! The values of a request: for the access log, and for other texts with variables.

pub(crate) mod combination;
mod computed;
mod refused;
mod request;
mod scope;

use std::time::Duration;

use model::template::Template;
use observe::access::{Connection, TimeForm, Tls};
use observe::log::Sink;

use crate::request::conn::Conn;
use crate::route::script_state::ScriptState;
use crate::worker::Worker;

pub(crate) use refused::{RefusalEnd, Refused};
pub(crate) use request::{RequestValues, ScriptTarget};
pub(crate) use scope::{HasValues, Scope};

/// A text with the values that a request has by now.
pub(crate) fn expand(at: &impl HasValues, template: &Template) -> Vec<u8> {
    let scope = at.scope();
    expand_at(scope, scope.script(), template)
}

/// The same while a script is being run.
pub(crate) fn expand_with(at: &impl HasValues, script: &ScriptState<'_>, template: &Template) -> Vec<u8> {
    expand_at(at.scope(), Some(script), template)
}

fn expand_at(scope: Scope<'_>, script: Option<&ScriptState<'_>>, template: &Template) -> Vec<u8> {
    expand_as(scope, script, scope.routed.report.status.get(), template)
}

fn expand_as(
    scope: Scope<'_>,
    script: Option<&ScriptState<'_>>,
    status: u16,
    template: &Template,
) -> Vec<u8> {
    let mut text = Vec::new();
    with_values(scope, script, |values| {
        observe::access::expand(template, &RequestValues { status, ..*values }, &mut text);
    });
    text
}

/// Calls `act` with the values of a request that began so long ago, and with the access log.
pub(crate) fn with_log<T>(
    at: &impl HasValues,
    took: Duration,
    act: impl FnOnce(&RequestValues<'_>, &mut Sink) -> T,
) -> T {
    let scope = at.scope();
    with_values(scope, scope.script(), |values| {
        let values = RequestValues { took: Some(took), ..*values };
        act(&values, &mut scope.routed.worker.log.sink.borrow_mut())
    })
}

/// Calls `act` with the values of a request and of a script; without a script, with those of the request as
/// it was sent.
pub(crate) fn with_values<T>(
    scope: Scope<'_>,
    script: Option<&ScriptState<'_>>,
    act: impl FnOnce(&RequestValues<'_>) -> T,
) -> T {
    let report = &scope.routed.report;
    let (tries, response_head) = (report.tries.borrow(), report.response_head.borrow());
    act(&RequestValues {
        scope,
        script,
        status: report.status.get(),
        took: None,
        tries: &tries,
        response_head: &response_head,
        upstream: None,
        script_target: None,
        combination: None,
    })
}

/// A text as the value of a header: what could end its line is escaped.
pub(crate) fn expand_field(at: &impl HasValues, template: &Template) -> Vec<u8> {
    as_field(expand(at, template))
}

/// The same for a text that a script of its own has.
pub(crate) fn expand_field_with(
    at: &impl HasValues,
    script: &ScriptState<'_>,
    template: &Template,
) -> Vec<u8> {
    as_field(expand_with(at, script, template))
}

/// The same for the head of a response with this status.
pub(crate) fn expand_field_for(at: &impl HasValues, status: u16, template: &Template) -> Vec<u8> {
    let scope = at.scope();
    as_field(expand_as(scope, scope.script(), status, template))
}

/// The same with the values of a request of which not even the head could be used.
pub(crate) fn expand_refused(worker: &Worker, conn: &Conn, template: &Template) -> Vec<u8> {
    let mut text = Vec::new();
    observe::access::expand(template, &Refused { worker, conn, line: None, end: None }, &mut text);
    as_field(text)
}

fn as_field(text: Vec<u8>) -> Vec<u8> {
    if !text.iter().any(u8::is_ascii_control) {
        return text;
    }
    let mut escaped = Vec::with_capacity(text.len() + 8);
    wire::path::escape_if(&text, |byte| byte.is_ascii_control(), &mut escaped);
    escaped
}

/// A client's connection, as the log shows it.
fn connection(conn: &Conn) -> Connection<'_> {
    Connection {
        peer: conn.peer,
        server: conn.local,
        scheme: conn.scheme(),
        tls: conn.tls.as_deref().map(|tls| Tls {
            version: tls.version,
            cipher: tls.cipher,
            server_name: tls.server_name.as_deref(),
            is_resumed: tls.is_resumed,
        }),
        serial: conn.serial,
        requests: conn.requests.get(),
    }
}

fn write_time(worker: &Worker, form: TimeForm, out: &mut Vec<u8>) {
    let time = &mut *worker.log.time.borrow_mut();
    out.extend_from_slice(time.at(worker.clock.unix()).text(form).as_bytes());
}
