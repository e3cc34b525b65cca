//! Draws the view as the lines of a terminal of a given size. If there is not enough room, the parts with the
//! lowest rank are left out.

use ratatui::text::{Line, Span};

use super::figures::{Figure, concerns, figures};
use super::paint::Tone;
use super::table::{Layout, Table};
use super::text::{left, width};
use super::unit::{number, seconds, span};
use super::view::View;

/// Columns of a figure's label.
const LABEL: usize = 9;

/// Columns of a figure without its note, with its label.
const FIGURE: usize = 20;

/// Columns of a figure with its note.
const FIGURE_WITH_NOTE: usize = 26;

/// Columns and rows from which there are charts.
const CHARTS_FROM: (usize, usize) = (50, 18);

/// Most concerns that are shown.
const CONCERNS_MAX: usize = 4;

/// The keys, by priority where there is little room.
const KEYS: [(&str, &str); 6] =
    [("q", "quit"), ("?", "help"), ("/", "filter"), ("s", "sort"), ("Tab", "table"), ("Up Down", "scroll")];

/// The help that `?` shows.
const HELP: [&str; 9] = [
    "Tab, 1, 2, 3     routes, hosts, clusters",
    "s                sort by the next column",
    "/                filter: all words have to be in a row",
    "Esc              no filter",
    "Up, Down, j, k   a row further",
    "PgUp, PgDn       a page further",
    "Home, End, g, G  to the first, to the last",
    "q, Ctrl-C        quit",
    "There are rows for what had requests within the last seconds.",
];

/// The drawn screen.
pub(super) struct Drawn {
    pub(super) lines: Vec<Line<'static>>,
    /// Rows of the table that are seen.
    pub(super) page: usize,
}

/// The lines for a terminal of this size, or for `usize::MAX` rows: all that there are, without the keys.
pub(super) fn draw(view: &View, columns: usize, rows: usize) -> Drawn {
    let is_endless = rows == usize::MAX;
    let footer = usize::from(!is_endless && rows >= 4);
    let mut lines = head(view, columns, rows);
    // A row of the table and its head are seen in any case where there are rows for more than the title.
    let least = if rows >= 4 { 2 } else { 0 };
    lines.truncate(rows.saturating_sub(footer + least).max(1));
    let room = rows.saturating_sub(lines.len() + footer);
    let page = if view.has_help && !is_endless {
        lines.extend(HELP.iter().take(room).map(|line| Line::raw(view.signs.cut(line, columns))));
        room.saturating_sub(1)
    } else {
        table(view, columns, room, &mut lines)
    };
    if footer > 0 {
        lines.resize(rows - footer, Line::default());
        lines.push(keys(view, columns));
    }
    lines.truncate(rows);
    Drawn { lines, page }
}

/// The lines above the table.
fn head(view: &View, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let mut lines = vec![title(view, columns)];
    lines.extend(trouble(view, columns));
    if let Some(state) = &view.state {
        let most = if rows == usize::MAX { usize::MAX } else { (rows.saturating_sub(3) / 3).max(1) };
        let all = figures(state, view.signs);
        lines.extend(grid(&all, columns, view.has_colour).into_iter().take(most));
        if columns >= CHARTS_FROM.0 && rows >= CHARTS_FROM.1 && rows != usize::MAX {
            lines.extend(charts(view, columns));
        }
        let most = match rows {
            usize::MAX => usize::MAX,
            16.. => CONCERNS_MAX,
            _ => usize::from(rows >= 8),
        };
        for concern in concerns(state, view.signs).into_iter().take(most) {
            let text = format!("{} {}", concern.tone.sign(), concern.text);
            let style = concern.tone.style(view.has_colour);
            lines.push(Line::styled(view.signs.cut(&text, columns), style));
        }
    }
    if rows >= 10 && rows != usize::MAX {
        lines.push(tables(view, columns));
    }
    lines
}

fn title(view: &View, columns: usize) -> Line<'static> {
    let signs = view.signs;
    let strong = Tone::Strong.style(view.has_colour);
    let Some(state) = &view.state else {
        return Line::styled(signs.cut(&format!("forebay top  {}", view.whose), columns), strong);
    };
    let name = signs.cut(&signs.clean(&state.name), columns);
    let workers = state.process.workers.map(|workers| super::unit::counted(workers, "worker"));
    let rest = [
        Some(format!("up {}", span(state.uptime_seconds))),
        Some(format!("Forebay {}", signs.clean(&state.version))),
        workers,
        Some(view.whose.clone()),
    ];
    let mut text = String::new();
    for part in rest.into_iter().flatten() {
        if width(&name) + width(&text) + 2 + width(&part) > columns {
            break;
        }
        text = format!("{text}  {part}");
    }
    Line::from(vec![Span::styled(name, strong), Span::raw(text)])
}

/// Why there is nothing new, and since when.
fn trouble(view: &View, columns: usize) -> Option<Line<'static>> {
    let trouble = view.trouble.as_ref()?;
    let since = span(trouble.silence.as_secs_f64());
    let text = format!("no answer for {since}: {}", view.signs.clean(&trouble.text));
    Some(Line::styled(view.signs.cut(&text, columns), Tone::Bad.style(view.has_colour)))
}

/// Figures side by side, as many as there is room for.
fn grid(all: &[Figure], columns: usize, has_colour: bool) -> Vec<Line<'static>> {
    let wanted = if columns < 3 * FIGURE { FIGURE } else { FIGURE_WITH_NOTE };
    let beside = (columns / wanted).max(1);
    let each = columns / beside;
    let line = |figures: &[Figure]| {
        let spans = figures.iter().flat_map(|figure| spans(figure, each, has_colour));
        Line::from(spans.collect::<Vec<_>>())
    };
    all.chunks(beside).map(line).collect()
}

/// A figure in a width. Its value is never cut: where there is no room for the label, that is cut, and then
/// all of it is left out.
fn spans(figure: &Figure, room: usize, has_colour: bool) -> [Span<'static>; 3] {
    let value = &figure.value;
    let needed = width(value) + 1;
    let label = if needed > room { String::new() } else { left(figure.label, LABEL.min(room - needed)) };
    let label: String = label.chars().take((room + 1).saturating_sub(needed)).collect();
    let is_shown = width(value) <= room;
    let value = if is_shown { value.clone() } else { String::new() };
    let tone = if figure.tone == Tone::Plain { Tone::Strong } else { figure.tone };
    let rest = room.saturating_sub(width(&label) + width(&value));
    // A space before it, and another one before the next figure.
    let has_note = !figure.note.is_empty() && width(&figure.note) + 2 <= rest;
    let note = if has_note { format!(" {}", figure.note) } else { String::new() };
    [
        Span::styled(label, Tone::Label.style(has_colour)),
        Span::styled(value, tone.style(has_colour)),
        Span::raw(left(&note, rest)),
    ]
}

/// How requests and times went since it was begun to look.
fn charts(view: &View, columns: usize) -> [Line<'static>; 2] {
    let signs = view.signs;
    let chart = |label: &str, values: Vec<Option<f64>>, told: &dyn Fn(f64) -> String| {
        let greatest = values.iter().flatten().copied().fold(0.0, f64::max);
        let end = format!("  max {}", told(greatest));
        let room = columns.saturating_sub(LABEL + width(&end));
        let drawn = spark(&values[values.len().saturating_sub(room)..], greatest, signs.levels());
        Line::from(vec![
            Span::styled(left(label, LABEL), Tone::Label.style(view.has_colour)),
            Span::raw(left(&drawn, room)),
            Span::raw(end),
        ])
    };
    let of = |value: fn(&super::view::Point) -> Option<f64>| view.history.iter().map(value).collect();
    [
        chart("requests", of(|point| point.requests), &|value| format!("{}/s", number(value))),
        chart("p99", of(|point| point.p99_seconds), &|value| seconds(value, signs)),
    ]
}

/// A character for each value. Values above zero are always visible.
fn spark(values: &[Option<f64>], greatest: f64, levels: [char; 9]) -> String {
    let top = (levels.len() - 1) as f64;
    let level = |value: &Option<f64>| match value {
        Some(value) if *value > 0.0 && greatest > 0.0 => {
            #[expect(clippy::cast_sign_loss, reason = "it is from 1 to 8")]
            let at = (value / greatest * top).ceil().clamp(1.0, top) as usize;
            levels[at]
        }
        _ => levels[0],
    };
    values.iter().map(level).collect()
}

/// The line that names the selected table and its filter.
fn tables(view: &View, columns: usize) -> Line<'static> {
    let mut spans = Vec::new();
    let mut used = 0;
    for (at, table) in Table::ALL.into_iter().enumerate() {
        let text = format!(" {} {} ", at + 1, table.name());
        used += width(&text);
        if used > columns {
            return Line::from(spans);
        }
        let tone = if table == view.table { Tone::Bar } else { Tone::Plain };
        spans.push(Span::styled(text, tone.style(view.has_colour)));
    }
    if !view.filter.is_empty() {
        let text = format!("  with {}", view.signs.clean(&view.filter));
        spans.push(Span::raw(view.signs.cut(&text, columns - used)));
    }
    Line::from(spans)
}

/// The table, and how many of its rows are seen.
fn table(view: &View, columns: usize, room: usize, lines: &mut Vec<Line<'static>>) -> usize {
    if room == 0 || view.state.is_none() {
        return 0;
    }
    let rows = view.rows();
    let sorted_by = view.sorted_by();
    let signs = view.signs;
    let page = room - 1;
    let first = view.first.min(rows.len().saturating_sub(page));
    let seen = &rows[first..rows.len().min(first.saturating_add(page))];
    let layout = Layout::new(view.table, seen, sorted_by, columns, signs);
    let titles = layout.head(view.table, seen, sorted_by, signs);
    lines.push(Line::styled(left(&titles, columns), Tone::Bar.style(view.has_colour)));
    lines.extend(seen.iter().map(|row| Line::raw(layout.row(row, signs))));
    if rows.is_empty() && page > 0 {
        lines.push(Line::raw(signs.cut(&why_empty(view), columns)));
    }
    page
}

fn why_empty(view: &View) -> String {
    match view.traffic.window_seconds {
        _ if !view.filter.is_empty() => {
            "nothing that had requests has all these words; Esc shows all".to_owned()
        }
        Some(seconds) => format!("no requests in the last {seconds:.0} s"),
        None => "the first measurement takes a second".to_owned(),
    }
}

/// The keys, or the filter that is written.
fn keys(view: &View, columns: usize) -> Line<'static> {
    if view.is_typing {
        // The end of a text that is being written is shown.
        let text = format!("/{}_", view.signs.clean(&view.filter));
        let mut shown: String = text;
        while width(&shown) > columns && !shown.is_empty() {
            shown.remove(0);
        }
        return Line::styled(shown, Tone::Strong.style(view.has_colour));
    }
    let mut spans = Vec::new();
    let mut used = 0;
    for (key, meaning) in KEYS {
        let gap = if used == 0 { "" } else { "  " };
        let text = format!(" {meaning}");
        used += width(gap) + width(key) + width(&text);
        if used > columns {
            break;
        }
        spans.push(Span::raw(gap));
        spans.push(Span::styled(key, Tone::Strong.style(view.has_colour)));
        spans.push(Span::raw(text));
    }
    Line::from(spans)
}
