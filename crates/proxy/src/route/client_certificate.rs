//! Lets only clients pass that have shown a good certificate (ingress-nginx: `auth-tls-*`).
//!
//! A certificate is shown over our own TLS and in no other way. A request in clear has none, whatever a
//! hop before us says of its scheme: where one is required, it is refused. nginx, whose
//! `ssl_verify_client` is about connections over TLS only, serves it.

use std::time::Duration;

use model::{Access, ClientCertificate, HostName, VerifyClient};
use observe::Reason;

use crate::io::tls::{ClientTls, ServerConfigs, Verdict};
use crate::request::head::HeadEdits;
use crate::request::reply::{Answer, Scope};
use crate::route::filters::FilterResult;

/// A client over TLS, and what is needed to judge its certificate.
pub(crate) struct ClientCertContext<'a> {
    pub(crate) tls: &'a ClientTls,
    /// The host that the request is for.
    pub(crate) host: &'a HostName,
    pub(crate) server_configs: &'a ServerConfigs,
    /// Time since 1970.
    pub(crate) now: Duration,
}

const VERIFY: &str = "ssl-client-verify";
const SUBJECT: &str = "ssl-client-subject-dn";
const ISSUER: &str = "ssl-client-issuer-dn";
const CERTIFICATE: &str = "ssl-client-cert";

fn check(demand: &ClientCertificate, client: Option<&ClientCertContext<'_>>) -> FilterResult {
    let verdict = match client {
        Some(client) => client.tls.verdict(client.host, client.server_configs, client.now),
        None if demand.passes_in_clear => return FilterResult::Continue,
        None => Ok(Verdict::None),
    };
    let Ok(verdict) = verdict else { return FilterResult::Refuse(Reason::Misdirected) };
    if let Some(reason) = objection(demand.verify, verdict) {
        return match &demand.error_page {
            Some(url) => FilterResult::Answer(Answer::redirect(302, url.clone()).of(Scope::Host)),
            None => FilterResult::Refuse(reason),
        };
    }
    let certificate = client.and_then(|client| client.tls.certificate.as_ref());
    let name = certificate.map_or("", |certificate| &certificate.subject);
    match &demand.match_subject {
        Some(pattern) if !pattern.is_match(name) => FilterResult::Refuse(Reason::ClientCertificateSubject),
        _ => FilterResult::Continue,
    }
}

/// The reason for which nginx's `ssl_verify_client` refuses the client; none if it lets it in.
fn objection(verify: VerifyClient, verdict: Verdict) -> Option<Reason> {
    match (verify, verdict) {
        (VerifyClient::On, Verdict::None) => Some(Reason::ClientCertificateMissing),
        (VerifyClient::Off, _)
        | (_, Verdict::Good | Verdict::None)
        | (VerifyClient::OptionalNoCa, Verdict::Bad { is_untrusted: true, .. }) => None,
        (_, Verdict::Bad { .. }) => Some(Reason::ClientCertificateBad),
    }
}

/// Tells an endpoint of the client's certificate, which its route asks for: also that there is none, so that
/// nobody else can say that there is one.
pub(crate) fn tell<'a>(demand: &ClientCertificate, tls: Option<&'a ClientTls>, edits: &mut HeadEdits<'a>) {
    for name in [VERIFY, SUBJECT, ISSUER, CERTIFICATE] {
        edits.remove(name);
    }
    let Some(tls) = tls else { return };
    edits.set(VERIFY, tls.last_verdict().in_words().into_bytes());
    let Some(certificate) = &tls.certificate else { return };
    edits.set(SUBJECT, certificate.subject.as_bytes());
    edits.set(ISSUER, certificate.issuer.as_bytes());
    if demand.pass_certificate {
        edits.set(CERTIFICATE, certificate.escaped_pem());
    }
}

/// Checks the guards of a host: whether it is closed, and the certificate of the client, which is there if
/// the client came over TLS.
pub(crate) fn check_host(access: &Access, client: Option<&ClientCertContext<'_>>) -> FilterResult {
    if access.forbidden.is_some() {
        return FilterResult::Refuse(Reason::Forbidden);
    }
    match &access.client_certificate {
        Some(demand) => check(demand, client),
        None => FilterResult::Continue,
    }
}

#[cfg(test)]
mod tests {
    use model::Pattern;

    use super::*;

    const UNTRUSTED: Verdict = Verdict::Bad { why: "self-signed certificate", is_untrusted: true };
    const EXPIRED: Verdict = Verdict::Bad { why: "certificate has expired", is_untrusted: false };

    #[test]
    fn what_stands_against_a_client() {
        use VerifyClient::{Off, On, Optional, OptionalNoCa};
        let (missing, bad) = (Some(Reason::ClientCertificateMissing), Some(Reason::ClientCertificateBad));
        for (verify, expected) in [
            (On, [None, missing, bad, bad]),
            (Off, [None; 4]),
            (Optional, [None, None, bad, bad]),
            (OptionalNoCa, [None, None, None, bad]),
        ] {
            let verdicts = [Verdict::Good, Verdict::None, UNTRUSTED, EXPIRED];
            assert_eq!(verdicts.map(|verdict| objection(verify, verdict)), expected, "{verify:?}");
        }
    }

    #[test]
    fn a_client_in_clear_has_shown_no_certificate() {
        let demand = |verify, pattern: Option<&str>, passes_in_clear| ClientCertificate {
            verify,
            match_subject: pattern.map(|pattern| Pattern::parse(pattern).unwrap()),
            error_page: None,
            pass_certificate: false,
            passes_in_clear,
        };
        let (missing, subject_differs) = (
            FilterResult::Refuse(Reason::ClientCertificateMissing),
            FilterResult::Refuse(Reason::ClientCertificateSubject),
        );
        for (demand, expected) in [
            (demand(VerifyClient::On, None, false), missing),
            (demand(VerifyClient::Optional, None, false), FilterResult::Continue),
            (demand(VerifyClient::Optional, Some("CN=a"), false), subject_differs),
            (demand(VerifyClient::On, Some("CN=a"), true), FilterResult::Continue),
        ] {
            assert_eq!(check(&demand, None), expected, "{demand:?}");
        }
    }

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
