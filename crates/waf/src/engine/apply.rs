//! The changes that a matching rule makes: variables, the transaction's settings, the verdict.
//!
//! Never in here: whether a rule matches.

use std::sync::Arc;

use super::Transaction;
use super::named::Value;
use super::store::Bag;
use crate::collections::Key as EntryKey;
use crate::limits::SET_BYTES_MAX;
use crate::report::Verdict;
use crate::rule::{Change, Control, Disruptive, Effect, Key, PartsChange, Rule, Store};
use crate::settings::Mode;
use crate::template::{Template, number};
use crate::variables::Variable;

impl Transaction {
    /// Applies one effect.
    pub(super) fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Set { store: Store::Tx, key, change } => self.set_tx(key, change),
            Effect::Set { store: Store::Persistent(collection), key, change } => {
                self.set_persistent(*collection, key, change);
            }
            Effect::Expire { store, key, seconds } => self.expire(*store, key, seconds),
            Effect::Deprecate { store: Store::Persistent(collection), key, amount, seconds } => {
                if let Some(entry) = self.attached(*collection).cloned() {
                    let (name, now) = (self.name(key), self.seconds());
                    self.collections.deprecate(&entry, &name, now, *amount, *seconds);
                }
            }
            // A value of TX does not live long enough to become smaller.
            Effect::Deprecate { store: Store::Tx, .. } => {}
            Effect::Env { name, value } => {
                let name = name.expand(self);
                self.store.remove(Bag::Env, &name);
                if let Some(value) = value {
                    let value = self.cut(value);
                    self.store.add(Bag::Env, &name, &value);
                }
            }
            Effect::Attach { collection, key } => self.attach(*collection, key),
            Effect::Control(control) => self.control(control),
            Effect::Mask { place, name } => {
                let name = match (name, self.last_match) {
                    (Some(name), _) => name.expand(self),
                    (None, Some(matched)) => {
                        let mut name = Vec::new();
                        self.append_name(matched.variable, matched.label, &mut name);
                        name
                    }
                    (None, None) => return,
                };
                self.report.mask(*place, name);
            }
        }
    }

    fn cut(&self, template: &Template) -> Vec<u8> {
        let mut text = template.expand(self);
        text.truncate(SET_BYTES_MAX);
        text
    }

    fn name(&self, key: &Key) -> Vec<u8> {
        match key {
            Key::Slot(slot) => self.rules.names().name(*slot).to_vec(),
            Key::Name(template) => template.expand(self).to_ascii_lowercase(),
        }
    }

    fn set_tx(&mut self, key: &Key, change: &Change) {
        let rules = Arc::clone(&self.rules);
        let name = match key {
            Key::Slot(_) => Vec::new(),
            Key::Name(_) => self.name(key),
        };
        let old = match key {
            Key::Slot(slot) => self.tx.slot(*slot),
            Key::Name(_) => self.tx.get(rules.names(), &name),
        };
        let old_number = match old {
            Value::None => 0,
            Value::Number(number) => number,
            Value::Text(text) => number(self.store.texts.get(text)),
        };
        let new = match change {
            Change::Remove => Value::None,
            Change::Number(number) => Value::Number(*number),
            Change::Add(amount) => Value::Number(old_number.saturating_add(amount.number(self))),
            Change::Subtract(amount) => Value::Number(old_number.saturating_sub(amount.number(self))),
            Change::Text(template) => {
                let text = self.cut(template);
                Value::Text(self.store.texts.add(&text))
            }
        };
        match key {
            Key::Slot(slot) => self.tx.set_slot(*slot, new),
            Key::Name(_) => self.tx.set(rules.names(), &name, new),
        }
    }

    fn set_persistent(&mut self, collection: Variable, key: &Key, change: &Change) {
        let Some(entry) = self.attached(collection).cloned() else { return };
        let (name, now) = (self.name(key), self.seconds());
        let text = |number: i64| Some(number.to_string().into_bytes());
        let old_number = |old: Option<&[u8]>| old.map_or(0, number);
        match change {
            Change::Remove => self.collections.change(&entry, &name, now, |_| None),
            Change::Number(number) => self.collections.change(&entry, &name, now, |_| text(*number)),
            Change::Add(amount) => {
                let amount = amount.number(self);
                let change = |old: Option<&[u8]>| text(old_number(old).saturating_add(amount));
                self.collections.change(&entry, &name, now, change);
            }
            Change::Subtract(amount) => {
                let amount = amount.number(self);
                let change = |old: Option<&[u8]>| text(old_number(old).saturating_sub(amount).max(0));
                self.collections.change(&entry, &name, now, change);
            }
            Change::Text(template) => {
                let value = self.cut(template);
                self.collections.change(&entry, &name, now, |_| Some(value));
            }
        }
    }

    /// A value of `TX` ends with the transaction, before it could expire.
    fn expire(&mut self, store: Store, key: &Key, seconds: &Template) {
        let Store::Persistent(collection) = store else { return };
        let Some(entry) = self.attached(collection).cloned() else { return };
        let seconds = u64::try_from(seconds.number(self)).unwrap_or(0);
        self.collections.expire(&entry, &self.name(key), self.seconds(), seconds);
    }

    fn attach(&mut self, collection: Variable, key: &Template) {
        let key = EntryKey { collection, key: self.cut(key).into() };
        if key.key.is_empty() {
            return;
        }
        self.collections.attach(&key, self.seconds(), self.rules.settings().collection_timeout);
        self.attached.retain(|entry| entry.collection != collection);
        self.attached.push(key);
    }

    fn control(&mut self, control: &Control) {
        match control {
            Control::RemoveRules(choice) => self.removed_rules.push(Arc::clone(choice)),
            Control::RemoveTargets(removed) => self.removed_targets.push(Arc::clone(removed)),
            Control::Mode(mode) => self.mode = *mode,
            Control::Processor(processor) => self.store.processor = Some(*processor),
            Control::RequestBody(on) => self.reads_request_body = *on,
            Control::RequestBodyLimit(bytes) => self.request_body_bytes_max = *bytes,
            Control::ResponseBody(on) => self.reads_response_body = *on,
            Control::ResponseBodyLimit(bytes) => self.response_body_bytes_max = *bytes,
            Control::AuditMode(mode) => self.audit_mode = *mode,
            Control::AuditParts(change) => {
                let parts = &mut self.report.audit_parts;
                match change {
                    PartsChange::Set(new) => parts.clone_from(new),
                    PartsChange::Add(new) => {
                        parts.extend(new.chars().filter(|part| !parts.contains(*part)).collect::<Vec<_>>());
                    }
                    PartsChange::Remove(old) => parts.retain(|part| !old.contains(part)),
                }
            }
            Control::ForceRequestBody(on) => self.store.force_request_body = *on,
            Control::Nothing => {}
        }
    }

    /// Reports a rule that matched, and takes its decision.
    pub(super) fn matched(&mut self, rule: &Rule) {
        let stops = !matches!(rule.disruptive, Disruptive::Pass | Disruptive::Allow(_)) && self.phase != 5;
        self.note(rule, stops);
        if stops && self.report.stopped_by.is_none() {
            self.report.stopped_by = Some(rule.id);
        }
        if self.mode != Mode::On || self.phase == 5 {
            return;
        }
        let (status, id) = (rule.status, rule.id);
        match &rule.disruptive {
            Disruptive::Pass => {}
            Disruptive::Deny => self.verdict = Verdict::Deny { status, rule: id },
            Disruptive::Drop => self.verdict = Verdict::Drop { rule: id },
            Disruptive::Redirect(location) => {
                let location = location.expand(self);
                self.verdict = Verdict::Redirect { status, location, rule: id };
            }
            Disruptive::Allow(scope) => self.allowed = Some(*scope),
        }
    }
}
