//! Files in place of endpoints: the part of the folder of `--files-root` that an Ingress serves.

use model::Files;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
use crate::problem::Reason;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "files", Location, "", Supported(|s, v| set(&mut s.files.folder, folder(v).map(Some))), ClosesLocations,
        "Folder below `--files-root` whose files are served instead of an endpoint's responses: `site`, or `.` for all of it.";
    "files-404", Location, "", Supported(|s, v| set(&mut s.files.files.not_found, file(v).map(Some))),
        "File with the content of 404 responses: `/404.html`.";
    "files-cache-control", Location, "", Supported(|s, v| set(&mut s.files.files.cache_control, cache_control(v).map(Some))),
        "Cache-Control of files: `public, max-age=3600`.";
    "files-fallback", Location, "", Supported(|s, v| set(&mut s.files.files.fallback, file(v).map(Some))),
        "File served instead of missing ones without an extension: `/index.html` of a single-page application.";
    "files-index", Location, "index.html", Supported(|s, v| set(&mut s.files.files.index, index(v))),
        "Names of index files, separated by commas; the first that exists is served.";
    "files-listing", Location, "false", Supported(|s, v| set(&mut s.files.files.lists_folders, value::boolean(v))),
        "Lists folders without an index file.";
}

/// Name of the annotation that requests files.
const NAME: &str = "files";

/// Settings of files.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    /// The folder; none for an Ingress without files.
    folder: Option<String>,
    /// The settings except the folder.
    files: Files,
}

impl Default for Settings {
    fn default() -> Self {
        let index = vec!["index.html".to_owned()];
        Self { folder: None, files: Files { index, ..Files::default() } }
    }
}

impl Settings {
    /// Whether files are requested.
    pub(super) fn is_asked_for(&self) -> bool {
        self.folder.is_some()
    }
}

impl Resolve for Settings {
    type Resolved = ();

    /// Closes the locations if files are requested without a root folder, and reports settings without
    /// effect.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        let asker = context.asker;
        if self.folder.is_none() {
            let others = asker.names().into_iter().filter(|name| name.starts_with("files-"));
            for name in others.filter(|_| asker.given(NAME).is_none()) {
                let message = format!("{} has no effect without {}", asker.called(name), asker.key(NAME));
                findings.problems.extend(context.without_effect(name, message));
            }
        } else if !context.inputs.options.has_files_root {
            findings.guards.of_locations.push(format!("{} needs --files-root", asker.called(NAME)));
            if asker.given(NAME).is_some() {
                let why = "no files are served without --files-root".to_owned();
                findings.problems.push(context.closing(NAME, (Reason::Unsupported, why)));
            }
        }
    }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    route.files = settings.folder.clone().map(|folder| Files { folder, ..settings.files.clone() });
}

/// Parses a folder below the root, without slashes at its ends; empty for the root.
fn folder(text: &str) -> Parsed<String> {
    match text.trim().trim_matches('/') {
        "" if text.trim().is_empty() => Err("a folder has a name, or is \".\"".to_owned()),
        "" | "." => Ok(String::new()),
        name => below(name),
    }
}

/// Parses a file below the folder.
fn file(text: &str) -> Parsed<String> {
    match text.trim().trim_start_matches('/') {
        name if name.is_empty() || name.ends_with('/') => Err(format!("{text:?} names no file")),
        name => below(name),
    }
}

fn below(name: &str) -> Parsed<String> {
    let is_element = |element: &str| {
        !element.is_empty()
            && !element.starts_with('.')
            && !element.contains(|letter: char| letter.is_control())
    };
    if name.split('/').all(is_element) {
        Ok(name.to_owned())
    } else {
        Err(format!("{name:?} has an element that is empty or begins with a dot"))
    }
}

fn index(text: &str) -> Parsed<Vec<String>> {
    let names = value::list(text);
    match names.iter().find(|name| name.contains('/') || below(name).is_err()) {
        Some(name) => Err(format!("{name:?} is no name of a file")),
        None => Ok(names),
    }
}

fn cache_control(text: &str) -> Parsed<String> {
    let text = value::spaced(text.trim(), "-=,\"")?;
    if text.is_empty() { Err("it is empty".to_owned()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_files_are_below_the_root() {
        assert_eq!(folder("site"), Ok("site".to_owned()));
        assert_eq!(folder("/a/b/"), Ok("a/b".to_owned()));
        assert_eq!((folder("."), folder("/")), (Ok(String::new()), Ok(String::new())));
        assert_eq!(file("/404.html"), Ok("404.html".to_owned()));
        for text in ["", "..", "a/../b", "a//b", ".git", "a/.b", "a\0"] {
            assert!(folder(text).is_err() && file(text).is_err(), "{text}");
        }
        assert!(file("a/").is_err());
    }

    #[test]
    fn index_files_are_names() {
        assert_eq!(index("a.html, b"), Ok(vec!["a.html".to_owned(), "b".to_owned()]));
        assert!(index("a/b").is_err() && index("..").is_err());
    }
}
