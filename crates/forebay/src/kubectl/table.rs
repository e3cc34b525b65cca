//! Tables and times as kubectl prints them.

use std::fmt::Write;

use control::legible;

/// A table: each column is as wide as its widest cell, and three spaces apart from the next.
pub(super) fn table<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heads.map(|head| head.chars().count());
    let rows: Vec<_> =
        rows.iter().map(|row| row.each_ref().map(|cell| legible::line(cell).into_owned())).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let heads = heads.map(str::to_owned);
    for row in std::iter::once(&heads).chain(&rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            let _ = write!(line, "{cell:width$}   ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A time in the one or two units that matter.
pub(super) fn age(seconds: i64) -> String {
    let minutes = seconds / 60;
    let hours = seconds / 3600;
    let days = seconds / 86_400;
    match seconds {
        ..120 => format!("{}s", seconds.max(0)),
        120..600 => format!("{minutes}m{}s", seconds % 60),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => format!("{hours}h{}m", minutes % 60),
        28_800..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_their_heads() {
        let rows = [["one".to_owned(), "1".to_owned()], ["ä".to_owned(), String::new()]];
        assert_eq!(table(["N", "COUNT"], &rows), "N     COUNT\none   1\nä\n");
        let hostile = [["\u{1b}[2J\n".to_owned(), "1".to_owned()]];
        assert_eq!(table(["N", "COUNT"], &hostile), "N                COUNT\n\\u{1b}[2J\\u{a}   1\n");
    }

    #[test]
    fn an_age_is_short() {
        let ages = [-5, 119, 125, 700, 10_860, 30_000, 200_000].map(age);
        assert_eq!(ages, ["0s", "119s", "2m5s", "11m", "3h1m", "8h", "2d"]);
    }
}
