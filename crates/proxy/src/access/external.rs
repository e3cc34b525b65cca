//! Asks an auth service whether a request is let in (ingress-nginx: `auth-url`).
//!
//! Whatever the service does costs a client no more than its time: the wait is bounded as a whole, its body is not kept, and all that is
//! no answer lets nobody in.

use std::net::SocketAddr;
use std::sync::Arc;

use model::{Action, ExternalAuth, ExternalCheck, Timeouts};
use observe::Reason;
use observe::access::Try;
use wire::h1::Response;

use super::client_certificate;
use crate::body::Framing;
use crate::buffer::Buffer;
use crate::clients::{Admitted, Key, Verdict};
use crate::clock::Moment;
use crate::exchange::Exchange;
use crate::fault::{Fault, Retry};
use crate::filters::FilterResult;
use crate::head::{HeadEdits, Subrequest, write_subrequest_head};
use crate::limits::AUTH_TRIES_MAX;
use crate::record::record_auth;
use crate::reply::{Answer, Scope, status as status_of};
use crate::script;
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
    if let Some(status) = watch.assumed() {
        return conclude(exchange, check, &Verdict::bare(status), admitted);
    }
    let kept = check.cache.as_ref().map(|cache| (cache, key(exchange, check)));
    let known = kept.as_ref().and_then(|(_, key)| worker.clients.answers.get(key, worker.clock.now()));
    let verdict = if let Some(verdict) = known {
        verdict
    } else {
        let (begin, mut asked) = (worker.clock.now(), None);
        let answered = ask(exchange, auth, &mut asked).await;
        log(exchange, auth, asked, answered.as_ref().ok(), begin);
        match answered {
            Ok(verdict) => Arc::new(verdict),
            Err(_) => return FilterResult::Refuse(Reason::AuthFailed),
        }
    };
    if let Some((cache, key)) = kept
        && let Some(time) = cache.duration(verdict.status).filter(|_| verdict.is_kept)
        && worker.clients.answers.get(&key, worker.clock.now()).is_none()
    {
        let now = worker.clock.now();
        worker.clients.answers.put(&key, now.after(time), &verdict, now);
    }
    conclude(exchange, check, &verdict, admitted)
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
fn key(exchange: &Exchange<'_>, check: &ExternalCheck) -> Key {
    let route = exchange.route.get();
    let host = route.map_or("", |route| route.labels.host.as_str());
    let path = route.map(|route| format!("{:?}", route.path)).unwrap_or_default();
    let text = check.cache.as_ref().map(|cache| values::expand(exchange, &cache.key)).unwrap_or_default();
    Key::of(&[host.as_bytes(), path.as_bytes(), &text, format!("{check:?}").as_bytes()])
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
        challenges: values("WWW-Authenticate"),
        is_kept: cookies.is_empty() && !depends_on_more && !values("Cache-Control").iter().any(is_private),
        cookies,
    }
}

/// Asks the service, again where a connection turns out to be dead or an endpoint refuses it.
async fn ask(
    exchange: &Exchange<'_>,
    auth: &ExternalAuth,
    asked: &mut Option<SocketAddr>,
) -> Result<Verdict, Fault> {
    let worker = exchange.worker;
    let cluster = worker.cluster(exchange.config, auth.cluster);
    let timeouts = timeouts(exchange);
    let mut head = Buffer::small(&worker.buffers);
    write_head(exchange, &auth.check, &mut head);
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
    deadline.cap(worker.clock.now().after(timeouts.connect + timeouts.read));
    let mut last = Fault::unsent(Reason::NoEndpoints);
    for tried in 0..AUTH_TRIES_MAX {
        let Some(endpoint) = cluster.pick(|_| false, &worker.random, worker.clock.now()) else { break };
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
fn write_head(exchange: &Exchange<'_>, check: &ExternalCheck, out: &mut Buffer) {
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
    let subrequest = Subrequest {
        method: check.method.as_deref().unwrap_or("GET").as_bytes(),
        target: &visible(&values::expand(exchange, &check.target)),
        host: &visible(&values::expand(exchange, &check.host)),
        names: exchange.config.settings().client.header_names,
    };
    write_subrequest_head(head, request, &subrequest, &edits, out);
}

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
