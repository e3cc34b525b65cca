//! Retries: the failures that lead to another attempt.

use model::RetryPolicy;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, positive, set};

annotations! {
    "proxy-next-upstream", Location, "error timeout", Supported(|s, v| set(&mut s.retries.on, value::retry_on(v))),
        "Failures after which a request is retried.", Medium;
    "proxy-next-upstream-timeout", Location, "0", Supported(|s, v| set(&mut s.retries.timeout, value::seconds(v).map(positive))),
        "Seconds for all tries; 0 for no limit.";
    "proxy-next-upstream-tries", Location, "3", Supported(|s, v| set(&mut s.retries.tries, value::number(v).map(positive))),
        "Tries in all; 0 for as many as there are endpoints.";
}

pub(super) fn apply(settings: &RetryPolicy, route: &mut DraftRoute) {
    route.retry.clone_from(settings);
}
