//! The web application firewall (`ModSecurity`): its rules, from annotations and from the `ConfigMap`.
//!
//! The order of rules is that of ingress-nginx: the object's own, then the default settings unless it has own
//! rules, then the core rules. A location whose rules cannot be had keeps the last good ones, or is closed.

use std::sync::Arc;

use model::template::Template;
use model::{Firewall, RuleSet};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
use crate::firewalls::{Base, Fault, Firewalls, Wanted};
use crate::options::{Options, Unenforced};
use crate::outcome::Outcome;
use crate::problem::{Reason, Severity};
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "enable-modsecurity", Ingress, "false", Supported(|s, v| set(&mut s.firewall.wanted, value::boolean(v).map(Some))),
        "Turns on the web application firewall. Without rules of its own it only reports.";
    "enable-owasp-core-rules", Ingress, "false", Supported(|s, v| set(&mut s.firewall.core_rules, value::boolean(v))),
        "Loads the OWASP core rules into it; see `--waf-rules`.";
    "modsecurity-snippet", Ingress, "", Supported(|s, v| set(&mut s.firewall.rules, Ok(rules(v)))),
        "Rules for it.", Critical;
    "modsecurity-transaction-id", Ingress, "", Supported(|s, v| set(&mut s.firewall.transaction_id, template(v))),
        "Id of a request in its reports and in `UNIQUE_ID`.", High;
}

/// Settings of the firewall.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// The firewall's requested state, on or off; none without the annotation.
    wanted: Option<bool>,
    core_rules: bool,
    rules: Option<Arc<str>>,
    transaction_id: Option<Template>,
    pub(in crate::translate) global: Global,
    /// The firewall that the settings ask for, once they are resolved.
    resolved: Option<Arc<Firewall>>,
}

/// The settings of the `ConfigMap`.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Global {
    pub(in crate::translate) is_on: bool,
    pub(in crate::translate) core_rules: bool,
    pub(in crate::translate) rules: Option<Arc<str>>,
}

/// The annotations that request the firewall.
pub(super) const NAMES: &[&str] = &["enable-modsecurity", "enable-owasp-core-rules", "modsecurity-snippet"];

/// The annotation and the key that need the core rules.
const CORE_RULES: &[&str] = &["enable-owasp-core-rules", "enable-owasp-modsecurity-crs"];

/// The effect of an annotation or a key that requests the firewall. `closed` names the closed part.
pub(in crate::translate) fn outcome(options: &Options, name: &str, closed: &str) -> Outcome {
    if !CORE_RULES.contains(&name) || options.firewalls.has_core_rules() {
        return Outcome::Works;
    }
    match options.waf_unenforced {
        Unenforced::Close => Outcome::Closed(closed.to_owned()),
        Unenforced::Serve => Outcome::Differs(WITHOUT.to_owned()),
    }
}

/// The effect on requests whose locations request rules that cannot be had.
pub(in crate::translate) const WITHOUT: &str = "requests are served without it";

/// The rules of a text; none if it is blank.
pub(in crate::translate) fn rules(text: &str) -> Option<Arc<str>> {
    value::unless_blank(text).map(Into::into)
}

fn template(text: &str) -> Parsed<Option<Template>> {
    let template = value::name(text).map(|text| Template::parse(&text)).transpose();
    template.map_err(|error| error.to_string())
}

impl Global {
    /// The key that requests the firewall; none without such a key.
    fn key(&self) -> Option<&'static str> {
        let keys = [
            ("enable-modsecurity", self.is_on),
            ("enable-owasp-modsecurity-crs", self.core_rules),
            ("modsecurity-snippet", self.rules.is_some()),
        ];
        keys.into_iter().find(|(_, asks)| *asks).map(|(key, _)| key)
    }

    /// The rules of locations without settings of their own; none where the firewall is off.
    fn wanted(&self) -> Option<Base> {
        self.key().map(|_| Base {
            defaults: self.rules.is_none(),
            snippet: self.rules.clone(),
            core: self.core_rules,
        })
    }

    /// Why the rules cannot be had, with the key that requests them; none where they can.
    pub(in crate::translate) fn fault(&self, firewalls: &Firewalls) -> Option<(&'static str, Fault)> {
        let (key, base) = self.key().zip(self.wanted())?;
        let fault = firewalls.set(&Wanted { snippet: None, base }).err()?;
        let rules = Some("modsecurity-snippet").filter(|_| self.rules.is_some());
        let key = match fault {
            Fault::NoCoreRules => "enable-owasp-modsecurity-crs",
            Fault::Rules(_) => rules.unwrap_or(key),
        };
        Some((key, fault))
    }
}

impl Settings {
    /// Resolves the settings of locations without an Ingress. Returns the reason for closing them; none if
    /// they stay open.
    pub(super) fn resolve_global(&mut self, options: &Options) -> Option<String> {
        let base = self.global.wanted()?;
        match options.firewalls.set(&Wanted { snippet: None, base }) {
            Ok(set) => {
                self.resolved = Some(self.firewall(set));
                None
            }
            Err(fault) => {
                let closes = options.waf_unenforced == Unenforced::Close;
                closes.then(|| format!("the web application firewall: {fault}"))
            }
        }
    }

    /// The rules of the settings, with the annotation that asks for them if it is the object's own; none
    /// where the firewall is off.
    fn request(&self) -> Option<(Option<&'static str>, Wanted)> {
        let own = match self.wanted {
            Some(true) => Some("enable-modsecurity"),
            Some(false) => return None,
            None if self.core_rules => Some("enable-owasp-core-rules"),
            None if self.rules.is_some() => Some("modsecurity-snippet"),
            None => None,
        };
        let base = match self.global.wanted() {
            Some(global) => Base { core: global.core || self.core_rules, ..global },
            None if own.is_none() => return None,
            None => Base { defaults: self.rules.is_none(), snippet: None, core: self.core_rules },
        };
        Some((own, Wanted { snippet: self.rules.clone(), base }))
    }

    fn firewall(&self, rules: RuleSet) -> Arc<Firewall> {
        Arc::new(Firewall { rules, transaction_id: self.transaction_id.clone() })
    }

    /// The annotation whose rules have the fault; none for a fault of the `ConfigMap`'s.
    fn faulty(&self, own: Option<&'static str>, fault: &Fault) -> Option<&'static str> {
        match fault {
            _ if fault.is_of_snippet() => Some("modsecurity-snippet"),
            Fault::NoCoreRules if self.core_rules => Some("enable-owasp-core-rules"),
            Fault::NoCoreRules if self.global.core_rules => None,
            Fault::Rules(_) if self.global.key().is_some() => None,
            _ => own,
        }
    }
}

impl Resolve for Settings {
    type Resolved = ();

    /// Compiles the rules, or finds those that were compiled of the same texts.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        let (asker, options) = (context.asker, context.inputs.options);
        let object = asker.place().object;
        let Some((own, wanted)) = self.request() else {
            options.firewalls.forget(&object);
            return;
        };
        let fault = match options.firewalls.set(&wanted) {
            Ok(set) => {
                options.firewalls.keep(&object, &set);
                self.resolved = Some(self.firewall(set));
                return;
            }
            Err(fault) => fault,
        };
        let last = options.firewalls.last(&object);
        let (severity, effect) = match (last, options.waf_unenforced) {
            (Some(set), _) => {
                self.resolved = Some(self.firewall(set));
                (Severity::Error, "the rules before it stay in force, until this process ends".to_owned())
            }
            (None, Unenforced::Close) => (Severity::Error, format!("{} return 503", asker.closed())),
            (None, Unenforced::Serve) => (Severity::Warning, format!("{WITHOUT} (--waf-unenforced=serve)")),
        };
        let name = self.faulty(own, &fault);
        let called = name.map_or_else(|| "the ConfigMap's rules".to_owned(), |name| asker.called(name));
        if self.resolved.is_none() && severity == Severity::Error {
            findings.guards.of_locations.push(format!("{called}: {fault}"));
        }
        // A fault of the ConfigMap is reported once, where the ConfigMap is read.
        if let Some(name) = name {
            let message = format!("{called}: {fault}: {effect}");
            findings.problems.push(asker.problem(severity, name, message).because(reason(&fault)));
        }
    }
}

/// The reason of a problem with the rules.
pub(in crate::translate) fn reason(fault: &Fault) -> Reason {
    match fault {
        Fault::NoCoreRules => Reason::Unsupported,
        Fault::Rules(_) => Reason::Annotation,
    }
}

/// Applies the firewall to a route.
pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.access.firewall.clone_from(&settings.resolved);
}
