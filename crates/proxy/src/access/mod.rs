//! Who may use a route. A route that everybody may use does not come here.

pub(crate) mod client_certificate;

use std::net::IpAddr;

use model::Access;
use observe::Reason;

use crate::filters::FilterResult;
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

/// Asks in turn what guards the route. `client` is the address of the client.
pub(crate) fn check_client(access: &Access, client: IpAddr) -> FilterResult {
    match &access.networks {
        Some(networks) if !networks.admits(client) => FilterResult::Refuse(Reason::AddressDenied),
        _ => FilterResult::Continue,
    }
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
