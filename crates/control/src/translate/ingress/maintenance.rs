//! Maintenance: a page in place of a route, except for some clients (`forebay.io/maintenance`).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::{AddressSet, Maintenance};

use super::access::address_set;
use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::direct_response;
use super::resolve::{Context, Findings, Resolve};
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "maintenance", Location, "false", Supported(|s, v| set(&mut s.maintenance.is_on, value::boolean(v))), ClosesLocations,
        "Answers 503 in place of the endpoint, with a page that says that the route is under maintenance.";
    "maintenance-allow", Location, "", Supported(|s, v| set(&mut s.maintenance.spared, address_set(v))),
        "Networks of clients that are served all the same.";
    "maintenance-from", Location, "", Supported(|s, v| set(&mut s.maintenance.from, time(v).map(Some))), ClosesLocations,
        "Time at which the maintenance begins (RFC 3339): `2026-07-01T22:00:00Z`.";
    "maintenance-page", Location, "", Supported(|s, v| set(&mut s.maintenance.page, Ok(value::name(v)))),
        "`ConfigMap` whose entry `body` is the page; its entry `content-type` is the media type.";
    "maintenance-retry-after", Location, "", Supported(|s, v| set(&mut s.maintenance.retry_after, value::duration(v).map(Some))),
        "Time after which clients are asked to come again; without it, the time to the end, if that is known.";
    "maintenance-until", Location, "", Supported(|s, v| set(&mut s.maintenance.until, time(v).map(Some))), ClosesLocations,
        "Time at which the maintenance ends by itself (RFC 3339).";
}

/// Name of the annotation that requests maintenance.
const NAME: &str = "maintenance";
pub(super) const PAGE: &str = "maintenance-page";

/// The status of the page.
const STATUS: u16 = 503;

/// The page of a route that has none of its own.
const PLAIN: &str = "503 Service Unavailable: maintenance\n";

/// Settings of maintenance.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    is_on: bool,
    spared: Option<Arc<AddressSet>>,
    /// Begin and end, in seconds since 1970.
    from: Option<i64>,
    until: Option<i64>,
    retry_after: Option<Duration>,
    page: Option<String>,
    /// The content of the page, and its media type.
    content: Option<(String, Option<String>)>,
}

impl Resolve for Settings {
    type Resolved = ();

    /// Looks up the page, and reports settings without effect. Without the page the route is closed, which
    /// is what maintenance is about.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        let asker = context.asker;
        if !self.is_on {
            let others = asker.names().into_iter().filter(|name| name.starts_with("maintenance-"));
            for name in others.filter(|_| asker.given(NAME).is_none()) {
                let message = format!("{} has no effect without {}", asker.called(name), asker.key(NAME));
                findings.problems.extend(context.without_effect(name, message));
            }
            return;
        }
        if let (Some(from), Some(until)) = (self.from, self.until)
            && from >= until
        {
            let message = format!("{}: it ends before it begins, so there is none", asker.called(NAME));
            findings.problems.extend(context.without_effect(NAME, message));
        }
        match self.page.as_ref().map(|name| direct_response::content(context, name)) {
            None => {}
            Some(Ok(content)) => self.content = Some(content),
            Some(Err(fault)) => direct_response::close(context, findings, PAGE, fault),
        }
    }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let Settings { is_on, spared, from, until, retry_after, content, .. } = settings;
    route.maintenance = is_on.then(|| {
        let (body, media_type) = content.clone().unwrap_or_else(|| (PLAIN.to_owned(), None));
        let uncached = [("Cache-Control".to_owned(), "no-store".to_owned())];
        Arc::new(Maintenance {
            from: *from,
            until: *until,
            spared: spared.clone(),
            retry_after: retry_after.map(|time| time.as_secs().max(1)),
            response: direct_response::answer(STATUS, body, media_type.as_deref(), &uncached),
        })
    });
}

/// Parses a time to seconds since 1970.
fn time(text: &str) -> Parsed<i64> {
    let invalid = |_| format!("{text:?} is no time such as 2026-07-01T22:00:00Z");
    text.trim().parse::<Timestamp>().map(Timestamp::as_second).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_zone() {
        assert_eq!(time("2026-07-01T00:00:00Z"), Ok(1_782_864_000));
        assert_eq!(time(" 2026-07-01T02:00:00+02:00 "), Ok(1_782_864_000));
        assert!(["2026-07-01", "2026-07-01T00:00:00", "tonight", ""].iter().all(|text| time(text).is_err()));
    }
}
