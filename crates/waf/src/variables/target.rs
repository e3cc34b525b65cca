//! Targets of a rule: a variable, and which of its values.
//!
//! Never in here: values.

use std::fmt;
use std::sync::Arc;

use super::{Path, Variable};
use crate::operators::Pattern;

/// The choice of values of a collection.
#[derive(Clone)]
pub(crate) enum Selector {
    /// All of them.
    All,
    /// The values with one name, in lower case.
    Name(Arc<[u8]>),
    /// The values whose name an expression matches; the text is kept for comparison.
    Matching(Arc<str>, Arc<Pattern>),
    /// The nodes of an XML body that a path leads to; the text is kept for comparison.
    Path(Arc<str>, Arc<Path>),
}

impl Selector {
    /// True if a name is chosen. Names are compared without regard to the case of ASCII letters.
    pub(crate) fn chooses(&self, name: &[u8]) -> bool {
        match self {
            Selector::All => true,
            Selector::Name(own) => own.eq_ignore_ascii_case(name),
            Selector::Matching(_, pattern) => pattern.is_match(name),
            Selector::Path(_, path) => std::str::from_utf8(name).is_ok_and(|place| path.leads_to(place)),
        }
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Selector) -> bool {
        match (self, other) {
            (Selector::All, Selector::All) => true,
            (Selector::Name(one), Selector::Name(two)) => one == two,
            (Selector::Matching(one, _), Selector::Matching(two, _))
            | (Selector::Path(one, _), Selector::Path(two, _)) => one == two,
            _ => false,
        }
    }
}

impl Eq for Selector {}

impl std::hash::Hash for Selector {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Selector::All => 0u8.hash(state),
            Selector::Name(name) => name.hash(state),
            Selector::Matching(text, _) | Selector::Path(text, _) => text.hash(state),
        }
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::All => out.write_str("*"),
            Selector::Name(name) => out.write_str(&String::from_utf8_lossy(name)),
            Selector::Matching(text, _) => write!(out, "/{text}/"),
            Selector::Path(text, _) => out.write_str(text),
        }
    }
}

/// One target: a variable and the choice of its values, or their number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) variable: Variable,
    /// The choice of its values.
    pub(crate) selector: Selector,
    /// True if the number of chosen values is the value (`&`).
    pub(crate) count: bool,
    /// The slot of a name of `TX`.
    pub(crate) slot: Option<u32>,
}

/// Values that a rule leaves out (`!`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exclusion {
    pub(crate) variable: Variable,
    /// The choice of its values.
    pub(crate) selector: Selector,
}

impl Exclusion {
    /// True if it leaves out a value of a variable. `ARGS` stands for its parts too.
    pub(crate) fn covers(&self, variable: Variable, name: &[u8]) -> bool {
        self.covers_variable(variable) && self.selector.chooses(name)
    }

    /// True if it may leave out values of a variable.
    pub(crate) fn covers_variable(&self, variable: Variable) -> bool {
        use Variable::{Args, ArgsGet, ArgsGetNames, ArgsNames, ArgsPost, ArgsPostNames};
        self.variable == variable
            || match self.variable {
                Args => matches!(variable, ArgsGet | ArgsPost),
                ArgsNames => matches!(variable, ArgsGetNames | ArgsPostNames),
                _ => false,
            }
    }
}
