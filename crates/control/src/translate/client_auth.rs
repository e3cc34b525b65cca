//! Hosts whose clients have to show a certificate (`auth-tls-*`).
//!
//! What cannot be enforced closes the host.

use std::sync::Arc;

use model::{ClientAuth, ClientCertificate, Pattern, VerifyClient};

use super::backend::{Fault, secret_name};
use super::lookup::Lookup;
use super::table::is_default;
use super::value::Parsed;
use crate::objects::{Ingress, Sourced};
use crate::problem::{Problem, Reason, Severity};

/// What annotations say about certificates of clients.
#[derive(Clone, Debug)]
pub(super) struct ClientPolicy {
    /// `namespace/name`. Without it, nothing is asked of clients.
    pub(super) secret: Option<String>,
    pub(super) verify: VerifyClient,
    pub(super) depth: u32,
    pub(super) error_page: Option<String>,
    pub(super) pass_certificate: bool,
    /// What subjects have to match, or why that cannot be said.
    pub(super) match_subject: Parsed<Option<Pattern>>,
}

impl Default for ClientPolicy {
    fn default() -> Self {
        Self {
            secret: None,
            verify: VerifyClient::On,
            depth: 1,
            error_page: None,
            pass_certificate: false,
            match_subject: Ok(None),
        }
    }
}

/// What is asked of the clients of a host, and what becomes of those that do not comply.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Demand {
    pub(super) auth: ClientAuth,
    pub(super) filter: ClientCertificate,
}

/// Annotations that mean nothing without `auth-tls-secret`, and values by which they ask for nothing.
const DEPENDENT: [(&str, &str); 4] = [
    ("auth-tls-error-page", ""),
    ("auth-tls-match-cn", ""),
    ("auth-tls-pass-certificate-to-upstream", "false"),
    ("auth-tls-verify-client", "off"),
];

impl ClientPolicy {
    /// Looks up what the annotations name. Nothing where nothing is asked of clients; inside, why the host has to be closed.
    pub(super) fn resolve(
        &self,
        ingress: &Sourced<Ingress>,
        prefix: &str,
        crosses_namespaces: bool,
        lookup: &Lookup<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Parsed<Demand>> {
        let annotations = &ingress.metadata.annotations;
        let Some(secret) = &self.secret else {
            for (name, nothing) in DEPENDENT {
                let key = format!("{prefix}/{name}");
                if let Some(value) = annotations.get(&key).filter(|value| !is_default(&value.value, nothing))
                {
                    let message = format!("annotation {key} has no effect without auth-tls-secret");
                    let problem = Problem::at(Severity::Warning, ingress, value, message);
                    problems.push(problem.because(Reason::NoEffect));
                }
            }
            return None;
        };
        let demand = self.demand(secret, ingress.namespace(), crosses_namespaces, lookup);
        if let Err((name, (reason, why))) = &demand {
            let key = format!("{prefix}/{name}");
            let message = format!("annotation {key}: {why}: all locations of its hosts answer 403");
            let problem =
                annotations.get(&key).map(|value| Problem::at(Severity::Error, ingress, value, message));
            problems.extend(problem.map(|problem| problem.because(*reason)));
        }
        Some(demand.map_err(|(name, (_, why))| format!("{name}: {why}")))
    }

    fn demand(
        &self,
        secret: &str,
        namespace: &str,
        crosses_namespaces: bool,
        lookup: &Lookup<'_>,
    ) -> Result<Demand, (&'static str, Fault)> {
        let of_secret = |why: String| ("auth-tls-secret", (Reason::Secret, why));
        let key =
            secret_name(secret, namespace, crosses_namespaces).map_err(|fault| ("auth-tls-secret", fault))?;
        let secret = lookup.secret(&key).ok_or_else(|| of_secret(format!("Secret {key} is missing")))?;
        let authorities = secret.authorities().as_ref();
        let authorities =
            authorities.map_err(|why| of_secret(format!("Secret {key} cannot be used: {why}")))?;
        let match_subject =
            self.match_subject.clone().map_err(|why| ("auth-tls-match-cn", (Reason::Annotation, why)))?;
        Ok(Demand {
            auth: ClientAuth { authorities: Arc::clone(authorities), verify: self.verify, depth: self.depth },
            filter: ClientCertificate {
                verify: self.verify,
                match_subject,
                error_page: self.error_page.clone(),
                pass_certificate: self.pass_certificate,
                passes_in_clear: false,
            },
        })
    }
}

pub(super) fn verify(text: &str) -> Parsed<VerifyClient> {
    match text.trim() {
        "on" => Ok(VerifyClient::On),
        "off" => Ok(VerifyClient::Off),
        "optional" => Ok(VerifyClient::Optional),
        "optional_no_ca" => Ok(VerifyClient::OptionalNoCa),
        _ => Err(format!("{text:?} is none of on, off, optional and optional_no_ca")),
    }
}

/// "0 is taken for 1."
pub(super) fn depth(text: &str) -> Parsed<u32> {
    super::value::number(text).map(|depth: u32| depth.max(1))
}

/// A URL to redirect to. It becomes a header's value.
pub(super) fn error_page(text: &str) -> Parsed<Option<String>> {
    let url = text.trim();
    let is_absolute = url.starts_with("http://") || url.starts_with("https://");
    if is_absolute && url.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(Some(url.to_owned()))
    } else {
        Err(format!("{text:?} is no URL that begins with http:// or https://"))
    }
}

/// `CN=` and a regular expression for what follows in the subject's name.
pub(super) fn match_subject(text: &str) -> Parsed<Option<Pattern>> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if !text.starts_with("CN=") {
        return Err(format!("{text:?} does not begin with CN="));
    }
    Pattern::parse(text).map(Some).map_err(|error| {
        // The lines before the last show the place, by marks below it.
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("{text:?} is no regular expression: {why}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_page_is_an_absolute_url() {
        assert_eq!(error_page(" https://a.test/x?y ").unwrap().unwrap(), "https://a.test/x?y");
        for text in ["", "@named", "/x", "https://a b", "https://a\r\nx: y", "https://é"] {
            assert!(error_page(text).is_err(), "{text}");
        }
    }

    #[test]
    fn subjects_are_matched_from_the_common_name_on() {
        assert!(match_subject("CN=(a|b)$").unwrap().unwrap().is_match("O=x,CN=a"));
        assert!(match_subject("").unwrap().is_none());
        assert!(match_subject("O=x").is_err() && match_subject("CN=(").is_err());
    }
}
