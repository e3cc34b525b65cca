//! External authentication: an auth service decides whether a request is admitted (ingress-nginx:
//! `auth-url`).
//!
//! A failing service costs a client only time: the wait is bounded as a whole, the response body is
//! discarded, and a request without a valid response is refused.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clients::{AuthAnswer, AuthKey, Fetch, Lookup, identity};
use clock::Moment;
use model::{ClusterId, ExternalAuth, ExternalAuthCache, ExternalCheck, Timeouts};
use observe::Reason;
use observe::access::{Try, write_line};
use wire::h1::Response;

use super::key::is_ambiguous;
use crate::admit::Targeted;
use crate::admit::script_heads;
use crate::io::buffer::Buffer;
use crate::limits::AUTH_TRIES_MAX;
use crate::request::decision::Decision;
use crate::request::head::{HeadEdits, Subrequest, write_subrequest_head};
use crate::request::reply::{Answer, Scope, status as status_of};
use crate::request::stage::Watch;
use crate::route::client_certificate;
use crate::route::filters::FilterResult;
use crate::route::script::{self, Ended};
use crate::route::script_state::ScriptState;
use crate::route::values::{self, HasValues, RequestValues};
use crate::upstream::Message;
use crate::upstream::fault::{Fault, Retry};
use crate::upstream::subrequest::{Question, ask, visible};

/// Requests a verdict from the service, and applies it.
pub(super) async fn check(
    targeted: &Targeted<'_>,
    auth: &ExternalAuth,
    decision: &mut Decision,
    watch: impl Watch,
) -> FilterResult {
    let (worker, check) = (targeted.worker, &*auth.check);
    let script = match begin(targeted, check) {
        Ok(script) => script,
        Err(status) => return conclude(targeted, check, &AuthAnswer::bare(status), decision),
    };
    if let Some(status) = watch.assumed() {
        return conclude(targeted, check, &AuthAnswer::bare(status), decision);
    }
    let cache = check.cache.as_ref().filter(|cache| !is_ambiguous(targeted, &cache.key));
    let looked = match cache {
        Some(cache) => look(targeted, check, cache).await,
        None => Lookup::FetchAlone,
    };
    let asking = match looked {
        Lookup::Cached(verdict) => return conclude(targeted, check, &verdict, decision),
        Lookup::Fetch(asking) => Some(asking),
        Lookup::FetchAlone => None,
    };
    let (begin, mut asked) = (worker.clock.now(), None);
    let answered = ask_service(targeted, auth, script.as_deref(), &mut asked).await.map(Arc::new);
    log(targeted, auth.cluster, asked, answered.as_ref().ok().map(|verdict| verdict.status), begin);
    if let Some(asking) = asking {
        keep(asking, check, answered.as_ref().ok(), worker.clock.now());
    }
    match answered {
        Ok(verdict) => conclude(targeted, check, &verdict, decision),
        Err(_) => FilterResult::Refuse(targeted.late_or(Reason::AuthFailed)),
    }
}

/// Looks for a cached answer. A fetch in progress for the same key is awaited no longer than the service
/// itself would be.
async fn look<'e>(targeted: &Targeted<'e>, check: &ExternalCheck, cache: &ExternalAuthCache) -> Lookup<'e> {
    let (worker, timeouts) = (targeted.worker, timeouts(targeted));
    let key = key(targeted, check, cache);
    let mut looked = pin!(worker.clients.answers.look_up(&key, worker.clock.now()));
    let time = timeouts.connect + timeouts.read;
    let looked = targeted.deadline.within(time, |cx| looked.as_mut().poll(cx)).await;
    looked.unwrap_or(Lookup::FetchAlone)
}

/// Caches the answer for requests with the same key, where that is allowed.
fn keep(asking: Fetch<'_>, check: &ExternalCheck, verdict: Option<&Arc<AuthAnswer>>, now: Moment) {
    let kept = verdict.filter(|verdict| verdict.is_cacheable).and_then(|verdict| {
        let time = check.cache.as_ref()?.duration(verdict.status)?;
        Some((verdict, now.after(time)))
    });
    match kept {
        Some((verdict, until)) => asking.store(verdict, until, now),
        None => asking.store_none(now),
    }
}

/// Runs the script of the auth request, if it has one. A response of the script replaces the service's.
fn begin<'s>(
    targeted: &'s Targeted<'_>,
    check: &'s ExternalCheck,
) -> Result<Option<Box<ScriptState<'s>>>, u16> {
    let Some(script) = &check.script else { return Ok(None) };
    let outer = targeted.script.as_deref();
    let mut state = Box::new(ScriptState::of_question(outer, &script.block.headers));
    match script::run(targeted.scope(), &mut state, &script.block.steps) {
        Ok(_) => Ok(Some(state)),
        Err(Ended::Answer(answer)) => Err(answer.status),
        Err(Ended::Refuse(reason)) => Err(status_of(reason)),
    }
}

/// Logs the auth request, where that is configured.
pub(super) fn log(
    targeted: &Targeted<'_>,
    cluster: ClusterId,
    asked: Option<SocketAddr>,
    status: Option<u16>,
    begin: Moment,
) {
    let settings = &targeted.config.settings().access_log;
    let is_wanted = targeted.route.is_none_or(|route| route.access_log);
    if !settings.enabled || !settings.auth || !is_wanted {
        return;
    }
    let took = targeted.worker.clock.now().since(begin);
    let time = status.map(|_| took);
    let one = asked.map(|address| Try {
        address,
        status,
        response_bytes: 0,
        connect_time: None,
        header_time: time,
        response_time: Some(took),
    });
    let name = &targeted.config.snapshot.cluster(cluster).name;
    let status = status.unwrap_or_else(|| status_of(Reason::AuthFailed));
    record_auth(targeted, status, name, one.as_slice(), took);
}

/// Writes an access-log line for an auth request; fields that it does not have are those of the client's
/// request.
fn record_auth(targeted: &Targeted<'_>, status: u16, upstream: &str, tries: &[Try], took: Duration) {
    let format = &targeted.config.settings().access_log.format;
    values::with_log(targeted, took, |values, sink| {
        let values = RequestValues { status, upstream: Some(upstream), tries, ..*values };
        sink.line(|out| write_line(format, &values, out));
    });
}

/// The cache key: "Keyed by host, the rule's path and type, and auth-cache-key", and by the auth request's
/// configuration, so that a changed one asks anew.
fn key(targeted: &Targeted<'_>, check: &ExternalCheck, cache: &ExternalAuthCache) -> AuthKey {
    let route = targeted.route;
    let host = route.map_or("", |route| route.labels.host());
    let path = route.map(|route| identity(&(route.path.kind(), route.path.path()))).unwrap_or_default();
    let text = values::expand(targeted, &cache.key);
    AuthKey::of(&[host.as_bytes(), &path, &text, &identity(check)])
}

fn conclude(
    targeted: &Targeted<'_>,
    check: &ExternalCheck,
    verdict: &AuthAnswer,
    decision: &mut Decision,
) -> FilterResult {
    decision.cookies.clone_from(&verdict.cookies);
    decision.always_sets_cookies = check.always_set_cookie;
    match (verdict.status, &check.signin) {
        (200..300, _) => {
            for (name, value) in &verdict.fields {
                decision.tell(name, Some(value.clone()));
            }
            decision.variables.clone_from(&verdict.variables);
            FilterResult::Continue
        }
        (401, Some(signin)) => {
            let location = visible(&values::expand(targeted, signin));
            let answer = Answer::redirect(302, String::from_utf8_lossy(&location).into_owned());
            FilterResult::Answer(answer.of(Scope::Signin))
        }
        (status @ (401 | 403), _) => FilterResult::Answer(Answer::refusal(status, &verdict.challenges)),
        _ => FilterResult::Refuse(Reason::AuthFailed),
    }
}

fn verdict(check: &ExternalCheck, head: &[u8], response: &Response) -> AuthAnswer {
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
    AuthAnswer {
        status: response.status,
        fields: fields.filter(|(_, value)| !value.is_empty()).collect(),
        variables: check.variables.iter().map(variable).filter(|(_, value)| !value.is_empty()).collect(),
        challenges: values("WWW-Authenticate"),
        is_cacheable: cookies.is_empty()
            && !depends_on_more
            && !values("Cache-Control").iter().any(is_private),
        cookies,
    }
}

/// Whether a header has this name in nginx's variables: in lower case, with underscores.
fn is_header_of_variable(header: &[u8], variable: &str) -> bool {
    let letter = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    header.iter().map(letter).eq(variable.bytes())
}

/// Sends the auth request, and again where a connection turns out to be dead or an endpoint refuses it.
async fn ask_service(
    targeted: &Targeted<'_>,
    auth: &ExternalAuth,
    script: Option<&ScriptState<'_>>,
    asked: &mut Option<SocketAddr>,
) -> Result<AuthAnswer, Fault> {
    let worker = targeted.worker;
    let cluster = worker.cluster(targeted.config, auth.cluster);
    let timeouts = timeouts(targeted);
    let mut head = Buffer::small(&worker.buffers);
    write_head(targeted, &auth.check, script, &mut head);
    let message = &Message::bodiless(head.data(), &timeouts);
    let deadline = targeted.deadline.another();
    deadline.cap_sooner(worker.clock.now().after(timeouts.connect + timeouts.read));
    let mut last = Fault::unsent(Reason::NoEndpoints);
    for _ in 0..AUTH_TRIES_MAX {
        let Some((member, _place)) = targeted.pick_beside(cluster, |_| true) else { break };
        let endpoint = &member.endpoint;
        *asked = Some(endpoint.address);
        let read = |head: &[u8], response: &Response| verdict(&auth.check, head, response);
        let question = Question { message, rest: None, can_be_repeated: true };
        match ask(worker, endpoint, question, &deadline, read).await {
            Err(fault) if fault.retry != Retry::Never && is_worth_another(fault.reason) => last = fault,
            answered => return answered,
        }
    }
    Err(last)
}

/// Whether another try at another endpoint is worth its time.
pub(super) fn is_worth_another(reason: Reason) -> bool {
    matches!(reason, Reason::UpstreamReset | Reason::ConnectRefused | Reason::ConnectFailed)
}

fn timeouts(targeted: &Targeted<'_>) -> Timeouts {
    targeted.own_forward().map(|forward| *forward.timeouts).unwrap_or_default()
}

/// Writes the head of the auth request.
fn write_head(
    targeted: &Targeted<'_>,
    check: &ExternalCheck,
    state: Option<&ScriptState<'_>>,
    out: &mut Buffer,
) {
    let (head, parsed, forwarded) = (targeted.head, targeted.parsed, &targeted.forwarded);
    let target = &head[parsed.target.clone()];
    let mut edits = HeadEdits::default();
    let url = [forwarded.own_scheme, b"://", targeted.host(), targeted.sent_target()].concat();
    edits.set("X-Original-URL", url);
    edits.set("X-Original-Method", targeted.method());
    edits.set("X-Sent-From", &b"nginx-ingress-controller"[..]);
    edits.set("X-Real-IP", forwarded.client.to_string().into_bytes());
    edits.set("X-Forwarded-For", forwarded.forwarded_for());
    let redirect = check.redirect.as_ref().map(|template| visible(&values::expand(targeted, template)));
    edits.set("X-Auth-Request-Redirect", redirect.unwrap_or_else(|| target.to_vec()));
    if let Some(id) = targeted.id.as_bytes() {
        edits.set("X-Request-ID", id);
    }
    edits.remove("X-Forwarded-Proto");
    if let Some(trace) = &targeted.trace {
        trace.tell(&mut edits);
    }
    if check.method.is_some() {
        edits.set("X-Original-URI", target);
        edits.set("X-Scheme", forwarded.scheme);
    }
    let access = targeted.route.and_then(|route| route.access.as_deref());
    if let Some(demand) = access.and_then(|access| access.client_certificate.as_ref()) {
        client_certificate::tell(demand, targeted.conn.tls.as_deref(), &mut edits);
    }
    script_heads::edit_input(targeted, &mut edits);
    // A client can set no header with a claim for the service either.
    for (name, _) in access.and_then(|access| access.jwt.as_ref()).iter().flat_map(|jwt| &jwt.headers) {
        edits.remove(name);
    }
    for (name, template) in &check.request_headers {
        match without_controls(values::expand(targeted, template)) {
            value if value.is_empty() => edits.remove(name),
            value => edits.set(name, value),
        }
    }
    if let Some(state) = state {
        script_heads::edit_question(targeted, state, &mut edits);
    }
    let method = check.script.as_ref().and_then(|script| script.method.as_ref()).zip(state);
    let method = method.map(|(method, state)| values::expand_with(targeted, state, method));
    let method = method.filter(|method| METHODS.contains(&method.as_slice()));
    let subrequest = Subrequest {
        method: method.as_deref().unwrap_or_else(|| check.method.as_deref().unwrap_or("GET").as_bytes()),
        target: &visible(&values::expand(targeted, &check.target)),
        host: &visible(&values::expand(targeted, &check.host)),
        names: targeted.config.settings().client.header_names,
    };
    write_subrequest_head(head, parsed, &subrequest, &edits, out);
}

/// Methods that a script may use: those of `auth-method`.
const METHODS: &[&[u8]] =
    &[b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE"];

/// A text as a header value, without control characters.
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
