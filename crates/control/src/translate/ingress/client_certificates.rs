//! Verification of client certificates (`auth-tls-*`).
//!
//! If the verification cannot be enforced, the host is closed.

use std::sync::Arc;

use model::{ClientAuth, ClientCertificate, Pattern, VerifyClient};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Fault, Findings, Resolve};
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::ClientAuthPolicy;
use crate::translate::table::is_default;
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "auth-tls-error-page", Location, "", Supported(|s, v| set(&mut s.client_certificates.error_page, error_page(v))),
        "URL to which clients with an invalid certificate are redirected.", High;
    "auth-tls-match-cn", Location, "", Supported(client_subject),
        "Subjects of client certificates that are allowed.", High;
    "auth-tls-pass-certificate-to-upstream", Location, "false", Supported(pass_certificate),
        "Sends the client certificate to the endpoint.";
    "auth-tls-secret", Location, "", Supported(|s, v| set(&mut s.client_certificates.secret, Ok(value::name(v)))),
        "Secret with the authorities that must have signed client certificates.", Medium;
    "auth-tls-verify-client", Location, "on", Supported(|s, v| set(&mut s.client_certificates.verify, verify(v))),
        "Whether clients must have a certificate, with `auth-tls-secret`.", Medium;
    "auth-tls-verify-depth", Location, "1", Supported(|s, v| set(&mut s.client_certificates.depth, depth(v))),
        "Longest chain of a client certificate.";
}

/// Settings of client certificates.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    /// Name of the Secret: `namespace/name`. Without it, clients are not verified.
    secret: Option<String>,
    verify: VerifyClient,
    depth: u32,
    error_page: Option<String>,
    pass_certificate: bool,
    /// The pattern that subjects have to match.
    match_subject: Option<Pattern>,
    /// Invalid annotations without their prefix, each with its fault. If the Secret is usable, they have the
    /// Ingress ignored, as by ingress-nginx, which ignores these annotations otherwise.
    bad: Vec<(&'static str, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            secret: None,
            verify: VerifyClient::On,
            depth: 1,
            error_page: None,
            pass_certificate: false,
            match_subject: None,
            bad: Vec::new(),
        }
    }
}

/// Annotations that have no effect without `auth-tls-secret`, each with its value without an effect.
const DEPENDENT: [(&str, &str); 4] = [
    ("auth-tls-error-page", ""),
    ("auth-tls-match-cn", ""),
    ("auth-tls-pass-certificate-to-upstream", "false"),
    ("auth-tls-verify-client", "off"),
];

impl Settings {
    /// Applies a value, or records that it is invalid.
    #[expect(clippy::unnecessary_wraps, reason = "what all parsers return")]
    fn take<T>(&mut self, name: &'static str, parsed: Parsed<T>, set: impl FnOnce(&mut Self, T)) -> Applied {
        match parsed {
            Ok(value) => set(self, value),
            Err(why) => self.bad.push((name, why)),
        }
        Ok(None)
    }

    fn policy(&self, secret: &str, context: &Context<'_, '_>) -> Result<ClientAuthPolicy, Fault> {
        let secret = context.secret(secret)?;
        let unusable = |why| (Reason::Secret, format!("Secret {} cannot be used: {why}", secret.key()));
        let authorities = secret.authorities().as_ref().map_err(unusable)?;
        Ok(ClientAuthPolicy {
            auth: ClientAuth {
                authorities: Arc::clone(authorities),
                verify: self.verify,
                depth: self.depth,
                ends_handshake: false,
            },
            filter: ClientCertificate {
                verify: self.verify,
                match_subject: self.match_subject.clone(),
                error_page: self.error_page.clone(),
                pass_certificate: self.pass_certificate,
                passes_in_clear: false,
            },
        })
    }
}

impl Resolve for Settings {
    /// None if clients are not verified; an error gives the reason for closing the host.
    type Resolved = Option<Parsed<ClientAuthPolicy>>;

    /// Looks up the Secret.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) -> Self::Resolved {
        const SECRET: &str = "auth-tls-secret";
        let asker = context.asker;
        let Some(secret) = &self.secret else {
            let has_value =
                |name, nothing| asker.value(name).is_some_and(|value| !is_default(value, nothing));
            for (name, _) in DEPENDENT.iter().filter(|(name, nothing)| has_value(name, nothing)) {
                let message = format!("{} has no effect without {SECRET}", asker.called(name));
                findings.problems.extend(context.without_effect(name, message));
            }
            return None;
        };
        let policy = self.policy(secret, context).map_err(|(reason, why)| {
            let message = format!("{}: {why}: all locations of its hosts answer 403", asker.called(SECRET));
            let place = asker.given(SECRET);
            let problem = place.map(|place| Problem::in_place(Severity::Error, &place, message));
            findings.problems.extend(problem.map(|problem| problem.because(reason)));
            format!("{SECRET}: {why}")
        });
        for (name, why) in self.bad.iter().filter(|_| policy.is_ok()) {
            findings.guards.ignores_ingress = true;
            let message =
                format!("{}: {why}; the Ingress is ignored, as by ingress-nginx", asker.called(name));
            findings.problems.push(asker.problem(Severity::Error, name, message).because(Reason::Annotation));
        }
        Some(policy)
    }
}

fn verify(text: &str) -> Parsed<VerifyClient> {
    match text.trim() {
        "on" => Ok(VerifyClient::On),
        "off" => Ok(VerifyClient::Off),
        "optional" => Ok(VerifyClient::Optional),
        "optional_no_ca" => Ok(VerifyClient::OptionalNoCa),
        _ => Err(format!("{text:?} is none of on, off, optional and optional_no_ca")),
    }
}

/// Parses the depth. "0 is taken for 1."
fn depth(text: &str) -> Parsed<u32> {
    value::number(text).map(|depth: u32| depth.max(1))
}

/// Parses a URL to redirect to, which becomes the value of a header.
fn error_page(text: &str) -> Parsed<Option<String>> {
    let url = text.trim();
    let is_absolute = url.starts_with("http://") || url.starts_with("https://");
    if is_absolute && url.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(Some(url.to_owned()))
    } else {
        Err(format!("{text:?} is no URL that begins with http:// or https://"))
    }
}

/// Parses a pattern for the subject's name: `CN=` and a regular expression for the rest.
fn match_subject(text: &str) -> Parsed<Option<Pattern>> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if !text.starts_with("CN=") {
        return Err(format!("{text:?} does not begin with CN="));
    }
    Pattern::parse(text).map(Some).map_err(|error| {
        // The lines before the last only mark the position in the text.
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("{text:?} is no regular expression: {why}")
    })
}

fn client_subject(settings: &mut super::Settings, text: &str) -> Applied {
    let parsed = match_subject(text);
    settings.client_certificates.take("auth-tls-match-cn", parsed, |it, pattern| it.match_subject = pattern)
}

fn pass_certificate(settings: &mut super::Settings, text: &str) -> Applied {
    let parsed = if text.is_empty() { Ok(false) } else { value::boolean(text) };
    let name = "auth-tls-pass-certificate-to-upstream";
    settings.client_certificates.take(name, parsed, |it, passes| it.pass_certificate = passes)
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
