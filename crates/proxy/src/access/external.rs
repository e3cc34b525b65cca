//! Asks an auth service whether a request is let in (ingress-nginx: `auth-url`).
//!
//! Whatever the service does costs a client no more than its time: the wait is bounded as a whole, its body is not kept, and all that is
//! no answer lets nobody in.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use model::{Action, ExternalAuth, ExternalAuthCache, ExternalCheck, Timeouts};
use observe::Reason;
use observe::access::Try;
use wire::h1::Response;

use super::client_certificate;
use super::key::is_ambiguous;
use crate::body::Framing;
use crate::buffer::Buffer;
use crate::clients::{Admitted, Asking, Key, Looked, Verdict, identity};
use crate::clock::Moment;
use crate::exchange::Exchange;
use crate::fault::{Fault, Retry};
use crate::filters::FilterResult;
use crate::head::{HeadEdits, Subrequest, write_subrequest_head};
use crate::limits::AUTH_TRIES_MAX;
use crate::record::record_auth;
use crate::reply::{Answer, Scope, status as status_of};
use crate::script::{self, Ended};
use crate::script_state::ScriptState;
use crate::stage::Watch;
use crate::subrequest::{self, visible};
use crate::upstream::Request;
use crate::values;

/// Asks whether a request is let in, and notes what follows from the answer.
pub(super) async fn check(
    exchange: &Exchange<'_>,
    auth: &ExternalAuth,
    admitted: &mut Admitted,
    watch: impl Watch,
) -> FilterResult {
    let (worker, check) = (exchange.worker, &*auth.check);
    let script = match begin(exchange, check) {
        Ok(script) => script,
        Err(status) => return conclude(exchange, check, &Verdict::bare(status), admitted),
    };
    if let Some(status) = watch.assumed() {
        return conclude(exchange, check, &Verdict::bare(status), admitted);
    }
    let cache = check.cache.as_ref().filter(|cache| !is_ambiguous(exchange, &cache.key));
    let looked = match cache {
        Some(cache) => look(exchange, check, cache).await,
        None => Looked::AskAlone,
    };
    let asking = match looked {
        Looked::Known(verdict) => return conclude(exchange, check, &verdict, admitted),
        Looked::Ask(asking) => Some(asking),
        Looked::AskAlone => None,
    };
    let (begin, mut asked) = (worker.clock.now(), None);
    let answered = ask(exchange, auth, script.as_deref(), &mut asked).await.map(Arc::new);
    log(exchange, auth, asked, answered.as_deref().ok(), begin);
    if let Some(asking) = asking {
        keep(asking, check, answered.as_ref().ok(), worker.clock.now());
    }
    match answered {
        Ok(verdict) => conclude(exchange, check, &verdict, admitted),
        Err(_) => FilterResult::Refuse(exchange.late_or(Reason::AuthFailed)),
    }
}

/// Looks for an answer that is kept. What another request is about to learn is waited for no longer than the service itself would be.
async fn look<'e>(exchange: &Exchange<'e>, check: &ExternalCheck, cache: &ExternalAuthCache) -> Looked<'e> {
    let (worker, timeouts) = (exchange.worker, timeouts(exchange));
    let key = key(exchange, check, cache);
    let mut looked = pin!(worker.clients.answers.look(&key, worker.clock.now()));
    let time = timeouts.connect + timeouts.read;
    let looked = exchange.deadline.within(time, |cx| looked.as_mut().poll(cx)).await;
    looked.unwrap_or(Looked::AskAlone)
}

/// Keeps the answer for requests with the same key, where that may be.
fn keep(asking: Asking<'_>, check: &ExternalCheck, verdict: Option<&Arc<Verdict>>, now: Moment) {
    let kept = verdict.filter(|verdict| verdict.is_kept).and_then(|verdict| {
        let time = check.cache.as_ref()?.duration(verdict.status)?;
        Some((verdict, now.after(time)))
    });
    match kept {
        Some((verdict, until)) => asking.keep(verdict, until, now),
        None => asking.keep_none(now),
    }
}

/// Runs the script of the question, if it has one. An answer of the script stands for that of the service.
fn begin<'s>(
    exchange: &'s Exchange<'_>,
    check: &'s ExternalCheck,
) -> Result<Option<Box<ScriptState<'s>>>, u16> {
    let Some(script) = &check.script else { return Ok(None) };
    let outer = exchange.script.get().map(|state| &**state);
    let mut state = Box::new(ScriptState::of_question(outer, &script.block.headers));
    match script::run(exchange, &mut state, &script.block.steps) {
        Ok(_) => Ok(Some(state)),
        Err(Ended::Answer(answer)) => Err(answer.status),
        Err(Ended::Refuse(reason)) => Err(status_of(reason)),
    }
}

/// Writes a line about the question, where that is wanted.
fn log(
    exchange: &Exchange<'_>,
    auth: &ExternalAuth,
    asked: Option<SocketAddr>,
    verdict: Option<&Verdict>,
    begin: Moment,
) {
    let settings = &exchange.config.settings().access_log;
    let is_wanted = exchange.route.get().is_none_or(|route| route.access_log);
    if !settings.enabled || !settings.auth || !is_wanted {
        return;
    }
    let took = exchange.worker.clock.now().since(begin);
    let (status, time) = (verdict.map(|verdict| verdict.status), verdict.map(|_| took));
    let one = asked.map(|address| Try {
        address,
        status,
        response_bytes: 0,
        connect_time: None,
        header_time: time,
        response_time: Some(took),
    });
    let name = &exchange.config.snapshot.cluster(auth.cluster).name;
    let status = status.unwrap_or_else(|| status_of(Reason::AuthFailed));
    record_auth(exchange, status, name, one.as_slice(), took);
}

/// "Keyed by host, the rule's path and type, and auth-cache-key", and by what is asked: another configuration asks anew.
fn key(exchange: &Exchange<'_>, check: &ExternalCheck, cache: &ExternalAuthCache) -> Key {
    let route = exchange.route.get();
    let host = route.map_or("", |route| route.labels.host.as_str());
    let path = route.map(|route| identity(&(route.path.kind(), route.path.path()))).unwrap_or_default();
    let text = values::expand(exchange, &cache.key);
    Key::of(&[host.as_bytes(), &path, &text, &identity(check)])
}

fn conclude(
    exchange: &Exchange<'_>,
    check: &ExternalCheck,
    verdict: &Verdict,
    admitted: &mut Admitted,
) -> FilterResult {
    admitted.cookies.clone_from(&verdict.cookies);
    admitted.always_sets_cookies = check.always_set_cookie;
    match (verdict.status, &check.signin) {
        (200..300, _) => {
            for (name, value) in &verdict.fields {
                admitted.tell(name, Some(value.clone()));
            }
            admitted.variables.clone_from(&verdict.variables);
            FilterResult::Continue
        }
        (401, Some(signin)) => {
            let location = visible(&values::expand(exchange, signin));
            let answer = Answer::redirect(302, String::from_utf8_lossy(&location).into_owned());
            FilterResult::Answer(answer.of(Scope::Signin))
        }
        (status @ (401 | 403), _) => FilterResult::Answer(Answer::refusal(status, &verdict.challenges)),
        _ => FilterResult::Refuse(Reason::AuthFailed),
    }
}

fn verdict(check: &ExternalCheck, head: &[u8], response: &Response) -> Verdict {
    let values = |name: &str| -> Vec<Vec<u8>> {
        let named = |field: &&wire::Field| field.name(head).eq_ignore_ascii_case(name.as_bytes());
        response.fields.iter().filter(named).map(|field| field.value(head).to_vec()).collect()
    };
    let fields = check.response_headers.iter().map(|name| (name.clone(), values(name).join(&b", "[..])));
    let variable = |(name, header): &(Arc<str>, String)| {
        let is_it = |field: &&wire::Field| is_header_of_variable(field.name(head), header);
        let found = response.fields.iter().filter(is_it).map(|field| field.value(head));
        (Arc::clone(name), found.collect::<Vec<_>>().join(&b", "[..]))
    };
    let cookies = values("Set-Cookie");
    let is_private = |value: &Vec<u8>| {
        let text = value.to_ascii_lowercase();
        ["no-store", "no-cache", "private", "max-age=0"]
            .iter()
            .any(|word| text.windows(word.len()).any(|part| part == word.as_bytes()))
    };
    let depends_on_more = ["Vary", "Expires", "X-Accel-Expires"].iter().any(|name| !values(name).is_empty());
    Verdict {
        status: response.status,
        fields: fields.filter(|(_, value)| !value.is_empty()).collect(),
        variables: check.variables.iter().map(variable).filter(|(_, value)| !value.is_empty()).collect(),
        challenges: values("WWW-Authenticate"),
        is_kept: cookies.is_empty() && !depends_on_more && !values("Cache-Control").iter().any(is_private),
        cookies,
    }
}

/// Whether a header is the one that nginx calls so in a variable: in lower case, with underscores.
fn is_header_of_variable(header: &[u8], variable: &str) -> bool {
    let letter = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    header.iter().map(letter).eq(variable.bytes())
}

/// Asks the service, again where a connection turns out to be dead or an endpoint refuses it.
async fn ask(
    exchange: &Exchange<'_>,
    auth: &ExternalAuth,
    script: Option<&ScriptState<'_>>,
    asked: &mut Option<SocketAddr>,
) -> Result<Verdict, Fault> {
    let worker = exchange.worker;
    let cluster = worker.cluster(exchange.config, auth.cluster);
    let timeouts = timeouts(exchange);
    let mut head = Buffer::small(&worker.buffers);
    write_head(exchange, &auth.check, script, &mut head);
    let request = Request {
        bytes: head.data(),
        head_len: head.len(),
        params: None,
        has_body: false,
        is_whole: true,
        framing: Framing::Raw,
        takes_trailers: false,
        timeouts: &timeouts,
    };
    let deadline = exchange.deadline.another();
    deadline.cap_sooner(worker.clock.now().after(timeouts.connect + timeouts.read));
    let mut last = Fault::unsent(Reason::NoEndpoints);
    for tried in 0..AUTH_TRIES_MAX {
        let Some((member, _place)) = exchange.pick_beside(cluster, |_| true) else { break };
        let endpoint = &member.endpoint;
        *asked = Some(endpoint.address);
        let read = |head: &[u8], response: &Response| verdict(&auth.check, head, response);
        match subrequest::ask(worker, endpoint, (tried > 0, true), (&request, None), &deadline, read).await {
            Err(fault) if fault.retry != Retry::Never && is_worth_another(fault.reason) => last = fault,
            answered => return answered,
        }
    }
    Err(last)
}

/// Whether another endpoint may do better, and does not have to be waited for as long.
fn is_worth_another(reason: Reason) -> bool {
    matches!(reason, Reason::UpstreamReset | Reason::ConnectRefused | Reason::ConnectFailed)
}

fn timeouts(exchange: &Exchange<'_>) -> Timeouts {
    match exchange.route.get().map(|route| &route.action) {
        Some(Action::Forward(forward)) => forward.timeouts,
        _ => Timeouts::default(),
    }
}

/// The head of the question.
fn write_head(
    exchange: &Exchange<'_>,
    check: &ExternalCheck,
    state: Option<&ScriptState<'_>>,
    out: &mut Buffer,
) {
    let (head, request, forwarded) = (exchange.head, exchange.request, &exchange.forwarded);
    let target = &head[request.target.clone()];
    let mut edits = HeadEdits::default();
    let url = [forwarded.own_scheme, b"://", exchange.host(), request.origin_target(head)].concat();
    edits.set("X-Original-URL", url);
    edits.set("X-Original-Method", &head[request.method.clone()]);
    edits.set("X-Sent-From", &b"nginx-ingress-controller"[..]);
    edits.set("X-Real-IP", forwarded.client.to_string().into_bytes());
    edits.set("X-Forwarded-For", forwarded.forwarded_for());
    let redirect = check.redirect.as_ref().map(|template| visible(&values::expand(exchange, template)));
    edits.set("X-Auth-Request-Redirect", redirect.unwrap_or_else(|| target.to_vec()));
    if let Some(id) = exchange.id.as_bytes() {
        edits.set("X-Request-ID", id);
    }
    edits.remove("X-Forwarded-Proto");
    if let Some(trace) = exchange.trace.get() {
        trace.tell(&mut edits);
    }
    if check.method.is_some() {
        edits.set("X-Original-URI", target);
        edits.set("X-Scheme", forwarded.scheme);
    }
    let access = exchange.route.get().and_then(|route| route.access.as_deref());
    if let Some(demand) = access.and_then(|access| access.client_certificate.as_ref()) {
        client_certificate::tell(demand, exchange.conn.tls.as_deref(), &mut edits);
    }
    script::edit_input(exchange, &mut edits);
    for (name, template) in &check.request_headers {
        match without_controls(values::expand(exchange, template)) {
            value if value.is_empty() => edits.remove(name),
            value => edits.set(name, value),
        }
    }
    if let Some(state) = state {
        script::edit_question(exchange, state, &mut edits);
    }
    let method = check.script.as_ref().and_then(|script| script.method.as_ref()).zip(state);
    let method = method.map(|(method, state)| values::expand_with(exchange, state, method));
    let method = method.filter(|method| METHODS.contains(&method.as_slice()));
    let subrequest = Subrequest {
        method: method.as_deref().unwrap_or_else(|| check.method.as_deref().unwrap_or("GET").as_bytes()),
        target: &visible(&values::expand(exchange, &check.target)),
        host: &visible(&values::expand(exchange, &check.host)),
        names: exchange.config.settings().client.header_names,
    };
    write_subrequest_head(head, request, &subrequest, &edits, out);
}

/// Methods that a script may ask with: those of `auth-method`.
const METHODS: &[&[u8]] =
    &[b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE"];

/// A text as the value of a header.
fn without_controls(mut text: Vec<u8>) -> Vec<u8> {
    text.retain(|byte| !byte.is_ascii_control());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_ends_its_line() {
        assert_eq!(without_controls(b"a\r\nX: y\x00".to_vec()), b"aX: y");
    }
}
