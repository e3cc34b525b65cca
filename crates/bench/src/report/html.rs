//! Writes the page as HTML that is also well-formed XML.
//!
//! Must not be in here: references to anything outside of the page, scripts, texts that are not escaped.

use std::fmt::Write;

use super::escape::escape;
use super::plot::{self, COLOURS};
use super::{Block, Figure, Note, Notes, Page, Plot, Table, Tone};

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub(super) fn page(page: &Page) -> String {
    let title = escape(&page.title);
    let body: String = page.blocks.iter().map(block).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{title}</title>\n<style>\n{STYLE}{}</style>\n</head>\n\
         <body>\n<main>\n<header>\n<h1>{title}</h1>\n{}</header>\n{}{}{body}</main>\n</body>\n</html>\n",
        colours(),
        paragraph("lead", &page.lead),
        figures(&page.figures),
        facts(&page.facts),
    )
}

/// Style rules that replace the colours in the plots by those of the page, and colour the legends.
fn colours() -> String {
    let variables = |is_dark: bool| {
        COLOURS.iter().enumerate().fold(String::new(), |mut text, (index, (light, dark))| {
            let colour = if is_dark { (*dark).to_owned() } else { plot::hex(*light) };
            let _ = write!(text, "--series-{index}: {colour}; ");
            text
        })
    };
    let mut rules = format!(
        ":root {{ {} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {} }} }}\n",
        variables(false),
        variables(true)
    );
    for (colour, name) in [(plot::INK, "quiet"), (plot::GRID, "grid"), (plot::LINE, "line")] {
        let hex = plot::hex(colour);
        let _ = writeln!(rules, "svg [stroke='{hex}'] {{ stroke: var(--{name}); }}");
        let _ = writeln!(rules, "svg [fill='{hex}'] {{ fill: var(--{name}); }}");
    }
    for (index, (colour, _)) in COLOURS.iter().enumerate() {
        let hex = plot::hex(*colour);
        let _ = writeln!(rules, "svg [stroke='{hex}'] {{ stroke: var(--series-{index}); }}");
        let _ = writeln!(rules, "svg [fill='{hex}'] {{ fill: var(--series-{index}); }}");
        let _ = writeln!(rules, ".key-{index}::before {{ background: var(--series-{index}); }}");
    }
    rules
}

fn block(block: &Block) -> String {
    match block {
        Block::Table(block) => table(block),
        Block::Plot(block) => plot(block),
        Block::Notes(block) => notes(block),
    }
}

fn figures(figures: &[Figure]) -> String {
    let figure = |Figure { name, value, note }: &Figure| {
        let (name, value) = (escape(name), escape(value));
        format!("<li><span class=\"name\">{name}</span><strong>{value}</strong>{}</li>\n", span("note", note))
    };
    list("ul", "figures", figures.iter().map(figure))
}

fn facts(facts: &[(String, String)]) -> String {
    list("dl", "facts", facts.iter().map(|(name, value)| pair(name, value)))
}

fn pair(name: &str, value: &str) -> String {
    format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
}

fn table(table: &Table) -> String {
    let row = |cells: &[String], scope: &str, rest: &str| {
        let mut text = String::from("<tr>");
        for (index, cell) in cells.iter().enumerate() {
            let cell = escape(cell);
            let is_name = index == 0 || rest == "th";
            let (tag, scope) =
                if is_name { ("th", format!(" scope=\"{scope}\"")) } else { ("td", String::new()) };
            let _ = write!(text, "<{tag}{scope}>{cell}</{tag}>");
        }
        text + "</tr>\n"
    };
    let head = row(&table.columns, "col", "th");
    let rows: String = table.rows.iter().map(|cells| row(cells, "row", "td")).collect();
    let heading = heading(&table.title, &table.note);
    format!(
        "<section>\n{heading}<div class=\"wide\"><table>\n<thead>\n{head}</thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n</section>\n"
    )
}

fn plot(plot: &Plot) -> String {
    let heading = if plot.title.is_empty() { String::new() } else { heading(&plot.title, &plot.note) };
    let key = |(index, name): (usize, &String)| format!("<li class=\"key-{index}\">{}</li>\n", escape(name));
    let names = plot.series.iter().map(|series| &series.name).take(Plot::SERIES_MAX);
    // One line needs no legend: the heading names it.
    let keys = if names.len() > 1 { list("ul", "keys", names.enumerate().map(key)) } else { String::new() };
    let axis = span("axis", &plot.y.label);
    format!(
        "<section>\n{heading}<figure>\n<div class=\"top\">{axis}{keys}</div>\n{}</figure>\n</section>\n",
        plot::svg(plot)
    )
}

fn notes(notes: &Notes) -> String {
    let heading = heading(&notes.title, if notes.notes.is_empty() { &notes.none } else { "" });
    format!("<section>\n{heading}{}</section>\n", list("ul", "notes", notes.notes.iter().map(note)))
}

fn note(note: &Note) -> String {
    let tone = match note.tone {
        Tone::Good => "good",
        Tone::Plain => "plain",
        Tone::Warning => "warning",
        Tone::Failure => "failure",
    };
    let evidence = list("dl", "evidence", note.evidence.iter().map(|(name, value)| pair(name, value)));
    let remedy =
        if note.remedy.is_empty() { String::new() } else { format!("<pre>{}</pre>\n", escape(&note.remedy)) };
    format!(
        "<li class=\"{tone}\">{}{}{evidence}{remedy}</li>\n",
        span("mark", &note.mark),
        paragraph("text", &note.text)
    )
}

fn heading(title: &str, note: &str) -> String {
    format!("<h2>{}</h2>\n{}", escape(title), paragraph("note", note))
}

fn paragraph(class: &str, text: &str) -> String {
    element("p", class, text)
}

fn span(class: &str, text: &str) -> String {
    element("span", class, text)
}

/// An element with a text; nothing if the text is empty.
fn element(tag: &str, class: &str, text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("<{tag} class=\"{class}\">{}</{tag}>\n", escape(text))
    }
}

/// A list of elements; nothing if there are none.
fn list(tag: &str, class: &str, items: impl Iterator<Item = String>) -> String {
    let items: String = items.collect();
    if items.is_empty() { items } else { format!("<{tag} class=\"{class}\">\n{items}</{tag}>\n") }
}

#[cfg(test)]
mod tests {
    use crate::report::{Axis, Series, Unit};

    use super::*;

    const HOSTILE: &str = "http://x.test/?a=1&b='\"></title><script src=\"//evil.test\">\u{1}</script>";

    fn hostile() -> Page {
        let text = || HOSTILE.to_owned();
        let lines =
            |count: usize| (0..count).map(|n| Series::line(HOSTILE, vec![(n as f64, 1.0), (2.0, f64::NAN)]));
        let plot = |x: Axis, count| Plot {
            title: text(),
            note: text(),
            x,
            y: Axis::latency(),
            series: lines(count).collect(),
        };
        Page {
            title: text(),
            lead: text(),
            figures: vec![Figure { name: text(), value: text(), note: text() }],
            facts: vec![(text(), text())],
            blocks: vec![
                Block::Notes(Notes {
                    title: text(),
                    none: text(),
                    notes: vec![Note {
                        tone: Tone::Failure,
                        mark: text(),
                        text: text(),
                        evidence: vec![(text(), text())],
                        remedy: text(),
                    }],
                }),
                Block::Table(Table {
                    title: text(),
                    note: text(),
                    columns: vec![text(); 2],
                    rows: vec![vec![text(); 2]],
                }),
                Block::Plot(plot(Axis::linear(HOSTILE, Unit::Count), 9)),
                Block::Plot(plot(Axis::percentile(), 0)),
            ],
        }
    }

    /// The names and attributes of all elements. Panics if the elements are not nested correctly.
    fn elements(html: &str) -> Vec<(String, String)> {
        let mut open: Vec<&str> = Vec::new();
        let mut seen = Vec::new();
        let document = html.strip_prefix("<!DOCTYPE html>\n").expect("it is HTML 5");
        for part in document.split('<').skip(1) {
            let (tag, text) = part.split_once('>').expect("a tag ends");
            assert!(!text.contains('>'), "{text}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
                continue;
            }
            let (name, attributes) = tag.trim_end_matches('/').split_once(' ').unwrap_or((tag, ""));
            assert_eq!(attributes.matches('"').count() % 2, 0, "{attributes}");
            if !tag.ends_with('/') {
                open.push(name);
            }
            seen.push((name.to_owned(), attributes.to_owned()));
        }
        assert_eq!(open, [""; 0]);
        seen
    }

    #[test]
    fn a_hostile_url_is_text() {
        let html = hostile().html();
        let elements = elements(&html);
        assert!(elements.iter().all(|(name, _)| name != "script" && name != "link" && name != "a"));
        assert_eq!(elements.iter().filter(|(name, _)| name == "title").count(), 1);
        assert!(html.contains("&lt;script src=&quot;//evil.test&quot;&gt;\u{fffd}&lt;/script&gt;"));
        assert!(!html.contains('\u{1}'));
    }

    #[test]
    fn nothing_outside_is_referred_to() {
        for (name, attributes) in elements(&hostile().html()) {
            // Every second part is outside of quotes and so holds names of attributes.
            let names: Vec<_> = attributes.split('"').step_by(2).collect();
            for refers in ["src", "href", "data", "action", "style"] {
                assert!(!names.iter().any(|names| names.contains(refers)), "{name} {attributes}");
            }
            assert!(!names.iter().any(|names| names.trim_start().starts_with("on")), "{name} {attributes}");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }

    #[test]
    fn a_plot_has_no_more_lines_than_colours() {
        let html = hostile().html();
        assert!(html.contains("class=\"key-5\"") && !html.contains("class=\"key-6\""));
        assert!(!html.contains("NaN"));
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let html = Page { title: "t".into(), ..Page::default() }.html();
        for class in ["lead", "figures", "facts"] {
            assert!(!html.contains(&format!("class=\"{class}\"")), "{class}");
        }
    }
}
