//! The values of a request that is served, each of which is computed when a text asks for it.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use ::geo::Field;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use identity::claims::header_value;
use model::template::{Template, Variable};
use model::{Captures, Labels, ValueMap};
use observe::Reason;
use observe::access::{Connection, TimeForm, Try, Values};
use wire::h1::Request as ParsedRequest;

use super::combination::Combination;
use super::{Scope, computed, connection, write_time};
use crate::request::client::Client;
use crate::request::{Request, geo, lookup};
use crate::route::script_state::ScriptState;

/// The source of a request's values: the request, its script, and values that stand in for its own.
#[derive(Clone, Copy)]
pub(crate) struct RequestValues<'s> {
    pub(crate) scope: Scope<'s>,
    /// The script whose path, query and variables count; none for the request as it was sent.
    pub(crate) script: Option<&'s ScriptState<'s>>,
    pub(crate) status: u16,
    /// Time since the request began; none for the time until now.
    pub(crate) took: Option<Duration>,
    pub(crate) tries: &'s [Try],
    /// Lines of `name: value`.
    pub(crate) response_head: &'s [u8],
    /// The upstream, if it is not the request's own.
    pub(crate) upstream: Option<&'s str>,
    /// The target of a `FastCGI` request, in place of the client's.
    pub(crate) script_target: Option<ScriptTarget<'s>>,
    /// The headers, cookies and parameters of a key, in place of all that the client sent.
    pub(crate) combination: Option<Combination<'s>>,
}

/// The target of a `FastCGI` request.
#[derive(Clone, Copy)]
pub(crate) struct ScriptTarget<'s> {
    /// The path after normalisation.
    pub(crate) path: &'s [u8],
    pub(crate) query: Option<&'s [u8]>,
    /// The name of the script where the path ends in a slash.
    pub(crate) index: &'s str,
}

impl Values for RequestValues<'_> {
    fn remote_addr(&self) -> IpAddr {
        self.request().forwarded.client
    }

    fn connection(&self) -> Connection<'_> {
        connection(self.request().conn)
    }

    fn unix_time(&self) -> Duration {
        self.request().worker.clock.unix()
    }

    fn write_time(&self, form: TimeForm, out: &mut Vec<u8>) {
        write_time(self.request().worker, form, out);
    }

    fn hostname(&self) -> &str {
        &self.request().worker.log.hostname
    }

    fn pid(&self) -> u32 {
        self.request().worker.log.pid
    }

    /// The client that has shown its key or a token, or the user of Basic credentials, whether or not anybody
    /// asked for them.
    fn remote_user(&self) -> Option<Cow<'_, [u8]>> {
        if let Some(decision) = self.scope.decision {
            let of_key = decision.client.as_deref().map(|client| &*client.name);
            if let Some(name) = of_key.or(decision.user.as_deref()) {
                return Some(Cow::Borrowed(name.as_bytes()));
            }
        }
        basic_user(self.request().head, self.request().parsed).map(Cow::Owned)
    }

    fn request_line(&self) -> Option<Cow<'_, [u8]>> {
        let Request { client, head, parsed, .. } = self.request();
        Some(match client {
            Client::Http1(_) => request_line(head, parsed).into(),
            Client::Stream(_) => line_of_stream(head, parsed, client.protocol(parsed.version)).into(),
        })
    }

    fn method(&self) -> Option<&[u8]> {
        Some(self.request().method())
    }

    fn target(&self) -> Option<&[u8]> {
        Some(self.sent_target())
    }

    fn path(&self) -> Option<&[u8]> {
        let of_script = || self.script.and_then(ScriptState::path);
        let of_request = self.script_target.map(|target| target.path);
        Some(of_request.or_else(of_script).unwrap_or(&self.request().path))
    }

    fn query(&self) -> Option<&[u8]> {
        if let Some(target) = self.script_target {
            return target.query;
        }
        if let Some(query) = self.script.and_then(ScriptState::query) {
            return Some(query);
        }
        let target = self.sent_target();
        let mark = memchr::memchr(b'?', target).filter(|_| !self.is_of_question())?;
        Some(&target[mark + 1..])
    }

    fn protocol(&self) -> Option<&str> {
        Some(self.request().client.protocol(self.request().parsed.version))
    }

    fn host(&self) -> Option<Cow<'_, [u8]>> {
        Some(lower_case_host(self.request().host()))
    }

    fn forwarded_host(&self) -> Option<&[u8]> {
        Some(self.request().forwarded.host)
    }

    fn forwarded_scheme(&self) -> Option<&[u8]> {
        Some(self.request().forwarded.scheme)
    }

    fn status(&self) -> u16 {
        self.status
    }

    fn body_bytes_sent(&self) -> u64 {
        self.request().report.sent_body.get()
    }

    fn bytes_sent(&self) -> u64 {
        self.request().report.sent_bytes()
    }

    fn request_length(&self) -> u64 {
        self.request().report.request_bytes()
    }

    fn request_time(&self) -> Duration {
        let Request { worker, report, .. } = self.request();
        self.took.unwrap_or_else(|| worker.clock.now().since(report.begin))
    }

    fn upstream_name(&self) -> Option<&str> {
        self.upstream.or_else(|| self.scope.upstream_name())
    }

    fn alternative_upstream_name(&self) -> Option<&str> {
        self.scope.canary.map(|canary| &*canary.name)
    }

    fn cache_status(&self) -> Option<&str> {
        self.scope.cache.map(|report| report.name())
    }

    fn reason(&self) -> Option<Reason> {
        self.request().report.reason.get()
    }

    fn tries(&self) -> &[Try] {
        self.tries
    }

    fn request_id(&self) -> Option<&[u8]> {
        self.request().id.as_bytes()
    }

    fn traceparent(&self) -> Option<&[u8; 55]> {
        self.scope.routed.trace.as_ref().map(|trace| &trace.traceparent)
    }

    fn labels(&self) -> Option<&Labels> {
        self.scope.routed.route.map(|route| &*route.labels)
    }

    fn index(&self) -> Option<&str> {
        self.script_target.map(|target| target.index)
    }

    fn request_header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        if let Some(combination) = &self.combination {
            return combination.header(name).map(Cow::Borrowed);
        }
        let Request { head, parsed, config, .. } = self.request();
        lookup::header_variable(head, parsed, name.as_bytes(), config.settings().client.header_names)
    }

    fn response_header(&self, name: &str) -> Option<&[u8]> {
        self.response_head.split(|&b| b == b'\n').find_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| line[colon + 1..].trim_ascii())
        })
    }

    fn cookie(&self, name: &str) -> Option<&[u8]> {
        match &self.combination {
            Some(combination) => combination.cookie(name),
            None => lookup::cookie_variable(self.request().head, self.request().parsed, name.as_bytes()),
        }
    }

    fn claim(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let decision = self.scope.decision?;
        let label = decision.client.as_ref().and_then(|client| client.labels.get(name));
        if let Some(label) = label {
            return Some(Cow::Borrowed(label.as_bytes()));
        }
        let of_token = decision.token.as_ref().and_then(|token| token.claims.get(name));
        let of_session = || decision.session.as_ref().and_then(|session| session.claims.get(name));
        of_token.or_else(of_session).and_then(header_value).map(|text| text.into_bytes().into())
    }

    fn geo(&self, field: Field) -> Option<Cow<'_, [u8]>> {
        geo::value(self.request(), field).map(|value| Cow::Owned(value.into_vec()))
    }

    fn argument(&self, name: &str) -> Option<&[u8]> {
        match &self.combination {
            Some(combination) => combination.argument(name),
            None if self.is_of_question() => None,
            None => lookup::parameter_variable(self.request().head, self.request().parsed, name.as_bytes()),
        }
    }

    fn capture(&self, group: u8) -> Option<&[u8]> {
        let routed = self.scope.routed;
        let path = self.script.and_then(|script| script.path()).unwrap_or_else(|| routed.client_path());
        if let Some(script) = self.script.filter(|script| script.has_captures())
            && !self.scope.is_target_rewritten
        {
            return script.capture(group);
        }
        if self.script.is_some() && routed.script.is_none() {
            // A script is being run, and the path may be rewritten behind it.
            return Some(&path[routed.find_captures(path).get(group)?]);
        }
        Some(&path[routed.captures(path).get(group)?])
    }

    fn set(&self, name: &str) -> Option<&[u8]> {
        let of_auth = || self.scope.decision?.variable(name);
        self.script.and_then(|script| script.variable(name)).or_else(of_auth)
    }

    fn computed(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        computed::value(self.scope, variable)
    }

    fn in_map<'m>(&self, map: &'m ValueMap, text: &[u8]) -> Option<(&'m Template, Option<Captures>)> {
        let steps = &self.request().steps;
        map.find(text, steps).inspect_err(|_| steps.note_undecided()).ok()
    }
}

impl<'s> RequestValues<'s> {
    fn request(&self) -> &'s Request<'s> {
        self.scope.routed.request
    }

    /// The target in the form that the client sent, be it a path, a URL, an authority or an asterisk.
    fn sent_target(&self) -> &'s [u8] {
        let Request { head, parsed, .. } = self.request();
        &head[parsed.target.clone()]
    }

    /// Whether a program of the question to an auth service asks, which is about a path of its own without a
    /// query.
    fn is_of_question(&self) -> bool {
        self.script.is_some_and(|script| script.is_of_question)
    }
}

/// The user of Basic authentication (RFC 7617 section 2).
fn basic_user(head: &[u8], parsed: &ParsedRequest) -> Option<Vec<u8>> {
    let field = parsed.fields.find_name(head, b"authorization")?;
    let (scheme, credentials) = field.value(head).split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut user = STANDARD.decode(credentials.trim_ascii()).ok()?;
    user.truncate(memchr::memchr(b':', &user)?);
    Some(user)
}

fn request_line<'a>(head: &'a [u8], parsed: &ParsedRequest) -> &'a [u8] {
    let line = &head[parsed.start..];
    let end = memchr::memchr(b'\r', line).unwrap_or(line.len());
    &line[..end]
}

/// HTTP/2 and HTTP/3 have no such line; nginx logs this one.
fn line_of_stream(head: &[u8], parsed: &ParsedRequest, protocol: &str) -> Vec<u8> {
    [&head[parsed.method.clone()], b" ", &head[parsed.target.clone()], b" ", protocol.as_bytes()].concat()
}

fn lower_case_host(host: &[u8]) -> Cow<'_, [u8]> {
    let (name, _) = wire::host::split_port(host);
    if name.iter().any(u8::is_ascii_uppercase) { name.to_ascii_lowercase().into() } else { name.into() }
}
