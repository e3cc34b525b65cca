//! Rewrites of paths and hosts.

use model::template::Template;
use model::{Alias, HostName, Pattern};

use super::annotation::Effect::Supported;
use super::annotation::Scope::{Ingress, Location};
use super::annotation::annotations;
use crate::translate::characters::{NAME, consists_of};
use crate::translate::claim::{DraftRoute, RewriteDraft};
use crate::translate::header;
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "rewrite-target", Ingress, "", Supported(|s, v| set(&mut s.rewrite.target, target(v).map(Some))),
        "Path that the endpoint gets instead.", Medium;
    "server-alias", Ingress, "", Supported(server_alias), IgnoresIngress,
        "Further names of the host.", High;
    "use-regex", Location, "false", Supported(|s, v| set(&mut s.rewrite.uses_regex, value::boolean(v))),
        "Treats paths as regular expressions.";
    "x-forwarded-prefix", Location, "", Supported(|s, v| set(&mut s.rewrite.forwarded_prefix, prefix(v).map(Some))), IgnoresIngress,
        "Value of X-Forwarded-Prefix when a path is rewritten.", Medium;
}

/// Settings of rewrites.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    target: Option<RewriteDraft>,
    uses_regex: bool,
    forwarded_prefix: Option<Template>,
    /// Aliases of the Ingress's hosts.
    pub(super) aliases: Vec<Alias>,
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.uses_regex = settings.uses_regex;
    route.rewrite.clone_from(&settings.target);
    route.head.forwarded_prefix.clone_from(&settings.forwarded_prefix);
}

/// Reads names separated by commas. ingress-nginx checks their characters and leaves the rest to nginx.
fn server_alias(settings: &mut super::Settings, text: &str) -> Applied {
    let names = value::list(text);
    if let Some(name) = names.iter().find(|name| !consists_of(name, &[NAME, r"^$[](){}*+?|&=\"])) {
        return Err(format!("{name:?} has characters that no server name has"));
    }
    let mut left_out = Vec::new();
    for name in &names {
        match alias(name) {
            Ok(alias) => settings.rewrite.aliases.push(alias),
            Err(why) => left_out.push(why),
        }
    }
    Ok((!left_out.is_empty()).then(|| format!("ignored: {}", left_out.join("; "))))
}

fn alias(name: &str) -> Parsed<Alias> {
    match name.strip_prefix('~') {
        Some(pattern) => {
            Pattern::parse(pattern).map(Alias::Pattern).map_err(|error| format!("{name:?}: {error}"))
        }
        None => HostName::parse_with_suffix(name).map(Alias::Name).map_err(|error| error.to_string()),
    }
}

fn target(text: &str) -> Parsed<RewriteDraft> {
    if text.is_empty() || !consists_of(text, &[NAME, "$"]) {
        return Err(format!("{text:?} is not a path of letters, digits and \"-._~/:$\""));
    }
    let target = Template::parse(text).map_err(|error| error.to_string())?;
    let redirects = ["http://", "https://", "$scheme"].iter().any(|begin| text.starts_with(begin));
    Ok(RewriteDraft { text: text.to_owned(), target, redirects })
}

fn prefix(text: &str) -> Parsed<Template> {
    let bare: String = text.split_whitespace().collect();
    if bare.is_empty() || !consists_of(&bare, &[NAME, "$"]) {
        return Err(format!("{text:?} has other characters than letters, digits and \"-._~/:$\""));
    }
    header::template(text)
}
