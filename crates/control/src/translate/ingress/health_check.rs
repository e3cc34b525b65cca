//! Active health checks of endpoints (`forebay.io/health-check`).

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use model::{HealthCheck, HealthProbe};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::upstream_protocol::HealthDraft;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "health-check", Location, "off", Supported(|s, v| set(&mut s.health_check.kind, kind(v))),
        "Active health checks of the endpoints: `http`, `grpc` (`grpc.health.v1`), `tcp`, or `off`.";
    "health-check-always", Location, "false", Supported(|s, v| set(&mut s.health_check.always, value::boolean(v))),
        "Whether endpoints that answer requests are checked as often as others.";
    "health-check-fall", Location, "2", Supported(|s, v| set(&mut s.health_check.fall, count(v))),
        "Failed checks in a row after which an endpoint gets no requests.";
    "health-check-host", Location, "", Supported(|s, v| set(&mut s.health_check.host, host(v))),
        "`Host` of the checks; the endpoint's address without it.";
    "health-check-interval", Location, "5s", Supported(|s, v| set(&mut s.health_check.interval, time(v))),
        "Time between two checks of an endpoint.";
    "health-check-path", Location, "/", Supported(|s, v| set(&mut s.health_check.path, path(v))),
        "Path that `http` requests.";
    "health-check-rise", Location, "2", Supported(|s, v| set(&mut s.health_check.rise, count(v))),
        "Passed checks in a row after which it gets requests again.";
    "health-check-service", Location, "", Supported(|s, v| set(&mut s.health_check.service, service(v))),
        "Service that `grpc` asks about; the whole server without it.";
    "health-check-status", Location, "200-399", Supported(|s, v| set(&mut s.health_check.statuses, statuses(v))),
        "Statuses that pass `http`: numbers and ranges such as `200-299,404`.";
    "health-check-timeout", Location, "1s", Supported(|s, v| set(&mut s.health_check.timeout, time(v))),
        "Longest time of a check.";
}

/// Most checks in a row that an endpoint has to pass or fail.
const COUNT_MAX: u32 = 100;
/// Range of the interval and the timeout.
const TIME: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
/// Longest name of a gRPC service.
const SERVICE_BYTES_MAX: usize = 127;

/// The kind of the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Off,
    Http,
    Grpc,
    Tcp,
}

/// Settings of health checks.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    kind: Kind,
    path: Box<str>,
    host: Option<Box<str>>,
    service: Box<str>,
    statuses: Vec<RangeInclusive<u16>>,
    interval: Duration,
    timeout: Duration,
    rise: u32,
    fall: u32,
    always: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kind: Kind::Off,
            path: "/".into(),
            host: None,
            service: Box::default(),
            statuses: vec![200..=399],
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            rise: 2,
            fall: 2,
            always: false,
        }
    }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let check = settings.check().map(Arc::new);
    route.upstream.health = check.map(|check| HealthDraft { check, place: route.place.clone() });
}

impl Settings {
    fn check(&self) -> Option<HealthCheck> {
        let Self { interval, timeout, rise, fall, always, .. } = *self;
        let host = || self.host.clone();
        let probe = match self.kind {
            Kind::Off => return None,
            Kind::Http => {
                HealthProbe::Http { path: self.path.clone(), host: host(), statuses: self.statuses.clone() }
            }
            Kind::Grpc => HealthProbe::Grpc { service: self.service.clone(), host: host() },
            Kind::Tcp => HealthProbe::Connect,
        };
        Some(HealthCheck { probe, interval, timeout, rise, fall, always })
    }
}

fn kind(text: &str) -> Parsed<Kind> {
    match text.trim() {
        "off" => Ok(Kind::Off),
        "http" => Ok(Kind::Http),
        "grpc" => Ok(Kind::Grpc),
        "tcp" => Ok(Kind::Tcp),
        _ => Err(format!("{text:?} is none of http, grpc, tcp and off")),
    }
}

fn count(text: &str) -> Parsed<u32> {
    match value::number(text.trim())? {
        count @ 1..=COUNT_MAX => Ok(count),
        _ => Err(format!("{text:?} is not a number from 1 to {COUNT_MAX}")),
    }
}

fn time(text: &str) -> Parsed<Duration> {
    let time = value::duration(text)?;
    if TIME.contains(&time) { Ok(time) } else { Err(format!("{text:?} is not a time from 100ms to 1h")) }
}

fn path(text: &str) -> Parsed<Box<str>> {
    let path = text.trim();
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if path.starts_with('/') && is_plain {
        Ok(path.into())
    } else {
        Err(format!("{text:?} is no path: it has to begin with a slash and to be escaped as in a URL"))
    }
}

/// Parses the value of `Host`; none for an empty text.
fn host(text: &str) -> Parsed<Option<Box<str>>> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    value::characters(text.trim(), "-._:[]").map(|host| Some(host.into()))
}

fn service(text: &str) -> Parsed<Box<str>> {
    if text.trim().len() > SERVICE_BYTES_MAX {
        return Err(format!("{text:?} is longer than {SERVICE_BYTES_MAX} bytes"));
    }
    value::characters(text.trim(), "-._/").map(Into::into)
}

/// Parses numbers and ranges, separated by commas.
fn statuses(text: &str) -> Parsed<Vec<RangeInclusive<u16>>> {
    let invalid =
        |part: &str| format!("{part:?} is neither a status nor a range of statuses such as 200-399");
    let number = |part: &str| part.trim().parse().ok().filter(|status| (100..=599).contains(status));
    let range = |part: &String| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
        range.map(|(first, last)| first..=last).ok_or_else(|| invalid(part))
    };
    let statuses = value::list(text).iter().map(range).collect::<Result<Vec<_>, _>>()?;
    if statuses.is_empty() { Err(invalid(text)) } else { Ok(statuses) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_and_ranges() {
        assert_eq!(statuses("200-299, 404"), Ok(vec![200..=299, 404..=404]));
        for text in ["", "2xx", "399-200", "99", "600", "200-", "-200", "200 299"] {
            assert!(statuses(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_and_counts_are_within_bounds() {
        assert_eq!(
            (time("500ms"), time("1h")),
            (Ok(Duration::from_millis(500)), Ok(Duration::from_secs(3600)))
        );
        assert!(time("0").is_err() && time("2h").is_err() && time("soon").is_err());
        assert_eq!((count("1"), count(" 100 ")), (Ok(1), Ok(100)));
        assert!(count("0").is_err() && count("101").is_err() && count("-1").is_err());
    }

    #[test]
    fn paths_and_hosts_end_no_line() {
        assert_eq!(path("/healthz?full=1"), Ok("/healthz?full=1".into()));
        for text in ["healthz", "", "/a b", "/a\r\nX: y", "/#top"] {
            assert!(path(text).is_err(), "{text:?}");
        }
        assert_eq!((host(""), host("web.test")), (Ok(None), Ok(Some("web.test".into()))));
        assert!(host("a b").is_err() && host("a\r\nX: y").is_err());
    }
}
