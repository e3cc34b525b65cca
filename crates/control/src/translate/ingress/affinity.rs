//! Session affinity by a cookie.

use std::sync::Arc;

use model::{Affinity, AffinityCookie, AffinityMode, CookieText};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "affinity", Ingress, "", Supported(|s, v| set(&mut s.affinity.is_on, by_cookie(v))),
        "`cookie` keeps a client at one endpoint.";
    "affinity-mode", Ingress, "balanced", Supported(|s, v| set(&mut s.affinity.mode, mode(v))),
        "`balanced` rebalances when endpoints change, `persistent` never moves a client while its endpoint lives.", Medium;
    "session-cookie-change-on-failure", Ingress, "false", Supported(|s, v| set(&mut s.affinity.change_on_failure, value::boolean(v))),
        "Moves a client whose endpoint fails.";
    "session-cookie-conditional-samesite-none", Ingress, "false",
        Supported(|s, v| set(&mut s.affinity.cookie.omits_none_for_old_browsers, value::boolean(v))),
        "Omits SameSite=None for old browsers.";
    "session-cookie-domain", Ingress, "", Supported(|s, v| set(&mut s.affinity.cookie.domain, cookie_text(value::spaced(v, value::NAME)).map(Some))),
        "Domain of the affinity cookie.", Medium;
    "session-cookie-expires", Ingress, "", Supported(|s, v| set(&mut s.affinity.cookie.expires, value::number(v.trim()).map(Some))),
        "Expires of the affinity cookie, in seconds.", Medium;
    "session-cookie-max-age", Ingress, "", Supported(|s, v| set(&mut s.affinity.cookie.max_age, value::number(v.trim()).map(Some))),
        "Max-Age of the affinity cookie.", Medium;
    "session-cookie-name", Ingress, "INGRESSCOOKIE", Supported(|s, v| set(&mut s.affinity.cookie.name, cookie_text(value::spaced(v, value::NAME)))),
        "Name of the affinity cookie.", Medium;
    "session-cookie-path", Ingress, "", Supported(|s, v| set(&mut s.affinity.cookie.path, cookie_text(value::spaced(v, value::URL)).map(Some))),
        "Path of the affinity cookie.", Medium;
    "session-cookie-samesite", Ingress, "", Supported(|s, v| set(&mut s.affinity.cookie.same_site, cookie_text(same_site(v)).map(Some))),
        "SameSite of the affinity cookie.";
    "session-cookie-secure", Ingress, "", Supported(|s, v| set(&mut s.affinity.cookie.is_secure, value::boolean(v))),
        "Secure of the affinity cookie.";
}

/// Settings of session affinity. Those of the cookie have an effect only if affinity is on.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    is_on: bool,
    mode: AffinityMode,
    change_on_failure: bool,
    cookie: AffinityCookie,
}

impl Settings {
    /// The affinity for the Services that the Ingress names.
    pub(super) fn of_backends(&self) -> Option<Arc<Affinity>> {
        let Self { is_on, mode, change_on_failure, cookie } = self;
        is_on.then(|| {
            Arc::new(Affinity {
                mode: *mode,
                change_on_failure: *change_on_failure,
                cookie: cookie.clone(),
                header: None,
                age_max: None,
                key: None,
            })
        })
    }
}

/// Applies the settings to a route. "Cookie is set only on locations of the annotated Ingress."
pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.sets_affinity_cookie = settings.is_on;
}

fn by_cookie(text: &str) -> Parsed<bool> {
    if text.trim() == "cookie" { Ok(true) } else { Err(format!("{text:?} is not \"cookie\"")) }
}

fn mode(text: &str) -> Parsed<AffinityMode> {
    match text.trim() {
        "balanced" => Ok(AffinityMode::Balanced),
        "persistent" => Ok(AffinityMode::Persistent),
        _ => Err(format!("{text:?} is neither \"balanced\" nor \"persistent\"")),
    }
}

fn cookie_text(text: Parsed<String>) -> Parsed<CookieText> {
    CookieText::new(&text?).map_err(|why| why.to_string())
}

/// The unchanged word, in any letter case.
fn same_site(text: &str) -> Parsed<String> {
    let word = text.trim();
    let is_known = ["none", "lax", "strict"].iter().any(|known| word.eq_ignore_ascii_case(known));
    if is_known { Ok(word.to_owned()) } else { Err(format!("{text:?} is none of None, Lax and Strict")) }
}
