//! Request limits by any value, in time windows: `forebay.io/limit-requests` and the annotations that belong
//! to it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;

use model::template::Template;
use model::{AddressSet, QuotaWindow, RequestQuota};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::limits;
use super::resolve::{Context, Findings, Resolve};
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "limit-key", Location, "$remote_addr", Supported(|s, v| set(&mut s.quota.key, limits::key(v))),
        "Key of `forebay.io/limit-requests`: a text with variables; if empty, no limit.";
    "limit-requests", Location, "", Supported(|s, v| set(&mut s.quota.windows, windows(v))),
        "Requests in a sliding window: `100/1m`, or several separated by commas. Others get 429; `RateLimit` headers report what is left.";
    "limit-shared", Location, "false", Supported(|s, v| set(&mut s.quota.is_shared, value::boolean(v))),
        "All replicas count together. It needs `--limit-redis`, or `--replicas-service`, `--replicas-secret` and `--replicas-udp-port`.";
}

/// The most windows of a route. Each window costs a counter for each client.
const WINDOWS_MAX: usize = 4;

/// Settings of request limits.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// The value that identifies a client; none for its address.
    pub(in crate::translate) key: Option<Template>,
    /// The windows; empty for no limit.
    pub(in crate::translate) windows: Vec<QuotaWindow>,
    pub(in crate::translate) is_shared: bool,
    /// Other replicas exist with which to count.
    pub(in crate::translate) has_replicas: bool,
}

/// The reason why replicas do not count together although they should.
const NOT_SHARED: &str = "there is nobody to count with without --limit-redis, or --replicas-service, --replicas-secret, --replicas-udp-port and POD_IP; \
    each replica counts alone";

impl Settings {
    /// Whether each replica counts alone although all should count together.
    fn is_unshared(&self) -> bool {
        self.is_shared && !self.windows.is_empty() && !self.has_replicas
    }
}

/// The reason why replicas do not count together although the `ConfigMap` requests it.
pub(in crate::translate) fn unshared_for_all(settings: &Settings) -> Option<&'static str> {
    settings.is_unshared().then_some(NOT_SHARED)
}

/// Applies the limits to a route. "All paths of an Ingress share what is counted", as with ingress-nginx's
/// limits, and the same clients are exempt.
pub(super) fn apply(settings: &Settings, exempt: Option<&Arc<AddressSet>>, route: &mut DraftRoute) {
    if settings.windows.is_empty() {
        return;
    }
    let mut zone = DefaultHasher::new();
    (&route.place.object.namespace, &route.place.object.name).hash(&mut zone);
    route.access.quota = Some(RequestQuota {
        zone: zone.finish(),
        windows: settings.windows.clone(),
        key: settings.key.clone(),
        exempt: exempt.cloned(),
        is_shared: settings.is_shared && settings.has_replicas,
    });
}

impl Resolve for Settings {
    type Resolved = ();

    /// Reports counts that are not shared.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        const NAME: &str = "limit-shared";
        if self.is_unshared() {
            let message = format!("{}: {NOT_SHARED}", context.asker.called(NAME));
            findings.problems.extend(context.without_effect(NAME, message));
        }
    }
}

/// Parses windows such as `10/1s, 100/1m`; none for an empty text.
pub(in crate::translate) fn windows(text: &str) -> Parsed<Vec<QuotaWindow>> {
    let windows: Vec<_> = value::list(text).iter().map(|item| window(item)).collect::<Parsed<_>>()?;
    let lengths: std::collections::HashSet<_> = windows.iter().map(|window| window.seconds).collect();
    if windows.len() > WINDOWS_MAX {
        return Err(format!("{text:?} has more than {WINDOWS_MAX} windows"));
    }
    if lengths.len() < windows.len() {
        return Err(format!("{text:?} has two windows of the same length"));
    }
    Ok(windows)
}

/// Parses `open` or `closed`, which decides about requests while the shared Redis fails. Returns true for
/// `closed`.
pub(in crate::translate) fn fails_closed(text: &str) -> Parsed<bool> {
    match text {
        "open" => Ok(false),
        "closed" => Ok(true),
        _ => Err(format!("{text:?} is neither \"open\" nor \"closed\"")),
    }
}

/// Parses a number of requests and a time: `100/1m`, `100/m`.
fn window(text: &str) -> Parsed<QuotaWindow> {
    let wrong = || format!("{text:?} is no number of requests in a time from 1s to 1d, such as 100/1m");
    let (requests, time) = text.split_once('/').ok_or_else(wrong)?;
    let requests = requests.trim().parse().map_err(|_| wrong())?;
    let time = time.trim();
    // A unit such as a second or a minute may omit the number 1.
    let whole = if time.starts_with(|first: char| first.is_ascii_alphabetic()) {
        format!("1{time}")
    } else {
        time.to_owned()
    };
    let time = value::duration(&whole).map_err(|_| wrong())?;
    let seconds = u32::try_from(time.as_secs()).ok().and_then(NonZeroU32::new);
    let seconds = seconds.filter(|seconds| time.subsec_nanos() == 0 && seconds.get() <= DAY_SECONDS);
    Ok(QuotaWindow { requests, seconds: seconds.ok_or_else(wrong)? })
}

/// Length of the longest window.
const DAY_SECONDS: u32 = 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_requests_in_a_time() {
        let read = |text| {
            windows(text)
                .map(|all| all.iter().map(|one| (one.requests.get(), one.seconds.get())).collect::<Vec<_>>())
        };
        assert_eq!(read("100/1m"), Ok(vec![(100, 60)]));
        assert_eq!(read(" 10/1s, 100/1m,5000/h "), Ok(vec![(10, 1), (100, 60), (5000, 3600)]));
        assert_eq!((read(""), read("7/d")), (Ok(vec![]), Ok(vec![(7, 86_400)])));
        for text in [
            "100",
            "0/1m",
            "-1/1m",
            "5/0",
            "5/100ms",
            "5/1500ms",
            "5/",
            "/1m",
            "5/2d",
            "1/1m,2/60s",
            "1/1s,1/2s,1/3s,1/4s,1/5s",
            "4294967296/1s",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
