//! External processors, which change requests and responses on their way (`forebay.io/ext-proc-url`).
//!
//! A setting that cannot be read closes its locations: the processor may be what guards them.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use model::{ProcessedBody, ProcessedParts, ProcessorPolicy};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
use crate::translate::claim::{AuthService, DraftRoute, ProcessorDraft};
use crate::translate::value::{self, Parsed, set};

annotations! {
    "ext-proc-allow-mode-override", Location, "false", Supported(|s, v| set(&mut s.ext_proc.allows_mode_override, value::boolean(v))), ClosesLocations,
        "The external processor may choose for each request which parts it gets (`allow_mode_override`).";
    "ext-proc-body-max", Location, "1m", Supported(|s, v| set(&mut s.ext_proc.body_bytes_max, body_max(v))), ClosesLocations,
        "Longest body that is buffered for the external processor. A longer request gets 413, a longer response becomes 500.";
    "ext-proc-fail-open", Location, "false", Supported(|s, v| set(&mut s.ext_proc.fails_open, value::boolean(v))), ClosesLocations,
        "Requests and responses pass unchanged where the external processor does not answer (`failure_mode_allow`). Without, they get 500 or 504.", Medium;
    "ext-proc-max-message-timeout", Location, "0", Supported(|s, v| set(&mut s.ext_proc.time_max, time_max(v))), ClosesLocations,
        "Longest time that the external processor may ask for in place of `forebay.io/ext-proc-message-timeout`; 0 for none.";
    "ext-proc-message-timeout", Location, "200ms", Supported(|s, v| set(&mut s.ext_proc.time, time(v))), ClosesLocations,
        "Time that the external processor has for the answer to a message.";
    "ext-proc-mode", Location, "", Supported(|s, v| set(&mut s.ext_proc.modes, modes(v))), ClosesLocations,
        "Parts that the external processor gets, such as `request-body=streamed, response-headers=skip`: see [its page](ext-proc.md#parts).", Medium;
    "ext-proc-url", Location, "", Supported(|s, v| set(&mut s.ext_proc.service, service(v))), ClosesLocations,
        "External processor (`envoy.service.ext_proc.v3`) through which requests and their responses go: `grpc://name.namespace:port`, or `grpcs://`.", High;
}

/// Name of the annotation with the processor.
const URL: &str = "ext-proc-url";

/// Bytes of a body that may be buffered.
const BODY_BYTES: RangeInclusive<u64> = 1..=64 << 20;

/// The longest time for an answer, as with Envoy.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// The parts of a request and its response that the processor gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::translate) struct Modes {
    request: ProcessedParts,
    response: ProcessedParts,
}

/// The annotations of external processors.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    service: Option<AuthService>,
    modes: Modes,
    time: Duration,
    time_max: Option<Duration>,
    fails_open: bool,
    allows_mode_override: bool,
    body_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            service: None,
            modes: Modes::default(),
            time: Duration::from_millis(200),
            time_max: None,
            fails_open: false,
            allows_mode_override: false,
            body_bytes_max: 1 << 20,
        }
    }
}

impl Resolve for Settings {
    type Resolved = ();

    /// Reports settings without a processor, and a cache that is not used.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        let asker = context.asker;
        if self.service.is_none() && asker.given(URL).is_none() {
            let others = ANNOTATIONS.iter().map(|annotation| annotation.name).filter(|name| *name != URL);
            for name in others {
                let message = format!("{} has no effect without {}", asker.called(name), asker.short(URL));
                findings.problems.extend(context.without_effect(name, message));
            }
        } else if self.service.is_some()
            && asker.value("cache").is_some_and(|text| value::boolean(text) == Ok(true))
        {
            let message = format!(
                "{} has no effect beside {}: the processor may answer each client differently",
                asker.called("cache"),
                asker.short(URL)
            );
            findings.problems.extend(context.without_effect("cache", message));
        }
    }
}

/// Applies the processor to a route.
pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let Some(service) = &settings.service else { return };
    let policy = ProcessorPolicy {
        authority: format!("{}:{}", service.host, service.port),
        request: settings.modes.request,
        response: settings.modes.response,
        message_timeout: settings.time,
        message_timeout_max: settings.time_max,
        fails_open: settings.fails_open,
        allows_mode_override: settings.allows_mode_override,
        body_bytes_max: settings.body_bytes_max,
    };
    route.access.processor = Some(ProcessorDraft { service: service.clone(), policy: Arc::new(policy) });
}

/// The service of a URL; none without one.
fn service(text: &str) -> Parsed<Option<AuthService>> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(|| format!("{text:?} is no absolute URL"))?;
    let is_encrypted = match scheme {
        "grpc" => false,
        "grpcs" => true,
        _ => return Err(format!("the scheme of {text:?} is neither grpc nor grpcs")),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) =
        authority.split_once(':').unwrap_or((authority, if is_encrypted { "443" } else { "80" }));
    let port = port.parse::<u16>().ok().filter(|&port| port > 0);
    let port = port.ok_or_else(|| format!("{authority:?} has no port that can be connected to"))?;
    let host = host.to_ascii_lowercase();
    if !AuthService::is_host(&host) {
        return Err(format!("{host:?} is no host"));
    }
    Ok(Some(AuthService { host, port, is_encrypted }))
}

fn time(text: &str) -> Parsed<Duration> {
    let time = value::duration(text.trim())?;
    if time.is_zero() || time > TIME_MAX {
        return Err(format!("{text:?} is no time up to an hour"));
    }
    Ok(time)
}

fn time_max(text: &str) -> Parsed<Option<Duration>> {
    if text.trim() == "0" { Ok(None) } else { time(text).map(Some) }
}

fn body_max(text: &str) -> Parsed<u64> {
    let bytes = value::size(text.trim())?;
    if BODY_BYTES.contains(&bytes) { Ok(bytes) } else { Err(format!("{text:?} is no size from 1 to 64m")) }
}

/// The parts that are sent: `name=value`, separated by commas. What is not named has Envoy's default.
fn modes(text: &str) -> Parsed<Modes> {
    let mut modes = Modes::default();
    let mut named: Vec<String> = Vec::new();
    for item in value::list(text) {
        let (name, mode) =
            item.split_once('=').ok_or_else(|| format!("{item:?} is not of the form name=value"))?;
        let (name, mode) = (name.trim(), mode.trim());
        if named.iter().any(|known| known == name) {
            return Err(format!("{name} is named twice"));
        }
        named.push(name.to_owned());
        match name {
            "request-headers" => modes.request.headers = sent(name, mode)?,
            "request-body" => modes.request.body = body(name, mode)?,
            "request-trailers" => modes.request.trailers = sent(name, mode)?,
            "response-headers" => modes.response.headers = sent(name, mode)?,
            "response-body" => modes.response.body = body(name, mode)?,
            "response-trailers" => modes.response.trailers = sent(name, mode)?,
            _ => return Err(format!("{name:?} is no part such as request-body")),
        }
    }
    Ok(modes)
}

fn sent(name: &str, mode: &str) -> Parsed<bool> {
    match mode {
        "send" => Ok(true),
        "skip" => Ok(false),
        _ => Err(format!("{name}: {mode:?} is neither send nor skip")),
    }
}

fn body(name: &str, mode: &str) -> Parsed<ProcessedBody> {
    match mode {
        "none" => Ok(ProcessedBody::None),
        "streamed" => Ok(ProcessedBody::Streamed),
        "buffered" => Ok(ProcessedBody::Buffered),
        "buffered-partial" => Ok(ProcessedBody::BufferedPartial),
        _ => Err(format!("{name}: {mode:?} is none of none, streamed, buffered and buffered-partial")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_service_that_speaks_grpc() {
        let found = |text| service(text).unwrap().map(|it| (it.host, it.port, it.is_encrypted));
        assert_eq!(found("grpc://Proc.ns:9002"), Some(("proc.ns".to_owned(), 9002, false)));
        assert_eq!(found("grpcs://proc.test/"), Some(("proc.test".to_owned(), 443, true)));
        assert_eq!(found("  "), None);
        for text in [
            "proc.ns:9002",
            "http://proc.ns",
            "grpc://proc.ns:0",
            "grpc://a b:1",
            "grpc://a:1/x",
            "grpc://$host:1",
        ] {
            assert!(service(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parts_have_envoy_s_defaults() {
        assert_eq!(modes(""), Ok(Modes::default()));
        let read =
            modes("request-body=streamed, response-headers = skip,response-body=buffered-partial").unwrap();
        assert_eq!(
            read.request,
            ProcessedParts { body: ProcessedBody::Streamed, ..ProcessedParts::default() }
        );
        let body = ProcessedBody::BufferedPartial;
        assert_eq!(read.response, ProcessedParts { headers: false, body, trailers: false });
        for text in [
            "request-body",
            "request-body=send",
            "trailers=send",
            "request-headers=skip,request-headers=send",
        ] {
            assert!(modes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bounds() {
        assert_eq!(time("300ms"), Ok(Duration::from_millis(300)));
        assert!(time("0").is_err() && time("2h").is_err() && time("x").is_err());
        assert_eq!((time_max("0"), time_max("1s")), (Ok(None), Ok(Some(Duration::from_secs(1)))));
        assert_eq!(body_max("64m"), Ok(64 << 20));
        assert!(body_max("0").is_err() && body_max("65m").is_err());
    }
}
