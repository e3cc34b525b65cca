//! The protocol towards endpoints, and its TLS (`backend-protocol`, `proxy-ssl-*`).
//!
//! If a verification cannot be enforced, the locations of the Ingress are closed.

use std::sync::Arc;

use model::{CipherSuite, TlsVersions, UpstreamTls};

use super::annotation::Effect::Supported;
use super::annotation::Scope::{Ingress, Location};
use super::annotation::annotations;
use super::resolve::{Context, Fault, Findings, Resolve};
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::DraftRoute;
use crate::translate::upstream_protocol::{NAME, Protocol, UpstreamDraft};
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "backend-protocol", Location, "", Supported(|s, v| set(&mut s.upstream_tls.protocol, protocol(v).map(Some))),
        "Protocol of the endpoints: HTTP, HTTPS, AUTO_HTTP, GRPC, GRPCS or FCGI.";
    "proxy-ssl-ciphers", Ingress, "DEFAULT", Supported(ciphers),
        "Cipher suites of TLS 1.2 towards endpoints.", Medium;
    "proxy-ssl-name", Ingress, "", Supported(|s, v| set(&mut s.upstream_tls.name, Ok(value::name(v)))),
        "Name that an endpoint's certificate must have (default `upstream_balancer`).", High;
    "proxy-ssl-protocols", Ingress, "TLSv1.2", Supported(protocols),
        "TLS versions towards endpoints.";
    "proxy-ssl-secret", Ingress, "", Supported(|s, v| set(&mut s.upstream_tls.secret, Ok(value::name(v)))),
        "Secret with the client certificate for endpoints, and with the authorities of theirs.", Medium;
    "proxy-ssl-server-name", Ingress, "off", Supported(|s, v| set(&mut s.upstream_tls.send_name, value::on_off(v))),
        "Sends SNI to endpoints.";
    "proxy-ssl-verify", Ingress, "off", Supported(|s, v| set(&mut s.upstream_tls.verify, value::on_off(v))),
        "Verifies certificates of endpoints.";
    "proxy-ssl-verify-depth", Ingress, "1", Supported(|s, v| set(&mut s.upstream_tls.depth, value::number(v))),
        "Longest chain of an endpoint's certificate.";
}

/// Settings of the protocol towards endpoints.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    /// The protocol; none without the annotation.
    protocol: Option<Protocol>,
    /// Name of the Secret: `namespace/name`.
    secret: Option<String>,
    verify: bool,
    depth: u32,
    name: Option<String>,
    send_name: bool,
    /// The versions; none without the annotation.
    versions: TlsVersions,
    ciphers: Vec<CipherSuite>,
    /// The settings of the Secret apply only to the locations of its Ingress, instead of the whole host. The
    /// `ConfigMap` decides this.
    pub(in crate::translate) is_for_locations_only: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            protocol: None,
            secret: None,
            verify: false,
            depth: 1,
            name: None,
            send_name: false,
            // The default: "TLSv1.2 unless proxy-ssl-protocols."
            versions: TlsVersions { v12: true, v13: false },
            ciphers: Vec::new(),
            is_for_locations_only: false,
        }
    }
}

pub(super) fn apply(resolved: &UpstreamDraft, route: &mut DraftRoute) {
    route.upstream.clone_from(resolved);
}

impl Settings {
    /// The protocol of the annotation.
    pub(super) fn speaks(&self) -> Option<Protocol> {
        self.protocol
    }

    /// The TLS settings for the whole host; none if the Ingress has no Secret or its settings are for its
    /// locations only.
    pub(super) fn of_host(&self, resolved: &UpstreamDraft) -> Option<Arc<UpstreamTls>> {
        resolved.own_tls.clone().filter(|_| !self.is_for_locations_only)
    }

    /// The settings without the Secret. "All of them count only with a readable proxy-ssl-secret."
    pub(super) fn draft(&self) -> UpstreamDraft {
        UpstreamDraft { protocol: self.protocol, ..UpstreamDraft::default() }
    }

    fn read_secret(&self, text: &str, context: &Context<'_, '_>) -> Result<UpstreamTls, Fault> {
        let secret = context.secret(text)?;
        let faulty = |what: String| (Reason::Secret, format!("Secret {} {what}", secret.key()));
        let unusable = |why: &String| faulty(format!("cannot be used: {why}"));
        let certificate = if secret.has_pair() {
            Some(Arc::clone(&secret.pair().as_ref().map_err(unusable)?.certificate))
        } else {
            None
        };
        let authorities = if secret.has_authorities() {
            Arc::clone(secret.authorities().as_ref().map_err(unusable)?)
        } else {
            Arc::default()
        };
        if certificate.is_none() && authorities.certificates.is_empty() {
            return Err(faulty("has neither tls.crt nor ca.crt".to_owned()));
        }
        Ok(self.tls(certificate, authorities))
    }

    fn tls(
        &self,
        certificate: Option<Arc<model::Certificate>>,
        authorities: Arc<model::Authorities>,
    ) -> UpstreamTls {
        UpstreamTls {
            certificate,
            authorities,
            verify: self.verify,
            depth: self.depth,
            alternative_names: Vec::new(),
            name: self.name.clone().unwrap_or_else(|| NAME.to_owned()),
            send_name: self.send_name,
            versions: self.versions,
            ciphers: self.ciphers.clone(),
            is_for_bytes: false,
        }
    }
}

impl Resolve for Settings {
    type Resolved = UpstreamDraft;

    /// Looks up the Secret, and closes the locations if the endpoints cannot be verified as requested.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) -> UpstreamDraft {
        let mut draft = self.draft();
        let mut close = |name: &str, fault: Fault| {
            findings.guards.of_locations.push(format!("{name}: {}", fault.1));
            findings.problems.push(context.closing(name, fault));
        };
        match self.secret.as_ref().map(|name| self.read_secret(name, context)).transpose() {
            Ok(found) => draft.own_tls = found.map(Arc::new),
            Err(fault) => {
                close("proxy-ssl-secret", fault);
                return draft;
            }
        }
        let encrypts = self.protocol.is_some_and(Protocol::encrypts);
        let knows_whom_to_believe =
            draft.own_tls.as_ref().is_some_and(|it| !it.authorities.certificates.is_empty());
        if encrypts && self.verify && !knows_whom_to_believe {
            let why = "there is no proxy-ssl-secret with a ca.crt to verify against";
            close("proxy-ssl-verify", (Reason::Secret, why.to_owned()));
            return draft;
        }
        draft.unverified = context.asker.given("backend-protocol").map(|place| {
            let message = format!(
                "{}: certificates of the endpoints are not verified; proxy-ssl-verify turns that on",
                context.asker.called("backend-protocol")
            );
            Problem::in_place(Severity::Notice, &place, message)
        });
        draft
    }
}

/// The protocol with this name in an annotation.
fn protocol(text: &str) -> Parsed<Protocol> {
    match text.trim().to_ascii_uppercase().as_str() {
        "HTTP" => Ok(Protocol::Http),
        "HTTPS" => Ok(Protocol::Https),
        "AUTO_HTTP" => Ok(Protocol::AutoHttp),
        "GRPC" => Ok(Protocol::Grpc),
        "GRPCS" => Ok(Protocol::Grpcs),
        "FCGI" => Ok(Protocol::Fcgi),
        _ => Err(format!("{text:?} is none of HTTP, HTTPS, AUTO_HTTP, GRPC, GRPCS and FCGI")),
    }
}

fn ciphers(settings: &mut super::Settings, text: &str) -> Applied {
    let tls = &mut settings.upstream_tls;
    if text.trim() == "DEFAULT" {
        tls.ciphers = Vec::new();
        return Ok(None);
    }
    let (suites, remark) = crate::translate::ciphers::parse(text)?;
    tls.ciphers = suites;
    Ok(remark)
}

fn protocols(settings: &mut super::Settings, text: &str) -> Applied {
    let (versions, remark) = value::tls_versions(text)?;
    settings.upstream_tls.versions = versions;
    Ok(remark)
}
