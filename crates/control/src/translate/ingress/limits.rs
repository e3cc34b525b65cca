//! Limits for each client.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use model::template::Template;
use model::{AddressSet, ClientLimits, Rate};

use super::access::address_set;
use super::annotation::Effect::{AliasOf, Supported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::snippet::OwnLimits;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "limit-allowlist", Location, "", Supported(|s, v| set(&mut s.limits.exempt, address_set(v))), IgnoresIngress,
        "Networks without limits.";
    "limit-burst-multiplier", Location, "5", Supported(|s, v| set(&mut s.limits.multiplier, multiplier(v))),
        "Burst, as a multiple of the rate.";
    "limit-connections", Location, "0", Supported(|s, v| set(&mut s.limits.connections, value::number(v))), IgnoresIngress,
        "Requests of one client at a time.";
    "limit-rpm", Location, "0", Supported(|s, v| set(&mut s.limits.per_minute, value::number(v))), IgnoresIngress,
        "Requests of one client in a minute.";
    "limit-rps", Location, "0", Supported(|s, v| set(&mut s.limits.per_second, value::number(v))), IgnoresIngress,
        "Requests of one client in a second.";
    "limit-whitelist", Location, "", AliasOf("limit-allowlist"), "Former name of `limit-allowlist`.";
}

/// Limits for each client. 0 and negative numbers mean no limit.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    per_second: i32,
    per_minute: i32,
    connections: i32,
    multiplier: u32,
    exempt: Option<Arc<AddressSet>>,
    pub(in crate::translate) rate_status: u16,
    pub(in crate::translate) connections_status: u16,
    /// The value that identifies a client; none for its address. The key `limit-conn-zone-variable` sets it.
    pub(in crate::translate) key: Option<Template>,
    /// Limits of snippets.
    pub(in crate::translate) own: OwnLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            per_second: 0,
            per_minute: 0,
            connections: 0,
            multiplier: 5,
            exempt: None,
            rate_status: 503,
            connections_status: 503,
            key: None,
            own: OwnLimits::default(),
        }
    }
}

impl Settings {
    /// The clients that are exempt from limits.
    pub(super) fn exempt(&self) -> Option<&Arc<AddressSet>> {
        self.exempt.as_ref()
    }
}

/// Applies the limits to a route. "Per client IP per Ingress (all its paths share it)."
pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let mut rates: Vec<Rate> = [(settings.per_second, 60), (settings.per_minute, 1)]
        .into_iter()
        .filter_map(|(limit, factor)| {
            let limit = u64::try_from(limit).ok().filter(|&limit| limit > 0)?;
            Some(Rate { per_minute: limit * factor, burst: limit * u64::from(settings.multiplier) })
        })
        .collect();
    let own = &settings.own;
    rates.extend(&own.rates);
    let connections = u32::try_from(settings.connections).ok().filter(|&max| max > 0);
    let connections = [connections, own.connections].into_iter().flatten().min();
    if rates.is_empty() && connections.is_none() {
        return;
    }
    let mut zone = DefaultHasher::new();
    (&route.place.object.namespace, &route.place.object.name).hash(&mut zone);
    route.access.limits = Some(ClientLimits {
        zone: own.zone.unwrap_or_else(|| zone.finish()),
        rates,
        connections,
        exempt: settings.exempt.clone(),
        rate_status: settings.rate_status,
        connections_status: settings.connections_status,
        key: if own.zone.is_some() { own.key.clone() } else { settings.key.clone() },
    });
}

/// Parses the value that identifies a client. The text of an address distinguishes the same clients as its
/// bytes, so both are treated alike.
pub(in crate::translate) fn key(text: &str) -> Parsed<Option<Template>> {
    let text = text.trim().replace("binary_remote_addr", "remote_addr");
    if matches!(text.as_str(), "$remote_addr" | "${remote_addr}") {
        return Ok(None);
    }
    Template::parse(&text).map(Some).map_err(|error| error.to_string())
}

/// Parses the multiplier. nginx refuses its whole configuration because of one that is not above 0.
fn multiplier(text: &str) -> Parsed<u32> {
    let number = value::number(text).ok().filter(|&number| number > 0);
    number.ok_or_else(|| format!("{text:?} is not a whole number above 0"))
}

/// Parses a status that nginx accepts for `limit_req_status` and `limit_conn_status`.
pub(in crate::translate) fn status(text: &str) -> Parsed<u16> {
    let status = value::number(text).ok().filter(|status| (400..600).contains(status));
    status.ok_or_else(|| format!("{text:?} is no status from 400 to 599"))
}
