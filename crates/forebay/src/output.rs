//! Output of commands.

use std::io::{self, Write};

use clap::ValueEnum;

/// Forms of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// One JSON object.
    Json,
}

/// The form in which commands print their results.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Output {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
}

/// The reader of standard output is gone: it has read enough, as `head` does. That is no failure, and ends a
/// command.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl std::error::Error for ReaderGone {}

impl std::fmt::Display for ReaderGone {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("nobody reads standard output any more")
    }
}

/// Writes to standard output, to the end. `println!` would panic where that is a pipe whose reader is gone,
/// or a file on a full disk.
pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(error) => Err(anyhow::Error::from(error).context("cannot write to standard output")),
        Ok(()) => Ok(()),
    }
}

/// Whether signs beyond ASCII can be shown: unless the locale says otherwise, since containers have none and
/// terminals do.
pub(crate) fn shows_unicode() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_ascii_lowercase();
    let charset = locale.split_once('.').map(|(_, charset)| charset.replace('-', ""));
    match charset {
        Some(charset) => charset.starts_with("utf8"),
        None => !["c", "posix"].contains(&locale.as_str()),
    }
}

/// Writes a problem to standard error, and ignores errors.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "forebay: {text}");
}
