//! `XBackendTrafficPolicy`: session persistence and the bound of retries, for each Service that it names.
//!
//! Never in here: routes, and the effects on requests.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use model::Affinity;

use super::conditions::{Fault, age};
use super::duration;
use super::sessions::{self, SessionOf};
use crate::names::NsName;
use crate::objects::gateway_api::{RetryConstraint, XBackendTrafficPolicy};
use crate::objects::{Resource, Service, Sourced};
use crate::problem::SourceLocation;
use crate::translate::inputs::Inputs;

/// The share of a Service's requests that may be retries where a policy has no other, in percent.
const PERCENT: u32 = 20;

/// Time for which requests and retries count where a policy has no other.
const INTERVAL: Duration = Duration::from_secs(10);

/// Retries that are always allowed where a policy has no other number, and their time.
const MIN_RETRIES: u32 = 10;
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The bounds that the specification has for these values.
const MIN_RETRIES_MAX: u32 = 1_000_000;
const INTERVAL_MIN: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// The settings of each Service that a policy names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TrafficPolicies(HashMap<NsName, Traffic>);

/// The settings of a Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Traffic {
    pub(super) session: Option<Arc<Affinity>>,
    pub(super) constraint: Option<Arc<model::RetryConstraint>>,
}

/// A policy with the result for its status.
pub(super) struct JudgedTraffic<'a> {
    pub(super) object: &'a Sourced<XBackendTrafficPolicy>,
    pub(super) services: Vec<NsName>,
    /// The reason why the policy has no effect.
    pub(super) refusal: Option<Box<Refusal>>,
}

/// The reason why a policy has no effect, and the value that is to blame.
pub(super) struct Refusal {
    pub(super) place: SourceLocation,
    pub(super) fault: Fault,
}

/// The settings of a policy before they are those of a Service.
struct Content {
    session: Option<Arc<Affinity>>,
    constraint: Option<model::RetryConstraint>,
}

impl TrafficPolicies {
    /// The settings of a Service; none without a policy.
    pub(super) fn find(&self, service: &NsName) -> Option<&Traffic> {
        self.0.get(service)
    }
}

/// Reads all policies. If two name the same Service, the older one counts.
pub(super) fn read<'a>(inputs: &Inputs<'a>) -> (TrafficPolicies, Vec<JudgedTraffic<'a>>) {
    let mut objects: Vec<_> = inputs.gateway().traffic_policies.iter().map(|it| &**it).collect();
    objects.sort_by_cached_key(|it| age(*it));
    let mut policies = TrafficPolicies::default();
    let judged = objects.into_iter().map(|object| policies.add(object)).collect();
    (policies, judged)
}

impl TrafficPolicies {
    fn add<'a>(&mut self, object: &'a Sourced<XBackendTrafficPolicy>) -> JudgedTraffic<'a> {
        let (content, refusal) = match content(object) {
            Ok(content) => (Some(content), None),
            Err(refusal) => (None, Some(refusal)),
        };
        let mut judged = JudgedTraffic { object, services: Vec::new(), refusal };
        let mut is_added = false;
        let mut conflict = None;
        let mut other = None;
        for target in &object.spec.target_refs {
            let (place, target) = (SourceLocation::at(object, target), &target.value);
            if !target.group.is_empty() || *target.kind != *Service::KIND {
                let message = format!("{} {} is no Service: it gets nothing", target.kind, target.name);
                other = other.or(Some(Refusal { place, fault: Fault::new("TargetNotFound", message) }));
                continue;
            }
            let service = NsName::new(object.namespace(), &*target.name);
            judged.services.push(service.clone());
            let Some(content) = &content else { continue };
            match self.0.entry(service) {
                Entry::Occupied(_) => {
                    let message =
                        format!("an older XBackendTrafficPolicy is about Service {} already", target.name);
                    let fault = Fault::new("Conflicted", message);
                    conflict = conflict.or(Some(Refusal { place, fault }));
                }
                Entry::Vacant(vacant) => {
                    let traffic = content.of(vacant.key());
                    vacant.insert(traffic);
                    is_added = true;
                }
            }
        }
        // A policy that holds for one of its targets is accepted.
        judged.refusal = judged.refusal.or(conflict.or(other).filter(|_| !is_added).map(Box::new));
        judged
    }
}

impl Content {
    fn of(&self, service: &NsName) -> Traffic {
        let constraint = self.constraint.as_ref().map(|constraint| {
            Arc::new(model::RetryConstraint { service: service.to_string().into(), ..constraint.clone() })
        });
        Traffic { session: self.session.clone(), constraint }
    }
}

fn content(object: &Sourced<XBackendTrafficPolicy>) -> Result<Content, Box<Refusal>> {
    let spec = &object.spec;
    let session = spec.session_persistence.as_ref().map(|asked| {
        let read = sessions::affinity(&asked.value, SessionOf::Backend).map(Arc::new);
        read.map_err(|why| invalid(SourceLocation::at(object, asked), "sessionPersistence", &why.message))
    });
    let constraint = spec.retry_constraint.as_ref().map(|asked| {
        let read = constraint(&asked.value);
        read.map_err(|why| invalid(SourceLocation::at(object, asked), "retryConstraint", &why))
    });
    Ok(Content { session: session.transpose()?, constraint: constraint.transpose()? })
}

fn invalid(place: SourceLocation, field: &str, why: &str) -> Box<Refusal> {
    Box::new(Refusal { place, fault: Fault::new("Invalid", format!("{field}: {why}")) })
}

/// The bound of retries, of no Service yet; an error says what is wrong.
fn constraint(asked: &RetryConstraint) -> Result<model::RetryConstraint, String> {
    let budget = asked.budget.clone().unwrap_or_default();
    let least = asked.min_retry_rate.clone().unwrap_or_default();
    let percent = budget.percent.unwrap_or(PERCENT);
    let percent = u8::try_from(percent).ok().filter(|percent| *percent <= 100);
    let percent = percent.ok_or_else(|| "budget.percent is more than 100".to_owned())?;
    let interval = interval(budget.interval.as_deref(), INTERVAL, INTERVAL_MIN)
        .map_err(|why| format!("budget.interval: {why}"))?;
    let min_retries = least.count.unwrap_or(MIN_RETRIES);
    if !(1..=MIN_RETRIES_MAX).contains(&min_retries) {
        return Err(format!("minRetryRate.count is {min_retries}; 1 to {MIN_RETRIES_MAX} are possible"));
    }
    let min_interval = self::interval(least.interval.as_deref(), MIN_INTERVAL, Duration::from_millis(1))
        .map_err(|why| format!("minRetryRate.interval: {why}"))?;
    Ok(model::RetryConstraint { service: "".into(), percent, interval, min_retries, min_interval })
}

fn interval(text: Option<&str>, usual: Duration, least: Duration) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(usual) };
    let interval = duration::read(Some(text)).map_err(|fault| fault.message)?.unwrap_or_default();
    if !(least..=INTERVAL_MAX).contains(&interval) {
        return Err(format!("{text} is not between {least:?} and an hour"));
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<model::RetryConstraint, String> {
        constraint(&serde_saphyr::from_str(text).unwrap())
    }

    /// Percentage, interval, least number, and its interval, these in milliseconds.
    fn numbers(text: &str) -> (u8, u128, u32, u128) {
        let read = read(text).unwrap();
        (read.percent, read.interval.as_millis(), read.min_retries, read.min_interval.as_millis())
    }

    #[test]
    fn what_is_missing_is_as_the_specification_says() {
        for text in ["{}", "{budget: {}, minRetryRate: {}}", "{budget: null}"] {
            assert_eq!(numbers(text), (20, 10_000, 10, 1000), "{text}");
        }
        let text = "{budget: {percent: 0, interval: 1h}, minRetryRate: {count: 3, interval: 500ms}}";
        assert_eq!(numbers(text), (0, 3_600_000, 3, 500));
        assert_eq!(numbers("{budget: {percent: 100}}"), (100, 10_000, 10, 1000));
    }

    #[test]
    fn values_out_of_range_are_named() {
        for (text, said) in [
            ("{budget: {percent: 101}}", "budget.percent is more than 100"),
            ("{budget: {interval: 500ms}}", "budget.interval: 500ms is not between 1s and an hour"),
            ("{budget: {interval: 61m}}", "budget.interval: 61m is not between 1s and an hour"),
            ("{budget: {interval: soon}}", "budget.interval: \"soon\" is no duration such as 500ms or 1m30s"),
            ("{minRetryRate: {count: 0}}", "minRetryRate.count is 0; 1 to 1000000 are possible"),
            ("{minRetryRate: {interval: 0s}}", "minRetryRate.interval: 0s is not between 1ms and an hour"),
        ] {
            assert_eq!(read(text), Err(said.to_owned()), "{text}");
        }
    }
}
