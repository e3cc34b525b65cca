//! Rule sets that are tried before an object has them: rules from files of the operator's own, around the
//! same core rules and default settings that objects get.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::RuleSet;
use waf::settings::Mode;
use waf::{Around, Files, Inside, Problem, Rules, Source};

use super::folder::{CORE_FILE, Folder, Names, is_rules, matches};
use super::{DEFAULTS, Firewalls, Tuning, random, split};

/// A rule set that is tried.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// The operator's rules: names and texts, in the order in which they run.
    pub rules: Vec<(String, String)>,
    /// The default settings stand behind them, as for a firewall without rules of its own.
    pub default_settings: bool,
    /// The core rules stand behind both.
    pub core_rules: bool,
    /// The paranoia level of the core rules; none for that of their setup.
    pub paranoia_level: Option<u8>,
    /// The mode, whatever `SecRuleEngine` says; none for what it says.
    pub mode: Option<Mode>,
}

/// The files that rules of the operator may name: those of the rules folders, and any on disk.
struct OnDisk<'f>(&'f Folder);

impl Firewalls {
    /// Compiles rules that are tried. `Include` and lists may name any file, relative to the one that names
    /// it.
    ///
    /// # Errors
    ///
    /// All faults of the rules, each with its place.
    pub fn trial(&self, trial: &Trial) -> Result<RuleSet, Vec<Problem>> {
        let files = OnDisk(&self.shared.folder);
        let own: Vec<Source> = trial.rules.iter().map(|(name, text)| Source { name, text }).collect();
        let cut = own
            .iter()
            .enumerate()
            .find_map(|(at, source)| split::around_core(source.text).map(|parts| (at, source.name, parts)));
        let (mut before, mut after) = (own.clone(), Vec::new());
        if let Some((at, name, parts)) = &cut {
            before.truncate(*at);
            before.push(Source { name, text: &parts.before });
            after.push(Source { name, text: parts.after.as_deref().unwrap_or_default() });
            after.extend_from_slice(&own[at + 1..]);
        }
        let tuning = Tuning { mode: trial.mode, paranoia_level: trial.paranoia_level, ..Tuning::default() };
        let (core, engine) = (tuning.core_settings(), tuning.engine_settings());
        after.push(Source { name: "--engine", text: &engine });
        let has_core = trial.core_rules || cut.is_some();
        if has_core && !self.has_core_rules() {
            let message = super::Fault::NoCoreRules.to_string();
            return Err(vec![Problem { file: CORE_FILE.to_owned(), line: 1, column: 1, message }]);
        }
        let folder = &self.shared.folder;
        let mut base = Vec::new();
        base.extend(trial.default_settings.then(|| Source { name: DEFAULTS, text: folder.settings() }));
        base.extend(folder.core().filter(|_| has_core).map(|(name, text)| Source { name, text }));
        let texts: Vec<&str> = own.iter().chain(&base).map(|source| source.text).collect();
        let base = Arc::new(Rules::compile(&base, &files)?);
        let core = core.as_deref().map(|text| Source { name: "--paranoia-level", text });
        let first = folder.first_rules().filter(|_| has_core);
        let around = Around {
            before: &before,
            inside: first.map(|file| Inside { file, sources: core.as_slice() }),
            after: &after,
            exclusions: &[],
        };
        let rules = Rules::extend(&base, around, &files)?;
        Ok(RuleSet::new(Arc::new(rules), texts, random()))
    }
}

impl Files for OnDisk<'_> {
    fn expand(&self, pattern: &str, from: &str) -> Vec<String> {
        let path = self.path(pattern, from);
        if let Some(path) = path.as_deref().filter(|path| path.is_file()) {
            return vec![path.display().to_string()];
        }
        let listed = path.map(|path| listed(&path)).unwrap_or_default();
        if listed.is_empty() { Names(self.0).expand(pattern, from) } else { listed }
    }

    fn read(&self, name: &str, from: &str) -> Result<Vec<u8>, String> {
        let path = self.path(name, from).filter(|path| path.is_file());
        match path {
            Some(path) => fs::read(&path).map_err(|error| format!("{}: {error}", path.display())),
            None => Names(self.0).read(name, from).map_err(|_| format!("there is no file {name}")),
        }
    }
}

impl OnDisk<'_> {
    /// The path of a file that a file on disk names; none for the core rules, which name each other.
    fn path(&self, name: &str, from: &str) -> Option<PathBuf> {
        if name == CORE_FILE || self.0.has(from) {
            return None;
        }
        // Expanded names are complete already.
        let name = Path::new(name);
        let beside = Path::new(from).parent().map(|folder| folder.join(name));
        if name.is_file() { Some(name.to_owned()) } else { beside }
    }
}

/// The files that a path whose last part has `*` stands for, in the order of their names.
fn listed(pattern: &Path) -> Vec<String> {
    let (Some(folder), Some(pattern)) =
        (pattern.parent(), pattern.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_rules(name) && matches(pattern, name)).collect();
    names.sort();
    names.iter().map(|name| folder.join(name).display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firewalls() -> Firewalls {
        Firewalls::load(&[PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/waf"))]).unwrap()
    }

    fn trial(text: &str) -> Trial {
        Trial { rules: vec![("own.conf".to_owned(), text.to_owned())], ..Trial::default() }
    }

    #[test]
    fn the_core_rules_stand_behind_the_operators_own() {
        let firewalls = firewalls();
        let core = |trial: Trial| firewalls.trial(&trial).unwrap().rules().len();
        let own = "SecAction \"id:1,phase:1,pass\"";
        assert_eq!(core(trial(own)), 1);
        assert_eq!(core(Trial { core_rules: true, ..trial(own) }), 2);
        assert_eq!(core(Trial { core_rules: true, paranoia_level: Some(3), ..trial(own) }), 3);
        assert_eq!(core(trial(&format!("Include {CORE_FILE}\n{own}"))), 2);
        assert_eq!(core(Trial { core_rules: true, ..trial(&format!("{own}\nInclude {CORE_FILE}")) }), 2);
    }

    #[test]
    fn the_mode_that_is_asked_for_decides() {
        let firewalls = firewalls();
        let mode = |trial: Trial| firewalls.trial(&trial).unwrap().rules().settings().mode;
        assert_eq!(mode(trial("SecRuleEngine On")), Mode::On);
        assert_eq!(mode(Trial { default_settings: true, ..trial("") }), Mode::DetectionOnly);
        let asked = Trial { mode: Some(Mode::DetectionOnly), ..trial("SecRuleEngine On") };
        assert_eq!(mode(asked), Mode::DetectionOnly);
    }

    #[test]
    fn files_are_found_beside_the_one_that_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("list.data", "evil\n");
        write("b.conf", "SecRule ARGS \"@pmFromFile list.data\" \"id:2,phase:1,deny\"");
        write("c.conf", "SecAction \"id:3,phase:1,pass\"");
        let named = |text: &str| Trial {
            rules: vec![(folder.path().join("a.conf").display().to_string(), text.to_owned())],
            ..Trial::default()
        };
        let rules = firewalls().trial(&named("Include b.conf\nInclude [c]*.conf\nInclude c*.conf")).unwrap();
        assert_eq!(rules.rules().len(), 2, "patterns know * only");
        let problems = firewalls().trial(&named("\nInclude missing.conf")).unwrap_err();
        assert!(
            problems[0].to_string().contains("a.conf:2:9: there is no file missing.conf"),
            "{problems:?}"
        );
    }

    #[test]
    fn missing_core_rules_are_a_fault() {
        let problems = Firewalls::default().trial(&Trial { core_rules: true, ..trial("") }).unwrap_err();
        assert!(problems[0].message.contains("--waf-rules"), "{problems:?}");
    }
}
