//! Manual pages and completions, which the binary itself writes.
//!
//! They are the same for all architectures. Must not be in here: where they are installed.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::target::{Binary, Target};

/// What was written.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    /// Manual pages by their file's name, in its order.
    pub(super) manual: Vec<(String, String)>,
    /// Completions by shell.
    pub(super) completions: Vec<(Shell, String)>,
}

/// A shell that completes commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shell {
    Bash,
    Fish,
    Zsh,
}

impl Shell {
    const ALL: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

    fn name(self) -> &'static str {
        match self {
            Shell::Bash => "bash",
            Shell::Fish => "fish",
            Shell::Zsh => "zsh",
        }
    }

    /// The name that the shell looks for.
    pub(super) fn file(self) -> &'static str {
        match self {
            Shell::Bash => "forebay",
            Shell::Fish => "forebay.fish",
            Shell::Zsh => "_forebay",
        }
    }

    /// Where it looks on Debian.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Shell::Bash => "usr/share/bash-completion/completions",
            Shell::Fish => "usr/share/fish/vendor_completions.d",
            Shell::Zsh => "usr/share/zsh/vendor-completions",
        }
    }
}

impl Pages {
    /// Asks the binary that runs on this machine; says so where there is none, and goes on without.
    pub(super) fn of_any(binaries: &[(Target, Binary)]) -> Result<Pages> {
        let Some((_, binary)) = binaries.iter().find(|(target, _)| target.architecture.is_native()) else {
            eprintln!(
                "warning: left out: manual pages and completions, which a binary for this machine writes"
            );
            return Ok(Pages::default());
        };
        let folder = tempfile::tempdir()?;
        run(Command::new(&binary.path).arg("man").arg(folder.path()))?;
        let mut manual = Vec::new();
        for entry in fs::read_dir(folder.path())? {
            let entry = entry?;
            manual
                .push((entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path())?));
        }
        manual.sort();
        ensure!(!manual.is_empty(), "{} writes no manual pages", binary.path.display());
        let completions = Shell::ALL
            .into_iter()
            .map(|shell| Ok((shell, run(Command::new(&binary.path).args(["completions", shell.name()]))?)))
            .collect::<Result<_>>()?;
        Ok(Pages { manual, completions })
    }
}

fn run(command: &mut Command) -> Result<String> {
    let output =
        command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, said.trim());
    Ok(String::from_utf8(output.stdout)?)
}
