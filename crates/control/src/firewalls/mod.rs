//! Rules of web application firewalls: the core rules of the rules folders, the default settings, and every
//! rule set that objects ask for, compiled once for equal texts.
//!
//! Folders are read when the process begins. Never in here: annotations, requests.

mod exclusions;
mod folder;
mod split;
#[cfg(test)]
mod tests;
mod trial;
mod wanted;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::RuleSet;
use waf::{Around, Inside, Rules, Source};

use crate::names::ObjectRef;

pub(crate) use exclusions::{
    EXCLUSIONS_MAX, Exclusion, ITEMS_MAX as EXCLUSION_ITEMS_MAX, TEXT_MAX as EXCLUSION_TEXT_MAX,
    read as read_exclusions,
};
use folder::Names;
pub use folder::{Folder, UnreadableFolder};
pub use trial::Trial;
pub(crate) use wanted::{Base, Tuning, Wanted};

/// The name of a snippet in problems and reports.
pub(crate) const SNIPPET: &str = "modsecurity-snippet";

/// The name of the `ConfigMap`'s snippet in problems and reports.
pub(crate) const GLOBAL_SNIPPET: &str = "modsecurity-snippet of the ConfigMap";

/// The name of the default settings in problems and reports.
const DEFAULTS: &str = "modsecurity.conf";

/// The name of typed settings in reports.
const TUNING: &str = "settings";

/// Sets that are stored before unused ones are looked for.
const SETS_MIN: usize = 64;

/// Why there are no rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The core rules are not installed.
    NoCoreRules,
    /// Texts have faults.
    Rules(Arc<[waf::Problem]>),
    /// Typed settings contradict one another.
    Tuning(String),
}

/// Rules of web application firewalls.
#[derive(Default)]
pub struct Firewalls {
    shared: Arc<Shared>,
    /// The last good set of each object.
    last: Mutex<HashMap<ObjectRef, RuleSet>>,
}

#[derive(Default)]
struct Shared {
    folder: Folder,
    sets: Mutex<Sets>,
}

#[derive(Default)]
struct Sets {
    bases: HashMap<Base, Result<RuleSet, Fault>>,
    extended: HashMap<Wanted, RuleSet>,
    /// Number of extended sets at which unused ones are removed.
    sweep_at: usize,
}

impl Firewalls {
    /// Reads the rules in folders. Of two files with one name the first folder's counts; folders that are
    /// missing have none.
    ///
    /// # Errors
    ///
    /// A folder or file that exists and cannot be read.
    pub fn load(folders: &[PathBuf]) -> Result<Self, UnreadableFolder> {
        let shared = Shared { folder: Folder::read(folders)?, sets: Mutex::default() };
        Ok(Self { shared: Arc::new(shared), last: Mutex::default() })
    }

    /// The same rules for objects that are only examined: none has rules that stay in force.
    pub(crate) fn for_review(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), last: Mutex::default() }
    }

    /// Whether the core rules are installed.
    pub fn has_core_rules(&self) -> bool {
        self.shared.folder.core().next().is_some()
    }

    /// The names and texts of the core rules, in order.
    pub fn core_rules(&self) -> impl Iterator<Item = (&str, &str)> {
        self.shared.folder.core()
    }

    /// The set with these rules. An earlier one is returned where its texts were the same.
    pub(crate) fn set(&self, wanted: &Wanted) -> Result<RuleSet, Fault> {
        self.shared.set(wanted)
    }

    /// Notes the good set of an object.
    pub(crate) fn keep(&self, object: &ObjectRef, set: &RuleSet) {
        let mut last = locked(&self.last);
        if last.get(object) != Some(set) {
            last.insert(object.clone(), set.clone());
        }
    }

    /// Forgets the good set of an object that has no firewall any more.
    pub(crate) fn forget(&self, object: &ObjectRef) {
        locked(&self.last).remove(object);
    }

    /// The last good set of an object.
    pub(crate) fn last(&self, object: &ObjectRef) -> Option<RuleSet> {
        locked(&self.last).get(object).cloned()
    }

    /// Forgets the good sets of objects that are gone.
    pub(crate) fn retain(&self, exists: impl Fn(&ObjectRef) -> bool) {
        locked(&self.last).retain(|object, _| exists(object));
    }
}

impl Shared {
    fn set(&self, wanted: &Wanted) -> Result<RuleSet, Fault> {
        let (wanted, parts) = split::split(wanted);
        if let Some(known) = locked(&self.sets).extended.get(&wanted) {
            return Ok(known.clone());
        }
        let base = self.base(&wanted.base)?;
        let Wanted { snippet, tuning, .. } = &wanted;
        if snippet.is_none() && *tuning == Tuning::default() {
            return Ok(base);
        }
        if let Some(contradiction) = tuning.contradiction() {
            return Err(Fault::Tuning(contradiction));
        }
        let source = |text| Source { name: SNIPPET, text };
        let of_tuning = |text| Source { name: TUNING, text };
        let (core, engine) = (tuning.core_settings(), tuning.engine_settings());
        let core = core.as_deref().map(of_tuning);
        let exclusions =
            tuning.exclusions.iter().map(|exclusion| exclusion.compiled().map_err(Fault::Tuning));
        let around = Around {
            before: &[source(&parts.before)],
            inside: self.folder.first_rules().map(|file| Inside { file, sources: core.as_slice() }),
            after: &[source(parts.after.as_deref().unwrap_or_default()), of_tuning(&engine)],
            exclusions: &exclusions.collect::<Result<Vec<_>, _>>()?,
        };
        let rules = Rules::extend(base.rules(), around, &Names(&self.folder))
            .map_err(|problems| Fault::Rules(problems.into()))?;
        tell_notices(&rules);
        let own = [snippet.as_deref().unwrap_or_default().to_owned(), format!("{tuning:?}")];
        let texts = own.iter().map(String::as_str).chain(self.texts(&wanted.base).map(|(_, text)| text));
        let set = RuleSet::new(Arc::new(rules), texts, random());
        let mut sets = locked(&self.sets);
        sets.sweep();
        sets.extended.insert(wanted, set.clone());
        Ok(set)
    }

    fn base(&self, base: &Base) -> Result<RuleSet, Fault> {
        if let Some(known) = locked(&self.sets).bases.get(base) {
            return known.clone();
        }
        let made = self.make_base(base);
        let mut sets = locked(&self.sets);
        // A former text of the ConfigMap is of no more use.
        sets.bases.retain(|known, _| known.snippet == base.snippet || known.snippet.is_none());
        sets.bases.insert(base.clone(), made.clone());
        made
    }

    fn make_base(&self, base: &Base) -> Result<RuleSet, Fault> {
        if base.core && self.folder.core().next().is_none() {
            return Err(Fault::NoCoreRules);
        }
        let sources: Vec<Source> = self.texts(base).map(|(name, text)| Source { name, text }).collect();
        let rules = Rules::compile(&sources, &Names(&self.folder))
            .map_err(|problems| Fault::Rules(problems.into()))?;
        tell_notices(&rules);
        let texts = sources.iter().map(|source| source.text);
        Ok(RuleSet::new(Arc::new(rules), texts, random()))
    }

    fn texts<'t>(&'t self, base: &'t Base) -> impl Iterator<Item = (&'t str, &'t str)> {
        let defaults = base.defaults.then_some((DEFAULTS, self.folder.settings()));
        let snippet = base.snippet.as_deref().map(|text| (GLOBAL_SNIPPET, text));
        let core = base.core.then(|| self.folder.core());
        defaults.into_iter().chain(snippet).chain(core.into_iter().flatten())
    }
}

impl Sets {
    /// Removes the sets that nobody uses, once there are many.
    fn sweep(&mut self) {
        if self.extended.len() < self.sweep_at.max(SETS_MIN) {
            return;
        }
        self.extended.retain(|_, set| Arc::strong_count(set.rules()) > 1);
        self.sweep_at = self.extended.len() * 2;
    }
}

/// Logs what accepted rules do not do, once for each set that is compiled.
fn tell_notices(rules: &Rules) {
    let notices: Vec<_> = rules.notices().iter().map(ToString::to_string).collect();
    if !notices.is_empty() {
        tracing::warn!(
            notices = notices.join("; "),
            "some rules of the web application firewall have no effect"
        );
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that clients cannot guess.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCoreRules => f.write_str(
                "the OWASP core rules are not installed: install the package modsecurity-crs, or name their \
                 folder by --waf-rules",
            ),
            Self::Rules(problems) => {
                let Some(first) = problems.first() else { return f.write_str("the rules have faults") };
                let waf::Problem { file, line, column, message } = first;
                write!(f, "{file}, line {line}, column {column}: {message}")?;
                match problems.len() {
                    1 => Ok(()),
                    count => write!(f, " (and {} more)", count - 1),
                }
            }
            Self::Tuning(why) => f.write_str(why),
        }
    }
}

impl Fault {
    /// Whether the fault is in an object's own rules.
    pub(crate) fn is_of_snippet(&self) -> bool {
        match self {
            Self::NoCoreRules | Self::Tuning(_) => false,
            Self::Rules(problems) => problems.first().is_some_and(|problem| problem.file == SNIPPET),
        }
    }
}

/// Two loads of the same folders are equal.
impl PartialEq for Firewalls {
    fn eq(&self, other: &Self) -> bool {
        self.shared.folder == other.shared.folder
    }
}

impl fmt::Debug for Firewalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files of core rules", self.shared.folder.core().count())
    }
}
