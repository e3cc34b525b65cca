//! Access control of a route. Requests of routes without any do not come here.

pub(crate) mod abuse;
mod api_keys;
mod basic;
mod digest;
mod external;
pub(crate) mod key;
pub(crate) mod limits;
pub(crate) mod priority;
pub(crate) mod quota;

use model::{Access, PasswordScheme, Satisfy};
use observe::Reason;

use crate::admit::Targeted;
use crate::admit::firewall;
use crate::io::buffer::Buffer;
use crate::request::decision::Decision;
use crate::request::reply::Answer;
use crate::request::stage::{Stage, Watch};
use crate::route::filters::FilterResult;

/// Runs all access checks of the route in turn, behind its firewall. Returns their decision for the request,
/// if there is one, and the result.
pub(crate) async fn admit(
    targeted: &Targeted<'_>,
    access: &Access,
    rest: Option<&mut Buffer>,
    watch: impl Watch,
) -> (Option<Decision>, FilterResult) {
    let mut decision = Decision::default();
    if let Some(firewall) = &access.firewall {
        let (inspection, result) = Box::pin(firewall::check(targeted, firewall, rest, watch)).await;
        decision.inspection = Some(inspection);
        watch.note(Stage::Firewall, result == FilterResult::Continue);
        if result != FilterResult::Continue {
            return (Some(decision), result);
        }
    }
    if let Some(keys) = &access.api_keys {
        api_keys::identify(targeted, keys, &mut decision);
    }
    let headers = access.external.iter().flat_map(|auth| &auth.check.response_headers);
    headers.for_each(|name| decision.tell(name, None));
    if access.basic.is_some() {
        decision.tell("Authorization", None);
    }
    let limited = limit(targeted, access, &mut decision).await;
    if let Some(result) = &limited {
        watch.note(Stage::Limits, *result == FilterResult::Continue);
    }
    let result = match limited {
        None | Some(FilterResult::Continue) => combine(targeted, access, &mut decision, watch).await,
        Some(refusal) => refusal,
    };
    (Some(decision).filter(|decision| !decision.is_empty()), result)
}

/// Checks the rate limits; none where the route has no limits. A request that ingress-nginx's limits refuse
/// does not count against the quota.
async fn limit(targeted: &Targeted<'_>, access: &Access, decision: &mut Decision) -> Option<FilterResult> {
    let limited = access.limits.as_ref().map(|limits| limits::check(targeted, limits, decision));
    match (&access.quota, limited) {
        (Some(quota), None | Some(FilterResult::Continue)) => {
            Some(quota::check(targeted, quota, decision).await)
        }
        (_, limited) => limited,
    }
}

/// nginx's `satisfy`: with `any` the first check that lets a client in decides, and a 401 takes precedence
/// over a 403.
async fn combine(
    targeted: &Targeted<'_>,
    access: &Access,
    decision: &mut Decision,
    watch: impl Watch,
) -> FilterResult {
    let is_any = access.satisfy == Satisfy::Any;
    let mut refusal = FilterResult::Continue;
    if let Some(networks) = &access.networks {
        let is_admitted = networks.admits(targeted.forwarded.client);
        watch.note(Stage::Networks, is_admitted);
        match is_admitted {
            true if is_any => return FilterResult::Continue,
            true => {}
            false => refusal = FilterResult::Refuse(Reason::AddressDenied),
        }
    }
    if !is_any && refusal != FilterResult::Continue {
        return refusal;
    }
    if let Some(keys) = &access.api_keys {
        let result = api_keys::check(keys, decision);
        watch.note(Stage::ApiKeys, result == FilterResult::Continue);
        match result {
            FilterResult::Continue if is_any => return FilterResult::Continue,
            FilterResult::Answer(answer) if is_any => refusal = challenge(&refusal, &answer),
            FilterResult::Continue => {}
            other => return other,
        }
    }
    if let Some(basic) = &access.basic {
        let result = match basic.scheme {
            PasswordScheme::Basic => basic::check(targeted, basic).await,
            PasswordScheme::Digest => digest::check(targeted, basic),
        };
        watch.note(Stage::BasicAuth, result == FilterResult::Continue);
        match result {
            FilterResult::Continue if is_any => return FilterResult::Continue,
            FilterResult::Answer(answer) if is_any => refusal = challenge(&refusal, &answer),
            FilterResult::Continue => {}
            other => return other,
        }
    }
    if let Some(auth) = &access.external {
        let result = external::check(targeted, auth, decision, watch).await;
        watch.note(Stage::ExternalAuth, result == FilterResult::Continue);
        match result {
            FilterResult::Continue => return FilterResult::Continue,
            FilterResult::Answer(answer) if answer.status == 403 && refusal != FilterResult::Continue => {}
            FilterResult::Answer(answer) if answer.status == 401 => return challenge(&refusal, &answer),
            other => return other,
        }
    }
    refusal
}

/// A 401 with the challenges of all checks that have refused the client.
fn challenge(earlier: &FilterResult, answer: &Answer) -> FilterResult {
    let mut challenges = match earlier {
        FilterResult::Answer(earlier) => earlier.challenges(),
        _ => Vec::new(),
    };
    challenges.extend(answer.challenges());
    FilterResult::Answer(Answer::refusal(401, &challenges))
}
