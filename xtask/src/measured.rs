//! What is measured under a name and has to reach goals: which of it is asked for, and how it is told.
//!
//! Must not be in here: how anything is measured.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use testkit::markdown::wrapped;

use crate::interrupt::Interrupt;
use crate::peers::page::{self, Block};
use crate::peers::{PAGE, report};

/// Something that is measured.
pub(crate) trait Measured {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// What happens, in a sentence.
    fn what(&self) -> &'static str;
}

/// What was to be reached, and whether it was.
pub(crate) type Goals = Vec<(String, bool)>;

/// What came of a measurement.
pub(crate) struct Section {
    pub(crate) table: Vec<Vec<String>>,
    pub(crate) goals: Goals,
    /// Where the figures come from.
    pub(crate) source: String,
}

/// Those with these names; all where there are none.
pub(crate) fn wanted<M: Measured>(all: &'static [M], only: &[String]) -> Result<Vec<&'static M>> {
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|one| one.name() == **name)) {
        let names: Vec<_> = all.iter().map(Measured::name).collect();
        bail!("there is no {unknown}; there are: {}", names.join(", "));
    }
    let is_wanted = |one: &&M| only.is_empty() || only.iter().any(|name| name == one.name());
    Ok(all.iter().filter(is_wanted).collect())
}

/// Measures one after the other and prints what comes of it; `write` puts it into the page too. One that fails does not keep the others
/// from being measured. A goal that is not met is printed, not an error: machines differ.
pub(crate) fn run<M: Measured>(
    all: &[&M],
    interrupt: &Interrupt,
    write: Option<&Block>,
    mut measure: impl FnMut(&M) -> Result<Section>,
) -> Result<ExitCode> {
    let mut failed = Vec::new();
    for one in all {
        eprintln!("{}: {}", one.name(), one.what());
        match measure(one) {
            Ok(section) => {
                let text = section.text(*one);
                println!("{text}");
                if let Some(block) = write {
                    block.write(Path::new(PAGE), one.name(), &text)?;
                }
            }
            Err(error) => {
                interrupt.check()?;
                eprintln!("error: {}: {error:#}", one.name());
                failed.push(one.name());
            }
        }
    }
    if failed.is_empty() { Ok(ExitCode::SUCCESS) } else { bail!("not measured: {}", failed.join(", ")) }
}

impl Section {
    pub(crate) fn text(&self, of: &impl Measured) -> String {
        let mut text = format!("{}{}\n\n{}\n\n", page::WORKLOAD, of.name(), wrapped(of.what()));
        text.push_str(&report::table(&self.table));
        text.push('\n');
        for (what, met) in &self.goals {
            let goal = format!("- {what}: {}", if *met { "met" } else { "NOT MET" });
            let _ = writeln!(text, "{}", wrapped(&goal));
        }
        let _ = writeln!(text, "- {}", self.source);
        text
    }
}
