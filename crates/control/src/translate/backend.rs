//! What is spoken with endpoints: the version of HTTP, and whether over TLS.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use model::{CipherSuite, Encryption, HttpVersion, TlsVersions, UpstreamTls};

use super::lookup::Lookup;
use super::value::Parsed;
use crate::names::NsName;
use crate::objects::{Ingress, ServicePort, Sourced};
use crate::problem::{Problem, Reason, Severity};

/// `backend-protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Https,
    /// As the client speaks.
    AutoHttp,
    Grpc,
    Grpcs,
}

/// What annotations say about endpoints.
#[derive(Clone, Debug, Default)]
pub(super) struct Backend {
    /// Nothing where no annotation says so.
    pub(super) protocol: Option<Protocol>,
    pub(super) tls: BackendTls,
    /// From [`BackendTls::secret`].
    secret: Option<Arc<UpstreamTls>>,
    /// What there is to say of endpoints whose certificates are not verified.
    pub(super) unverified: Option<Problem>,
}

/// `proxy-ssl-*`.
#[derive(Clone, Debug)]
pub(super) struct BackendTls {
    /// `namespace/name`.
    pub(super) secret: Option<String>,
    pub(super) verify: bool,
    pub(super) depth: u32,
    pub(super) name: Option<String>,
    pub(super) send_name: bool,
    pub(super) versions: TlsVersions,
    pub(super) ciphers: Vec<CipherSuite>,
}

impl Default for BackendTls {
    fn default() -> Self {
        Self {
            secret: None,
            verify: false,
            depth: 1,
            name: None,
            send_name: false,
            versions: TlsVersions::default(),
            ciphers: Vec::new(),
        }
    }
}

/// Why something that annotations name cannot be had.
pub(super) type Fault = (Reason, String);

/// The protocol that an annotation names.
pub(super) fn protocol(text: &str) -> Parsed<Protocol> {
    match text.trim().to_ascii_uppercase().as_str() {
        "HTTP" => Ok(Protocol::Http),
        "HTTPS" => Ok(Protocol::Https),
        "AUTO_HTTP" => Ok(Protocol::AutoHttp),
        "GRPC" => Ok(Protocol::Grpc),
        "GRPCS" => Ok(Protocol::Grpcs),
        "FCGI" => Err("FastCGI is not yet supported".to_owned()),
        _ => Err(format!("{text:?} is none of HTTP, HTTPS, AUTO_HTTP, GRPC and GRPCS")),
    }
}

impl Protocol {
    fn version(self) -> HttpVersion {
        match self {
            Self::Http | Self::Https | Self::AutoHttp => HttpVersion::Http1,
            Self::Grpc | Self::Grpcs => HttpVersion::Http2,
        }
    }

    fn encrypts(self) -> bool {
        matches!(self, Self::Https | Self::AutoHttp | Self::Grpcs)
    }
}

/// What is spoken with the endpoints of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Speech {
    pub(super) version: HttpVersion,
    pub(super) encryption: Encryption,
}

impl Backend {
    /// Looks up what the annotations name. Returns why requests must not be let through, and the same for people to read, if
    /// something is amiss.
    pub(super) fn resolve(
        &mut self,
        ingress: &Sourced<Ingress>,
        prefix: &str,
        crosses_namespaces: bool,
        lookup: &Lookup<'_>,
    ) -> Option<(String, Problem)> {
        let line = |name: &str| ingress.metadata.annotations.get(&format!("{prefix}/{name}"));
        let refused = |name: &str, (reason, why): Fault| {
            let message =
                format!("annotation {prefix}/{name}: {why}: the locations of this Ingress answer 503");
            let problem = line(name).map_or_else(
                || Problem::of(Severity::Error, ingress, message.clone()),
                |value| Problem::at(Severity::Error, ingress, value, message.clone()),
            );
            Some((format!("{name}: {why}"), problem.because(reason)))
        };
        if let Some(name) = &self.tls.secret {
            match self.read_secret(name, ingress.namespace(), crosses_namespaces, lookup) {
                Ok(found) => self.secret = Some(Arc::new(found)),
                Err(why) => return refused("proxy-ssl-secret", why),
            }
        }
        let encrypts = self.protocol.is_some_and(Protocol::encrypts);
        let knows_whom_to_believe =
            self.secret.as_ref().is_some_and(|it| !it.authorities.certificates.is_empty());
        if encrypts && self.tls.verify && !knows_whom_to_believe {
            let why = "there is no proxy-ssl-secret with a ca.crt to verify against";
            return refused("proxy-ssl-verify", (Reason::Secret, why.to_owned()));
        }
        self.unverified = line("backend-protocol").map(|value| {
            let message = format!(
                "annotation {prefix}/backend-protocol: certificates of the endpoints are not verified; \
                 proxy-ssl-verify turns that on"
            );
            Problem::at(Severity::Notice, ingress, value, message)
        });
        None
    }

    fn read_secret(
        &self,
        name: &str,
        namespace: &str,
        crosses_namespaces: bool,
        lookup: &Lookup<'_>,
    ) -> Result<UpstreamTls, Fault> {
        let key = secret_name(name, namespace, crosses_namespaces)?;
        let missing = |message: String| (Reason::Secret, message);
        let secret = lookup.secret(&key).ok_or_else(|| missing(format!("Secret {key} is missing")))?;
        let unusable = |why: &String| missing(format!("Secret {key} cannot be used: {why}"));
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
            return Err(missing(format!("Secret {key} has neither tls.crt nor ca.crt")));
        }
        Ok(self.tls.upstream(certificate, authorities))
    }

    /// Whether a Secret of its own says how TLS is spoken.
    pub(super) fn secret(&self) -> Option<&Arc<UpstreamTls>> {
        self.secret.as_ref()
    }

    /// What is spoken with the endpoints of a Service's port. `of_host` is what another Ingress of the host says of TLS.
    pub(super) fn speech(
        &self,
        port: Option<&ServicePort>,
        own_name: impl FnOnce() -> String,
        of_host: Option<&Arc<UpstreamTls>>,
    ) -> Speech {
        let Some(protocol) = self.protocol else {
            let speaks_http2 =
                port.and_then(|port| port.app_protocol.as_deref()) == Some("kubernetes.io/h2c");
            let version = if speaks_http2 { HttpVersion::Http2 } else { HttpVersion::Http1 };
            return Speech { version, encryption: Encryption::Never };
        };
        if !protocol.encrypts() {
            return Speech { version: protocol.version(), encryption: Encryption::Never };
        }
        let mut tls = match self.secret.as_ref().or(of_host) {
            Some(tls) => UpstreamTls::clone(tls),
            None => self.tls.upstream(None, Arc::default()),
        };
        if tls.name.is_empty() {
            tls.name = own_name();
        }
        let tls = Arc::new(tls);
        let encryption = match protocol {
            Protocol::AutoHttp => Encryption::AsClient(tls),
            _ => Encryption::Always(tls),
        };
        Speech { version: protocol.version(), encryption }
    }
}

impl Hash for Speech {
    /// What else there is of TLS seldom differs where the name does not.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let name = match &self.encryption {
            Encryption::Never => None,
            Encryption::Always(tls) | Encryption::AsClient(tls) => Some(&tls.name),
        };
        (self.version, name).hash(state);
    }
}

impl Speech {
    /// Whether endpoints may show any certificate.
    pub(super) fn is_unverified(&self) -> bool {
        match &self.encryption {
            Encryption::Never => false,
            Encryption::Always(tls) | Encryption::AsClient(tls) => !tls.verify,
        }
    }
}

impl BackendTls {
    fn upstream(
        &self,
        certificate: Option<Arc<model::Certificate>>,
        authorities: Arc<model::Authorities>,
    ) -> UpstreamTls {
        UpstreamTls {
            certificate,
            authorities,
            verify: self.verify,
            depth: self.depth,
            name: self.name.clone().unwrap_or_default(),
            send_name: self.send_name,
            versions: self.versions,
            ciphers: self.ciphers.clone(),
        }
    }
}

/// The Secret that an annotation names: `namespace/name`, of the Ingress' own namespace unless others are allowed.
pub(super) fn secret_name(text: &str, namespace: &str, crosses_namespaces: bool) -> Result<NsName, Fault> {
    let name: NsName = text.trim().parse().map_err(|error| (Reason::Annotation, format!("{error}")))?;
    if name.namespace != namespace && !crosses_namespaces {
        let why = format!(
            "Secret {name} is of another namespace, which allow-cross-namespace-resources has to allow"
        );
        return Err((Reason::Forbidden, why));
    }
    Ok(name)
}
