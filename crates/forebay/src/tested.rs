//! Every name that a user can give has a test with that name in its data: annotations, keys of the
//! `ConfigMap`, flags.
//!
//! Data are the golden cases of `control`, the tests of the command line, and those that run the binary, in
//! files or in a cluster. Comments do not count, and neither do tests that iterate over a table: they contain
//! no names.

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use control::translate::configmap::KEYS;
use control::translate::ingress::annotations::ANNOTATIONS;

use crate::cli::Cli;
use crate::ignored::IGNORED;

/// Where the tests are, within the workspace.
const FOLDERS: [&str; 5] = [
    "crates/control/tests/cases",
    "crates/forebay/src/cli",
    "crates/forebay/tests/e2e",
    "testing/adversary/tests",
    "testing/cluster/tests",
];

/// The mark of unsupported entries in the tables.
const NOT_YET: &str = "not yet; reported";

#[test]
fn every_name_is_in_the_data_of_a_test() {
    let data = Data::read();
    let annotations =
        ANNOTATIONS.iter().filter(|one| one.support() != NOT_YET && !data.has_annotation(one.name));
    let keys = KEYS.iter().filter(|one| one.support() != NOT_YET && !data.has_key(one.name));
    let mut command = Cli::command();
    command.build();
    let serve = command.find_subcommand("serve").expect("a subcommand");
    let own = serve.get_arguments().filter_map(|argument| argument.get_long());
    let is_unnamed = |flag: &&str| *flag != "help" && !data.has_flag(flag);
    let flags: Vec<_> = own.chain(IGNORED.iter().map(|flag| flag.name)).filter(is_unnamed).collect();
    let missing: Vec<_> = annotations
        .map(|one| format!("annotation {}", one.name))
        .chain(keys.map(|one| format!("key {}", one.name)))
        .chain(flags.iter().map(|flag| format!("flag --{flag}")))
        .collect();
    assert!(missing.is_empty(), "no test names: {}", missing.join(", "));
}

/// The contents of the tests, by line and without comments.
struct Data {
    lines: Vec<String>,
}

impl Data {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut lines = Vec::new();
        let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder of tests") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = fs::read_to_string(&path).expect("a text");
                lines.extend(text.lines().filter(|line| !is_comment(line)).map(str::to_owned));
            }
        }
        Self { lines }
    }

    /// As an annotation of YAML, or as a text of its own that a test makes one of.
    fn has_annotation(&self, name: &str) -> bool {
        let (in_yaml, alone) = (format!("nginx.ingress.kubernetes.io/{name}:"), format!("\"{name}\""));
        self.lines.iter().any(|line| line.contains(&in_yaml) || line.contains(&alone))
    }

    /// As a key of YAML, or as a text of its own that a test makes one of.
    fn has_key(&self, name: &str) -> bool {
        let alone = format!("\"{name}\"");
        let is_key = |line: &str| {
            let after = |at: usize| line[at + name.len()..].starts_with(':');
            let before =
                |at: usize| line[..at].chars().next_back().is_none_or(|before| " {,".contains(before));
            line.match_indices(name).any(|(at, _)| before(at) && after(at))
        };
        self.lines.iter().any(|line| line.contains(&alone) || is_key(line))
    }

    /// As an argument, or as an option of a golden case.
    fn has_flag(&self, name: &str) -> bool {
        let (argument, option) = (format!("--{name}"), format!("# option {name} ="));
        let is_argument = |line: &str| {
            let is_end =
                |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-');
            line.match_indices(&argument).any(|(at, _)| is_end(&line[at + argument.len()..]))
        };
        self.lines.iter().any(|line| line.starts_with(&option) || is_argument(line))
    }
}

/// Whether nothing on a line is data. The options of a golden case stand in comments of YAML.
fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//")
        || line.starts_with('#') && !line.starts_with("# option ") && !line.starts_with("#[")
}

mod tests {
    use super::*;

    fn data(lines: &[&str]) -> Data {
        let lines = lines.iter().filter(|line| !is_comment(line)).map(ToString::to_string).collect();
        Data { lines }
    }

    #[test]
    fn a_name_counts_where_it_is_data() {
        for (line, is_key, is_annotation) in [
            ("  limit-rps: \"5\"", true, false),
            ("data: {limit-rps: \"5\"}", true, false),
            ("    nginx.ingress.kubernetes.io/limit-rps: \"5\"", false, true),
            (".annotation(\"limit-rps\", \"5\")", true, true),
            ("  no-limit-rps: \"5\"", false, false),
            ("  limit-rps-burst: \"5\"", false, false),
            ("  # limit-rps: \"5\"", false, false),
            ("    // \"limit-rps\"", false, false),
        ] {
            let data = data(&[line]);
            assert_eq!(
                (data.has_key("limit-rps"), data.has_annotation("limit-rps")),
                (is_key, is_annotation),
                "{line}"
            );
        }
        let data = data(&["# option zone = a", ".arguments([\"--workers=1\"])", "// --watch"]);
        let named = ["zone", "workers", "work", "watch"].map(|flag| data.has_flag(flag));
        assert_eq!(named, [true, true, false, false]);
    }
}
