//! Rows of figures that are printed as they come.
//!
//! Must not be in here: the figures.

use std::fmt::Write as _;

use crate::output::print;

/// Columns, of which the first has names.
pub(super) struct Table {
    name_width: usize,
    columns: &'static [&'static str],
}

impl Table {
    /// Prints the headings. No name may be longer than `name_width`.
    pub(super) fn begin(name_width: usize, columns: &'static [&'static str]) -> anyhow::Result<Table> {
        let table = Table { name_width, columns };
        table.row("", &columns.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        Ok(table)
    }

    /// Prints a row.
    pub(super) fn row(&self, name: &str, cells: &[String]) -> anyhow::Result<()> {
        let mut line = format!("  {name:<width$}", width = self.name_width);
        for (cell, column) in cells.iter().zip(self.columns) {
            let _ = write!(line, "  {cell:>width$}", width = column.len());
        }
        print(line.trim_end().to_owned() + "\n")
    }
}
