//! Redirects to TLS, to other URLs and to other hosts.

use std::ops::RangeInclusive;

use model::template::Template;
use model::{Redirect, RedirectTarget, RequestFilter, SlashRedirect, TlsRedirect};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::characters::{NAME, consists_of};
use crate::translate::claim::{Claim, DraftRoute, TlsRedirectDraft};
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "app-root", Location, "", Supported(|s, v| set(&mut s.redirect.app_root, app_root(v).map(Some))),
        "Redirects `/` to this path.", Medium;
    "force-ssl-redirect", Location, "false", Supported(|s, v| set(&mut s.redirect.always, value::boolean(v))),
        "Redirects to TLS even without a `tls:` section.", Medium;
    "from-to-www-redirect", Location, "false", Supported(|s, v| set(&mut s.redirect.www, value::boolean(v))), IgnoresIngress,
        "Redirects between a name and its `www.` form.";
    "permanent-redirect", Location, "", Supported(|s, v| { let url = url(v, s.is_lenient).map(Some); set(&mut s.redirect.permanent, url) }), IgnoresIngress,
        "Redirects to this URL with 301.", Medium;
    "permanent-redirect-code", Location, "301", Supported(|s, v| set(&mut s.redirect.permanent_status, status(v, 300..=308, 301))), IgnoresIngress,
        "Status of `permanent-redirect`.";
    "preserve-trailing-slash", Location, "false", Supported(|s, v| set(&mut s.redirect.keep_trailing_slash, value::boolean(v))),
        "Keeps a trailing slash when redirecting to TLS.", Medium;
    "relative-redirects", Location, "false", Supported(|s, v| set(&mut s.redirect.relative, value::boolean(v))), IgnoresIngress,
        "Relative Location in redirects.";
    "ssl-redirect", Location, "true", Supported(|s, v| set(&mut s.redirect.with_certificate, value::boolean(v))),
        "Redirects to TLS if the host has a `tls:` section.";
    "temporal-redirect", Location, "", Supported(temporal), IgnoresIngress,
        "Redirects to this URL with 302.", Medium;
    "temporal-redirect-code", Location, "302", Supported(temporal_status), IgnoresIngress,
        "Status of `temporal-redirect`.";
    "use-port-in-redirects", Location, "false", Supported(|s, v| set(&mut s.redirect.names_port, value::boolean(v))),
        "Names the port in redirects.";
}

/// Settings of redirects to TLS.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an annotation that is true or false")]
pub(in crate::translate) struct Settings {
    /// Redirect to TLS if the host has a certificate.
    pub(in crate::translate) with_certificate: bool,
    /// Redirect to TLS in any case.
    pub(in crate::translate) always: bool,
    pub(in crate::translate) status: u16,
    /// Rules whose path has one of these prefixes are not redirected.
    pub(in crate::translate) except: Vec<String>,
    pub(in crate::translate) keep_trailing_slash: bool,
    /// Write the port into `Location`.
    pub(in crate::translate) names_port: bool,
    /// Write only a path into `Location`, where a path is enough.
    pub(in crate::translate) relative: bool,
    pub(in crate::translate) app_root: Option<Template>,
    permanent: Option<String>,
    permanent_status: u16,
    temporal: Option<String>,
    temporal_status: u16,
    www: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            with_certificate: true,
            always: false,
            status: 308,
            except: vec!["/.well-known/acme-challenge".to_owned()],
            keep_trailing_slash: false,
            names_port: false,
            relative: false,
            app_root: None,
            permanent: None,
            permanent_status: 301,
            temporal: None,
            temporal_status: 302,
            www: false,
        }
    }
}

/// Applies the settings to a route. `https_port` is the port in `Location`, if the settings request it.
pub(super) fn apply(settings: &Settings, https_port: u16, route: &mut DraftRoute) {
    let redirect = TlsRedirect {
        status: settings.status,
        believes_hops: true,
        only_for: None,
        keep_trailing_slash: settings.keep_trailing_slash,
        port: settings.names_port.then_some(https_port),
    };
    let path = route.path.path();
    let is_exempt = settings.except.iter().any(|prefix| path.starts_with(prefix.as_str()));
    let is_wanted = !is_exempt && (settings.always || settings.with_certificate);
    route.tls_redirect = is_wanted.then_some(TlsRedirectDraft { always: settings.always, redirect });
    route.slash_redirect = SlashRedirect { relative: settings.relative, names_port: settings.names_port };
    route.filters.extend(settings.redirect().map(RequestFilter::Redirect));
    route.passes_in_clear = passes_in_clear(settings, route.path.path());
}

/// Applies the settings for the whole host.
pub(super) fn apply_to_host(settings: &Settings, claim: &mut Claim) {
    // As in ingress-nginx, requests for unknown hosts are not redirected.
    if !claim.is_catch_all {
        claim.app_root.clone_from(&settings.app_root);
        // This setting of rules without paths is ignored too.
        claim.www_redirect = settings.www.then_some(settings.status).filter(|_| !claim.routes.is_empty());
    }
}

impl Settings {
    /// The redirect of all requests. "Both set: temporal wins. A relative permanent-redirect becomes
    /// `scheme://host/...` unless `relative-redirects`."
    fn redirect(&self) -> Option<Redirect> {
        let with_variables = |url: &str| {
            let template = Template::parse(url).ok().filter(|_| url.contains('$'));
            template.map(|url| RedirectTarget::Template(Box::new(url)))
        };
        if let Some(url) = &self.temporal {
            let to = with_variables(url).unwrap_or_else(|| RedirectTarget::Url(url.clone()));
            return Some(Redirect { status: self.temporal_status, to });
        }
        let url = self.permanent.clone()?;
        if let Some(to) = with_variables(&url) {
            return Some(Redirect { status: self.permanent_status, to });
        }
        let to = if url.starts_with('/') && !self.relative {
            RedirectTarget::Path { path: url, names_port: self.names_port }
        } else {
            RedirectTarget::Url(url)
        };
        Some(Redirect { status: self.permanent_status, to })
    }
}

pub(in crate::translate) fn app_root(text: &str) -> Parsed<Template> {
    if text.starts_with('/') && consists_of(text, &[NAME, "$"]) {
        Template::parse(text).map_err(|error| format!("{text:?} has an {error}"))
    } else {
        Err(format!("{text:?} is not an absolute path of letters, digits and \"-._~/:$\""))
    }
}

/// Parses a URL. `is_lenient` accepts every text that a header can contain, with variables.
fn url(text: &str, is_lenient: bool) -> Parsed<String> {
    let is_fit = if is_lenient {
        text.chars().all(|char| char.is_ascii_graphic()) && Template::parse(text).is_ok()
    } else {
        consists_of(text, &[NAME, ",?&="])
    };
    if !text.is_empty() && is_fit {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} has other characters than letters, digits and \"-._~/:,?&=\""))
    }
}

fn temporal(settings: &mut super::Settings, text: &str) -> Applied {
    let url = url(text, settings.is_lenient)?;
    if !url.starts_with("http") {
        return Ok(Some(format!("{text:?} does not begin with http, and has no effect")));
    }
    settings.redirect.temporal = Some(url);
    Ok(None)
}

/// Reads the status. ingress-nginx reads it only beside a `temporal-redirect`, which precedes it by name.
fn temporal_status(settings: &mut super::Settings, text: &str) -> Applied {
    if settings.redirect.temporal.is_none() {
        return Ok(None);
    }
    set(&mut settings.redirect.temporal_status, status(text, 300..=307, 302))
}

/// Parses a status. A number that is no redirect's status is replaced by the default.
fn status(text: &str, accepted: RangeInclusive<u16>, default: u16) -> Parsed<u16> {
    let number: i64 = value::number(text)?;
    Ok(u16::try_from(number).ok().filter(|status| accepted.contains(status)).unwrap_or(default))
}

/// Whether all paths of a rule are within a prefix that is not redirected to TLS. Such paths stay open to
/// clients without a certificate: certificate authorities fetch their challenges over plain HTTP. The prefix
/// `/` does not count, because it would open the whole host.
fn passes_in_clear(settings: &Settings, path: &str) -> bool {
    settings.except.iter().any(|prefix| prefix != "/" && path.starts_with(prefix.as_str()))
}
