use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{AddressSet, BasicAuth, ClientLimits, ExternalAuth, Pattern, RequestQuota, VerifyClient};

/// Who may use a route. Each field can refuse a request, and they are asked in the order in which they stand here: what guards the host
/// or closes the route before the [`RequestFilters`](crate::RequestFilters), the others once it is known that the request can be served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Nobody may, since something that guards the whole host cannot be enforced: the answer is 403. Says what is wrong, for the log
    /// and the `/configuration` page; the client is not told.
    pub forbidden: Option<String>,
    /// Only clients that have shown a good certificate.
    pub client_certificate: Option<ClientCertificate>,
    /// Nobody may, since something that guards this route cannot be enforced: the answer is 503. Says what is wrong, as
    /// [`forbidden`](Self::forbidden) does.
    pub unavailable: Option<String>,
    /// Only so many requests of one client. Counts those that are refused by what comes after it.
    pub limits: Option<ClientLimits>,
    /// Only so many requests in windows of time, of those who have a value in common.
    pub quota: Option<RequestQuota>,
    /// Only clients with certain addresses.
    pub networks: Option<Networks>,
    /// Only clients that know a password.
    pub basic: Option<BasicAuth>,
    /// Only clients that another service lets in.
    pub external: Option<ExternalAuth>,
    /// Whether each of `networks`, `basic` and `external` has to let a client in, or one of them suffices.
    pub satisfy: Satisfy,
}

/// Which addresses clients may have; others are answered with 403.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// Addresses that may not, whatever [`allowed`](Self::allowed) says.
    pub denied: Option<Arc<AddressSet>>,
    /// Addresses that may; none for all.
    pub allowed: Option<Arc<AddressSet>>,
    /// Rules that are asked in their order after both; who meets none is let in.
    pub rules: Arc<[AddressRule]>,
}

/// Lets the addresses of a network in, or refuses them (nginx: `allow`, `deny`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRule {
    /// Whether they are let in.
    pub allows: bool,
    /// Which addresses; none for all.
    pub network: Option<IpNet>,
}

impl Networks {
    /// Whether a client with this address may use the route.
    pub fn admits(&self, client: IpAddr) -> bool {
        let holds = |set: &Option<Arc<AddressSet>>| set.as_ref().map(|set| set.contains(client));
        let address = client.to_canonical();
        let is_met = |rule: &&AddressRule| rule.network.is_none_or(|network| network.contains(&address));
        holds(&self.denied) != Some(true)
            && holds(&self.allowed) != Some(false)
            && self.rules.iter().find(is_met).is_none_or(|rule| rule.allows)
    }
}

/// How several checks of a client are combined (nginx: `satisfy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Satisfy {
    /// Each has to let it in.
    #[default]
    All,
    /// One of them suffices: its address or its credentials.
    Any,
}

/// What becomes of clients by the certificate that they have shown (ingress-nginx: `auth-tls-*`). One that is missing or bad
/// is answered with 400, as nginx does; which are asked for, and who is believed, says [`HostTls`](crate::HostTls).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// What has to be shown.
    pub verify: VerifyClient,
    /// What the subject's name has to match (`CN=...`); else the answer is 403.
    pub match_subject: Option<Pattern>,
    /// Where to send clients instead of the 400: an absolute URL.
    pub error_page: Option<String>,
    /// Pass the certificate on to the endpoint, in `ssl-client-cert`.
    pub pass_certificate: bool,
    /// Serve requests that come in clear although a certificate is required: the challenge of a certificate authority (ACME's
    /// HTTP-01) comes in clear, and the route of its answer asks for no certificate itself.
    pub passes_in_clear: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_is_met_decides() {
        let rule = |allows, network: &str| AddressRule { allows, network: network.parse().ok() };
        let rules = [rule(false, "10.1.0.0/16"), rule(true, "10.0.0.0/8"), rule(false, "all")];
        let networks = Networks { rules: rules.into(), ..Networks::default() };
        let admits = |client: &str| networks.admits(client.parse().unwrap());
        assert!(admits("10.2.0.1") && admits("::ffff:10.2.0.1") && !admits("10.1.0.1") && !admits("::1"));
        let open = Networks { rules: [rule(false, "10.0.0.0/8")].into(), ..Networks::default() };
        assert!(open.admits("192.0.2.1".parse().unwrap()), "who meets none is let in");
    }
}
