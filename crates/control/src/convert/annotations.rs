//! The annotations of one Ingress, and which of them have been converted.
//!
//! Never in here: the results of the conversion.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::str::FromStr;

use crate::objects::{At, Ingress, Sourced};
use crate::problem::{Problem, Reason, Severity};
use crate::translate::ingress::own;
use crate::translate::value;

/// The annotations of an Ingress. Reading an annotation marks it as taken; those that are never taken have no
/// field in the Gateway API.
pub(super) struct Annotations<'i> {
    pub(super) ingress: &'i Sourced<Ingress>,
    prefix: &'i str,
    taken: RefCell<BTreeSet<&'i str>>,
    findings: RefCell<Vec<Problem>>,
}

impl<'i> Annotations<'i> {
    pub(super) fn new(ingress: &'i Sourced<Ingress>, prefix: &'i str) -> Self {
        Self { ingress, prefix, taken: RefCell::default(), findings: RefCell::default() }
    }

    /// The text of an annotation, which is named without its prefix; none if the text is blank.
    pub(super) fn text(&self, name: &str) -> Option<&'i str> {
        let (key, value) = self.find(name)?;
        self.taken.borrow_mut().insert(key);
        Some(value.value.trim()).filter(|text| !text.is_empty())
    }

    /// The text of an annotation, without marking it as taken.
    pub(super) fn peek(&self, name: &str) -> Option<&'i str> {
        self.find(name).map(|(_, value)| value.value.trim()).filter(|text| !text.is_empty())
    }

    /// A boolean; none if the text is no boolean.
    pub(super) fn boolean(&self, name: &str) -> Option<bool> {
        value::boolean(self.text(name)?).ok()
    }

    /// Whether a boolean annotation is `true`. Its default is `false`.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.boolean(name).unwrap_or_default()
    }

    /// A number; none if the text is no number.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        value::number(self.text(name)?).ok()
    }

    /// Marks annotations as taken that have no effect beside another annotation.
    pub(super) fn pass_over(&self, names: &[&str]) {
        for name in names {
            let _ = self.text(name);
        }
    }

    /// The annotations that were not taken, by name without the prefix.
    pub(super) fn rest(&self) -> Vec<(&'i str, &'i At<String>)> {
        let taken = self.taken.borrow();
        let all = self.ingress.metadata.annotations.iter();
        all.filter(|(key, _)| !taken.contains(key))
            .filter_map(|(key, value)| Some((self.name_of(key)?, value)))
            .collect()
    }

    /// Records that a part of an annotation is lost. Returns the text for a remark.
    pub(super) fn lose(&self, severity: Severity, name: &str, message: &str) -> String {
        let message = format!("{name}: {message}");
        let found = self.find(name).map(|(_, value)| value);
        let problem = match found {
            Some(value) => Problem::at(severity, self.ingress, value, message.clone()),
            None => Problem::of(severity, self.ingress, message.clone()),
        };
        let reason = if severity == Severity::Notice { Reason::Note } else { Reason::Unsupported };
        let problem = problem.because(reason);
        let mut findings = self.findings.borrow_mut();
        if !findings.contains(&problem) {
            findings.push(problem);
        }
        message
    }

    /// The recorded findings.
    pub(super) fn findings(&self) -> Vec<Problem> {
        self.findings.take()
    }

    fn find(&self, name: &str) -> Option<(&'i str, &'i At<String>)> {
        let all = self.ingress.metadata.annotations.iter();
        all.into_iter().find(|(key, _)| self.name_of(key) == Some(name))
    }

    /// The name of an annotation without its prefix; none for an annotation of another controller.
    fn name_of<'k>(&self, key: &'k str) -> Option<&'k str> {
        let (prefix, name) = key.split_once('/')?;
        (prefix == self.prefix || prefix == own::PREFIX).then_some(name)
    }
}
