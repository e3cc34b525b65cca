//! Completions for the shell behind `kubectl forebay`: kubectl runs the program under the name
//! `kubectl_complete-forebay` for them.
//!
//! As kubectl requires, each line is a word and its meaning, and the last one says that files are not
//! completed (cobra's `ShellCompDirectiveNoFileComp`).

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

use crate::cli::Plugin;

/// The name by which kubectl finds what completes a plugin's command line.
const COMPLETER: &str = "kubectl_complete-forebay";

/// The directive by which the shell completes no files.
const NO_FILES: &str = ":4";

/// Whether the program runs under its name as what completes.
pub(crate) fn is_completer(program: &OsStr) -> bool {
    Path::new(program).file_stem().is_some_and(|name| name == COMPLETER)
}

/// Completions for the last word.
pub(crate) fn offers(words: &[String]) -> String {
    let mut plugin = Plugin::command();
    plugin.build();
    let (begun, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let chosen = before.iter().find_map(|word| plugin.find_subcommand(word));
    let mut text = String::new();
    let mut offer = |word: &str, meaning: String| {
        if word.starts_with(begun) {
            let _ = writeln!(text, "{word}\t{}", meaning.lines().next().unwrap_or_default());
        }
    };
    if begun.starts_with('-') {
        let flags = chosen.unwrap_or(&plugin).get_arguments().filter(|flag| !flag.is_hide_set());
        for flag in flags {
            if let Some(long) = flag.get_long() {
                offer(&format!("--{long}"), help_of(flag));
            }
        }
    } else if chosen.is_none() {
        plugin.get_subcommands().for_each(|command| offer(command.get_name(), about(command)));
    }
    text + NO_FILES + "\n"
}

fn help_of(flag: &Arg) -> String {
    flag.get_help().map(ToString::to_string).unwrap_or_default()
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(line: &[&str]) -> Vec<String> {
        let words: Vec<_> = line.iter().map(|&word| word.to_owned()).collect();
        let offers = offers(&words);
        let (offers, end) = offers.trim_end().rsplit_once('\n').unwrap_or(("", offers.trim_end()));
        assert_eq!(end, NO_FILES);
        offers.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn commands_are_offered_and_then_their_flags() {
        assert_eq!(offered(&["ex"]), ["explain"]);
        assert!(offered(&[""]).contains(&"logs".to_owned()));
        assert_eq!(offered(&["-n", "shop", "lo"]), ["logs"]);
        assert_eq!(offered(&["logs", "--ho"]), ["--host"]);
        assert!(offered(&["logs", "--n"]).contains(&"--namespace".to_owned()));
        assert_eq!(offered(&["logs", ""]), Vec::<String>::new());
        assert!(offered(&[]).contains(&"status".to_owned()));
    }

    #[test]
    fn it_is_known_by_its_name() {
        assert!(is_completer(OsStr::new("/usr/bin/kubectl_complete-forebay")));
        assert!(!is_completer(OsStr::new("kubectl-forebay")));
    }
}
