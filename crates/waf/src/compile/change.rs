//! Directives that change or remove rules that came before them.
//!
//! Never in here: changes while a transaction runs (`ctl`).

use std::sync::Arc;

use super::actions::Decision;
use super::{Builder, Fault, effects, rule, targets};
use crate::exclusion::Exclusion;
use crate::rule::{Choice, Item, Rule};
use crate::seclang::directives::Kind;
use crate::seclang::lexer::{Line, Word};
use crate::tables::{FastMap, Targets};
use crate::variables::Target;

fn words(line: &Line, least: usize) -> Result<&[Word], Fault> {
    if line.words.len() < least {
        let message = format!("{} needs {least} values", line.name.text);
        return Err(Fault::new(line.name.place(0), message));
    }
    Ok(&line.words)
}

fn choice(kind: Kind, word: &Word) -> Result<Choice, Fault> {
    let text = word.text.trim();
    let chosen = match kind {
        Kind::RemoveByTag | Kind::UpdateTargetByTag => effects::name(text).map(Choice::Tag),
        Kind::RemoveByMsg | Kind::UpdateTargetByMsg => effects::name(text).map(Choice::Message),
        _ => effects::ids(text).map(Choice::Ids),
    };
    chosen.map_err(|message| Fault::new(word.place(0), message))
}

/// `SecRuleRemoveById` and its like.
pub(super) fn remove(builder: &mut Builder, kind: Kind, line: &Line) -> Result<(), Fault> {
    for word in words(line, 1)? {
        let choice = choice(kind, word)?;
        let ids = &mut builder.ids;
        builder.items.retain(|item| match item {
            Item::Rule(rule) if choice.has(rule) => {
                ids.remove(&rule.id);
                false
            }
            _ => true,
        });
    }
    Ok(())
}

/// Applies an exclusion that holds on every path. Rules that look at none of its targets stay those of the
/// shared base, and the others share their targets as before: a thousand sets may have exclusions.
pub(super) fn exclude(builder: &mut Builder, exclusion: &Exclusion) {
    let excluded = exclusion.targets();
    let concerns = |targets: &Targets| {
        let may_cover = |target: &Target| excluded.iter().any(|one| one.covers_variable(target.variable));
        targets.targets.iter().any(may_cover)
    };
    // The former targets are kept beside the new ones: no other can get their address meanwhile.
    let mut changed: FastMap<*const Targets, (Arc<Targets>, Arc<Targets>)> = FastMap::default();
    for choice in exclusion.rules() {
        if excluded.is_empty() {
            builder.items.retain(|item| !matches!(item, Item::Rule(rule) if choice.has(rule)));
            continue;
        }
        let is_meant =
            |rule: &Rule| choice.has(rule) && rule.links.iter().any(|link| concerns(&link.targets));
        change(builder, is_meant, |rule| {
            for link in rule.links.iter_mut().filter(|link| concerns(&link.targets)) {
                let former = Arc::clone(&link.targets);
                let (_, new) = changed.entry(Arc::as_ptr(&former)).or_insert_with(|| {
                    let mut targets = Targets::clone(&former);
                    targets.exclusions.extend(excluded.iter().cloned());
                    (former, Arc::new(targets))
                });
                link.targets = Arc::clone(new);
            }
        });
    }
}

/// `SecRuleUpdateTargetById` and its like. A third value names the targets that are replaced.
pub(super) fn update_targets(builder: &mut Builder, kind: Kind, line: &Line) -> Result<(), Fault> {
    let words = words(line, 2)?;
    let (word, link) = chain_link(&words[0]);
    let choice = choice(kind, &word)?;
    let parse = |builder: &mut Builder, word: &Word| {
        targets::parse(&word.text, &mut builder.names)
            .map_err(|(offset, message)| Fault::new(word.place(offset), message))
    };
    let added = parse(builder, &words[1])?;
    let replaced = words.get(2).map(|word| parse(builder, word)).transpose()?;
    change(
        builder,
        |rule| choice.has(rule),
        |rule| {
            if let Some(link) = rule.links.get_mut(link) {
                let mut targets = Targets::clone(&link.targets);
                if let Some(replaced) = &replaced {
                    targets.targets.retain(|target| !replaced.targets.contains(target));
                }
                targets.targets.extend(added.targets.iter().cloned());
                link.targets = Arc::new(targets);
            }
            for link in &mut rule.links {
                let mut targets = Targets::clone(&link.targets);
                targets.exclusions.extend(added.exclusions.iter().cloned());
                link.targets = Arc::new(targets);
            }
        },
    );
    Ok(())
}

pub(super) fn update_actions(builder: &mut Builder, line: &Line) -> Result<(), Fault> {
    let words = words(line, 2)?;
    let (word, link) = chain_link(&words[0]);
    let choice = choice(Kind::UpdateActionById, &word)?;
    let draft = rule::draft(builder, Some(&words[1]))?;
    let defaults = builder.defaults.clone();
    change(
        builder,
        |rule| choice.has(rule),
        |rule| {
            let default = &defaults[usize::from(rule.phase - 1)];
            match &draft.decision {
                Some(Decision::Own(own)) => rule.disruptive = own.clone(),
                Some(Decision::Default) => rule.disruptive = default.disruptive.clone(),
                None => {}
            }
            rule.status = draft.status.unwrap_or(rule.status);
            rule.log = draft.log.unwrap_or(rule.log);
            rule.audit = draft.audit.unwrap_or(rule.audit);
            rule.skip = if draft.skip > 0 { draft.skip } else { rule.skip };
            rule.skip_after = draft.skip_after.clone().or(rule.skip_after.take());
            let (about, new) = (&mut rule.about, &draft.about);
            if new.message.is_some() {
                about.message.clone_from(&new.message);
                about.message_text.clone_from(&new.message_text);
            }
            about.data = new.data.clone().or(about.data.take());
            about.severity = new.severity.or(about.severity);
            about.tags.extend(new.tags.iter().cloned());
            let Some(link) = rule.links.get_mut(link) else { return };
            link.each_match.extend(draft.each_match.iter().cloned());
            link.after.extend(draft.after.iter().cloned());
            link.capture |= draft.capture;
            link.each |= draft.each;
            let mut transformations =
                if draft.own_transformations_only { Vec::new() } else { link.transformations.to_vec() };
            transformations.extend(&draft.transformations);
            link.transformations = transformations.into();
        },
    );
    Ok(())
}

/// `12:1` is the second rule of the chain 12.
fn chain_link(word: &Word) -> (Word, usize) {
    let mut word = word.clone();
    if let Some((id, link)) = word.text.split_once(':')
        && let Ok(link) = link.trim().parse()
    {
        word.text = id.to_owned();
        return (word, link);
    }
    (word, 0)
}

fn change(builder: &mut Builder, is_meant: impl Fn(&Rule) -> bool, mut edit: impl FnMut(&mut Rule)) {
    let mut items = std::mem::take(&mut builder.items);
    for item in &mut items {
        if let Item::Rule(rule) = item
            && is_meant(rule)
        {
            // A rule of a shared base is copied; the base keeps its own.
            let rule = Arc::make_mut(rule);
            edit(rule);
            builder.assign_groups(rule);
        }
    }
    builder.items = items;
}
