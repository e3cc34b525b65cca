//! Which certificate a host shows.
//!
//! One that cannot be used does not keep a host from being served: it shows the default certificate instead.

use std::sync::Arc;

use model::{Certificate, CertificateInfo, HostName};

use super::lookup::Lookup;
use crate::certificate::{Pair, date};
use crate::names::NsName;
use crate::objects::{At, Ingress, IngressTls, Secret, Sourced};
use crate::problem::{Problem, Reason, Severity};

/// A certificate that a host shows, or would show if it could be used: who watches for certificates that end wants to know
/// of those that have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCertificate {
    /// The host; `_` for those without a certificate of their own.
    pub host: String,
    /// What there is to tell.
    pub info: CertificateInfo,
}

/// Finds certificates, and keeps what there is to say about them.
pub(super) struct Certificates<'l, 'a> {
    lookup: &'l Lookup<'a>,
    pub(super) used: Vec<HostCertificate>,
    pub(super) problems: Vec<Problem>,
}

/// What a host shows.
pub(super) enum Shown {
    Own(Arc<Certificate>),
    /// What hosts without an own show.
    Default,
}

/// The name of a Secret, and the certificate in it, as far as they are to be had.
type Named<'i, 'a> = (Option<&'i At<String>>, Option<&'a Pair>);

/// The time before its end at which a certificate is about to end, as ingress-nginx has it.
const ENDING_S: i64 = 10 * 86_400;

const INSTEAD: &str = "the default certificate is shown instead";

impl<'l, 'a> Certificates<'l, 'a> {
    pub(super) fn new(lookup: &'l Lookup<'a>) -> Self {
        Self { lookup, used: Vec::new(), problems: Vec::new() }
    }

    /// Says what is wrong with the Secrets that an Ingress names, be there a host for them or not.
    pub(super) fn check(&mut self, ingress: &Sourced<Ingress>) {
        for name in ingress.spec.tls.iter().filter_map(|tls| tls.value.secret_name.as_ref()) {
            let key = NsName::new(ingress.namespace(), &name.value);
            let said = match self.find(&key) {
                Err(fault) => Some((Reason::Secret, format!("{fault}; {INSTEAD}"))),
                Ok((secret, pair)) => remark(secret, self.fault_of_time(pair), pair, self.lookup.now),
            };
            let problem = said.map(|(reason, said)| {
                let message = format!("TLS Secret {:?} {said}", name.value);
                Problem::at(Severity::Warning, ingress, name, message).because(reason)
            });
            self.problems.extend(problem);
        }
    }

    /// What a host shows by the `tls:` entries of one of its Ingresses; nothing if none of them is for the host.
    pub(super) fn of_host(&mut self, ingress: &Sourced<Ingress>, host: &HostName) -> Option<Shown> {
        let entry = self.entry(ingress, host)?;
        let Some(name) = &entry.secret_name else { return Some(Shown::Default) };
        // What is wrong with the Secret itself has been said.
        let Ok((_, pair)) = self.find(&NsName::new(ingress.namespace(), &name.value)) else {
            return Some(Shown::Default);
        };
        self.used.push(HostCertificate { host: host.to_string(), info: pair.certificate.info.clone() });
        if !pair.is_for(&host.to_string()) {
            let whom = if *host == HostName::Any { "hosts without a rule" } else { "host" };
            let name_of_host = if *host == HostName::Any { String::new() } else { format!(" {host}") };
            let message = format!(
                "TLS Secret {:?} is for {}, not for {whom}{name_of_host}; {INSTEAD}",
                name.value,
                pair.names()
            );
            let problem = Problem::at(Severity::Warning, ingress, name, message);
            self.problems.push(problem.because(Reason::Secret));
            return Some(Shown::Default);
        }
        Some(match self.fault_of_time(pair) {
            None => Shown::Own(Arc::clone(&pair.certificate)),
            Some(_) => Shown::Default,
        })
    }

    /// The Secret that the `tls:` entry of an Ingress for a host names, and the certificate in it; nothing without such an entry.
    pub(super) fn named<'i>(&self, ingress: &'i Sourced<Ingress>, host: &HostName) -> Option<Named<'i, 'a>> {
        let secret = self.entry(ingress, host)?.secret_name.as_ref();
        let pair = secret.and_then(|name| self.find(&NsName::new(ingress.namespace(), &name.value)).ok());
        Some((secret, pair.map(|(_, pair)| pair)))
    }

    /// The certificate for hosts without one of their own. One that has ended is still better known than one that is made up.
    pub(super) fn default(&mut self) -> Option<Arc<Certificate>> {
        let name = self.lookup.options.default_ssl_certificate.as_ref()?;
        let (severity, reason, said, certificate) = match self.find(name) {
            Err(fault) => {
                let said = format!("{fault}; a self-signed certificate is shown instead");
                (Severity::Error, Reason::Secret, Some(said), None)
            }
            Ok((_, pair)) => {
                let info = pair.certificate.info.clone();
                self.used.push(HostCertificate { host: HostName::Any.to_string(), info });
                let ending = (pair.not_after() - ENDING_S <= self.lookup.now).then(|| ending(pair));
                let said = self.fault_of_time(pair).or(ending);
                (Severity::Warning, Reason::Note, said, Some(Arc::clone(&pair.certificate)))
            }
        };
        let problem = said.map(|said| {
            let message = format!("Secret {name} (--default-ssl-certificate) {said}");
            Problem::new(severity, message).because(reason)
        });
        self.problems.extend(problem);
        certificate
    }

    /// "The Secret of the entry that lists the host; if none does, of the first whose certificate is for the host."
    fn entry<'i>(&self, ingress: &'i Sourced<Ingress>, host: &HostName) -> Option<&'i IngressTls> {
        let entries = || ingress.spec.tls.iter().map(|entry| &entry.value);
        let lists = |fits: fn(&HostName, &HostName) -> bool| {
            entries().find(|entry| {
                let listed = entry.hosts.iter().filter_map(|listed| HostName::parse(listed).ok());
                listed.into_iter().any(|listed| fits(&listed, host))
            })
        };
        let has_certificate = |entry: &&IngressTls| {
            let name = entry.secret_name.as_ref();
            let secret = name.and_then(|name| self.secret(ingress, name));
            secret
                .is_some_and(|secret| secret.pair().as_ref().is_ok_and(|pair| pair.is_for(&host.to_string())))
        };
        lists(|listed, host| listed == host)
            .or_else(|| lists(takes))
            .or_else(|| entries().find(has_certificate))
            .or_else(|| entries().find(|entry| entry.hosts.is_empty()))
    }

    fn secret(&self, ingress: &Sourced<Ingress>, name: &At<String>) -> Option<&'a Sourced<Secret>> {
        self.lookup.secret(&NsName::new(ingress.namespace(), &name.value))
    }

    fn find(&self, name: &NsName) -> Result<(&'a Sourced<Secret>, &'a Pair), String> {
        let secret = self.lookup.secret(name).ok_or("is missing")?;
        let is_of_type = secret.kind.as_deref() == Some(TLS_TYPE);
        if !is_of_type && !secret.has_pair() {
            return Err(format!("is of type {}, not {TLS_TYPE}", type_of(secret)));
        }
        let pair = secret.pair().as_ref().map_err(|why| format!("cannot be used: {why}"))?;
        for turn in [pair.not_before(), pair.not_after() - ENDING_S, pair.not_after() + 1] {
            self.lookup.note_turn(turn);
        }
        Ok((secret, pair))
    }

    fn fault_of_time(&self, pair: &Pair) -> Option<String> {
        if self.lookup.now < pair.not_before() {
            Some(format!("is not valid before {}", date(pair.not_before())))
        } else if self.lookup.now > pair.not_after() {
            Some(format!("has expired on {}", date(pair.not_after())))
        } else {
            None
        }
    }
}

const TLS_TYPE: &str = "kubernetes.io/tls";

fn type_of(secret: &Secret) -> &str {
    secret.kind.as_deref().unwrap_or("Opaque")
}

/// What to say of a certificate that is there. ingress-nginx does not look at the type of a Secret, and neither is one of
/// another type refused.
fn remark(secret: &Secret, fault: Option<String>, pair: &Pair, now: i64) -> Option<(Reason, String)> {
    let is_of_type = secret.kind.as_deref() == Some(TLS_TYPE);
    if let Some(fault) = fault {
        Some((Reason::Secret, format!("{fault}; {INSTEAD}")))
    } else if pair.not_after() - ENDING_S <= now {
        Some((Reason::Note, ending(pair)))
    } else if is_of_type {
        None
    } else {
        let said =
            format!("is of type {}, not {TLS_TYPE}; its certificate is used all the same", type_of(secret));
        Some((Reason::Note, said))
    }
}

fn ending(pair: &Pair) -> String {
    format!("expires on {}", date(pair.not_after()))
}

/// Whether a wildcard stands for a name: for one label (H1).
fn takes(listed: &HostName, host: &HostName) -> bool {
    match (listed, host) {
        (HostName::Wildcard(suffix), HostName::Exact(name)) => {
            name.split_once('.').is_some_and(|(_, rest)| rest == suffix)
        }
        _ => false,
    }
}
