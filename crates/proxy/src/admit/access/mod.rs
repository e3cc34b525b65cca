//! Access control of a route. Requests of routes without any do not come here.

pub(crate) mod abuse;
mod api_keys;
mod at_once;
mod basic;
mod combination;
mod digest;
mod ext_authz;
mod external;
mod hold;
pub(crate) mod jwt;
pub(crate) mod key;
pub(crate) mod limits;
mod networks;
mod oidc;
pub(crate) mod priority;
pub(crate) mod quota;

use std::rc::Rc;

use model::{Access, Networks, PasswordScheme, Satisfy};

use crate::admit::Targeted;
use crate::admit::firewall;
use crate::io::buffer::Buffer;
use crate::request::decision::Decision;
use crate::request::processing::Processing;
use crate::request::stage::{Stage, Watch};
use crate::route::filters::FilterResult;
pub(crate) use at_once::{AtOnce, at_once};
use combination::Combination;
use hold::hold_back;
use jwt::Shown;

/// Runs all access checks of the route in turn, behind its firewall. Returns their decision for the request,
/// if there is one, and the result. `has_unknown_token` says that its token has just been looked up in vain.
pub(crate) async fn admit(
    targeted: &Targeted<'_>,
    access: &Access,
    has_unknown_token: bool,
    rest: Option<&mut Buffer>,
    watch: impl Watch,
) -> (Option<Rc<Decision>>, FilterResult) {
    let mut made = Rc::<Decision>::default();
    let decision = Rc::get_mut(&mut made).expect("it is new");
    let result = decide(targeted, access, has_unknown_token, decision, rest, watch).await;
    (Some(made).filter(|decision| !decision.is_empty()), result)
}

/// The check of a client's address.
pub(crate) fn by_address(targeted: &Targeted<'_>, networks: &Networks, watch: impl Watch) -> FilterResult {
    let refused = networks::refusal(targeted, networks);
    watch.note(Stage::Networks, refused.is_none());
    refused.map_or(FilterResult::Continue, FilterResult::Refuse)
}

async fn decide(
    targeted: &Targeted<'_>,
    access: &Access,
    has_unknown_token: bool,
    decision: &mut Decision,
    mut rest: Option<&mut Buffer>,
    watch: impl Watch,
) -> FilterResult {
    if let Some(firewall) = &access.firewall {
        let (inspection, result) =
            Box::pin(firewall::check(targeted, firewall, rest.as_deref_mut(), watch)).await;
        decision.inspection = Some(inspection);
        watch.note(Stage::Firewall, result == FilterResult::Continue);
        if result != FilterResult::Continue {
            return result;
        }
    }
    if let Some(keys) = &access.api_keys {
        api_keys::identify(targeted, keys, decision);
    }
    let token = match &access.jwt {
        Some(jwt) if !is_excluded(targeted, access) => {
            Some(Box::pin(jwt::identify(targeted, jwt, has_unknown_token, decision, watch)).await)
        }
        _ => None,
    };
    if access.hides_sessions {
        oidc::hide_cookies(targeted, decision);
    }
    let visitor = access.oidc.as_ref().map(|oidc| oidc::identify(targeted, oidc, decision));
    let headers = access.external.iter().flat_map(|auth| &auth.check.response_headers);
    headers.for_each(|name| decision.tell(name, None));
    if access.basic.is_some() {
        decision.tell("Authorization", None);
    }
    let limited = limit(targeted, access, decision).await;
    if let Some(result) = &limited {
        watch.note(Stage::Limits, *result == FilterResult::Continue);
    }
    let result = match limited {
        None | Some(FilterResult::Continue) => match oidc::endpoints_of(targeted, access) {
            Some(endpoints) => {
                watch.note(Stage::Oidc, false);
                Box::pin(oidc::endpoints::answer(targeted, endpoints, rest)).await
            }
            None => combine(targeted, access, token.as_ref(), visitor, decision, rest, watch).await,
        },
        Some(refusal) => refusal,
    };
    if let Some(processor) = access.processor.as_ref().filter(|_| result == FilterResult::Continue) {
        watch.note(Stage::Processor, true);
        decision.processing = Some(Box::new(Processing::new(&processor.policy, targeted.is_grpc())));
    }
    result
}

/// Whether the address of a client excludes it, whatever else it shows: no signature is checked for it.
fn is_excluded(targeted: &Targeted<'_>, access: &Access) -> bool {
    let admits = |networks: &Networks| networks.admits(targeted.forwarded.client);
    access.satisfy == Satisfy::All && !access.networks.as_ref().is_none_or(admits)
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

/// Runs the checks of the client in their order, until the client is known to be let in or refused.
async fn combine(
    targeted: &Targeted<'_>,
    access: &Access,
    token: Option<&Shown<'_>>,
    visitor: Option<oidc::Visitor>,
    decision: &mut Decision,
    mut rest: Option<&mut Buffer>,
    watch: impl Watch,
) -> FilterResult {
    let mut checks = Combination::new(access.satisfy);
    if let Some(networks) = &access.networks
        && checks.add(by_address(targeted, networks, watch))
    {
        return checks.result();
    }
    if let Some(keys) = &access.api_keys {
        let result = api_keys::check(keys, decision);
        watch.note(Stage::ApiKeys, result == FilterResult::Continue);
        if checks.add(result) {
            return checks.result();
        }
    }
    if let Some(token) = token {
        if token.is_exhausted() && !watch.explains() {
            Box::pin(hold_back(targeted)).await;
        }
        let result = token.check(targeted);
        watch.note(Stage::Jwt, result == FilterResult::Continue);
        if checks.add(result) {
            return checks.result();
        }
    }
    if let Some(basic) = &access.basic {
        let result = match basic.scheme {
            PasswordScheme::Basic => basic::check(targeted, basic, watch).await,
            PasswordScheme::Digest => digest::check(targeted, basic),
        };
        watch.note(Stage::BasicAuth, result == FilterResult::Continue);
        if checks.add(result) {
            return checks.result();
        }
    }
    if let (Some(oidc), Some(visitor)) = (&access.oidc, visitor) {
        let result = Box::pin(oidc::check(targeted, oidc, visitor, decision, watch)).await;
        watch.note(Stage::Oidc, result == FilterResult::Continue);
        if checks.add(result) {
            return checks.result();
        }
    }
    if let Some(auth) = &access.external {
        let result = external::check(targeted, auth, decision, watch).await;
        watch.note(Stage::ExternalAuth, result == FilterResult::Continue);
        if checks.add(result) {
            return checks.result();
        }
    }
    for authz in &access.ext_authz {
        let check = ext_authz::check(targeted, authz, decision, rest.as_deref_mut(), watch);
        let result = Box::pin(check).await;
        watch.note(Stage::ExtAuthz, result == FilterResult::Continue);
        if checks.add(result) {
            return checks.result();
        }
    }
    checks.result()
}
