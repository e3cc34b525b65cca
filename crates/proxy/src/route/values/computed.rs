//! Values that are made only for a text that has them in it. A request for which no such text is made pays
//! nothing for them.

use std::borrow::Cow;
use std::net::IpAddr;

use model::template::Variable;
use model::{AppProtocol, Encryption};

use super::Scope;
use crate::io::tls::ClientTls;
use crate::request::Request;
use crate::request::inspection::Inspection;
use crate::request::lookup;

/// The name of what ingress-nginx passes every request on to.
const PROXY_HOST: &str = "upstream_balancer";

/// The value of a variable; none where the request has none.
pub(super) fn value<'x>(scope: Scope<'x>, variable: &Variable) -> Option<Cow<'x, [u8]>> {
    let request = scope.routed.request;
    let (conn, forwarded) = (request.conn, &request.forwarded);
    let peer = conn.peer.ip().to_canonical();
    match variable {
        Variable::ProxyAddXForwardedFor => Some(with_address(request, forwarded.client)),
        Variable::FullXForwardedFor => Some(with_address(request, peer)),
        Variable::ConnectionUpgrade => {
            let asked = request.parsed.fields.find_name(request.head, b"upgrade");
            asked.filter(|field| !field.value(request.head).is_empty()).map(|_| b"upgrade"[..].into())
        }
        Variable::RedirectToHttps => {
            Some(if forwarded.scheme == b"http" { &b"1"[..] } else { &b"0"[..] }.into())
        }
        Variable::PassServerPort => {
            let own = || text(&conn.named_port.unwrap_or_else(|| conn.local.port()));
            Some(forwarded.reported_port().map_or_else(own, Cow::Borrowed))
        }
        Variable::PassPort => Some(forwarded.told_port()),
        Variable::ProxyProtocolAddr => conn.named_port.map(|_| text(&peer)),
        Variable::ProxyProtocolPort => conn.named_port.map(|_| text(&conn.peer.port())),
        Variable::ProxyHost => is_encrypted_upstream(scope).map(|_| PROXY_HOST.as_bytes().into()),
        Variable::ProxyPort => {
            let port = |is_encrypted| if is_encrypted { &b"443"[..] } else { &b"80"[..] };
            is_encrypted_upstream(scope).map(|is_encrypted| port(is_encrypted).into())
        }
        Variable::RequestBody => request.report.request_body.get().map(|body| body.as_ref().into()),
        Variable::ForebayWafVerdict
        | Variable::ForebayWafRule
        | Variable::ForebayWafScore
        | Variable::ModsecurityIntervention
        | Variable::ModsecurityTriggeredRules => of_firewall(scope.decision?.inspection.as_ref()?, variable),
        of_certificate => of_client(request, conn.tls.as_deref()?, of_certificate),
    }
}

/// The values that a firewall leaves, once its transaction has ended.
fn of_firewall<'x>(inspection: &Inspection, variable: &Variable) -> Option<Cow<'x, [u8]>> {
    let report = inspection.report()?;
    let is_blocked = inspection.phase() > 0;
    let mut logged = report.matches.iter().filter(|found| found.log);
    Some(match variable {
        Variable::ForebayWafVerdict if is_blocked => b"blocked"[..].into(),
        Variable::ForebayWafVerdict if logged.next().is_some() => b"matched"[..].into(),
        Variable::ForebayWafVerdict => b"passed"[..].into(),
        Variable::ModsecurityIntervention => if is_blocked { &b"1"[..] } else { &b"0"[..] }.into(),
        Variable::ForebayWafRule => text(&report.stopped_by?),
        Variable::ForebayWafScore => text(&report.inbound_score?),
        _ => {
            let rules: Vec<_> = logged.map(|found| found.rule.to_string()).collect();
            Some(rules.join(",").into_bytes()).filter(|rules| !rules.is_empty())?.into()
        }
    })
}

/// The values of `$ssl_client_*`: empty in clear, and without a certificate all but the verdict.
fn of_client<'x>(request: &Request<'_>, tls: &'x ClientTls, variable: &Variable) -> Option<Cow<'x, [u8]>> {
    if *variable == Variable::SslClientVerify {
        return Some(text(&tls.last_verdict().in_words()));
    }
    let certificate = tls.certificate.as_deref()?;
    let made = match variable {
        Variable::SslClientSubject => return Some(certificate.subject.as_bytes().into()),
        Variable::SslClientIssuer => return Some(certificate.issuer.as_bytes().into()),
        Variable::SslClientEscapedCert => return Some(certificate.escaped_pem().into()),
        Variable::SslClientSubjectLegacy => certificate.subject_in_one_line(),
        Variable::SslClientIssuerLegacy => certificate.issuer_in_one_line(),
        Variable::SslClientSerial => certificate.serial(),
        Variable::SslClientFingerprint => Some(certificate.fingerprint()),
        Variable::SslClientCert => Some(certificate.pem_behind_tabs()),
        Variable::SslClientRawCert => Some(certificate.pem()),
        Variable::SslClientStart => certificate.start(),
        Variable::SslClientEnd => certificate.end(),
        Variable::SslClientRemain => {
            certificate.remaining_days(request.worker.clock.unix()).map(|days| days.to_string())
        }
        _ => None,
    };
    made.map(|made| made.into_bytes().into())
}

/// The list of addresses that the client sent, and behind it another one.
fn with_address<'x>(request: &Request<'_>, address: IpAddr) -> Cow<'x, [u8]> {
    let names = request.config.settings().client.header_names;
    let list = lookup::header_variable(request.head, request.parsed, b"x-forwarded-for", names);
    match list.filter(|list| !list.is_empty()) {
        Some(list) => [&list, &b", "[..], address.to_string().as_bytes()].concat().into(),
        None => text(&address),
    }
}

/// Whether the endpoints of the request are spoken to over TLS; none before they are known, and where nginx
/// has other words for them.
fn is_encrypted_upstream(scope: Scope<'_>) -> Option<bool> {
    let cluster = scope.routed.config.snapshot.cluster(scope.cluster?);
    (cluster.version == AppProtocol::Http1).then_some(match &cluster.encryption {
        Encryption::Never => false,
        Encryption::Always(_) => true,
        Encryption::AsClient(_) => scope.routed.conn.tls.is_some(),
    })
}

fn text(value: &impl ToString) -> Cow<'static, [u8]> {
    value.to_string().into_bytes().into()
}
