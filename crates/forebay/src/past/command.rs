//! `forebay record`: takes a part of a record along, or records another process.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use record::Record;

use super::options::PartOfRecord;
use super::watch::{self, RecordWatch};
use super::when::{Range, local, local_with_date};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct Records {
    #[command(subcommand)]
    command: RecordCommand,
}

#[derive(Debug, Subcommand)]
enum RecordCommand {
    /// Write a part of a record into one file, for a ticket: the file is judged on any machine with `forebay
    /// doctor --record`. It holds counters and names of objects: no header, no path of a request, no Secret.
    #[command(
        after_help = "Examples:\n  forebay record export --since 02:50 --until 03:20 --output night.record\n  forebay record export --record /var/lib/forebay/record --since -1h --output hour.record"
    )]
    Export(Export),
    /// Record a process that is not Forebay, such as nginx, until this is interrupted: what the doctor's
    /// checks read, and readings of CPU time and connections many times a second. Changes nothing.
    #[command(
        after_help = "Examples:\n  forebay record watch --pid 4711 --output nginx-record\n  forebay doctor --record nginx-record --since -1h"
    )]
    Watch(RecordWatch),
}

#[derive(Args, Debug)]
struct Export {
    #[command(flatten)]
    part: PartOfRecord,
    /// File that is written. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

/// Carries out a command.
pub(crate) fn run(options: Records) -> anyhow::Result<ExitCode> {
    match options.command {
        RecordCommand::Export(options) => export(&options),
        RecordCommand::Watch(options) => watch::run(&options),
    }
}

fn export(options: &Export) -> anyhow::Result<ExitCode> {
    let asked = options.part.asked()?;
    let record = asked.open()?;
    let frames = write(&record, asked.range, &options.output)
        .with_context(|| format!("cannot write {}", options.output.display()))?;
    let written = Record::open(&options.output).context("cannot read what was written")?;
    let Some((first, last)) = written.span().filter(|_| frames > 0) else {
        anyhow::bail!("nothing is recorded of that time: {} is empty", options.output.display());
    };
    let zone = TimeZone::system();
    let (file, events) = (options.output.display(), written.events(0..=u64::MAX).len());
    output::print(format!(
        "{file}: {frames} samples and {events} events, {} to {}; judge it with: forebay doctor --record {file}\n",
        local_with_date(first, &zone),
        local(last, first, &zone),
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes beside the file, and puts it into its place when it is whole.
fn write(record: &Record, range: Range, path: &Path) -> anyhow::Result<u64> {
    ensure!(!path.is_dir(), "it is a folder");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let part = tempfile::NamedTempFile::new_in(folder)?;
    let mut out = BufWriter::new(File::options().write(true).open(part.path())?);
    let frames = record.write_range(range.from_ms..=range.until_ms, &mut out)?;
    out.flush()?;
    part.persist(path)?;
    Ok(frames)
}
