//! Sources to a rule set: directives in their order, then operators, prefilter and the steps of each phase.
//!
//! Never in here: a transaction.

mod actions;
mod change;
mod effects;
mod operators;
mod rule;
mod settings;
mod targets;
#[cfg(test)]
mod tests;
mod values;

use std::sync::Arc;

pub use actions::{ACTIONS, Entry as ActionEntry};

use crate::exclusion::{Exclusion, PathExclusion};
use crate::limits::{INCLUDE_DEPTH_MAX, SOURCES_MAX};
use crate::rule::{DefaultAction, Item, Rule};
use crate::rules::{Around, Inside, Layer, Rules};
use crate::seclang::directives::{self, Kind};
use crate::seclang::lexer::{self, Fault, Line};
use crate::seclang::{Files, Problem, Source};
use crate::settings::Settings;
use crate::tables::{FastMap, Group, Groups, Names};
use operators::Operators;

/// A rule set that is being compiled.
pub(crate) struct Builder<'a> {
    files: &'a dyn Files,
    /// The name of the current source.
    file: Arc<str>,
    depth: usize,
    sources: usize,
    settings: Settings,
    names: Names,
    groups: Groups,
    operators: Operators,
    layers: Vec<Arc<Layer>>,
    items: Vec<Item>,
    ids: FastMap<u64, Arc<str>>,
    defaults: [DefaultAction; 5],
    open: Option<rule::OpenRule>,
    /// Directives that change rules or remove them, each with its file. They hold for all rules of the set,
    /// as in `ModSecurity` 3, so they are applied when all rules are there.
    changes: Vec<(Arc<str>, Kind, Line)>,
    /// Exclusions that hold on some paths.
    exclusions: Vec<PathExclusion>,
    problems: Vec<Problem>,
    notices: Vec<Problem>,
}

impl<'a> Builder<'a> {
    /// A set without rules.
    pub(crate) fn new(files: &'a dyn Files) -> Builder<'a> {
        Builder {
            files,
            file: "".into(),
            depth: 0,
            sources: 0,
            settings: Settings::default(),
            names: Names::default(),
            groups: Groups::default(),
            operators: Operators::new(0),
            layers: Vec::new(),
            items: Vec::new(),
            ids: FastMap::default(),
            defaults: std::array::from_fn(|_| DefaultAction::default()),
            open: None,
            changes: Vec::new(),
            exclusions: Vec::new(),
            problems: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// A set that begins as another one and shares its operators.
    pub(crate) fn from_base(base: &Rules, files: &'a dyn Files) -> Builder<'a> {
        let mut builder = Builder::new(files);
        builder.settings = base.settings().clone();
        builder.names = base.names().clone();
        builder.groups = base.groups().clone();
        builder.layers = base.layers().to_vec();
        builder.operators = Operators::new(base.operators_end());
        builder.items = base.items().to_vec();
        builder.defaults.clone_from(base.defaults());
        for item in &builder.items {
            if let Item::Rule(rule) = item {
                builder.ids.insert(rule.id, Arc::clone(&rule.file));
            }
        }
        builder
    }

    /// Reads sources whose rules stand before those that are there.
    pub(crate) fn read_before(&mut self, sources: &[Source]) {
        let items = std::mem::take(&mut self.items);
        let defaults = std::mem::take(&mut self.defaults);
        self.read(sources);
        self.items.extend(items);
        self.defaults = defaults;
    }

    /// Reads sources whose rules stand in front of the first rule of a file that is there.
    fn read_inside(&mut self, Inside { file, sources }: Inside) {
        let is_of_file = |item: &Item| matches!(item, Item::Rule(rule) if *rule.file == *file);
        let at = self.items.iter().position(is_of_file).unwrap_or(self.items.len());
        let behind = self.items.split_off(at);
        self.read(sources);
        self.items.extend(behind);
    }

    pub(crate) fn read(&mut self, sources: &[Source]) {
        for source in sources {
            self.source(source.name, source.text);
        }
    }

    /// The rule set, or all faults of its sources.
    pub(crate) fn finish(mut self, exclusions: &[Exclusion]) -> Result<Rules, Vec<Problem>> {
        for (file, kind, line) in std::mem::take(&mut self.changes) {
            self.file = file;
            if let Err(fault) = self.change(kind, &line) {
                self.report(fault);
            }
        }
        for exclusion in exclusions {
            match exclusion.on_paths() {
                Some(exclusion) => self.exclusions.push(exclusion),
                None => change::exclude(&mut self, exclusion),
            }
        }
        if self.problems.is_empty()
            && let Some(layer) = self.operators.layer().map_err(|message| {
                vec![Problem { file: self.file.to_string(), line: 1, column: 1, message }]
            })?
        {
            self.layers.push(Arc::new(layer));
        }
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        let Builder { settings, names, groups, layers, items, defaults, exclusions, notices, .. } = self;
        let rules = Rules::new(settings, names, groups, layers, items, defaults, exclusions);
        Ok(rules.with_notices(notices))
    }

    fn source(&mut self, name: &str, text: &str) {
        let outer = std::mem::replace(&mut self.file, name.into());
        self.sources += 1;
        let (lines, faults) = lexer::lines(text);
        for fault in faults {
            self.report(fault);
        }
        for line in &lines {
            if let Err(fault) = self.directive(line) {
                self.open = None;
                self.report(fault);
            }
        }
        if let Some(fault) = rule::unfinished(self) {
            self.report(fault);
        }
        self.file = outer;
    }

    fn report(&mut self, fault: Fault) {
        let problem = self.problem(fault);
        self.problems.push(problem);
    }

    /// Notes what a rule does not do, although it is accepted.
    fn notice(&mut self, notice: Fault) {
        let problem = self.problem(notice);
        self.notices.push(problem);
    }

    fn problem(&self, fault: Fault) -> Problem {
        Problem {
            file: self.file.to_string(),
            line: fault.place.line,
            column: fault.place.column,
            message: fault.message,
        }
    }

    fn directive(&mut self, line: &Line) -> Result<(), Fault> {
        let fault = |message: String| Fault::new(line.name.place(0), message);
        let Some(entry) = directives::named(&line.name.text) else {
            return Err(fault(format!("there is no directive {}", line.name.text)));
        };
        if self.open.is_some() && !matches!(entry.kind, Kind::Rule | Kind::Action) {
            let open = rule::unfinished(self);
            return Err(open.unwrap_or_else(|| fault("a chain is not complete".to_owned())));
        }
        match entry.kind {
            Kind::Rule => rule::rule(self, line),
            Kind::Action => rule::action(self, line),
            Kind::Marker => {
                let name = line.words.first().ok_or_else(|| fault("SecMarker needs a name".to_owned()))?;
                self.items.push(Item::Marker(name.text.trim().into()));
                Ok(())
            }
            Kind::DefaultAction => self.default_action(line),
            Kind::UpdateTargetById
            | Kind::UpdateTargetByTag
            | Kind::UpdateTargetByMsg
            | Kind::UpdateActionById
            | Kind::RemoveById
            | Kind::RemoveByTag
            | Kind::RemoveByMsg => {
                self.changes.push((Arc::clone(&self.file), entry.kind, line.clone()));
                Ok(())
            }
            Kind::Include => self.include(line),
            Kind::Setting(setting) => {
                settings::apply(&mut self.settings, setting, line, self.files, &self.file)
                    .map_err(|message| Fault::new(line.words.first().unwrap_or(&line.name).place(0), message))
            }
            Kind::Accepted => Ok(()),
            Kind::Refused(reason) => Err(fault(format!("{} is not available: {reason}", entry.name))),
        }
    }

    fn change(&mut self, kind: Kind, line: &Line) -> Result<(), Fault> {
        match kind {
            Kind::RemoveById | Kind::RemoveByTag | Kind::RemoveByMsg => change::remove(self, kind, line),
            Kind::UpdateActionById => change::update_actions(self, line),
            _ => change::update_targets(self, kind, line),
        }
    }

    fn default_action(&mut self, line: &Line) -> Result<(), Fault> {
        let place = line.name.place(0);
        let draft = rule::draft(self, line.words.first())?;
        let phase = draft.phase.ok_or_else(|| Fault::new(place, "SecDefaultAction needs a phase"))?;
        let disruptive = match draft.decision {
            Some(actions::Decision::Own(own)) => own,
            Some(actions::Decision::Default) => {
                return Err(Fault::new(place, "block is what SecDefaultAction decides: it cannot name it"));
            }
            None => return Err(Fault::new(place, "SecDefaultAction needs pass, deny, drop or redirect")),
        };
        self.defaults[usize::from(phase - 1)] = DefaultAction {
            disruptive,
            status: draft.status,
            log: draft.log.unwrap_or(true),
            audit: draft.audit.unwrap_or(true),
            transformations: draft.transformations,
        };
        Ok(())
    }

    fn include(&mut self, line: &Line) -> Result<(), Fault> {
        let Some(word) = line.words.first() else {
            return Err(Fault::new(line.name.place(0), "Include needs a file"));
        };
        let fault = |message: String| Fault::new(word.place(0), message);
        if self.depth >= INCLUDE_DEPTH_MAX || self.sources >= SOURCES_MAX {
            return Err(fault("too many files include one another".to_owned()));
        }
        let names = self.files.expand(word.text.trim(), &self.file);
        if names.is_empty() && !word.text.contains(['*', '?', '[']) {
            return Err(fault(format!("there is no file {}", word.text)));
        }
        for name in names {
            let content = self.files.read(&name, &self.file).map_err(fault)?;
            let text = String::from_utf8_lossy(&content);
            self.depth += 1;
            self.source(&name, &text);
            self.depth -= 1;
        }
        Ok(())
    }

    /// Gives each link of a rule the number of its group.
    fn assign_groups(&mut self, rule: &mut Rule) {
        for link in &mut rule.links {
            link.group = (!link.unconditional && !link.targets.change_within_a_phase()).then(|| {
                self.groups.number(Group {
                    targets: Arc::clone(&link.targets),
                    transformations: Arc::clone(&link.transformations),
                    each: link.each,
                })
            });
        }
    }
}

impl Rules {
    /// Compiles sources in their order.
    ///
    /// # Errors
    ///
    /// All faults of the sources, each with its place.
    pub fn compile(sources: &[Source], files: &dyn Files) -> Result<Rules, Vec<Problem>> {
        let mut builder = Builder::new(files);
        builder.read(sources);
        builder.finish(&[])
    }

    /// Compiles sources around a base, whose expressions and prefilter are shared.
    ///
    /// # Errors
    ///
    /// All faults of the sources, each with its place.
    pub fn extend(base: &Arc<Rules>, around: Around, files: &dyn Files) -> Result<Rules, Vec<Problem>> {
        let mut builder = Builder::from_base(base, files);
        builder.read_before(around.before);
        if let Some(inside) = around.inside {
            builder.read_inside(inside);
        }
        builder.read(around.after);
        builder.finish(around.exclusions)
    }
}

impl Exclusion {
    /// Adds a target, such as `ARGS:comment`, at which the rules do not look.
    ///
    /// # Errors
    ///
    /// A sentence that says why the text is not one target.
    pub fn add_target(&mut self, target: &str) -> Result<(), String> {
        if target.starts_with(['!', '&']) {
            return Err(format!("{target} is a target with a sign: a variable and its name are enough"));
        }
        self.push_target(targets::parse_exclusion(target).map_err(|(_, message)| message)?);
        Ok(())
    }
}
