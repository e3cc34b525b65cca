//! TLS of listeners: their certificates, and the verification of clients.
//!
//! Never in here: hosts.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Authorities, Certificate, ClientAuth, HostTls, VerifyClient};

use super::acme::{Asking, Found, Obtained};
use super::conditions::Fault;
use super::effective::{Effective, ParentKey};
use super::grants::{self, Referrer};
use crate::certificate;
use crate::names::NsName;
use crate::objects::gateway_api::{
    FrontendValidation, GROUP, Gateway, ObjectReference, Protocol, TlsMode, ValidationMode,
};
use crate::objects::{At, ConfigMap, Resource, Secret, Sourced};
use crate::problem::SourceLocation;
use crate::translate::certificates;
use crate::translate::inputs::Inputs;

/// The longest chain of certificates between a client's and an authority's.
const DEPTH_MAX: u32 = 10;

/// TLS of listeners, stored from one translation to the next: unchanged settings keep their pointer.
pub(super) type Kept = HashMap<(ParentKey, Box<str>), Arc<HostTls>>;

/// The inputs of a listener's TLS settings, and the findings about its certificates.
pub(super) struct Reading<'r, 'a> {
    pub(super) inputs: &'r Inputs<'a>,
    /// Whether the object asks for certificates that Forebay obtains.
    pub(super) asking: &'r Asking,
    pub(super) found: &'r mut Found,
    pub(super) kept: &'r mut Kept,
}

/// Reads the TLS settings of a listener. `place` locates it.
pub(super) fn read(
    one: &mut Effective<'_>,
    gateway: &Sourced<Gateway>,
    place: &dyn Fn() -> SourceLocation,
    reading: &mut Reading<'_, '_>,
) {
    let inputs = reading.inputs;
    let mode = one.listener.tls.as_ref().map(|tls| &tls.mode);
    let ends_tls = match one.listener.protocol {
        Protocol::Https => true,
        Protocol::Tls => mode.is_none_or(|mode| *mode == TlsMode::Terminate),
        _ => return,
    };
    if let Some(fault) = mode_fault(&one.listener.protocol, mode) {
        one.refused = Some(fault);
        return;
    }
    if !ends_tls {
        return;
    }
    let mut tls = HostTls::default();
    match certificates_of(one, inputs) {
        Ok((certificates, fault)) => {
            let mut certificates = certificates.into_iter();
            tls.certificate = certificates.next();
            let more: Vec<_> = certificates.collect();
            tls.more_certificates = (!more.is_empty()).then(|| more.into());
            one.unresolved = fault.or(one.unresolved.take());
        }
        Err(fault) => lack(one, fault, &mut tls, place, reading),
    }
    if let Some(validation) = validation(gateway, one.listener.port) {
        match client_auth(validation, gateway, inputs) {
            Ok((auth, fault)) => {
                tls.client_auth = Some(auth);
                one.unresolved = one.unresolved.take().or(fault);
            }
            Err(fault) => {
                let message = "no certificate of an authority for clients can be used";
                one.refused = Some(Fault::new("NoValidCACertificate", message));
                one.unresolved = Some(fault);
            }
        }
    }
    let known = reading.kept.entry((one.parent.clone(), one.listener.name.clone())).or_default();
    if **known != tls {
        *known = Arc::new(tls);
    }
    one.tls = Some(Arc::clone(known));
}

/// Takes the certificate that Forebay obtains for a listener whose Secrets do not exist. Without one the
/// listener is not served.
fn lack(
    one: &mut Effective<'_>,
    fault: Fault,
    tls: &mut HostTls,
    place: &dyn Fn() -> SourceLocation,
    reading: &mut Reading<'_, '_>,
) {
    let Reading { asking, inputs, .. } = *reading;
    let may_obtain = lacks_secrets(one, inputs);
    let obtain = || asking.obtain(one.listener, &one.hostname, place, inputs, reading.found);
    let obtained = may_obtain.then(obtain).flatten();
    let fault = obtained.as_ref().map_or(fault, |obtained| obtained.lack(&one.hostname));
    tls.certificate = obtained.as_ref().and_then(|obtained| obtained.shown.clone());
    tls.challenge = obtained.as_ref().and_then(Obtained::challenge);
    one.obtained = obtained;
    if tls.certificate.is_none() {
        one.unresolved = Some(fault);
        one.lacks_tls = true;
    }
}

/// Whether all Secrets that a listener names may be named, and none of them exists.
fn lacks_secrets(one: &Effective<'_>, inputs: &Inputs<'_>) -> bool {
    let mut references = one.listener.tls.iter().flat_map(|tls| &tls.certificate_refs);
    references.all(|reference| {
        let secret = secret_of(&reference.value, referrer(one), inputs, "InvalidCertificateRef");
        secret.is_ok_and(|secret| inputs.secret(&secret).is_none())
    })
}

fn referrer<'o>(one: &Effective<'o>) -> Referrer<'o> {
    let kind = match one.parent {
        ParentKey::Gateway(_) => "Gateway",
        ParentKey::Set(_) => "ListenerSet",
    };
    Referrer { group: GROUP, kind, namespace: one.namespace }
}

fn mode_fault(protocol: &Protocol, mode: Option<&TlsMode>) -> Option<Fault> {
    match (protocol, mode) {
        (_, Some(TlsMode::Other(mode))) => {
            Some(Fault::new("UnsupportedValue", format!("tls.mode {mode} is not supported")))
        }
        (Protocol::Https, Some(TlsMode::Passthrough)) => {
            Some(Fault::new("UnsupportedValue", "a listener of HTTPS ends TLS: tls.mode has to be Terminate"))
        }
        _ => None,
    }
}

/// The certificates of a listener, and the fault of those that cannot be used.
fn certificates_of(
    one: &Effective<'_>,
    inputs: &Inputs<'_>,
) -> Result<(Vec<Arc<Certificate>>, Option<Fault>), Fault> {
    let references = one.listener.tls.iter().flat_map(|tls| &tls.certificate_refs);
    let (mut found, mut fault) = (Vec::new(), None);
    for reference in references {
        match certificate(&reference.value, referrer(one), inputs, "InvalidCertificateRef") {
            Ok(certificate) => found.push(certificate),
            Err(why) => fault = fault.or(Some(why)),
        }
    }
    match (found.is_empty(), fault) {
        (true, Some(fault)) => Err(fault),
        (true, None) => Err(Fault::new("InvalidCertificateRef", "tls.certificateRefs names no Secret")),
        (false, fault) => Ok((found, fault)),
    }
}

/// The named Secret, if it may be named.
fn secret_of(
    reference: &ObjectReference,
    referrer: Referrer<'_>,
    inputs: &Inputs<'_>,
    invalid: &'static str,
) -> Result<NsName, Fault> {
    let kind = reference.kind_or(Secret::KIND);
    if !reference.group().is_empty() || kind != Secret::KIND {
        let message = format!("{kind} {:?} is no Secret", reference.name);
        return Err(Fault::new(invalid, message));
    }
    let namespace = reference.namespace.as_deref().unwrap_or(referrer.namespace);
    let key = NsName::new(namespace, &*reference.name);
    if !grants::allow(&inputs.gateway().grants, referrer, Secret::KIND, (namespace, &reference.name)) {
        return Err(Fault::new("RefNotPermitted", format!("no ReferenceGrant allows to name Secret {key}")));
    }
    Ok(key)
}

/// The certificate in the named Secret.
fn certificate(
    reference: &ObjectReference,
    referrer: Referrer<'_>,
    inputs: &Inputs<'_>,
    invalid: &'static str,
) -> Result<Arc<Certificate>, Fault> {
    let key = secret_of(reference, referrer, inputs, invalid)?;
    match certificates::find(inputs, &key) {
        Ok((_, pair)) => Ok(Arc::clone(&pair.certificate)),
        Err(why) => Err(Fault::new(invalid, format!("Secret {key} {why}"))),
    }
}

/// The Secret with a Gateway's client certificate for backends.
pub(super) fn client_certificate(
    gateway: &Sourced<Gateway>,
    inputs: &Inputs<'_>,
) -> Result<Option<NsName>, Fault> {
    let tls = gateway.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref());
    let Some(reference) = tls.and_then(|tls| tls.client_certificate_ref.as_ref()) else { return Ok(None) };
    let referrer = Referrer { group: GROUP, kind: Gateway::KIND, namespace: gateway.namespace() };
    certificate(&reference.value, referrer, inputs, "InvalidClientCertificateRef")?;
    let namespace = reference.value.namespace.as_deref().unwrap_or_else(|| gateway.namespace());
    Ok(Some(NsName::new(namespace, &*reference.value.name)))
}

/// The verification of clients that a Gateway requests for a port.
pub(super) fn validation(gateway: &Gateway, port: u16) -> Option<&FrontendValidation> {
    let frontend = gateway.spec.tls.as_ref()?.frontend.as_ref()?;
    let of_port = frontend.per_port.iter().find(|one| one.port == port).map(|one| &one.tls);
    of_port.unwrap_or(&frontend.default).validation.as_ref()
}

/// Whether a Gateway serves clients without a valid certificate at one of its ports.
pub(super) fn is_insecure(gateway: &Gateway) -> bool {
    let ports = gateway.spec.listeners.iter().map(|listener| listener.value.port);
    let mut validations = ports.filter_map(|port| validation(gateway, port));
    validations.any(|validation| validation.mode == ValidationMode::AllowInsecureFallback)
}

fn client_auth(
    validation: &FrontendValidation,
    gateway: &Sourced<Gateway>,
    inputs: &Inputs<'_>,
) -> Result<(ClientAuth, Option<Fault>), Fault> {
    let referrer = Referrer { group: GROUP, kind: Gateway::KIND, namespace: gateway.namespace() };
    let reasons = ("InvalidCACertificateRef", "InvalidCACertificateKind");
    let (authorities, fault) = authorities(&validation.ca_certificate_refs, referrer, inputs, reasons)?;
    let verify = match validation.mode {
        ValidationMode::AllowInsecureFallback => VerifyClient::OptionalNoCa,
        ValidationMode::AllowValidOnly | ValidationMode::Other(_) => VerifyClient::On,
    };
    let ends_handshake = verify == VerifyClient::On;
    Ok((ClientAuth { authorities, verify, depth: DEPTH_MAX, ends_handshake }, fault))
}

/// The authorities in the named `ConfigMap`s (`ca.crt`), and the fault of those that cannot be used. The
/// reasons are for unusable objects, and for other kinds.
pub(super) fn authorities(
    references: &[At<ObjectReference>],
    referrer: Referrer<'_>,
    inputs: &Inputs<'_>,
    (invalid, of_another_kind): (&'static str, &'static str),
) -> Result<(Arc<Authorities>, Option<Fault>), Fault> {
    let (mut all, mut fault) = (Authorities::default(), None);
    for reference in references.iter().map(|reference| &reference.value) {
        let kind = reference.kind_or(ConfigMap::KIND);
        let namespace = reference.namespace.as_deref().unwrap_or(referrer.namespace);
        let key = NsName::new(namespace, &*reference.name);
        let read = if !reference.group().is_empty() || kind != ConfigMap::KIND {
            Err(Fault::new(of_another_kind, format!("{kind} {key} is no ConfigMap")))
        } else if !grants::allow(&inputs.gateway().grants, referrer, kind, (namespace, &reference.name)) {
            Err(Fault::new("RefNotPermitted", format!("no ReferenceGrant allows to name ConfigMap {key}")))
        } else {
            of_configmap(&key, inputs).map_err(|why| Fault::new(invalid, format!("ConfigMap {key} {why}")))
        };
        match read {
            Ok(read) => all.certificates.extend(read.certificates),
            Err(why) => fault = fault.or(Some(why)),
        }
    }
    match fault {
        Some(fault) if all.certificates.is_empty() => Err(fault),
        fault => Ok((Arc::new(all), fault)),
    }
}

fn of_configmap(key: &NsName, inputs: &Inputs<'_>) -> Result<Authorities, String> {
    let configmap = inputs.configmap(key).ok_or("is missing")?;
    let text = configmap.data.get("ca.crt").ok_or("has no ca.crt")?;
    certificate::authorities(text.value.as_bytes(), None).map_err(|why| format!("cannot be used: {why}"))
}
