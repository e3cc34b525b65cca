//! `forebay top`: the overview of the console in a terminal, of a Forebay here or elsewhere;
//! `kubectl forebay top` is the same over a forwarded port.
//!
//! `told` has the answers, `link` the queries. `view` is the state of the selection, and `lines` draws it,
//! purely, with `figures`, `table`, `unit` and `text`. `screen` has the terminal. Must not be in here:
//! anything that changes a Forebay, and foreign characters that a terminal would obey.

mod answers;
mod figures;
mod lines;
mod link;
mod paint;
mod screen;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod unit;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;

use crate::ask::Address;
use crate::cli::{Top, Watching};
use crate::doctor::show::has_colour;
use crate::output;
pub(crate) use link::{Link, Source};
use link::{Reader, Server};
use text::Signs;
use view::View;

/// Columns of printed output where the terminal's width is unknown.
const COLUMNS: usize = 160;

/// Carries out `forebay top`.
pub(crate) fn run(options: &Top) -> anyhow::Result<ExitCode> {
    let address = Address::parse(&options.admin)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(watch(Server(address), &options.watching))
}

/// Shows the overview of a Forebay, once or until the user quits.
///
/// # Errors
///
/// The first query fails. Later failures are shown in the view, and the query is repeated.
pub(crate) async fn watch(source: impl Source, watching: &Watching) -> anyhow::Result<ExitCode> {
    let signs = if output::shows_unicode() { Signs::Unicode } else { Signs::Ascii };
    let mut reader = Reader::new(source);
    // The text of a failure may come from a foreign server.
    let told =
        reader.read().await.map_err(|error| anyhow::anyhow!(signs.clean(&crate::in_one_line(&error))))?;
    let mut view = View::new(&told.whose, signs, has_colour());
    view.takes(told.state, told.traffic);
    if watching.once || !std::io::stdout().is_terminal() || is_dumb() {
        output::print(plain(&view, columns()))?;
    } else {
        screen::run(reader, view, watching.interval).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the terminal obeys nothing.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Columns of printed output.
fn columns() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let has_terminal = std::io::stdout().is_terminal();
    let measured =
        || crossterm::terminal::size().ok().filter(|_| has_terminal).map(|(columns, _)| columns.into());
    said.or_else(measured).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

/// Everything as text, with all rows.
fn plain(view: &View, columns: usize) -> String {
    let drawn = lines::draw(view, columns, usize::MAX);
    let line = |line: &ratatui::text::Line<'_>| format!("{}\n", line.to_string().trim_end());
    drawn.lines.iter().map(line).collect()
}
