//! A rule from its words.
//!
//! Never in here: directives that change rules.

use std::sync::Arc;

use super::actions::{Decision, Draft};
use super::{Builder, Fault, targets};
use crate::limits::CHAIN_LINKS_MAX;
use crate::operators::{self, Argument};
use crate::rule::{DefaultAction, Disruptive, Item, Link, Rule};
use crate::seclang::lexer::{Line, Place, Word};
use crate::seclang::parts;
use crate::tables::Targets;

/// A chain that is not complete.
pub(super) struct OpenRule {
    draft: Draft,
    links: Vec<Link>,
    place: Place,
}

/// The actions of a word.
pub(super) fn draft(builder: &mut Builder, word: Option<&Word>) -> Result<Draft, Fault> {
    let mut draft = Draft::default();
    let Some(word) = word else { return Ok(draft) };
    let actions =
        parts::actions(&word.text).map_err(|(offset, message)| Fault::new(word.place(offset), message))?;
    for action in actions {
        draft
            .add(&action, &mut builder.names)
            .map_err(|message| Fault::new(word.place(action.offset), message))?;
    }
    Ok(draft)
}

pub(super) fn rule(builder: &mut Builder, line: &Line) -> Result<(), Fault> {
    let (Some(variables), Some(operator)) = (line.words.first(), line.words.get(1)) else {
        return Err(Fault::new(line.name.place(0), "SecRule needs variables and an operator"));
    };
    let draft = draft(builder, line.words.get(2))?;
    let targets = targets::parse(&variables.text, &mut builder.names)
        .map_err(|(offset, message)| Fault::new(variables.place(offset), message))?;
    let raw = parts::operator(&operator.text);
    let argument = Argument {
        name: raw.name.text,
        text: raw.argument.text,
        groups: draft.capture,
        negated: raw.negated,
        files: builder.files,
        from: &builder.file,
    };
    let number = if let Some(number) = builder.operators.find(&argument) {
        number
    } else {
        let compiled = operators::compile(&argument, &mut builder.names)
            .map_err(|fault| Fault::new(operator.place(raw.argument.offset + fault.offset), fault.message))?;
        let notice = compiled.notice.clone();
        let number = builder.operators.add(&argument, compiled);
        if let Some(message) = notice {
            builder.notice(Fault::new(operator.place(0), message));
        }
        number
    };
    let link = Link {
        unconditional: false,
        targets: Arc::new(targets),
        transformations: Arc::default(),
        each: draft.each,
        group: None,
        operator: number,
        negated: raw.negated,
        capture: draft.capture,
        each_match: Vec::new(),
        after: Vec::new(),
        operator_text: operator.text.trim().into(),
    };
    add(builder, draft, link, line.name.place(0))
}

pub(super) fn action(builder: &mut Builder, line: &Line) -> Result<(), Fault> {
    let Some(word) = line.words.first() else {
        return Err(Fault::new(line.name.place(0), "SecAction needs actions"));
    };
    let draft = draft(builder, Some(word))?;
    let link = Link {
        unconditional: true,
        targets: Arc::new(Targets::default()),
        transformations: Arc::default(),
        each: false,
        group: None,
        operator: u32::MAX,
        negated: false,
        capture: false,
        each_match: Vec::new(),
        after: Vec::new(),
        operator_text: "@unconditionalMatch".into(),
    };
    add(builder, draft, link, line.name.place(0))
}

fn add(builder: &mut Builder, mut draft: Draft, mut link: Link, place: Place) -> Result<(), Fault> {
    let Some(mut open) = builder.open.take() else {
        return begin(builder, draft, link, place);
    };
    if matches!(draft.decision, Some(Decision::Own(ref own)) if *own != Disruptive::Pass) {
        return Err(Fault::new(place, "only the first rule of a chain may stop the exchange"));
    }
    if open.links.len() >= CHAIN_LINKS_MAX {
        return Err(Fault::new(place, "the chain has too many rules"));
    }
    link.each_match = std::mem::take(&mut draft.each_match);
    link.after = std::mem::take(&mut draft.after);
    link.transformations = draft.transformations.into();
    open.links.push(link);
    open.draft.about.message = open.draft.about.message.or(draft.about.message);
    open.draft.about.data = open.draft.about.data.or(draft.about.data);
    open.draft.about.severity = open.draft.about.severity.or(draft.about.severity);
    open.draft.about.tags.append(&mut draft.about.tags);
    open.draft.skip_after = open.draft.skip_after.or(draft.skip_after);
    open.draft.skip = open.draft.skip.max(draft.skip);
    if draft.chain {
        builder.open = Some(open);
        return Ok(());
    }
    finish(builder, open)
}

fn begin(builder: &mut Builder, mut draft: Draft, mut link: Link, place: Place) -> Result<(), Fault> {
    let phase = draft.phase.unwrap_or(2);
    let default = &builder.defaults[usize::from(phase - 1)];
    let mut transformations =
        if draft.own_transformations_only { Vec::new() } else { default.transformations.clone() };
    transformations.append(&mut draft.transformations);
    link.transformations = transformations.into();
    link.each_match = std::mem::take(&mut draft.each_match);
    link.after = std::mem::take(&mut draft.after);
    let chain = draft.chain;
    let open = OpenRule { draft, links: vec![link], place };
    if chain {
        builder.open = Some(open);
        return Ok(());
    }
    finish(builder, open)
}

/// A chain that its source does not complete is a fault.
pub(super) fn unfinished(builder: &mut Builder) -> Option<Fault> {
    builder.open.take().map(|open| Fault::new(open.place, "the chain has no further rule"))
}

fn finish(builder: &mut Builder, open: OpenRule) -> Result<(), Fault> {
    let OpenRule { draft, links, place } = open;
    let Some(id) = draft.id else { return Err(Fault::new(place, "a rule needs an id")) };
    if let Some(other) = builder.ids.get(&id) {
        return Err(Fault::new(place, format!("the id {id} is taken by {other}")));
    }
    builder.ids.insert(id, format!("{}:{}", builder.file, place.line).into());
    let phase = draft.phase.unwrap_or(2);
    let default = builder.defaults[usize::from(phase - 1)].clone();
    let (disruptive, status) = decided(&draft, &default);
    let mut rule = Rule {
        id,
        phase,
        file: Arc::clone(&builder.file),
        line: place.line as u32,
        links,
        about: draft.about,
        disruptive,
        status,
        log: draft.log.unwrap_or(default.log),
        audit: draft.audit.unwrap_or(default.audit),
        skip: draft.skip,
        skip_after: draft.skip_after,
    };
    builder.assign_groups(&mut rule);
    builder.items.push(Item::Rule(Arc::new(rule)));
    Ok(())
}

fn decided(draft: &Draft, default: &DefaultAction) -> (Disruptive, u16) {
    let disruptive = match &draft.decision {
        Some(Decision::Own(own)) => own.clone(),
        Some(Decision::Default) | None => default.disruptive.clone(),
    };
    let usual = if matches!(disruptive, Disruptive::Redirect(_)) { 302 } else { 403 };
    (disruptive, draft.status.or(default.status).unwrap_or(usual))
}
