//! Values that are made only for a text that has them in it. A request for which no such text is made pays nothing for them.

use std::borrow::Cow;
use std::net::IpAddr;

use model::template::Variable;
use model::{AppProtocol, Encryption};

use crate::exchange::Exchange;
use crate::lookup;
use crate::tls::ClientTls;

/// The name of what ingress-nginx passes every request on to.
const PROXY_HOST: &str = "upstream_balancer";

/// The value of a variable; none where the request has none.
pub(super) fn value<'x>(exchange: &'x Exchange<'_>, variable: &Variable) -> Option<Cow<'x, [u8]>> {
    let (conn, forwarded) = (exchange.conn, &exchange.forwarded);
    let peer = conn.peer.ip().to_canonical();
    match variable {
        Variable::ProxyAddXForwardedFor => Some(with_address(exchange, forwarded.client)),
        Variable::FullXForwardedFor => Some(with_address(exchange, peer)),
        Variable::ConnectionUpgrade => {
            let asked = exchange.request.fields.find_name(exchange.head, b"upgrade");
            asked.filter(|field| !field.value(exchange.head).is_empty()).map(|_| b"upgrade"[..].into())
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
        Variable::ProxyHost => is_encrypted_upstream(exchange).map(|_| PROXY_HOST.as_bytes().into()),
        Variable::ProxyPort => {
            let port = |is_encrypted| if is_encrypted { &b"443"[..] } else { &b"80"[..] };
            is_encrypted_upstream(exchange).map(|is_encrypted| port(is_encrypted).into())
        }
        Variable::RequestBody => exchange.report.request_body.get().map(|body| body.as_ref().into()),
        of_certificate => of_client(exchange, conn.tls.as_deref()?, of_certificate),
    }
}

/// The values of `$ssl_client_*`: empty in clear, and without a certificate all but the verdict.
fn of_client<'x>(exchange: &Exchange<'_>, tls: &'x ClientTls, variable: &Variable) -> Option<Cow<'x, [u8]>> {
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
            certificate.remaining_days(exchange.worker.clock.unix()).map(|days| days.to_string())
        }
        _ => None,
    };
    made.map(|made| made.into_bytes().into())
}

/// The list of addresses that the client sent, and behind it another one.
fn with_address<'x>(exchange: &Exchange<'_>, address: IpAddr) -> Cow<'x, [u8]> {
    let names = exchange.config.settings().client.header_names;
    let list = lookup::header_variable(exchange.head, exchange.request, b"x-forwarded-for", names);
    match list.filter(|list| !list.is_empty()) {
        Some(list) => [&list, &b", "[..], address.to_string().as_bytes()].concat().into(),
        None => text(&address),
    }
}

/// Whether the endpoints of the request are spoken to over TLS; none before they are known, and where nginx has other words for them.
fn is_encrypted_upstream(exchange: &Exchange<'_>) -> Option<bool> {
    let cluster = exchange.config.snapshot.cluster(exchange.cluster.get()?);
    (cluster.version == AppProtocol::Http1).then_some(match &cluster.encryption {
        Encryption::Never => false,
        Encryption::Always(_) => true,
        Encryption::AsClient(_) => exchange.conn.tls.is_some(),
    })
}

fn text(value: &impl ToString) -> Cow<'static, [u8]> {
    value.to_string().into_bytes().into()
}
