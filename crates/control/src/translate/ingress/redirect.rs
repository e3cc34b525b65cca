//! Redirects.

use model::TlsRedirect;

use super::annotation::Effect::{Supported, Unsupported};
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::{DraftRoute, TlsRedirectDraft};
use crate::translate::value::{self, set};

annotations! {
    "app-root", Location, "", Unsupported, "Redirects `/` to this path.";
    "force-ssl-redirect", Location, "false", Supported(|s, v| set(&mut s.redirect.always, value::boolean(v))),
        "Redirects to TLS even without a `tls:` section.";
    "from-to-www-redirect", Location, "false", Unsupported, "Redirects between a name and its `www.` form.";
    "permanent-redirect", Location, "", Unsupported, "Redirects to this URL with 301.";
    "permanent-redirect-code", Location, "301", Unsupported, "Status of `permanent-redirect`.";
    "preserve-trailing-slash", Location, "false", Supported(|s, v| set(&mut s.redirect.keep_trailing_slash, value::boolean(v))),
        "Keeps a trailing slash when redirecting to TLS.";
    "relative-redirects", Location, "false", Unsupported, "Relative Location in redirects.";
    "ssl-redirect", Location, "true", Supported(|s, v| set(&mut s.redirect.with_certificate, value::boolean(v))),
        "Redirects to TLS if the host has a `tls:` section.";
    "temporal-redirect", Location, "", Unsupported, "Redirects to this URL with 302.";
    "temporal-redirect-code", Location, "302", Unsupported, "Status of `temporal-redirect`.";
    "use-port-in-redirects", Location, "false", Supported(|s, v| set(&mut s.redirect.names_port, value::boolean(v))),
        "Names the port in redirects.";
}

/// Settings of redirects to TLS.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an annotation that is true or false")]
pub(in crate::translate) struct Settings {
    /// Redirect if the host has a certificate.
    pub(in crate::translate) with_certificate: bool,
    /// Redirect in any case.
    pub(in crate::translate) always: bool,
    pub(in crate::translate) status: u16,
    /// Path prefixes that are not redirected.
    pub(in crate::translate) except: Vec<String>,
    pub(in crate::translate) keep_trailing_slash: bool,
    /// `Location` contains the port.
    pub(in crate::translate) names_port: bool,
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
        }
    }
}

/// `https_port` is the port in `Location`, if the settings ask for one.
pub(super) fn apply(settings: &Settings, https_port: u16, route: &mut DraftRoute) {
    let redirect = TlsRedirect {
        status: settings.status,
        force: settings.always,
        except: settings.except.clone(),
        keep_trailing_slash: settings.keep_trailing_slash,
        port: settings.names_port.then_some(https_port),
    };
    let is_wanted = settings.always || settings.with_certificate;
    route.tls_redirect = is_wanted.then_some(TlsRedirectDraft { always: settings.always, redirect });
    route.passes_in_clear = passes_in_clear(settings, route.path.path());
}

/// Whether all paths of a rule are within a prefix that is not redirected to TLS. Such paths stay open to clients without a
/// certificate: certificate authorities fetch their challenges over plain HTTP. The prefix `/` does not count, since it would open
/// the whole host.
fn passes_in_clear(settings: &Settings, path: &str) -> bool {
    settings.except.iter().any(|prefix| prefix != "/" && path.starts_with(prefix.as_str()))
}
