//! The web application firewall (`ModSecurity`): its rules, from annotations and from the `ConfigMap`.
//!
//! The order of rules is that of ingress-nginx: the object's own, then the default settings unless it has own
//! rules, then the core rules. A location whose rules cannot be had keeps the last good ones, or is closed.

use std::sync::Arc;

use model::template::Template;
use model::{Firewall, RuleSet};
use waf::settings::Mode;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use super::asker::Asker;
use super::firewall_tuning;
use super::resolve::{Context, Findings, Resolve};
use crate::firewalls::{Base, Fault, Firewalls, Tuning, Wanted};
use crate::objects::{self, Resource};
use crate::options::{Options, Unenforced};
use crate::outcome::Outcome;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "enable-modsecurity", Ingress, "false", Supported(|s, v| set(&mut s.firewall.wanted, value::boolean(v).map(Some))),
        "Turns on the web application firewall. Without rules of its own it only reports.";
    "enable-owasp-core-rules", Ingress, "false", Supported(|s, v| set(&mut s.firewall.core_rules, value::boolean(v))),
        "Loads the OWASP core rules into it, where it is on; see `--waf-rules`.";
    "modsecurity-snippet", Ingress, "", Supported(|s, v| set(&mut s.firewall.rules, Ok(rules(v)))),
        "Rules for it, where it is on.", Critical;
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
    pub(in crate::translate) tuning: Tuning,
    pub(in crate::translate) global: Global,
    /// The firewall that the settings ask for, once they are resolved.
    resolved: Option<Arc<Firewall>>,
}

/// The settings of the `ConfigMap`.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Global {
    pub(in crate::translate) is_on: bool,
    /// The mode of all locations, which takes precedence over `is_on`.
    pub(in crate::translate) mode: Option<Mode>,
    pub(in crate::translate) core_rules: bool,
    pub(in crate::translate) rules: Option<Arc<str>>,
}

/// The annotation that turns the firewall on, and those that only count beside it, as in ingress-nginx.
const LEADER: &str = "enable-modsecurity";
const FOLLOWERS: &[&str] = &["enable-owasp-core-rules", "modsecurity-snippet", "modsecurity-transaction-id"];

/// The annotation that turns the firewall on too, with the effect of a match.
const MODE: &str = "waf-mode";

/// The annotation and the key that need the core rules.
const CORE_RULES: &[&str] = &["enable-owasp-core-rules", "enable-owasp-modsecurity-crs"];

/// Whether a name is that of an annotation of the firewall.
pub(super) fn is_ours(name: &str) -> bool {
    name == LEADER || FOLLOWERS.contains(&name)
}

/// The effect of an annotation or a key of the firewall, which is on or off. `closed` names the closed part.
pub(in crate::translate) fn outcome(options: &Options, name: &str, is_on: bool, closed: &str) -> Outcome {
    if !is_on && name != LEADER {
        return Outcome::WithoutEffect(format!("it counts beside {LEADER}"));
    }
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
    /// The keys that are given and have no effect, because the firewall is off.
    pub(in crate::translate) fn without_effect(&self) -> impl Iterator<Item = &'static str> {
        let keys = [
            ("enable-owasp-modsecurity-crs", self.core_rules),
            ("modsecurity-snippet", self.rules.is_some()),
        ];
        keys.into_iter().filter(|(_, is_given)| *is_given && !self.is_on()).map(|(key, _)| key)
    }

    fn is_on(&self) -> bool {
        self.mode.map_or(self.is_on, |mode| mode != Mode::Off)
    }

    /// The rules of locations without settings of their own; none where the firewall is off.
    fn wanted(&self) -> Option<Base> {
        self.is_on().then(|| Base {
            defaults: self.rules.is_none(),
            snippet: self.rules.clone(),
            core: self.core_rules,
        })
    }
}

impl Settings {
    /// The rules of locations without an object of their own.
    fn wanted_for_all(&self) -> Option<Wanted> {
        self.global.wanted().map(|base| Wanted { snippet: None, base, tuning: self.tuning.clone() })
    }

    /// Why the rules of the `ConfigMap` cannot be had, with the key that requests them; none where they can.
    pub(in crate::translate) fn fault(&self, firewalls: &Firewalls) -> Option<(&'static str, Fault)> {
        let fault = firewalls.set(&self.wanted_for_all()?).err()?;
        let key = match fault {
            Fault::NoCoreRules => "enable-owasp-modsecurity-crs",
            Fault::Tuning(_) => "forebay-waf-detection-paranoia-level",
            Fault::Rules(_) if self.global.rules.is_some() => "modsecurity-snippet",
            Fault::Rules(_) => LEADER,
        };
        Some((key, fault))
    }

    /// Resolves the settings of locations without an object of their own. Returns the reason for closing
    /// them; none if they stay open.
    pub(in crate::translate) fn resolve_global(&mut self, options: &Options) -> Option<String> {
        match options.firewalls.set(&self.wanted_for_all()?) {
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

    /// Whether the firewall is on, by the object or by the `ConfigMap`.
    pub(in crate::translate) fn is_on(&self) -> bool {
        match (self.wanted, self.tuning.mode) {
            (Some(false), _) | (_, Some(Mode::Off)) => false,
            (Some(true), _) | (_, Some(_)) => true,
            (None, None) => self.global.is_on(),
        }
    }

    /// The rules of the settings; none where the firewall is off. With a mode, the default settings hold
    /// beside an object's own rules too.
    fn request(&self) -> Option<Wanted> {
        let has_defaults = self.rules.is_none() || self.tuning.mode.is_some();
        let own = || Base { defaults: has_defaults, ..Base::default() };
        let base = self.is_on().then(|| self.global.wanted().unwrap_or_else(own))?;
        let base = Base { core: base.core || self.core_rules, ..base };
        Some(Wanted { snippet: self.rules.clone(), base, tuning: self.tuning.clone() })
    }

    fn firewall(&self, rules: RuleSet) -> Arc<Firewall> {
        Arc::new(Firewall { rules, transaction_id: self.transaction_id.clone() })
    }

    /// The setting of the asker that has the fault; none for a fault of the `ConfigMap`'s.
    fn faulty(&self, asker: &dyn Asker, fault: &Fault) -> Option<&'static str> {
        let given = |names: &[&'static str]| names.iter().copied().find(|name| asker.given(name).is_some());
        match fault {
            _ if fault.is_of_snippet() => Some("modsecurity-snippet"),
            Fault::NoCoreRules => given(&["enable-owasp-core-rules"]).filter(|_| self.core_rules),
            Fault::Tuning(_) => given(&["waf-detection-paranoia-level", "waf-paranoia-level"]),
            Fault::Rules(_) if self.global.is_on() => None,
            Fault::Rules(_) => given(&[LEADER, MODE]),
        }
    }

    /// Reports settings that have no effect, because the firewall is off and nobody says so.
    fn report_without_effect(&self, asker: &dyn Asker, problems: &mut Vec<Problem>) {
        if self.wanted.is_some() || self.tuning.mode.is_some() {
            return;
        }
        let own = firewall_tuning::ANNOTATIONS.iter().map(|annotation| annotation.name);
        for name in FOLLOWERS.iter().copied().chain(own).filter(|name| *name != MODE) {
            // A snippet that is not allowed has a problem of its own.
            let is_dropped = name == "modsecurity-snippet" && self.rules.is_none();
            if is_dropped || asker.value(name).is_none_or(is_off) {
                continue;
            }
            let message = format!(
                "{} has no effect: neither {} nor {} turns the firewall on, nor does the ConfigMap",
                asker.called(name),
                asker.key(LEADER),
                asker.key(MODE),
            );
            problems.push(asker.problem(Severity::Notice, name, message).because(Reason::NoEffect));
        }
    }
}

/// Whether a text asks for nothing.
fn is_off(text: &str) -> bool {
    ["", "false"].contains(&text.trim())
}

impl Resolve for Settings {
    type Resolved = ();

    /// Compiles the rules, or finds those that were compiled of the same texts.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        let (asker, options) = (context.asker, context.inputs.options);
        let object = asker.place().object;
        let Some(wanted) = self.request() else {
            options.firewalls.forget(&object);
            self.report_without_effect(asker, findings.problems);
            return;
        };
        let fault = match options.firewalls.set(&wanted) {
            Ok(set) => {
                // Routes have no sets that stay in force: one may have several, by rules and Gateways.
                if object.kind == objects::Ingress::KIND {
                    options.firewalls.keep(&object, &set);
                }
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
        let name = self.faulty(asker, &fault);
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
        Fault::Rules(_) => Reason::FirewallRules,
        Fault::Tuning(_) => Reason::Annotation,
    }
}

/// Whether an asker has a setting of the firewall.
pub(super) fn is_given(asker: &dyn Asker) -> bool {
    let is_own = |name: &str| firewall_tuning::ANNOTATIONS.iter().any(|annotation| annotation.name == name);
    asker.names().iter().any(|name| is_ours(name) || is_own(name))
}

/// Applies the firewall to a route.
pub(in crate::translate) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.access.firewall.clone_from(&settings.resolved);
}
