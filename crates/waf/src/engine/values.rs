//! Values of variables: what a target stands for, and what a macro is replaced by.
//!
//! Never in here: operators.

use std::sync::Arc;

use super::Transaction;
use super::named::Value;
use super::store::{Bag, Field, bags, has_names};
use super::texts::TextId;
use crate::collections::Key;
use crate::tables::Targets;
use crate::template::{Reference, Values, number};
use crate::variables::{Selector, Shape, Target, Variable};

/// A value that an operator looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Text(TextId),
    Number(i64),
}

/// The name of a value within its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// The variable has one value.
    None,
    Text(TextId),
    /// A slot of `TX`.
    Slot(u32),
    /// A count: the selector is the name.
    Count,
}

/// One value of a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) variable: Variable,
    /// The name within the collection.
    pub(super) label: Label,
    pub(super) subject: Subject,
}

/// A value that has matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matched {
    pub(super) variable: Variable,
    /// The name within the collection.
    pub(super) label: Label,
    /// The value after the transformations.
    pub(super) subject: Subject,
}

impl Transaction {
    /// Appends all values that targets stand for.
    pub(super) fn expand(&mut self, targets: &Targets, out: &mut Vec<Item>) {
        for target in &targets.targets {
            if target.count {
                let mut counted = Vec::new();
                self.expand_target(target, targets, &mut counted);
                let subject = Subject::Number(i64::try_from(counted.len()).unwrap_or(i64::MAX));
                out.push(Item { variable: target.variable, label: Label::Count, subject });
            } else {
                self.expand_target(target, targets, out);
            }
        }
    }

    fn expand_target(&mut self, target: &Target, targets: &Targets, out: &mut Vec<Item>) {
        let variable = target.variable;
        match (variable, variable.entry().shape) {
            (Variable::Tx, _) => self.expand_tx(target, targets, out),
            (Variable::Rule, _) => self.expand_rule(target, out),
            (Variable::MatchedVars | Variable::MatchedVarsNames, _) => self.expand_matched(target, out),
            (_, Shape::Persistent) => self.expand_persistent(target, targets, out),
            (_, Shape::Collection) => {
                for &bag in bags(variable) {
                    self.expand_bag(bag, target, targets, out);
                }
            }
            (_, Shape::Single) => {
                if !targets.excludes(variable, b"")
                    && let Some(subject) = self.subject(variable)
                {
                    out.push(Item { variable, label: Label::None, subject });
                }
            }
        }
    }

    fn expand_bag(&mut self, bag: Bag, target: &Target, targets: &Targets, out: &mut Vec<Item>) {
        let names = has_names(target.variable);
        for &Field { name, value } in self.store.bag(bag) {
            let bytes = self.store.texts.get(name);
            if !target.selector.chooses(bytes)
                || (!targets.exclusions.is_empty() && targets.excludes(target.variable, bytes))
            {
                continue;
            }
            let subject = Subject::Text(if names { name } else { value });
            out.push(Item { variable: target.variable, label: Label::Text(name), subject });
        }
    }

    fn expand_tx(&mut self, target: &Target, targets: &Targets, out: &mut Vec<Item>) {
        let variable = Variable::Tx;
        if let Some(slot) = target.slot {
            let subject = match self.tx.slot(slot) {
                Value::None => return,
                Value::Number(number) => Subject::Number(number),
                Value::Text(text) => Subject::Text(text),
            };
            if targets.exclusions.is_empty() || !targets.excludes(variable, self.rules.names().name(slot)) {
                out.push(Item { variable, label: Label::Slot(slot), subject });
            }
            return;
        }
        let rules = Arc::clone(&self.rules);
        let chosen = |name: &[u8]| target.selector.chooses(name) && !targets.excludes(variable, name);
        for (name, value) in self.tx.iter(rules.names()).filter(|(name, _)| chosen(name)) {
            let subject = match value {
                Value::None => continue,
                Value::Number(number) => Subject::Number(number),
                Value::Text(text) => Subject::Text(text),
            };
            out.push(Item { variable, label: Label::Text(self.store.texts.add(name)), subject });
        }
    }

    fn expand_rule(&mut self, target: &Target, out: &mut Vec<Item>) {
        for name in ["id", "rev", "severity", "logdata", "msg"] {
            if !target.selector.chooses(name.as_bytes()) {
                continue;
            }
            let mut text = Vec::new();
            if self.append_of_rule(name.as_bytes(), &mut text) {
                let label = Label::Text(self.store.texts.add(name.as_bytes()));
                let subject = Subject::Text(self.store.texts.add(&text));
                out.push(Item { variable: Variable::Rule, label, subject });
            }
        }
    }

    fn expand_matched(&mut self, target: &Target, out: &mut Vec<Item>) {
        for index in 0..self.matched.len() {
            let matched = self.matched[index];
            let mut name = Vec::new();
            self.append_name(matched.variable, matched.label, &mut name);
            if !target.selector.chooses(&name) {
                continue;
            }
            let name = self.store.texts.add(&name);
            let values = target.variable == Variable::MatchedVars;
            let subject = if values { matched.subject } else { Subject::Text(name) };
            out.push(Item { variable: target.variable, label: Label::Text(name), subject });
        }
    }

    fn expand_persistent(&mut self, target: &Target, targets: &Targets, out: &mut Vec<Item>) {
        let variable = target.variable;
        let Some(key) = self.attached(variable).cloned() else { return };
        let now = self.seconds();
        let collections = Arc::clone(&self.collections);
        if let Selector::Name(name) = &target.selector {
            if let Some(value) = collections.get(&key, name, now) {
                let label = Label::Text(self.store.texts.add(name));
                out.push(Item { variable, label, subject: Subject::Text(self.store.texts.add(&value)) });
            }
            return;
        }
        let texts = &mut self.store.texts;
        collections.visit(&key, now, |name, value| {
            if target.selector.chooses(name) && !targets.excludes(variable, name) {
                let label = Label::Text(texts.add(name));
                out.push(Item { variable, label, subject: Subject::Text(texts.add(value)) });
            }
        });
    }

    /// The key of an attached collection.
    pub(super) fn attached(&self, collection: Variable) -> Option<&Key> {
        self.attached.iter().find(|key| key.collection == collection)
    }

    /// The value of a variable that has one.
    fn subject(&mut self, variable: Variable) -> Option<Subject> {
        if let Some(text) = self.store.single(variable) {
            return Some(Subject::Text(text));
        }
        if variable == Variable::MatchedVar {
            return self.last_match.map(|matched| matched.subject);
        }
        if let Some(number) = self.computed_number(variable) {
            return Some(Subject::Number(number));
        }
        let mut text = Vec::new();
        if !self.computed(variable, &mut text) {
            return None;
        }
        let text = self.store.texts.add(&text);
        if !variable.changes_within_a_phase() {
            self.store.set_text(variable, text);
        }
        Some(Subject::Text(text))
    }

    /// The text of a value: a number becomes its digits.
    pub(super) fn text_of(&mut self, subject: Subject) -> TextId {
        match subject {
            Subject::Text(text) => text,
            Subject::Number(number) => self.store.texts.intern(number.to_string().as_bytes()),
        }
    }

    /// Appends the text of a value.
    pub(super) fn append_subject(&self, subject: Subject, out: &mut Vec<u8>) {
        match subject {
            Subject::Text(text) => out.extend_from_slice(self.store.texts.get(text)),
            Subject::Number(number) => append_number(number, out),
        }
    }

    /// Appends the name of a value, as `MATCHED_VAR_NAME` has it.
    pub(super) fn append_name(&self, variable: Variable, label: Label, out: &mut Vec<u8>) {
        let name = match variable {
            Variable::XmlText => "XML:/*",
            Variable::XmlAttributes => "XML://@*",
            Variable::XmlNodes => "XML",
            _ => variable.name(),
        };
        out.extend_from_slice(name.as_bytes());
        let label = match label {
            Label::Text(_) if variable.entry().shape == Shape::Single => return,
            Label::Text(text) => self.store.texts.get(text),
            Label::Slot(slot) => self.rules.names().name(slot),
            Label::None | Label::Count => return,
        };
        if !matches!(variable, Variable::XmlText | Variable::XmlAttributes) {
            out.push(b':');
            out.extend_from_slice(label);
        }
    }

    fn append_of_rule(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let item = self.rule.and_then(|item| self.rules.items().get(item as usize));
        let Some(crate::rule::Item::Rule(rule)) = item else { return false };
        match name {
            b"id" => append_number(rule.id.cast_signed(), out),
            b"rev" => out.extend_from_slice(rule.about.revision.as_bytes()),
            b"severity" => match rule.about.severity {
                Some(severity) => append_number(i64::from(severity), out),
                None => return false,
            },
            b"msg" => match &rule.about.message_text {
                Some(text) => out.extend_from_slice(text.as_bytes()),
                None => return false,
            },
            b"logdata" => match &rule.about.data {
                Some(data) => data.append(self, out),
                None => return false,
            },
            _ => return false,
        }
        true
    }
}

/// Appends a number in decimal digits.
pub(super) fn append_number(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_string().as_bytes());
}

impl Values for Transaction {
    fn append(&self, reference: &Reference, out: &mut Vec<u8>) {
        let variable = reference.variable;
        let name = reference.name.as_deref();
        match (variable, variable.entry().shape) {
            (Variable::Tx, _) => match reference.slot.map(|slot| self.tx.slot(slot)) {
                Some(Value::Number(number)) => append_number(number, out),
                Some(Value::Text(text)) => out.extend_from_slice(self.store.texts.get(text)),
                _ => {}
            },
            (Variable::Rule, _) => {
                self.append_of_rule(name.unwrap_or_default(), out);
            }
            (Variable::MatchedVars, _) => {
                if let Some(matched) = self.matched.first() {
                    self.append_subject(matched.subject, out);
                }
            }
            (Variable::MatchedVarsNames, _) => {
                if let Some(matched) = self.matched.first() {
                    self.append_name(matched.variable, matched.label, out);
                }
            }
            (_, Shape::Persistent) => {
                if let (Some(key), Some(name)) = (self.attached(variable), name)
                    && let Some(value) = self.collections.get(key, name, self.seconds())
                {
                    out.extend_from_slice(&value);
                }
            }
            (_, Shape::Collection) => self.append_of_bags(variable, name, out),
            (_, Shape::Single) => self.append_single(variable, out),
        }
    }

    fn number(&self, reference: &Reference) -> i64 {
        if let Some(Value::Number(number)) = reference.slot.map(|slot| self.tx.slot(slot)) {
            return number;
        }
        let mut text = Vec::new();
        self.append(reference, &mut text);
        number(&text)
    }
}

impl Transaction {
    fn append_of_bags(&self, variable: Variable, name: Option<&[u8]>, out: &mut Vec<u8>) {
        let chosen = |field: &&Field| {
            name.is_none_or(|name| self.store.texts.get(field.name).eq_ignore_ascii_case(name))
        };
        let found = bags(variable).iter().find_map(|&bag| self.store.bag(bag).iter().find(chosen));
        if let Some(field) = found {
            let text = if has_names(variable) { field.name } else { field.value };
            out.extend_from_slice(self.store.texts.get(text));
        }
    }

    fn append_single(&self, variable: Variable, out: &mut Vec<u8>) {
        if let Some(text) = self.store.single(variable) {
            out.extend_from_slice(self.store.texts.get(text));
        } else if let (Variable::MatchedVar, Some(matched)) = (variable, self.last_match) {
            self.append_subject(matched.subject, out);
        } else if let Some(number) = self.computed_number(variable) {
            append_number(number, out);
        } else {
            self.computed(variable, out);
        }
    }
}
