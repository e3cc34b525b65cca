//! The table of actions, and the draft of a rule that they fill.
//!
//! Never in here: a rule that is complete.

use super::effects;
use super::values::{number, template};
use crate::rule::{About, Allow, Disruptive, Effect, MarkerName, Mask, Tag};
use crate::seclang::parts::RawAction;
use crate::tables::Names;
use crate::transform::{self, Transformation};
use crate::variables::Variable;

/// An entry of the table of actions.
pub struct Entry {
    /// The name; names are compared without regard to case.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub doc: &'static str,
    kind: Kind,
}

impl Entry {
    /// Why rules with this action are refused; `None` if they are not.
    pub fn refusal(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Refused(reason) => Some(reason),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Accuracy,
    Allow,
    AuditLog(bool),
    Block,
    Capture,
    Chain,
    Control,
    Deny,
    DeprecateVar,
    Drop,
    ExpireVar,
    Id,
    InitCol,
    Log(bool),
    LogData,
    Mask(Mask),
    Maturity,
    Message,
    MultiMatch,
    Nothing,
    Pass,
    Phase,
    Redirect,
    Refused(&'static str),
    Revision,
    SetEnv,
    SetKey(Variable),
    SetVar,
    Severity,
    Skip,
    SkipAfter,
    Status,
    Tag,
    Transformation,
    Version,
}

const fn entry(name: &'static str, kind: Kind, doc: &'static str) -> Entry {
    Entry { name, doc, kind }
}

/// All actions that a rule can name.
pub const ACTIONS: &[Entry] = &[
    entry("accuracy", Kind::Accuracy, "how accurate the rule is, from 1 to 9"),
    entry("allow", Kind::Allow, "skips rules: all, those of the phase, or those of the request"),
    entry("append", Kind::Refused("responses are not changed"), "adds to the response's body"),
    entry("auditlog", Kind::AuditLog(true), "the audit log has the transaction"),
    entry("block", Kind::Block, "what SecDefaultAction says"),
    entry("capture", Kind::Capture, "groups of the expression are in TX:0 to TX:9"),
    entry("chain", Kind::Chain, "the next rule has to match too"),
    entry("ctl", Kind::Control, "changes the transaction"),
    entry("deny", Kind::Deny, "the client gets an error"),
    entry("deprecatevar", Kind::DeprecateVar, "a value becomes smaller with time"),
    entry("drop", Kind::Drop, "the connection is closed"),
    entry("exec", Kind::Refused("rules run no programs"), "runs a program"),
    entry("expirevar", Kind::ExpireVar, "a value is removed after some seconds"),
    entry("id", Kind::Id, "number of the rule"),
    entry("initcol", Kind::InitCol, "attaches a persistent collection by its key"),
    entry("log", Kind::Log(true), "the error log and the audit log have the match"),
    entry("logdata", Kind::LogData, "what the log says about the match"),
    entry("maturity", Kind::Maturity, "how mature the rule is, from 1 to 9"),
    entry("msg", Kind::Message, "message of the rule"),
    entry("multiMatch", Kind::MultiMatch, "the operator sees the value after each transformation"),
    entry("noauditlog", Kind::AuditLog(false), "the match is no reason for the audit log"),
    entry("nolog", Kind::Log(false), "neither log has the match"),
    entry("pass", Kind::Pass, "the exchange goes on"),
    entry("pause", Kind::Refused("a worker does not wait"), "waits before it goes on"),
    entry("phase", Kind::Phase, "when the rule runs: 1 to 5, request, response or logging"),
    entry("prepend", Kind::Refused("responses are not changed"), "adds to the response's body"),
    entry("proxy", Kind::Refused("routes choose the backend"), "sends the request to another server"),
    entry("redirect", Kind::Redirect, "sends the client elsewhere"),
    entry("rev", Kind::Revision, "revision of the rule"),
    entry("sanitiseArg", Kind::Mask(Mask::Argument), "the audit log masks an argument"),
    entry("sanitiseMatched", Kind::Mask(Mask::Matched), "the audit log masks what matched"),
    entry("sanitiseMatchedBytes", Kind::Mask(Mask::Matched), "the audit log masks what matched"),
    entry("sanitiseRequestHeader", Kind::Mask(Mask::RequestHeader), "the audit log masks a header"),
    entry("sanitiseResponseHeader", Kind::Mask(Mask::ResponseHeader), "the audit log masks a header"),
    entry("setenv", Kind::SetEnv, "sets a name of ENV"),
    entry("setrsc", Kind::SetKey(Variable::Resource), "attaches RESOURCE by its key"),
    entry("setsid", Kind::SetKey(Variable::Session), "attaches SESSION by its key"),
    entry("setuid", Kind::SetKey(Variable::User), "attaches USER by its key"),
    entry("setvar", Kind::SetVar, "sets, changes or removes a value of a collection"),
    entry("severity", Kind::Severity, "severity, from 0 (EMERGENCY) to 7 (DEBUG)"),
    entry("skip", Kind::Skip, "skips some rules"),
    entry("skipAfter", Kind::SkipAfter, "goes on behind a marker or the rule with an id"),
    entry("status", Kind::Status, "status of the error"),
    entry("t", Kind::Transformation, "transforms the value before the operator sees it"),
    entry("tag", Kind::Tag, "a tag of the rule"),
    entry("ver", Kind::Version, "version of the rule set"),
    entry("xmlns", Kind::Nothing, "accepted without effect: names are compared without namespaces"),
];

/// The effect of a rule on the exchange, before `SecDefaultAction` is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// As `SecDefaultAction` says.
    Default,
    /// An action of the rule's own.
    Own(Disruptive),
}

/// The actions of one rule or link.
#[derive(Clone, Default)]
pub(super) struct Draft {
    pub(super) id: Option<u64>,
    pub(super) phase: Option<u8>,
    pub(super) decision: Option<Decision>,
    pub(super) status: Option<u16>,
    pub(super) log: Option<bool>,
    pub(super) audit: Option<bool>,
    pub(super) chain: bool,
    pub(super) capture: bool,
    pub(super) each: bool,
    /// `t:none` forgets what `SecDefaultAction` has.
    pub(super) own_transformations_only: bool,
    pub(super) transformations: Vec<Transformation>,
    pub(super) about: About,
    pub(super) skip: u32,
    pub(super) skip_after: Option<MarkerName>,
    pub(super) each_match: Vec<Effect>,
    pub(super) after: Vec<Effect>,
}

impl Draft {
    /// Takes one action.
    pub(super) fn add(&mut self, action: &RawAction, names: &mut Names) -> Result<(), String> {
        let Some(entry) = ACTIONS.iter().find(|entry| entry.name.eq_ignore_ascii_case(&action.name)) else {
            return Err(format!("there is no action {}", action.name));
        };
        let value = action.value.as_deref().map(str::trim);
        let needed =
            || value.filter(|value| !value.is_empty()).ok_or(format!("{} needs a value", action.name));
        match entry.kind {
            Kind::Nothing => {}
            Kind::Refused(reason) => {
                return Err(format!("the action {} is not available: {reason}", entry.name));
            }
            Kind::Block => self.decision = Some(Decision::Default),
            Kind::Pass => self.decision = Some(Decision::Own(Disruptive::Pass)),
            Kind::Deny => self.decision = Some(Decision::Own(Disruptive::Deny)),
            Kind::Drop => self.decision = Some(Decision::Own(Disruptive::Drop)),
            Kind::Allow => self.decision = Some(Decision::Own(Disruptive::Allow(allow(value)?))),
            Kind::Redirect => {
                self.decision = Some(Decision::Own(Disruptive::Redirect(template(needed()?, names)?)));
            }
            Kind::Capture => self.capture = true,
            Kind::Chain => self.chain = true,
            Kind::MultiMatch => self.each = true,
            Kind::Log(log) => {
                self.log = Some(log);
                self.audit = Some(log);
            }
            Kind::AuditLog(audit) => self.audit = Some(audit),
            Kind::Id => self.id = Some(number(needed()?)?),
            Kind::Phase => self.phase = Some(phase(needed()?)?),
            Kind::Status => self.status = Some(status(needed()?)?),
            Kind::Skip => self.skip = number(needed()?)?,
            Kind::SkipAfter => self.skip_after = Some(needed()?.into()),
            Kind::Transformation => self.transform(needed()?)?,
            Kind::Control => self.after.push(Effect::Control(effects::control(needed()?)?)),
            Kind::SetVar => self.each_match.push(effects::set(needed()?, names)?),
            Kind::ExpireVar => self.each_match.push(effects::expire(needed()?, names)?),
            Kind::DeprecateVar => self.each_match.push(effects::deprecate(needed()?, names)?),
            Kind::SetEnv => self.each_match.push(effects::env(needed()?, names)?),
            Kind::InitCol => self.after.push(effects::attach(needed()?, names)?),
            Kind::SetKey(collection) => {
                self.after.push(Effect::Attach { collection, key: template(needed()?, names)? });
            }
            Kind::Mask(place) => {
                let name = value.map(|value| template(value, names)).transpose()?;
                self.each_match.push(Effect::Mask { place, name });
            }
            _ => self.describe(entry.kind, needed()?, names)?,
        }
        Ok(())
    }

    fn transform(&mut self, name: &str) -> Result<(), String> {
        if name.eq_ignore_ascii_case("none") {
            self.transformations.clear();
            self.own_transformations_only = true;
            return Ok(());
        }
        let found = transform::named(name).ok_or(format!("there is no transformation {name}"))?;
        self.transformations.push(found);
        Ok(())
    }

    fn describe(&mut self, kind: Kind, value: &str, names: &mut Names) -> Result<(), String> {
        let about = &mut self.about;
        match kind {
            Kind::Message => {
                about.message = Some(template(value, names)?);
                about.message_text = Some(value.into());
            }
            Kind::LogData => about.data = Some(template(value, names)?),
            Kind::Tag => {
                let parsed = template(value, names)?;
                let template = Some(parsed).filter(|template| !template.is_constant());
                about.tags.push(Tag { text: value.into(), template });
            }
            Kind::Severity => about.severity = Some(severity(value)?),
            Kind::Version => about.version = value.into(),
            Kind::Revision => about.revision = value.into(),
            Kind::Maturity => about.maturity = number(value)?,
            Kind::Accuracy => about.accuracy = number(value)?,
            _ => {}
        }
        Ok(())
    }
}

fn phase(text: &str) -> Result<u8, String> {
    match text.to_ascii_lowercase().as_str() {
        "request" => Ok(2),
        "response" => Ok(4),
        "logging" => Ok(5),
        _ => text
            .parse()
            .ok()
            .filter(|phase| (1..=5).contains(phase))
            .ok_or(format!("{text} is not a phase: 1 to 5, request, response or logging")),
    }
}

fn status(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| (100..=599).contains(status));
    status.ok_or(format!("{text} is not a status of HTTP"))
}

fn severity(text: &str) -> Result<u8, String> {
    const NAMES: [&str; 8] =
        ["EMERGENCY", "ALERT", "CRITICAL", "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG"];
    let named = NAMES.iter().position(|name| name.eq_ignore_ascii_case(text)).map(|index| index as u8);
    named
        .or_else(|| text.parse().ok().filter(|severity| *severity < 8))
        .ok_or(format!("{text} is not a severity"))
}

fn allow(value: Option<&str>) -> Result<Allow, String> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None => Ok(Allow::All),
        Some("phase") => Ok(Allow::Phase),
        Some("request") => Ok(Allow::Request),
        Some(other) => Err(format!("{other} is not a scope of allow: phase or request")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seclang::parts;

    fn draft(text: &str) -> Result<Draft, String> {
        let mut draft = Draft::default();
        for action in parts::actions(text).map_err(|error| error.1)? {
            draft.add(&action, &mut Names::default())?;
        }
        Ok(draft)
    }

    #[test]
    fn every_action_is_taken_or_refused_with_its_reason() {
        let samples = [
            ("accuracy", "accuracy:3"),
            ("allow", "allow:phase"),
            ("ctl", "ctl:ruleRemoveById=1"),
            ("deprecatevar", "deprecatevar:session.score=60/300"),
            ("expirevar", "expirevar:ip.a=60"),
            ("id", "id:1"),
            ("initcol", "initcol:ip=%{REMOTE_ADDR}"),
            ("logdata", "logdata:x"),
            ("maturity", "maturity:4"),
            ("msg", "msg:'a, b'"),
            ("phase", "phase:request"),
            ("redirect", "redirect:/x"),
            ("rev", "rev:2"),
            ("setenv", "setenv:a=b"),
            ("setrsc", "setrsc:a"),
            ("setsid", "setsid:a"),
            ("setuid", "setuid:a"),
            ("setvar", "setvar:tx.a=+1"),
            ("severity", "severity:CRITICAL"),
            ("skip", "skip:2"),
            ("skipAfter", "skipAfter:END"),
            ("status", "status:418"),
            ("t", "t:lowercase"),
            ("tag", "tag:a"),
            ("ver", "ver:1"),
        ];
        for entry in ACTIONS {
            let sample = samples.iter().find(|sample| sample.0 == entry.name);
            let text = sample.map_or(entry.name, |sample| sample.1);
            match entry.refusal() {
                Some(reason) => {
                    let error = draft(text).err().expect(text);
                    assert!(error.contains(reason), "{error}");
                }
                None => assert_eq!(draft(text).err(), None, "{text}"),
            }
            assert!(!entry.doc.is_empty());
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for text in
            ["phase:6", "status:99", "severity:8", "t:nothing", "id:x", "allow:x", "msg", "what", "ctl:x=1"]
        {
            assert!(draft(text).is_err(), "{text}");
        }
    }
}
