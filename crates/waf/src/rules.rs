//! A compiled rule set: shared, immutable, the same for all transactions.
//!
//! Never in here: values of a transaction.

use std::sync::Arc;

use crate::exclusion::{Exclusion, PathExclusion};
use crate::operators::{Operator, Order};
use crate::prefilter::Prefilter;
use crate::rule::{DefaultAction, Item, Link, Rule};
use crate::seclang::{Problem, Source};
use crate::settings::Settings;
use crate::tables::{FastMap, Groups, Names};
use crate::template::number;
use crate::variables::Variable;

/// Operators that were compiled together, with their prefilter.
pub(crate) struct Layer {
    /// The number of the first operator, a multiple of 64.
    pub(crate) first: u32,
    pub(crate) operators: Vec<Operator>,
    pub(crate) prefilter: Prefilter,
}

/// One step of a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The rule's place among `items`; `u32::MAX` for a marker.
    pub(crate) item: u32,
    /// The group of the first link; `u32::MAX` if the rule is entered in any case.
    pub(crate) group: u32,
    /// The operator of the first link.
    pub(crate) operator: u32,
    /// The step that follows if `skipAfter` is taken.
    pub(crate) skip_to: u32,
    /// The test of the first link, if it compares one name of `TX` with a number.
    pub(crate) test: Option<Test>,
}

/// A comparison of one name of `TX` with a number: most rules that only steer others are such.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    /// The slot of the name.
    pub(crate) slot: u32,
    /// True if the number of values is compared (`&`).
    pub(crate) count: bool,
    pub(crate) order: Order,
    pub(crate) argument: i64,
    /// True for `!@`.
    pub(crate) negated: bool,
}

/// Sources around those of a base.
#[derive(Clone, Copy, Default)]
pub struct Around<'a> {
    /// Rules that stand before those of the base, such as exclusions by `ctl`.
    pub before: &'a [Source<'a>],
    /// Rules that stand among those of the base.
    pub inside: Option<Inside<'a>>,
    /// Rules that stand behind those of the base, such as `SecRuleRemoveById`.
    pub after: &'a [Source<'a>],
    /// Exclusions from all of these rules.
    pub exclusions: &'a [Exclusion],
}

/// Sources among those of a base.
#[derive(Clone, Copy, Debug)]
pub struct Inside<'a> {
    /// The source of the base in front of whose first rule they stand.
    pub file: &'a str,
    /// The texts, in the order in which their rules run.
    pub sources: &'a [Source<'a>],
}

/// A compiled rule set.
pub struct Rules {
    settings: Settings,
    names: Names,
    groups: Groups,
    layers: Vec<Arc<Layer>>,
    items: Vec<Item>,
    phases: [Vec<Step>; 5],
    defaults: [DefaultAction; 5],
    exclusions: Vec<PathExclusion>,
    words: usize,
    notices: Vec<Problem>,
    reads_xml_nodes: bool,
}

impl Rules {
    /// The settings of the directives.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Effects that accepted rules do not have, each with its place. Those of a base are not in it.
    pub fn notices(&self) -> &[Problem] {
        &self.notices
    }

    /// The number of rules; a chain is one.
    pub fn len(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, Item::Rule(_))).count()
    }

    /// True without rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that prefilters and expressions take, roughly: states that searches keep are not counted.
    pub fn memory(&self) -> usize {
        let operators: usize = self.layers.iter().map(|layer| layer.memory()).sum();
        let steps: usize = self.phases.iter().map(|steps| steps.len() * size_of::<Step>()).sum();
        operators + steps + self.items.len() * (size_of::<Item>() + size_of::<Rule>())
    }

    pub(crate) fn new(
        settings: Settings,
        names: Names,
        groups: Groups,
        layers: Vec<Arc<Layer>>,
        items: Vec<Item>,
        defaults: [DefaultAction; 5],
        exclusions: Vec<PathExclusion>,
    ) -> Rules {
        let links =
            items.iter().flat_map(|item| if let Item::Rule(rule) = item { &rule.links[..] } else { &[] });
        let mut targets = links.flat_map(|link| &link.targets.targets);
        let reads_xml_nodes = targets.any(|target| target.variable == Variable::XmlNodes);
        let words = layers.iter().map(|layer| layer.prefilter.words()).sum();
        let mut rules = Rules {
            settings,
            names,
            groups,
            layers,
            items,
            phases: Default::default(),
            defaults,
            exclusions,
            words,
            notices: Vec::new(),
            reads_xml_nodes,
        };
        rules.phases = std::array::from_fn(|index| rules.steps(index as u8 + 1));
        rules
    }

    pub(crate) fn with_notices(self, notices: Vec<Problem>) -> Rules {
        Rules { notices, ..self }
    }

    fn steps(&self, phase: u8) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut names: FastMap<&str, Vec<u32>> = FastMap::default();
        let mut ids: FastMap<u64, u32> = FastMap::default();
        for (index, item) in self.items.iter().enumerate() {
            match item {
                Item::Marker(name) => names.entry(name).or_default().push(steps.len() as u32),
                Item::Rule(rule) if rule.phase == phase => {
                    ids.insert(rule.id, steps.len() as u32);
                    steps.push(self.step(index, rule));
                }
                Item::Rule(_) => {}
            }
        }
        for index in 0..steps.len() {
            let Some(Item::Rule(rule)) = self.items.get(steps[index].item as usize) else { continue };
            let Some(name) = &rule.skip_after else { continue };
            let here = index as u32;
            let marker = names.get(&**name).and_then(|places| places.iter().find(|&&place| place > here));
            let rule = name.parse::<u64>().ok().and_then(|id| ids.get(&id)).filter(|&&place| place > here);
            steps[index].skip_to =
                marker.copied().or(rule.map(|place| place + 1)).unwrap_or(steps.len() as u32);
        }
        steps
    }

    fn step(&self, index: usize, rule: &Rule) -> Step {
        let link = &rule.links[0];
        // The prefilter says which values could match: a negated operator matches the others.
        let group = link.group.filter(|_| !link.negated).unwrap_or(u32::MAX);
        Step { item: index as u32, group, operator: link.operator, skip_to: 0, test: self.test(link) }
    }

    fn test(&self, link: &Link) -> Option<Test> {
        let Operator::Number(order, argument) = self.operator(link.operator)? else { return None };
        let [target] = &link.targets.targets[..] else { return None };
        let plain = link.targets.exclusions.is_empty() && link.transformations.is_empty();
        Some(Test {
            slot: target.slot.filter(|_| plain)?,
            count: target.count,
            order: *order,
            argument: number(argument.constant()?),
            negated: link.negated,
        })
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(crate) fn layers(&self) -> &[Arc<Layer>] {
        &self.layers
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    pub(crate) fn defaults(&self) -> &[DefaultAction; 5] {
        &self.defaults
    }

    /// The exclusions that hold on some paths.
    pub(crate) fn exclusions(&self) -> &[PathExclusion] {
        &self.exclusions
    }

    pub(crate) fn phase(&self, phase: u8) -> &[Step] {
        self.phases.get(usize::from(phase).wrapping_sub(1)).map_or(&[], Vec::as_slice)
    }

    /// True if a rule looks at elements, attributes or texts of XML one by one.
    pub(crate) fn reads_xml_nodes(&self) -> bool {
        self.reads_xml_nodes
    }

    /// Words of 64 bits that say which operators could match.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// The number behind the last operator, rounded up to the next layer.
    pub(crate) fn operators_end(&self) -> u32 {
        self.words as u32 * 64
    }

    pub(crate) fn operator(&self, number: u32) -> Option<&Operator> {
        let layer = self.layers.iter().rev().find(|layer| layer.first <= number)?;
        layer.operators.get((number - layer.first) as usize)
    }
}

impl Layer {
    fn memory(&self) -> usize {
        let patterns: usize = self.operators.iter().map(Operator::memory).sum();
        patterns + self.prefilter.memory()
    }
}
