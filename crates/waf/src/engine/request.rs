//! The request: its head as variables, and its body through a parser.
//!
//! Never in here: rules.

use std::borrow::Cow;

use super::Transaction;
use super::store::Bag;
use crate::body::{Parser, Processor, Settings as BodySettings, pairs};
use crate::limits::KEPT_BODY_BYTES_MAX;
use crate::report::Verdict;
use crate::settings::{LimitAction, Mode};
use crate::transform::{Transformation, apply};
use crate::variables::Variable;

/// The method, the target and the protocol of a request, as its first line has them.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    /// The method, such as `GET`.
    pub method: &'a [u8],
    /// The target as it was sent.
    pub target: &'a [u8],
    /// The protocol, such as `HTTP/1.1`.
    pub protocol: &'a str,
}

impl Transaction {
    /// Leaves out what exclusions say for a path: the normalised one, by which the route was found. It comes
    /// before the head.
    pub fn exclude_on(&mut self, path: &[u8]) {
        for exclusion in self.rules.exclusions().iter().filter(|exclusion| exclusion.holds_on(path)) {
            self.removed_rules.extend(exclusion.rules.iter().cloned());
            self.removed_targets.extend(exclusion.targets.iter().cloned());
        }
    }

    /// Takes the head of the request, and runs phase 1.
    pub fn request_head<'h>(
        &mut self,
        line: RequestLine,
        headers: impl IntoIterator<Item = (&'h [u8], &'h [u8])>,
    ) -> Verdict {
        if self.mode == Mode::Off {
            return Verdict::Pass;
        }
        self.read_line(line);
        for (name, value) in headers {
            self.read_header(name, value);
        }
        self.run(1);
        self.verdict.clone()
    }

    fn read_line(&mut self, line: RequestLine) {
        let store = &mut self.store;
        store.set(Variable::RequestMethod, line.method);
        store.set(Variable::RequestProtocol, line.protocol.as_bytes());
        store.set(Variable::RequestUriRaw, line.target);
        let whole = [line.method, b" ", line.target, b" ", line.protocol.as_bytes()].concat();
        store.set(Variable::RequestLine, &whole);
        let uri = without_origin(line.target).split(|&byte| byte == b'#').next().unwrap_or_default();
        let decoded_uri = decoded(uri);
        if let (Some(raw), true) = (store.single(Variable::RequestUriRaw), *decoded_uri == *line.target) {
            store.set_text(Variable::RequestUri, raw);
        } else {
            store.set(Variable::RequestUri, &decoded_uri);
        }
        let (path, query) = match uri.iter().position(|&byte| byte == b'?') {
            Some(at) => (&uri[..at], Some(&uri[at + 1..])),
            None => (uri, None),
        };
        let decoded = decoded(path);
        store.set(Variable::RequestFilename, &decoded);
        store.set(Variable::PathInfo, &decoded);
        let base = decoded.rsplit(|&byte| byte == b'/' || byte == b'\\').next().unwrap_or_default();
        store.set(Variable::RequestBasename, base);
        store.set(Variable::QueryString, query.unwrap_or_default());
        let Some(query) = query else { return };
        store.invalid_encoding |= crate::operators::has_invalid_url_encoding(query);
        let settings = self.rules.settings();
        for pair in pairs(query, settings.argument_separator).take(settings.arguments_max) {
            store.add(Bag::ArgsGet, &pair.name, &pair.value);
        }
    }

    fn read_header(&mut self, name: &[u8], value: &[u8]) {
        self.store.add(Bag::RequestHeaders, name, value);
        if name.eq_ignore_ascii_case(b"cookie") {
            self.read_cookies(value);
        } else if name.eq_ignore_ascii_case(b"content-type") {
            self.store.processor = processor_of(value).or(self.store.processor);
        } else if name.eq_ignore_ascii_case(b"host") {
            self.store.set(Variable::ServerName, without_port(value));
        } else if name.eq_ignore_ascii_case(b"authorization") {
            self.read_authorization(value);
        }
    }

    fn read_cookies(&mut self, header: &[u8]) {
        let version_1 = self.rules.settings().cookies_version_1;
        for cookie in header.split(|&byte| byte == b';' || (version_1 && byte == b',')) {
            let cookie = cookie.trim_ascii_start();
            let (name, value) = match cookie.iter().position(|&byte| byte == b'=') {
                Some(at) => (&cookie[..at], &cookie[at + 1..]),
                None => (cookie, &b""[..]),
            };
            if !name.is_empty() || !value.is_empty() {
                self.store.add(Bag::RequestCookies, name, value);
            }
        }
    }

    fn read_authorization(&mut self, value: &[u8]) {
        let (scheme, rest) = match value.iter().position(|&byte| byte == b' ') {
            Some(at) => (&value[..at], value[at + 1..].trim_ascii()),
            None => (value, &b""[..]),
        };
        self.store.set(Variable::AuthType, scheme);
        if scheme.eq_ignore_ascii_case(b"basic") {
            let decoded = apply(Transformation::Base64Decode, Cow::Borrowed(rest), None);
            let user = decoded.split(|&byte| byte == b':').next().unwrap_or_default();
            self.store.set(Variable::RemoteUser, user);
        }
    }

    /// The bytes of the request's body that rules look at; `None` if they look at none.
    pub fn request_body_limit(&self) -> Option<usize> {
        let wanted = self.mode != Mode::Off && self.reads_request_body && self.verdict.passes();
        wanted.then_some(self.request_body_bytes_max)
    }

    /// Takes a piece of the request's body.
    pub fn request_body(&mut self, piece: &[u8]) -> Verdict {
        let Some(limit) = self.request_body_limit() else { return self.verdict.clone() };
        let room = limit.saturating_sub(self.store.request_body_bytes);
        let part = &piece[..piece.len().min(room)];
        if part.len() < piece.len() {
            self.store.request_too_long = true;
            self.store.changed = true;
            let reject = self.rules.settings().request_body_limit_action == LimitAction::Reject;
            if reject && self.mode == Mode::On {
                self.verdict = Verdict::Deny { status: 413, rule: 0 };
                return self.verdict.clone();
            }
        }
        self.store.changed = true;
        self.store.request_body_bytes += part.len();
        self.feed(part);
        Verdict::Pass
    }

    fn feed(&mut self, part: &[u8]) {
        let processor = self.store.processor.unwrap_or(Processor::Raw);
        let mut parser = self.parser.take().unwrap_or_else(|| self.new_parser(processor));
        parser.feed(part, &mut self.store);
        self.parser = Some(parser);
        if self.request_body.len() + part.len() <= KEPT_BODY_BYTES_MAX {
            self.request_body.extend_from_slice(part);
        }
    }

    fn new_parser(&self, processor: Processor) -> Parser {
        let settings = self.rules.settings();
        let content_type = self.store.find(Bag::RequestHeaders, b"content-type");
        let settings = BodySettings {
            arguments_max: settings.arguments_max.saturating_sub(self.store.bag(Bag::ArgsGet).len()),
            json_depth_max: settings.json_depth_max,
            no_files_bytes_max: settings.request_body_no_files_bytes_max,
            files_max: settings.files_max,
            separator: settings.argument_separator,
            xml_nodes: self.rules.reads_xml_nodes(),
        };
        Parser::new(processor, &settings, content_type.map_or(&[], |id| self.store.texts.get(id)))
    }

    /// Ends the request's body, and runs phase 2.
    pub fn request_end(&mut self) -> Verdict {
        if self.mode == Mode::Off || !self.verdict.passes() {
            return self.verdict.clone();
        }
        if let Some(parser) = self.parser.take() {
            parser.end(&mut self.store);
            self.store.changed = true;
            let body = std::mem::take(&mut self.request_body);
            self.keep_request_body(&body);
        }
        self.run(2);
        self.verdict.clone()
    }

    fn keep_request_body(&mut self, body: &[u8]) {
        if body.is_empty() {
            return;
        }
        let form = self.store.processor == Some(Processor::UrlEncoded);
        if form {
            self.store.invalid_encoding |= crate::operators::has_invalid_url_encoding(body);
        }
        let text = self.store.texts.add(body);
        self.store.set_text(Variable::StreamInputBody, text);
        // ModSecurity 3 fills it for XML, too; the core rules' tests want no match there.
        if self.store.force_request_body || self.store.processor != Some(Processor::Xml) {
            self.store.texts.see(body.len());
            self.store.set_text(Variable::RequestBody, text);
        }
    }
}

/// The path and query of a target in absolute form; any other target as it is.
fn without_origin(target: &[u8]) -> &[u8] {
    let scheme = target.iter().position(|&byte| byte == b':').filter(|&at| target[at..].starts_with(b"://"));
    let Some(at) = scheme.filter(|&at| target[..at].iter().all(u8::is_ascii_alphanumeric)) else {
        return target;
    };
    let rest = &target[at + 3..];
    rest.iter().position(|&byte| byte == b'/').map_or(b"/", |slash| &rest[slash..])
}

/// A target with its percent-encoding decoded; a plus is a plus.
fn decoded(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.contains(&b'%') {
        return Cow::Borrowed(path);
    }
    let digit = |index: usize| path.get(index).and_then(|&byte| char::from(byte).to_digit(16));
    let mut decoded = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        if let (b'%', Some(high), Some(low)) = (byte, digit(at + 1), digit(at + 2)) {
            decoded.push((high * 16 + low) as u8);
            at += 3;
        } else {
            decoded.push(byte);
            at += 1;
        }
    }
    Cow::Owned(decoded)
}

fn without_port(host: &[u8]) -> &[u8] {
    let end = match host.first() {
        Some(b'[') => host.iter().position(|&byte| byte == b']').map(|at| at + 1),
        _ => host.iter().position(|&byte| byte == b':'),
    };
    &host[..end.unwrap_or(host.len())]
}

/// The parser that a content type has without rules.
fn processor_of(content_type: &[u8]) -> Option<Processor> {
    let kind = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    if kind.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
        return Some(Processor::UrlEncoded);
    }
    let prefix = content_type.trim_ascii_start().get(..b"multipart/form-data".len());
    prefix
        .is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"multipart/form-data"))
        .then_some(Processor::Multipart)
}
