//! The rules of one phase in their order: prefilter, chains, skips.
//!
//! Never in here: what a matching rule changes; `apply` does that.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Transaction;
use super::named::Value;
use super::texts::TextId;
use super::values::{Item, Label, Matched, Subject};
use crate::operators::{Capture, GROUPS, Operator};
use crate::report::Verdict;
use crate::rule::{Allow, Effect, Item as RuleItem, Link, RemovedTargets, Rule};
use crate::rules::{Rules, Step, Test};
use crate::settings::Mode;

/// Targets that a rule leaves out because of `ctl`.
type Removals = SmallVec<[Arc<RemovedTargets>; 2]>;

impl Transaction {
    /// Runs a phase, unless the exchange is stopped.
    pub(super) fn run(&mut self, phase: u8) {
        let last = phase == 5;
        if self.mode == Mode::Off || (!last && (!self.verdict.passes() || self.is_allowed(phase))) {
            return;
        }
        self.phase = phase;
        if std::mem::take(&mut self.store.changed) {
            self.groups.clear();
            self.forget_computed();
        }
        let rules = Arc::clone(&self.rules);
        let steps = rules.phase(phase);
        let (mut at, mut skip) = (0, 0);
        while let Some(step) = steps.get(at) {
            at += 1;
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let entered = self.enter(&rules, step);
            let matches = entered.is_some_and(|rule| self.chain(&rules, rule, step.item));
            if self.store.texts.exhausted {
                self.exhaust();
                return;
            }
            let Some(rule) = entered.filter(|_| matches) else { continue };
            self.matched(rule);
            if self.ends(phase) {
                return;
            }
            skip = rule.skip;
            if rule.skip_after.is_some() {
                at = step.skip_to as usize;
            }
        }
        if self.store.texts.exhausted {
            self.exhaust();
        }
        if self.allowed == Some(Allow::Phase) {
            self.allowed = None;
        }
    }

    fn is_allowed(&self, phase: u8) -> bool {
        match self.allowed {
            Some(Allow::All) => true,
            Some(Allow::Request) => phase <= 2,
            Some(Allow::Phase) | None => false,
        }
    }

    /// True if no further rule of the phase runs.
    fn ends(&mut self, phase: u8) -> bool {
        let stopped = phase != 5 && (!self.verdict.passes() || self.allowed.is_some());
        if self.allowed == Some(Allow::Phase) {
            self.allowed = None;
        }
        stopped || self.mode == Mode::Off
    }

    /// An exchange that would cost too much is not understood: it is refused, and no further rule runs.
    fn exhaust(&mut self) {
        if self.mode == Mode::On && self.verdict.passes() && self.phase != 5 {
            self.verdict = Verdict::Deny { status: 403, rule: 0 };
        }
    }

    /// The rule of a step, unless the prefilter or `ctl` says that it cannot match.
    fn enter<'r>(&mut self, rules: &'r Rules, step: &Step) -> Option<&'r Rule> {
        if let Some(test) = &step.test
            && !self.passes(test)
        {
            return None;
        }
        if step.group != u32::MAX && !self.group_could_match(rules, step.group, step.operator) {
            return None;
        }
        let RuleItem::Rule(rule) = rules.items().get(step.item as usize)? else { return None };
        let removed = self.removed_rules.iter().any(|choice| choice.has(rule));
        (!removed).then_some(&**rule)
    }

    /// The outcome of a first link that compares one name of `TX` with a number.
    fn passes(&self, test: &Test) -> bool {
        let value = self.tx.slot(test.slot);
        let number = match value {
            _ if test.count => i64::from(value != Value::None),
            Value::None => return false,
            Value::Number(number) => number,
            Value::Text(text) => crate::template::number(self.store.texts.get(text)),
        };
        test.order.holds(number, test.argument) != test.negated
    }

    /// True if all links of a rule match.
    fn chain(&mut self, rules: &Rules, rule: &Rule, item: u32) -> bool {
        self.matched.clear();
        self.rule = Some(item);
        let removals: Removals =
            self.removed_targets.iter().filter(|removed| removed.rules.has(rule)).cloned().collect();
        for link in &rule.links {
            if !self.link(rules, link, &removals) {
                return false;
            }
        }
        for link in rule.links.iter().rev() {
            self.take(&link.after);
        }
        true
    }

    fn link(&mut self, rules: &Rules, link: &Link, removals: &Removals) -> bool {
        if link.unconditional {
            self.take(&link.each_match);
            return true;
        }
        let Some(operator) = rules.operator(link.operator) else { return false };
        match link.group {
            Some(_) => self.link_of_group(rules, operator, link, removals),
            None => self.link_of_items(rules, operator, link, removals),
        }
    }

    fn link_of_group(
        &mut self,
        rules: &Rules,
        operator: &Operator,
        link: &Link,
        removals: &Removals,
    ) -> bool {
        let Some(group) = link.group else { return false };
        self.fill_group(rules, group);
        let parts = &rules.groups().get(group).parts;
        let parts = if parts.is_empty() { std::slice::from_ref(&group) } else { parts };
        let mut any = false;
        for &part in parts {
            if link.negated || self.groups.could_match(part, link.operator) {
                any |= self.link_of_part(operator, link, part, removals);
            }
        }
        any
    }

    fn link_of_part(&mut self, operator: &Operator, link: &Link, part: u32, removals: &Removals) -> bool {
        let mut any = false;
        for place in self.groups.range(part) {
            let value = self.groups.value(place);
            if !self.is_removed(value.item(), removals) {
                any |= self.test(operator, link, value.item(), value.text);
            }
        }
        any
    }

    fn link_of_items(
        &mut self,
        rules: &Rules,
        operator: &Operator,
        link: &Link,
        removals: &Removals,
    ) -> bool {
        let mut items = std::mem::take(&mut self.scratch);
        items.clear();
        self.expand(&link.targets, &mut items);
        let mut any = false;
        for &item in &items {
            if self.is_removed(item, removals) {
                continue;
            }
            if let Subject::Number(number) = item.subject
                && operator.is_numeric()
                && link.transformations.is_empty()
            {
                let mut work = 0;
                let matches = operator.matches_number(number, self, &mut work);
                self.store.texts.spend(work);
                if matches != link.negated {
                    any = true;
                    self.match_item(link, item, None);
                }
                continue;
            }
            for text in self.transformed_item(rules, item, &link.transformations, link.each) {
                any |= self.test(operator, link, item, text);
            }
        }
        self.scratch = items;
        any
    }

    fn is_removed(&self, item: Item, removals: &Removals) -> bool {
        removals.iter().any(|removed| {
            let name = match item.label {
                Label::Text(text) => self.store.texts.get(text),
                Label::Slot(slot) => self.rules.names().name(slot),
                Label::None | Label::Count => b"",
            };
            removed.exclusion.covers(item.variable, name)
        })
    }

    /// Tests one text, and does what the link does for a value that matches.
    fn test(&mut self, operator: &Operator, link: &Link, item: Item, text: TextId) -> bool {
        let possible = self.store.texts.could_match(text, link.operator);
        if self.store.texts.exhausted {
            return false;
        }
        if possible {
            self.store.texts.spend(self.store.texts.get(text).len());
        }
        let mut work = 0;
        let matches = possible && operator.matches(self.store.texts.get(text), self, &mut work);
        self.store.texts.spend(work);
        if matches == link.negated {
            return false;
        }
        let item = Item { subject: Subject::Text(text), ..item };
        self.match_item(link, item, matches.then_some(operator));
        true
    }

    fn match_item(&mut self, link: &Link, item: Item, operator: Option<&Operator>) {
        let matched = Matched { variable: item.variable, label: item.label, subject: item.subject };
        self.matched.push(matched);
        self.last_match = Some(matched);
        if let (true, Some(operator), Subject::Text(text)) = (link.capture, operator, item.subject) {
            self.capture(operator, text);
        }
        self.take(&link.each_match);
    }

    /// Keeps the groups of a match in `TX:0` to `TX:9`.
    fn capture(&mut self, operator: &Operator, text: TextId) {
        let mut work = 0;
        let captured = operator.capture(self.store.texts.get(text), self, &mut work);
        self.store.texts.spend(work);
        let Some(capture) = captured else { return };
        let mut values = [Value::None; GROUPS];
        match capture {
            Capture::Text(own) => values[0] = Value::Text(self.store.texts.add(&own)),
            Capture::Groups(groups) => {
                for (value, range) in values.iter_mut().zip(groups) {
                    if let Some(range) = range {
                        *value = Value::Text(self.store.texts.part(text, range));
                    }
                }
            }
        }
        for (slot, value) in values.into_iter().enumerate() {
            self.tx.set_slot(slot as u32, value);
        }
    }

    fn take(&mut self, effects: &[Effect]) {
        for effect in effects {
            self.apply(effect);
        }
    }
}
