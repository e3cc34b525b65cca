//! Handling of clients whose behaviour is far from that of the others.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use model::overload::Mode;
use model::template::{Template, Variable};
use model::{Abuse, AbuseKey, MinRate};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::{limits, overload};
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "abuse", Location, "watch", Supported(|s, v| set(&mut s.abuse.mode, overload::mode(v))),
        "Clients that behave unlike all others: `watch` reports them, `enforce` slows, then refuses them, `off` does not count.";
    "abuse-key", Location, "$remote_addr", Supported(|s, v| set(&mut s.abuse.key, template(v).map(Key::Own))),
        "What identifies a client for `forebay.io/abuse`, such as `$http_x_api_key`; if empty, the address.";
}

/// Grace time at the beginning, in which a client may be slower than the least rate, unless the key sets
/// another.
const RATE_GRACE: Duration = Duration::from_secs(10);

/// The zone of the `ConfigMap`'s key.
pub(in crate::translate) const OF_ALL: u64 = 0;

/// Settings of the handling of such clients.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(in crate::translate) mode: Mode,
    pub(in crate::translate) key: Key,
}

/// The value that identifies a client; none for its address.
#[derive(Clone, Debug)]
pub(in crate::translate) enum Key {
    /// The key of the `ConfigMap`.
    OfAll(Option<Arc<AbuseKey>>),
    /// The key of an Ingress.
    Own(Option<Template>),
}

impl Default for Key {
    fn default() -> Self {
        Self::OfAll(None)
    }
}

/// Applies the settings to a route. Values of an Ingress's own key are separate for each namespace, because
/// the owner of another namespace may send any value to its own hosts.
pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let key = match &settings.key {
        Key::OfAll(key) => key.clone(),
        Key::Own(template) => template.clone().map(|template| {
            let mut zone = DefaultHasher::new();
            route.place.object.namespace.hash(&mut zone);
            Arc::new(AbuseKey { template, zone: zone.finish().max(OF_ALL + 1) })
        }),
    };
    route.abuse = Abuse { mode: settings.mode, key };
}

/// Parses the value that identifies a client at all hosts.
pub(in crate::translate) fn key(text: &str) -> Parsed<Option<Arc<AbuseKey>>> {
    Ok(template(text)?.map(|template| Arc::new(AbuseKey { template, zone: OF_ALL })))
}

/// Parses a text whose value stays the same during a request: it is read before the request is admitted, and
/// again when it ends.
fn template(text: &str) -> Parsed<Option<Template>> {
    let is_settled = |variable: &Variable| {
        !matches!(
            variable,
            Variable::Status
                | Variable::BodyBytesSent
                | Variable::BytesSent
                | Variable::RequestLength
                | Variable::RequestTime
                | Variable::TimeLocal
                | Variable::TimeIso8601
                | Variable::Msec
                | Variable::ReqId
                | Variable::RequestId
                | Variable::ProxyUpstreamName
                | Variable::ProxyHost
                | Variable::ProxyPort
                | Variable::RequestBody
                | Variable::ProxyAlternativeUpstreamName
                | Variable::UpstreamAddr
                | Variable::UpstreamResponseLength
                | Variable::UpstreamResponseTime
                | Variable::UpstreamHeaderTime
                | Variable::UpstreamConnectTime
                | Variable::UpstreamStatus
                | Variable::UpstreamCacheStatus
                | Variable::ForebayReason
                | Variable::ForebayWafVerdict
                | Variable::ForebayWafRule
                | Variable::ForebayWafScore
                | Variable::ModsecurityIntervention
                | Variable::ModsecurityTriggeredRules
                | Variable::OpentelemetryTraceId
                | Variable::OpentelemetrySpanId
                | Variable::OpentelemetryContextTraceparent
                | Variable::ResponseHeader(_)
                | Variable::Capture(_)
        )
    };
    let template = limits::key(text)?;
    if template.as_ref().is_some_and(|template| !template.variables().all(is_settled)) {
        return Err(format!(
            "{text:?} has a variable that is not known when a request begins, or that does not distinguish clients"
        ));
    }
    Ok(template)
}

/// Parses a whole number; 0 means no bound.
pub(in crate::translate) fn bound(text: &str) -> Parsed<Option<NonZeroU32>> {
    value::number(text.trim()).map(NonZeroU32::new)
}

/// Parses bytes per second, where 0 means no bound, and the grace time after a colon: `240`, `1k:5s`.
pub(in crate::translate) fn rate(text: &str) -> Parsed<Option<MinRate>> {
    let (bytes, grace) = text.split_once(':').map_or((text, None), |(bytes, grace)| (bytes, Some(grace)));
    let grace = grace.map_or(Ok(RATE_GRACE), |grace| value::duration(grace.trim()))?;
    let bytes = u32::try_from(value::size(bytes.trim())?);
    let bytes = bytes.map_err(|_| format!("{text:?} is more than 4 GB a second"))?;
    Ok(NonZeroU32::new(bytes).map(|bytes| MinRate { bytes, grace }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_bound() {
        assert_eq!((bound("0"), bound(" 20")), (Ok(None), Ok(NonZeroU32::new(20))));
        let told = |text| rate(text).map(|rate| rate.map(|rate| (rate.bytes.get(), rate.grace.as_secs())));
        assert_eq!(
            (told("0"), told("1k"), told("240:5s")),
            (Ok(None), Ok(Some((1024, 10))), Ok(Some((240, 5))))
        );
        assert!(bound("-1").is_err() && bound("many").is_err());
        assert!(["5g", "x", "240:", "240:soon"].iter().all(|text| rate(text).is_err()));
    }

    #[test]
    fn a_key_is_known_when_a_request_begins() {
        assert!(key("$remote_addr").unwrap().is_none());
        for text in ["$http_x_api_key", "$remote_user@$host", "${cookie_session}", "$namespace/$arg_user"] {
            assert!(key(text).unwrap().is_some_and(|key| key.zone == OF_ALL), "{text}");
        }
        for text in
            ["$status", "$http_a$upstream_addr", "$request_id", "$sent_http_x_user", "$1", "$nobody", "$"]
        {
            assert!(key(text).is_err(), "{text}");
        }
    }
}
