//! Who may use a route. A route that everybody may use does not come here.

pub(crate) mod abuse;
mod basic;
pub(crate) mod client_certificate;
mod digest;
mod external;
mod key;
pub(crate) mod limits;
pub(crate) mod priority;
pub(crate) mod quota;

use model::{Access, PasswordScheme, Satisfy};
use observe::Reason;

use crate::clients::Admitted;
use crate::exchange::Exchange;
use crate::filters::FilterResult;
use crate::reply::Answer;
use crate::stage::{Stage, Watch};
pub(crate) use client_certificate::ClientCertContext;

/// Asks what guards the host, and whether the route is closed. `client` is what its connection says of it, if it came over TLS.
pub(crate) fn check_host(access: &Access, client: Option<&ClientCertContext<'_>>) -> FilterResult {
    if access.forbidden.is_some() {
        return FilterResult::Refuse(Reason::Forbidden);
    }
    match &access.client_certificate {
        Some(demand) => client_certificate::check(demand, client),
        None => FilterResult::Continue,
    }
}

/// Asks in turn what guards the route, and notes what follows for the request.
pub(crate) async fn admit(exchange: &Exchange<'_>, access: &Access, watch: impl Watch) -> FilterResult {
    let mut admitted = Admitted::default();
    let headers = access.external.iter().flat_map(|auth| &auth.check.response_headers);
    headers.for_each(|name| admitted.tell(name, None));
    if access.basic.is_some() {
        admitted.tell("Authorization", None);
    }
    let limited = limit(exchange, access, &mut admitted).await;
    if let Some(result) = &limited {
        watch.note(Stage::Limits, *result == FilterResult::Continue);
    }
    let result = match limited {
        None | Some(FilterResult::Continue) => combine(exchange, access, &mut admitted, watch).await,
        Some(refusal) => refusal,
    };
    if !admitted.is_empty() {
        // Nobody else has set it: a request is asked about once.
        let _ = exchange.admitted.set(Box::new(admitted));
    }
    result
}

/// Asks whether the client has asked for too much; none where the route has no limits.
/// What ingress-nginx's limits refuse is not counted by the other one.
async fn limit(exchange: &Exchange<'_>, access: &Access, admitted: &mut Admitted) -> Option<FilterResult> {
    let limited = access.limits.as_ref().map(|limits| limits::check(exchange, limits, admitted));
    match (&access.quota, limited) {
        (Some(quota), None | Some(FilterResult::Continue)) => {
            Some(quota::check(exchange, quota, admitted).await)
        }
        (_, limited) => limited,
    }
}

/// nginx's `satisfy`: with `any` the first check that lets a client in decides, and a 401 stands before a 403.
async fn combine(
    exchange: &Exchange<'_>,
    access: &Access,
    admitted: &mut Admitted,
    watch: impl Watch,
) -> FilterResult {
    let is_any = access.satisfy == Satisfy::Any;
    let mut refusal = FilterResult::Continue;
    if let Some(networks) = &access.networks {
        let is_admitted = networks.admits(exchange.forwarded.client);
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
    if let Some(basic) = &access.basic {
        let result = match basic.scheme {
            PasswordScheme::Basic => basic::check(exchange, basic).await,
            PasswordScheme::Digest => digest::check(exchange, basic),
        };
        watch.note(Stage::BasicAuth, result == FilterResult::Continue);
        match result {
            FilterResult::Continue if is_any => return FilterResult::Continue,
            FilterResult::Answer(answer) if is_any => refusal = FilterResult::Answer(answer),
            FilterResult::Continue => {}
            other => return other,
        }
    }
    if let Some(auth) = &access.external {
        let result = external::check(exchange, auth, admitted, watch).await;
        watch.note(Stage::ExternalAuth, result == FilterResult::Continue);
        match result {
            FilterResult::Continue => return FilterResult::Continue,
            FilterResult::Answer(answer) if answer.status == 403 && refusal != FilterResult::Continue => {}
            FilterResult::Answer(answer) if answer.status == 401 => {
                let mut challenges = match &refusal {
                    FilterResult::Answer(basic) => basic.challenges(),
                    _ => Vec::new(),
                };
                challenges.extend(answer.challenges());
                return FilterResult::Answer(Answer::refusal(401, &challenges));
            }
            other => return other,
        }
    }
    refusal
}

#[cfg(test)]
mod tests {
    use model::{ClientCertificate, VerifyClient};

    use super::*;

    #[test]
    fn what_guards_the_host_is_asked_in_order() {
        let demand = ClientCertificate {
            verify: VerifyClient::On,
            match_subject: None,
            error_page: None,
            pass_certificate: false,
            passes_in_clear: false,
        };
        let mut access = Access {
            forbidden: Some("auth-tls-secret".to_owned()),
            client_certificate: Some(demand),
            ..Access::default()
        };
        assert_eq!(check_host(&access, None), FilterResult::Refuse(Reason::Forbidden));
        access.forbidden = None;
        assert_eq!(check_host(&access, None), FilterResult::Refuse(Reason::ClientCertificateMissing));
        assert_eq!(check_host(&Access::default(), None), FilterResult::Continue);
    }
}
