//! Limits for clients in nginx's own notation: zones in the snippet for HTTP, and `limit_req` and
//! `limit_conn`, which name them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use model::Rate;
use model::template::Template;

use super::parse::Directive;
use super::{Fault, Reader, RemarkKind};

/// A zone of `limit_req_zone` or `limit_conn_zone`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    /// The value that identifies a client; none for its address.
    key: Option<Template>,
    /// Requests in a minute; none for a zone of connections.
    per_minute: Option<u64>,
}

/// Zones by name.
pub(super) type Zones = BTreeMap<String, Zone>;

/// The limits of a snippet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::translate) struct OwnLimits {
    /// Identifies the counters; none without a limit.
    pub(in crate::translate) zone: Option<u64>,
    pub(in crate::translate) key: Option<Template>,
    pub(in crate::translate) rates: Vec<Rate>,
    pub(in crate::translate) connections: Option<u32>,
}

impl Reader<'_> {
    /// Reads `limit_req_zone KEY zone=NAME:SIZE rate=RATE` and `limit_conn_zone KEY zone=NAME:SIZE`.
    pub(super) fn zone(&self, directive: &Directive) -> Result<(String, Zone), Fault> {
        let [key, options @ ..] = directive.words.as_slice() else {
            return Err(directive.fault("has no key"));
        };
        let option = |name: &str| options.iter().find_map(|word| word.strip_prefix(name));
        let name = option("zone=").and_then(|zone| zone.split(':').next()).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| directive.fault("has no zone"))?;
        let per_minute = match (directive.name.as_str(), option("rate=")) {
            ("limit_req_zone", Some(rate)) => Some(per_minute(rate).ok_or_else(|| {
                directive.fault(format!("has the rate {rate:?}, and needs one as 10r/s or 30r/m"))
            })?),
            ("limit_req_zone", None) => return Err(directive.fault("has no rate")),
            _ => None,
        };
        let key = key.replace("binary_remote_addr", "remote_addr");
        let is_address = matches!(key.as_str(), "$remote_addr" | "${remote_addr}");
        let key = if is_address { None } else { Some(self.template(directive, &key)?) };
        Ok((name.to_owned(), Zone { key, per_minute }))
    }

    /// Reads `limit_req zone=NAME [burst=NUMBER] [nodelay|delay=NUMBER]` and `limit_conn NAME NUMBER`.
    pub(super) fn limit(&self, directive: &Directive) -> Result<(), Fault> {
        let named = |name: &str| {
            let unknown = || directive.fault(format!("names the zone {name:?}, which no http-snippet has"));
            self.names.zones.get(name).ok_or_else(unknown)
        };
        let mut limits = self.limits.borrow_mut();
        let (name, zone) = if directive.name == "limit_conn" {
            let [name, number] = directive.arguments()?;
            let number = number.parse().ok().filter(|&number: &u32| number > 0);
            limits.connections = Some(number.ok_or_else(|| directive.fault("has no number above 0"))?);
            (name.as_str(), named(name)?)
        } else {
            let option = |name: &str| directive.words.iter().find_map(|word| word.strip_prefix(name));
            let name = option("zone=").ok_or_else(|| directive.fault("has no zone"))?;
            let zone = named(name)?;
            let per_minute = zone.per_minute.ok_or_else(|| directive.fault("names a zone of connections"))?;
            let burst = option("burst=").map_or(Some(0), |burst| burst.parse().ok());
            let burst = burst.ok_or_else(|| directive.fault("has a burst that is no number"))?;
            if burst > 0 && !directive.words.iter().any(|word| word == "nodelay") {
                let what = "delays nothing here: requests within the burst are passed on at once";
                self.remark(RemarkKind::NoEffect, directive.fault(what));
            }
            limits.rates.push(Rate { per_minute, burst });
            (name, zone)
        };
        if limits.zone.is_some() && limits.key != zone.key {
            return Err(
                directive.fault("counts by another key than the limit before it; one key is understood")
            );
        }
        limits.key.clone_from(&zone.key);
        if limits.zone.is_none() || directive.name == "limit_req" {
            let mut hasher = DefaultHasher::new();
            ("snippet", name).hash(&mut hasher);
            limits.zone = Some(hasher.finish());
        }
        Ok(())
    }
}

fn per_minute(rate: &str) -> Option<u64> {
    let (number, factor) = match (rate.strip_suffix("r/s"), rate.strip_suffix("r/m")) {
        (Some(number), _) => (number, 60),
        (_, Some(number)) => (number, 1),
        _ => return None,
    };
    number.parse().ok().filter(|&number: &u64| number > 0).and_then(|number| number.checked_mul(factor))
}
