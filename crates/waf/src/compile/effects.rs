//! Actions that change something: `setvar`, `ctl` and their like, from their text.
//!
//! Never in here: the change itself.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::targets;
use super::values::{number, template};
use crate::body::Processor;
use crate::operators::{Pattern, Reading};
use crate::rule::{Change, Choice, Control, Effect, Key, Name, PartsChange, RemovedTargets, Store};
use crate::settings::{AuditMode, Mode};
use crate::tables::Names;
use crate::variables::{Shape, Variable};

/// `tx.name`, as `setvar` and `expirevar` have it.
fn place(text: &str, names: &mut Names) -> Result<(Store, Key), String> {
    let Some((collection, name)) = text.split_once(['.', ':']) else {
        return Err(format!("{text} is not a name of a collection, such as tx.score"));
    };
    let store = match Variable::named(collection) {
        Some(Variable::Tx) => Store::Tx,
        Some(variable) if variable.entry().shape == Shape::Persistent => Store::Persistent(variable),
        _ => return Err(format!("{collection} is not a collection that rules can change")),
    };
    let name = template(&name.to_ascii_lowercase(), names)?;
    let key = match (store, name.constant()) {
        (Store::Tx, Some(name)) => Key::Slot(names.slot(name)),
        _ => Key::Name(name),
    };
    Ok((store, key))
}

pub(super) fn set(text: &str, names: &mut Names) -> Result<Effect, String> {
    if let Some(name) = text.strip_prefix('!') {
        let (store, key) = place(name, names)?;
        return Ok(Effect::Set { store, key, change: Change::Remove });
    }
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    let (store, key) = place(name.trim(), names)?;
    let value = value.trim();
    let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
    let change = match value.as_bytes().first() {
        Some(b'+') => Change::Add(template(&value[1..], names)?),
        Some(b'-') => Change::Subtract(template(&value[1..], names)?),
        _ => match value.parse::<i64>() {
            Ok(number) if number.to_string() == value => Change::Number(number),
            _ => Change::Text(template(value, names)?),
        },
    };
    Ok(Effect::Set { store, key, change })
}

pub(super) fn expire(text: &str, names: &mut Names) -> Result<Effect, String> {
    let (name, seconds) = text.split_once('=').ok_or("expirevar needs a name and seconds".to_owned())?;
    let (store, key) = place(name, names)?;
    Ok(Effect::Expire { store, key, seconds: template(seconds, names)? })
}

pub(super) fn deprecate(text: &str, names: &mut Names) -> Result<Effect, String> {
    let parsed = text.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once('/')?)));
    let (name, (amount, seconds)) = parsed.ok_or("deprecatevar needs name=amount/seconds".to_owned())?;
    let (store, key) = place(name, names)?;
    let seconds = number::<u32>(seconds)?.max(1);
    Ok(Effect::Deprecate { store, key, amount: number(amount)?, seconds })
}

pub(super) fn env(text: &str, names: &mut Names) -> Result<Effect, String> {
    if let Some(name) = text.strip_prefix('!') {
        return Ok(Effect::Env { name: template(name, names)?, value: None });
    }
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    Ok(Effect::Env { name: template(name, names)?, value: Some(template(value, names)?) })
}

pub(super) fn attach(text: &str, names: &mut Names) -> Result<Effect, String> {
    let (name, key) = text.split_once('=').ok_or("initcol needs a collection and a key".to_owned())?;
    match Variable::named(name.trim()) {
        Some(collection) if collection.entry().shape == Shape::Persistent => {
            Ok(Effect::Attach { collection, key: template(key, names)? })
        }
        _ => Err(format!("{name} is not a persistent collection")),
    }
}

/// Ids: `1`, `1-5`, several with commas or white space.
pub(super) fn ids(text: &str) -> Result<Vec<RangeInclusive<u64>>, String> {
    let separator = |letter: char| letter == ',' || letter.is_whitespace();
    let parts = text.split(separator).filter(|part| !part.is_empty());
    parts
        .map(|part| match part.split_once('-') {
            Some((low, high)) => Ok(number(low.trim())?..=number(high.trim())?),
            None => number(part).map(|id: u64| id..=id),
        })
        .collect()
}

/// A tag or a message. It is an expression as well if it has a sign that only expressions have.
pub(super) fn name(text: &str) -> Result<Name, String> {
    let expression = text.contains(['^', '$', '*', '+', '?', '(', '[', '|', '\\']);
    let pattern = if expression {
        let reading = Reading { steps_back: true, ..Reading::default() };
        let pattern = Pattern::new(text, reading).map_err(|fault| fault.message)?;
        Some(Arc::new(pattern))
    } else {
        None
    };
    Ok(Name { text: text.into(), pattern })
}

pub(super) fn control(text: &str) -> Result<Control, String> {
    let (name, value) = text.split_once('=').ok_or(format!("ctl:{text} needs a value"))?;
    let value = value.trim();
    Ok(match name.trim().to_ascii_lowercase().as_str() {
        "ruleremovebyid" => Control::RemoveRules(Arc::new(Choice::Ids(ids(value)?))),
        "ruleremovebytag" => Control::RemoveRules(Arc::new(Choice::Tag(self::name(value)?))),
        "ruleremovebymsg" => Control::RemoveRules(Arc::new(Choice::Message(self::name(value)?))),
        "ruleremovetargetbyid" => removed_targets(value, |text| Ok(Choice::Ids(ids(text)?)))?,
        "ruleremovetargetbytag" => removed_targets(value, |text| Ok(Choice::Tag(self::name(text)?)))?,
        "ruleremovetargetbymsg" => removed_targets(value, |text| Ok(Choice::Message(self::name(text)?)))?,
        "ruleengine" => Control::Mode(mode(value)?),
        "requestbodyprocessor" => Control::Processor(processor(value)?),
        "requestbodyaccess" => Control::RequestBody(on(value)?),
        "requestbodylimit" => Control::RequestBodyLimit(number(value)?),
        "responsebodyaccess" => Control::ResponseBody(on(value)?),
        "responsebodylimit" => Control::ResponseBodyLimit(number(value)?),
        "auditengine" => Control::AuditMode(audit_mode(value)?),
        "auditlogparts" => Control::AuditParts(parts(value)),
        "forcerequestbodyvariable" => Control::ForceRequestBody(on(value)?),
        "debugloglevel"
        | "forceresponsebodyvariable"
        | "hashengine"
        | "hashenforcement"
        | "parsexmlintoargs"
        | "responsebodyprocessor" => Control::Nothing,
        other => return Err(format!("there is no setting ctl:{other}")),
    })
}

fn removed_targets(value: &str, choice: impl Fn(&str) -> Result<Choice, String>) -> Result<Control, String> {
    let (rules, target) = value.split_once(';').ok_or("rules and a variable are needed, with ; between")?;
    let exclusion = targets::parse_exclusion(target.trim()).map_err(|error| error.1)?;
    Ok(Control::RemoveTargets(Arc::new(RemovedTargets { rules: choice(rules.trim())?, exclusion })))
}

/// `On` or `Off`.
pub(super) fn on(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text} is neither On nor Off")),
    }
}

/// A value of `SecRuleEngine`.
pub(super) fn mode(text: &str) -> Result<Mode, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" => Ok(Mode::On),
        "off" => Ok(Mode::Off),
        "detectiononly" => Ok(Mode::DetectionOnly),
        _ => Err(format!("{text} is not On, Off or DetectionOnly")),
    }
}

/// A value of `SecAuditEngine`.
pub(super) fn audit_mode(text: &str) -> Result<AuditMode, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" => Ok(AuditMode::On),
        "off" => Ok(AuditMode::Off),
        "relevantonly" => Ok(AuditMode::RelevantOnly),
        _ => Err(format!("{text} is not On, Off or RelevantOnly")),
    }
}

fn processor(text: &str) -> Result<Processor, String> {
    match text.to_ascii_uppercase().as_str() {
        "URLENCODED" => Ok(Processor::UrlEncoded),
        "MULTIPART" => Ok(Processor::Multipart),
        "JSON" => Ok(Processor::Json),
        "XML" => Ok(Processor::Xml),
        "RAW" => Ok(Processor::Raw),
        _ => Err(format!("{text} is not a parser of bodies: URLENCODED, MULTIPART, JSON, XML or RAW")),
    }
}

fn parts(text: &str) -> PartsChange {
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(parts), _) => PartsChange::Add(parts.to_owned()),
        (_, Some(parts)) => PartsChange::Remove(parts.to_owned()),
        _ => PartsChange::Set(text.to_owned()),
    }
}
