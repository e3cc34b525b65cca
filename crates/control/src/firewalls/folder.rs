//! The files of the rules folders, in memory.
//!
//! Never in here: a file outside of these folders, whatever rules name.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use waf::Files;

/// Folders inside one another, from the first to the last.
const DEPTH_MAX: usize = 5;

/// Bytes of all files.
const BYTES_MAX: u64 = 64 << 20;

/// The place of the core rules in ingress-nginx's image, which snippets name.
pub(super) const CORE_FOLDER: &str = "/etc/nginx/owasp-modsecurity-crs/";

/// The file there that includes all of the core rules.
pub(super) const CORE_FILE: &str = "/etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf";

/// The place of the default settings in ingress-nginx's image.
const SETTINGS_FILE: &str = "/etc/nginx/modsecurity/modsecurity.conf";

/// The name of the default settings in a rules folder.
const SETTINGS: &str = "modsecurity.conf";

/// The settings of a firewall without rules of its own: those that `ModSecurity` recommends, as in
/// ingress-nginx's image. Matches are reported, and no request is refused.
const DEFAULT_SETTINGS: &str = include_str!("modsecurity.conf");

/// The files of the rules folders.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// Texts by their names below the folders.
    files: BTreeMap<String, String>,
    /// The names of the core rules, in order.
    core: Vec<String>,
    /// The folders as they were named.
    roots: Vec<String>,
}

/// A rules folder that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}")]
pub struct UnreadableFolder {
    /// The folder, or the file in it.
    pub path: PathBuf,
    /// The reason why it cannot be read.
    pub error: io::Error,
}

impl Folder {
    /// Reads the rules and data in folders; missing folders have none.
    ///
    /// # Errors
    ///
    /// A folder or file that exists and cannot be read.
    pub(super) fn read(folders: &[PathBuf]) -> Result<Self, UnreadableFolder> {
        let (mut files, mut left) = (BTreeMap::new(), BYTES_MAX);
        for folder in folders.iter().filter(|folder| folder.exists()) {
            read_below(folder, folder, DEPTH_MAX, &mut left, &mut files)?;
        }
        let roots = folders.iter().map(|folder| format!("{}/", folder.display()).replace("//", "/"));
        Ok(Self::of(files, roots.collect()))
    }

    fn of(files: BTreeMap<String, String>, roots: Vec<String>) -> Self {
        let setup = |name: &&String| base_name(name).trim_start_matches('@') == "crs-setup.conf";
        let example = |name: &&String| base_name(name).trim_start_matches('@') == "crs-setup.conf.example";
        let first = files.keys().find(setup).or_else(|| files.keys().find(example)).cloned();
        let is_rule = |name: &&String| {
            let base = base_name(name);
            is_rules(base) && (base.starts_with("REQUEST-") || base.starts_with("RESPONSE-"))
        };
        let mut rules: Vec<String> = files.keys().filter(is_rule).cloned().collect();
        rules.sort_by(|a, b| base_name(a).cmp(base_name(b)));
        let core = if rules.is_empty() { Vec::new() } else { first.into_iter().chain(rules).collect() };
        Self { files, core, roots }
    }

    /// The names and texts of the core rules, in order.
    pub(super) fn core(&self) -> impl Iterator<Item = (&str, &str)> {
        self.core.iter().map(|name| (&**name, &*self.files[name]))
    }

    /// The file of the first core rules, behind their setup; none without core rules.
    pub(super) fn first_rules(&self) -> Option<&str> {
        let is_setup = |name: &&String| base_name(name).contains("crs-setup");
        self.core.iter().find(|name| !is_setup(name)).map(String::as_str)
    }

    /// Whether a name is that of a file in the folders.
    pub(super) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// The default settings, which the operator may have changed.
    pub(super) fn settings(&self) -> &str {
        self.files.get(SETTINGS).map_or(DEFAULT_SETTINGS, String::as_str)
    }

    /// The name below the folders that rules may have written in full.
    fn local<'n>(&self, name: &'n str) -> &'n str {
        let mut roots = self.roots.iter().map(String::as_str).chain([CORE_FOLDER]);
        roots.find_map(|root| name.strip_prefix(root)).unwrap_or(name)
    }

    /// The file with a name, beside another one or anywhere below the folders.
    fn find(&self, name: &str, from: &str) -> Option<&str> {
        let name = self.local(name);
        let beside = from.rsplit_once('/').map(|(folder, _)| format!("{folder}/{name}"));
        let known = |name: &str| self.files.get_key_value(name).map(|(name, _)| name.as_str());
        let by_base = || self.files.keys().find(|known| base_name(known) == name).map(String::as_str);
        beside.as_deref().and_then(known).or_else(|| known(name)).or_else(by_base)
    }
}

/// The files that rules may name.
pub(super) struct Names<'f>(pub(super) &'f Folder);

impl Files for Names<'_> {
    fn expand(&self, pattern: &str, from: &str) -> Vec<String> {
        let Self(folder) = self;
        if pattern == CORE_FILE {
            return folder.core.clone();
        }
        if pattern == SETTINGS_FILE {
            return vec![SETTINGS.to_owned()];
        }
        if !pattern.contains('*') {
            return folder.find(pattern, from).map(str::to_owned).into_iter().collect();
        }
        let pattern = folder.local(pattern);
        let found = folder.files.keys().filter(|name| is_rules(name) && matches(pattern, name));
        found.cloned().collect()
    }

    fn read(&self, name: &str, from: &str) -> Result<Vec<u8>, String> {
        let Self(folder) = self;
        let found = folder.find(name, from).map(|name| folder.files[name].as_str());
        let found = found.or_else(|| (name == SETTINGS).then_some(DEFAULT_SETTINGS));
        let found = found.ok_or_else(|| format!("there is no file {name} in the rules folders"))?;
        Ok(found.as_bytes().to_vec())
    }
}

/// Whether a name has the form of a pattern with `*`, which stands for any characters but `/`.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(after) = name.strip_prefix(begin) else { return false };
    let end = after.find('/').unwrap_or(after.len());
    (0..=end).filter(|at| after.is_char_boundary(*at)).any(|at| matches(rest, &after[at..]))
}

fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

pub(super) fn is_rules(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extension == "conf")
}

fn is_wanted(name: &str) -> bool {
    [".conf", ".conf.example", ".data", ".mapping"].iter().any(|end| name.ends_with(end))
}

fn read_below(
    root: &Path,
    folder: &Path,
    depth: usize,
    left: &mut u64,
    files: &mut BTreeMap<String, String>,
) -> Result<(), UnreadableFolder> {
    let fault = |path: &Path, error| UnreadableFolder { path: path.to_owned(), error };
    for entry in fs::read_dir(folder).map_err(|error| fault(folder, error))? {
        let entry = entry.map_err(|error| fault(folder, error))?;
        // Kubernetes keeps the files of a ConfigMap in `..data`, with links to them beside it.
        if entry.file_name().as_encoded_bytes().starts_with(b"..") {
            continue;
        }
        let path = entry.path();
        let about = fs::metadata(&path).map_err(|error| fault(&path, error))?;
        if about.is_dir() && depth > 0 {
            read_below(root, &path, depth - 1, left, files)?;
        }
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if !about.is_file() || !is_wanted(&name) || files.contains_key(&name) {
            continue;
        }
        let too_long = || fault(&path, io::Error::other("the rules folders have more than 64 MB"));
        *left = left.checked_sub(about.len()).ok_or_else(too_long)?;
        let bytes = fs::read(&path).map_err(|error| fault(&path, error))?;
        files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(())
}
