//! The web application firewall (`ModSecurity`). Forebay has none: locations that ask for it are closed, or served without it where the
//! operator says so.

use super::annotation::Effect::{Ignored, Supported};
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use super::guards;
use crate::objects::Ingress as Object;
use crate::objects::Sourced;
use crate::options::Unenforced;
use crate::outcome::Outcome;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::value::{self, set};

annotations! {
    "enable-modsecurity", Ingress, "false", Supported(|s, v| set(&mut s.firewall.wanted, value::boolean(v).map(Some))),
        "Turns on the web application firewall, which Forebay does not have: see `--waf-unenforced`.";
    "enable-owasp-core-rules", Ingress, "false", Supported(|s, v| set(&mut s.firewall.core_rules, value::boolean(v))),
        "Loads the OWASP core rules into it.";
    "modsecurity-snippet", Ingress, "", Supported(|s, v| set(&mut s.firewall.has_rules, Ok(!v.trim().is_empty()))),
        "Rules for it.", Critical;
    "modsecurity-transaction-id", Ingress, "", Ignored("there is no firewall that would use it"),
        "Transaction id of the web application firewall.", High;
}

/// What is asked of the firewall.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// It is to be on, or off.
    wanted: Option<bool>,
    core_rules: bool,
    has_rules: bool,
    /// The key of the `ConfigMap` that asks for it, if one does.
    pub(in crate::translate) global: Option<&'static str>,
}

/// The annotations that ask for it.
pub(super) const NAMES: &[&str] = &["enable-modsecurity", "enable-owasp-core-rules", "modsecurity-snippet"];

/// What becomes of an annotation or a key that asks for it. `closed` says what is closed.
pub(in crate::translate) fn outcome(unenforced: Unenforced, closed: &str) -> Outcome {
    match unenforced {
        Unenforced::Close => Outcome::Closed(closed.to_owned()),
        Unenforced::Serve => Outcome::Differs(WITHOUT.to_owned()),
    }
}

impl Settings {
    /// Why locations without an Ingress are closed; none if they are not.
    pub(super) fn denial(&self, unenforced: Unenforced) -> Option<String> {
        let closes = unenforced == Unenforced::Close;
        self.asker().filter(|_| closes).map(|(name, is_own)| asks(name, is_own))
    }

    /// The annotation or key that asks for the firewall.
    fn asker(&self) -> Option<(&'static str, bool)> {
        match self.wanted {
            Some(true) => Some(("enable-modsecurity", true)),
            Some(false) => None,
            None if self.core_rules => Some(("enable-owasp-core-rules", true)),
            None if self.has_rules => Some(("modsecurity-snippet", true)),
            None => self.global.map(|key| (key, false)),
        }
    }

    /// Closes the locations that ask for the firewall, unless they may be served without.
    pub(super) fn enforce(
        &self,
        ingress: &Sourced<Object>,
        prefix: &str,
        unenforced: Unenforced,
        guards: &mut guards::Settings,
        problems: &mut Vec<Problem>,
    ) {
        let Some((name, is_own)) = self.asker() else { return };
        let key = format!("{prefix}/{name}");
        let asks = asks(if is_own { &key } else { name }, is_own);
        let (severity, message) = match unenforced {
            Unenforced::Close => {
                (Severity::Error, format!("{asks}: the locations of this Ingress return 503"))
            }
            Unenforced::Serve => (Severity::Warning, format!("{asks}: {WITHOUT} (--waf-unenforced=serve)")),
        };
        if unenforced == Unenforced::Close {
            guards.of_locations.push(asks);
        }
        // The ConfigMap is told of once, where it is read.
        if let Some(value) = ingress.metadata.annotations.get(&key).filter(|_| is_own) {
            problems.push(Problem::at(severity, ingress, value, message).because(Reason::Unsupported));
        }
    }
}

fn asks(name: &str, is_own: bool) -> String {
    let what = if is_own { "annotation" } else { "ConfigMap key" };
    format!("{what} {name} asks for a web application firewall, of which there is none")
}

/// What becomes of those who ask for the firewall.
pub(in crate::translate) const WITHOUT: &str = "requests are served without it";
