//! A compiled rule: links, what they do when they match, and what is said about it.
//!
//! Never in here: values of a transaction.

use std::sync::Arc;

use crate::settings::{AuditMode, Mode};
use crate::tables::Targets;
use crate::template::Template;
use crate::transform::Transformation;
use crate::variables::{Exclusion, Variable};

/// The ways to stop an exchange, or to let it pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Disruptive {
    /// The exchange goes on.
    Pass,
    /// The client gets an error.
    Deny,
    /// The connection is closed.
    Drop,
    /// The client is sent elsewhere.
    Redirect(Template),
    /// Rules are skipped.
    Allow(Allow),
}

/// The rules that `allow` skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allow {
    /// All but those of phase 5.
    All,
    /// The rest of the current phase.
    Phase,
    /// The rest of the phases of the request.
    Request,
}

/// A collection that `setvar` and `expirevar` change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// The collection of the transaction, `TX`.
    Tx,
    /// One of the persistent collections.
    Persistent(Variable),
}

/// A name within a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A name of `TX` that is known.
    Slot(u32),
    /// A name, in lower case where it has no macro.
    Name(Template),
}

/// The change that `setvar` makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// `=5`: a number.
    Number(i64),
    Text(Template),
    Add(Template),
    Subtract(Template),
    Remove,
}

/// Something that a rule does when it matches, beside stopping the exchange.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// The effect of `setvar`.
    Set { store: Store, key: Key, change: Change },
    /// The effect of `expirevar`.
    Expire { store: Store, key: Key, seconds: Template },
    /// `deprecatevar`: the value loses `amount` each `seconds`.
    Deprecate { store: Store, key: Key, amount: u32, seconds: u32 },
    /// `setenv`; without a value the name is removed.
    Env { name: Template, value: Option<Template> },
    /// `initcol`, `setsid`, `setuid`, `setrsc`
    Attach { collection: Variable, key: Template },
    /// The effect of `ctl`.
    Control(Control),
    /// `sanitiseArg` and its like: the audit log masks a value.
    Mask { place: Mask, name: Option<Template> },
}

/// The values that an audit log masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    /// An argument of the query or of the body.
    Argument,
    /// A header of the request.
    RequestHeader,
    /// A header of the response.
    ResponseHeader,
    /// The variable that the rule has matched.
    Matched,
}

/// Some rules of a set.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// Ids from the first to the last.
    Ids(Vec<std::ops::RangeInclusive<u64>>),
    Tag(Name),
    Message(Name),
}

/// A text that is compared, or an expression if it has a sign that only expressions have.
#[derive(Clone)]
pub(crate) struct Name {
    pub(crate) text: Arc<str>,
    pub(crate) pattern: Option<Arc<crate::operators::Pattern>>,
}

impl std::fmt::Debug for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

impl Name {
    /// True if it names this text.
    pub(crate) fn is(&self, text: &str) -> bool {
        *self.text == *text || self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(text.as_bytes()))
    }
}

impl Choice {
    /// True if a rule is one of them.
    pub(crate) fn has(&self, rule: &Rule) -> bool {
        match self {
            Choice::Ids(ranges) => ranges.iter().any(|range| range.contains(&rule.id)),
            Choice::Tag(name) => rule.about.tags.iter().any(|tag| name.is(&tag.text)),
            Choice::Message(name) => rule.about.message_text.as_deref().is_some_and(|text| name.is(text)),
        }
    }
}

/// `ctl`: a change of the transaction.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    /// `ruleRemoveById`, `ruleRemoveByTag`, `ruleRemoveByMsg`
    RemoveRules(Arc<Choice>),
    /// `ruleRemoveTargetById`, `ruleRemoveTargetByTag`, `ruleRemoveTargetByMsg`
    RemoveTargets(Arc<RemovedTargets>),
    /// The effect of `ruleEngine`.
    Mode(Mode),
    /// The effect of `requestBodyProcessor`.
    Processor(crate::body::Processor),
    /// The effect of `requestBodyAccess`.
    RequestBody(bool),
    /// The effect of `requestBodyLimit`.
    RequestBodyLimit(usize),
    /// The effect of `responseBodyAccess`.
    ResponseBody(bool),
    /// The effect of `responseBodyLimit`.
    ResponseBodyLimit(usize),
    /// The effect of `auditEngine`.
    AuditMode(AuditMode),
    /// The effect of `auditLogParts`.
    AuditParts(PartsChange),
    /// The effect of `forceRequestBodyVariable`.
    ForceRequestBody(bool),
    /// `debugLogLevel` and its like: accepted without effect.
    Nothing,
}

/// A change of the parts of an audit log's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartsChange {
    Add(String),
    Remove(String),
    /// The parts are these, as in `ABZ`.
    Set(String),
}

/// Values that some rules leave out for the rest of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct RemovedTargets {
    pub(crate) rules: Choice,
    pub(crate) exclusion: Exclusion,
}

/// One link of a chain; a rule without `chain` has one.
#[derive(Clone)]
pub(crate) struct Link {
    /// True for `SecAction`: there is nothing to test.
    pub(crate) unconditional: bool,
    pub(crate) targets: Arc<Targets>,
    pub(crate) transformations: Arc<[Transformation]>,
    /// True for `multiMatch`.
    pub(crate) each: bool,
    /// The number of the group that has targets and transformations; `None` if the targets change within a
    /// phase.
    pub(crate) group: Option<u32>,
    /// The number of the operator.
    pub(crate) operator: u32,
    /// True for `!@`.
    pub(crate) negated: bool,
    /// True for `capture`.
    pub(crate) capture: bool,
    /// Done for each value that matches.
    pub(crate) each_match: Vec<Effect>,
    /// Done once, after the rest of the chain has matched.
    pub(crate) after: Vec<Effect>,
    /// The operator as the rule has it.
    pub(crate) operator_text: Arc<str>,
}

/// A tag of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Tag {
    /// The text as it stands in the rule.
    pub(crate) text: Arc<str>,
    /// The text with macros, if it has any.
    pub(crate) template: Option<Template>,
}

/// The description of a rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) message: Option<Template>,
    /// `msg` as it stands in the rule.
    pub(crate) message_text: Option<Arc<str>>,
    pub(crate) data: Option<Template>,
    pub(crate) tags: Vec<Tag>,
    pub(crate) severity: Option<u8>,
    pub(crate) version: Arc<str>,
    pub(crate) revision: Arc<str>,
    pub(crate) maturity: u8,
    pub(crate) accuracy: u8,
}

/// The place that `skipAfter` names.
pub(crate) type MarkerName = Arc<str>;

/// A compiled rule.
#[derive(Clone)]
pub(crate) struct Rule {
    /// `id`; 0 without.
    pub(crate) id: u64,
    /// `phase`, from 1 to 5.
    pub(crate) phase: u8,
    /// The name of the source.
    pub(crate) file: Arc<str>,
    /// The line in the source.
    pub(crate) line: u32,
    /// The links of the chain.
    pub(crate) links: Vec<Link>,
    /// The description of the rule.
    pub(crate) about: About,
    /// The effect on the exchange.
    pub(crate) disruptive: Disruptive,
    pub(crate) status: u16,
    pub(crate) log: bool,
    pub(crate) audit: bool,
    /// `skip`: the number of rules.
    pub(crate) skip: u32,
    pub(crate) skip_after: Option<MarkerName>,
}

/// A rule, or a place between rules.
#[derive(Clone)]
pub(crate) enum Item {
    Rule(Arc<Rule>),
    /// A place that `SecMarker` names.
    Marker(MarkerName),
}

/// The actions of `SecDefaultAction` for one phase.
#[derive(Clone)]
pub(crate) struct DefaultAction {
    pub(crate) disruptive: Disruptive,
    pub(crate) status: Option<u16>,
    pub(crate) log: bool,
    pub(crate) audit: bool,
    pub(crate) transformations: Vec<Transformation>,
}

impl Default for DefaultAction {
    fn default() -> DefaultAction {
        DefaultAction {
            disruptive: Disruptive::Pass,
            status: None,
            log: true,
            audit: true,
            transformations: Vec::new(),
        }
    }
}
