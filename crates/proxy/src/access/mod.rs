//! Who may use a route. A route that everybody may use does not come here.

pub(crate) mod client_certificate;

use model::Access;
use observe::Reason;

use crate::filters::FilterResult;
pub(crate) use client_certificate::ClientCertContext;

/// Asks in turn all that can refuse a request. `client` is what its connection says of it, if it came over TLS.
pub(crate) fn check(access: &Access, client: Option<&ClientCertContext<'_>>) -> FilterResult {
    if access.forbidden.is_some() {
        return FilterResult::Refuse(Reason::Forbidden);
    }
    if let Some(demand) = &access.client_certificate {
        let result = client_certificate::check(demand, client);
        if result != FilterResult::Continue {
            return result;
        }
    }
    if access.unavailable.is_some() {
        return FilterResult::Refuse(Reason::Unavailable);
    }
    FilterResult::Continue
}

#[cfg(test)]
mod tests {
    use model::{ClientCertificate, VerifyClient};

    use super::*;

    #[test]
    fn what_guards_the_host_is_asked_before_what_guards_the_route() {
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
            unavailable: Some("auth-url".to_owned()),
        };
        assert_eq!(check(&access, None), FilterResult::Refuse(Reason::Forbidden));
        access.forbidden = None;
        assert_eq!(check(&access, None), FilterResult::Refuse(Reason::ClientCertificateMissing));
        access.client_certificate = None;
        assert_eq!(check(&access, None), FilterResult::Refuse(Reason::Unavailable));
        assert_eq!(check(&Access::default(), None), FilterResult::Continue);
    }
}
