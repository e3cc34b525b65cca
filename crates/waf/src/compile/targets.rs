//! Targets of a rule from their text.
//!
//! Never in here: operators.

use std::sync::Arc;

use crate::operators::{Pattern, Reading};
use crate::seclang::parts::{self, RawTarget, Span};
use crate::tables::{Names, Targets};
use crate::variables::{Exclusion, Path, Selector, Shape, Target, Variable};

/// The parts of an XML body that rules can name.
const XML: &str =
    "there are paths of names, *, @name, @* and text(), and only XML:/* and XML://@* can be excluded";

/// A fault with its offset in the word.
pub(super) type Offset = (usize, String);

/// Parses targets and what is left out.
pub(super) fn parse(text: &str, names: &mut Names) -> Result<Targets, Offset> {
    let mut targets = Targets::default();
    for raw in parts::targets(text) {
        let (variable, selector) = choice(&raw)?;
        if raw.excluded {
            targets.exclusions.push(Exclusion { variable, selector });
            continue;
        }
        let slot = match (variable, &selector) {
            (Variable::Tx, Selector::Name(name)) => Some(names.slot(name)),
            _ => None,
        };
        targets.targets.push(Target { variable, selector, count: raw.count, slot });
    }
    if targets.targets.is_empty() && targets.exclusions.is_empty() {
        return Err((0, "a rule needs a variable".to_owned()));
    }
    Ok(targets)
}

/// Parses the one value that `ctl:ruleRemoveTargetById` leaves out.
pub(super) fn parse_exclusion(text: &str) -> Result<Exclusion, Offset> {
    let raw = parts::targets(text);
    let [raw] = &raw[..] else { return Err((0, format!("{text} is not one variable"))) };
    let raw = RawTarget { excluded: true, ..raw.clone() };
    let (variable, selector) = choice(&raw)?;
    Ok(Exclusion { variable, selector })
}

fn choice(raw: &RawTarget) -> Result<(Variable, Selector), Offset> {
    let name = raw.name.text.trim();
    let Some(variable) = Variable::named(name) else {
        return Err((raw.name.offset, format!("there is no variable {name}")));
    };
    if variable == Variable::XmlText {
        return xml(raw);
    }
    let Some(selector) = &raw.selector else { return Ok((variable, Selector::All)) };
    if variable.entry().shape == Shape::Single {
        return Err((selector.offset, format!("{name} is one value and takes no selector")));
    }
    Ok((variable, selected(selector, raw.expression)?))
}

fn selected(selector: &Span, expression: bool) -> Result<Selector, Offset> {
    if expression {
        let reading = Reading { any_case: true, ..Reading::default() };
        let pattern = Pattern::new(selector.text, reading)
            .map_err(|fault| (selector.offset + fault.offset, fault.message))?;
        return Ok(Selector::Matching(selector.text.into(), Arc::new(pattern)));
    }
    Ok(Selector::Name(selector.text.to_ascii_lowercase().as_bytes().into()))
}

fn xml(raw: &RawTarget) -> Result<(Variable, Selector), Offset> {
    match raw.selector.as_ref().map(|selector| selector.text) {
        None | Some("/*" | "//*") => Ok((Variable::XmlText, Selector::All)),
        Some("//@*" | "/@*") => Ok((Variable::XmlAttributes, Selector::All)),
        // Names are compared without namespaces, so that a path could exclude more than it says.
        Some(text) => match Path::parse(text).filter(|_| !raw.excluded) {
            Some(path) => Ok((Variable::XmlNodes, Selector::Path(text.into(), Arc::new(path)))),
            None => Err((raw.name.offset, format!("XML:{text} is not available: {XML}"))),
        },
    }
}
