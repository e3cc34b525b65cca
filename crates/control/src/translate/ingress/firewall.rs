//! The web application firewall (`ModSecurity`). Forebay has none: locations that request it are closed, or
//! served without it if the operator allows that.

use super::annotation::Effect::{Ignored, Supported};
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
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

/// Settings of the firewall.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// The firewall's requested state, on or off; none without the annotation.
    wanted: Option<bool>,
    core_rules: bool,
    has_rules: bool,
    /// The key of the `ConfigMap` that requests the firewall; none without such a key.
    pub(in crate::translate) global: Option<&'static str>,
}

/// The annotations that request the firewall.
pub(super) const NAMES: &[&str] = &["enable-modsecurity", "enable-owasp-core-rules", "modsecurity-snippet"];

/// The effect of an annotation or a key that requests the firewall. `closed` names the closed part.
pub(in crate::translate) fn outcome(unenforced: Unenforced, closed: &str) -> Outcome {
    match unenforced {
        Unenforced::Close => Outcome::Closed(closed.to_owned()),
        Unenforced::Serve => Outcome::Differs(WITHOUT.to_owned()),
    }
}

impl Settings {
    /// The reason for closing locations without an Ingress; none if they stay open.
    pub(super) fn denial(&self, unenforced: Unenforced) -> Option<String> {
        let closes = unenforced == Unenforced::Close;
        self.asker().filter(|_| closes).map(|(name, is_own)| asks(name, is_own))
    }

    /// The annotation or key that requests the firewall, and whether it is the Ingress's own.
    fn asker(&self) -> Option<(&'static str, bool)> {
        match self.wanted {
            Some(true) => Some(("enable-modsecurity", true)),
            Some(false) => None,
            None if self.core_rules => Some(("enable-owasp-core-rules", true)),
            None if self.has_rules => Some(("modsecurity-snippet", true)),
            None => self.global.map(|key| (key, false)),
        }
    }
}

impl Resolve for Settings {
    type Resolved = ();

    /// Closes the locations that request the firewall, unless they may be served without it.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        let Some((name, is_own)) = self.asker() else { return };
        let asker = context.asker;
        let asks = asks(&if is_own { asker.key(name) } else { name.to_owned() }, is_own);
        let (severity, message) = match context.inputs.options.waf_unenforced {
            Unenforced::Close => {
                findings.guards.of_locations.push(asks.clone());
                (Severity::Error, format!("{asks}: {} return 503", asker.closed()))
            }
            Unenforced::Serve => (Severity::Warning, format!("{asks}: {WITHOUT} (--waf-unenforced=serve)")),
        };
        // The ConfigMap's key is reported once, where the ConfigMap is read.
        if let Some(place) = asker.given(name).filter(|_| is_own) {
            let problem = Problem::in_place(severity, &place, message);
            findings.problems.push(problem.because(Reason::Unsupported));
        }
    }
}

fn asks(name: &str, is_own: bool) -> String {
    let what = if is_own { "annotation" } else { "ConfigMap key" };
    format!("{what} {name} asks for a web application firewall, of which there is none")
}

/// The effect on requests whose locations request the firewall.
pub(in crate::translate) const WITHOUT: &str = "requests are served without it";
