//! `forebay completions` and `forebay man`: completions and manual pages, made from the definition of the
//! command line.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::{self, Cli};
use crate::output::print;
use crate::version;

/// Name under which the completions are called for.
const NAME: &str = "forebay";

pub(crate) fn completions(options: &cli::Completions) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), NAME, &mut script);
    print(script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(options: &cli::Man) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command();
    // Gives the commands below it their full names.
    command.build();
    match &options.folder {
        None => print(page(&command, NAME)?)?,
        Some(folder) => {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            write_pages(&command, NAME, folder)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The pages of a command and of those below it, as git names them: forebay-cache-purge(1).
fn write_pages(command: &Command, name: &str, folder: &Path) -> anyhow::Result<()> {
    let file = folder.join(format!("{name}.1"));
    fs::write(&file, page(command, name)?).with_context(|| format!("cannot write {}", file.display()))?;
    let below = command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set());
    for below in below {
        write_pages(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    let titled = command.clone().version(version::RELEASE);
    Man::new(titled).title(name).render(&mut page)?;
    Ok(page)
}
