//! Parses metrics in Prometheus' text format, version 0.0.4.

use std::borrow::Cow;

/// One line: the metric's name, its labels and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series<'a> {
    /// Name of the series.
    pub(crate) name: &'a str,
    /// The text between the braces, not parsed.
    pub(crate) labels: &'a str,
    /// Value of the sample.
    pub(crate) value: f64,
}

/// The series of one metric. Other lines, of which there may be very many, are not parsed.
pub(crate) fn named<'a>(text: &'a str, name: &str) -> impl Iterator<Item = Series<'a>> {
    text.lines().filter(move |line| has_name(line, name)).filter_map(parse)
}

/// All series of a page.
pub(crate) fn all(text: &str) -> impl Iterator<Item = Series<'_>> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(parse)
}

/// The lines of a page that are series of these metrics.
pub(crate) fn only(text: &str, names: &[&str]) -> String {
    text.split_inclusive('\n').filter(|line| names.contains(&name_of(line.trim_end()))).collect()
}

/// Whether the name at the begin of a line is this one. Pages of thousands of lines are gone through for each
/// of many names.
fn has_name(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
}

/// The name at the begin of a line, up to the labels or the value.
fn name_of(line: &str) -> &str {
    let end = line.bytes().position(|byte| matches!(byte, b'{' | b' '));
    &line[..end.unwrap_or(line.len())]
}

/// The sum of all series of a metric; `None` if there is none.
pub(crate) fn sum(text: &str, name: &str) -> Option<f64> {
    sum_where(text, name, |_| true)
}

/// The sum of the series that `choose` selects; `None` if there is none.
pub(crate) fn sum_where(text: &str, name: &str, choose: impl Fn(&Series<'_>) -> bool) -> Option<f64> {
    let values = named(text, name).filter(choose);
    values.map(|series| series.value).reduce(|sum, value| sum + value)
}

impl Series<'_> {
    /// The value of a label without escapes; `None` if the series does not have the label.
    pub(crate) fn label(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut rest = self.labels;
        loop {
            let (known, after) = rest.split_once("=\"")?;
            let (value, after) = after.split_at_checked(quoted_bytes(after)?)?;
            if known.trim_matches([',', ' ']) == name {
                return Some(unescaped(value));
            }
            rest = after.strip_prefix('"')?;
        }
    }
}

fn parse(line: &str) -> Option<Series<'_>> {
    let (name, labels, rest) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, rest) = rest.split_at_checked(labels_bytes(rest)?)?;
            (name, labels, rest.strip_prefix('}')?)
        }
        None => line.split_once(' ').map(|(name, rest)| (name, "", rest))?,
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Series { name, labels, value })
}

/// Number of bytes before the brace that ends the labels: a brace within a value does not count.
fn labels_bytes(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        match rest.find(['"', '}'])? {
            found if rest.as_bytes()[found] == b'}' => return Some(at + found),
            quote => at += quote + 1 + quoted_bytes(&rest[quote + 1..])? + 1,
        }
    }
}

/// Number of bytes before the quote that ends a value: an escaped quote does not count.
fn quoted_bytes(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

/// "`label_value` can be any sequence of UTF-8 characters, but the backslash, double-quote, and line feed
/// characters have to be escaped as `\\`, `\"`, and `\n`, respectively."
fn unescaped(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => text.extend(chars.next().map(|char| if char == 'n' { '\n' } else { char })),
            _ => text.push(char),
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_and_added_up() {
        let text = "# HELP a b\n# TYPE a counter\na{x=\"1\",y=\"2, 3\"} 4\na{x=\"5\"} 6 1700000000\nb 0.5\nno series\n";
        assert_eq!((sum(text, "a"), sum(text, "b"), sum(text, "c")), (Some(10.0), Some(0.5), None));
        let first = named(text, "a").next().expect("there is one");
        assert_eq!((first.label("y").as_deref(), first.label("z")), (Some("2, 3"), None));
        assert_eq!(only(text, &["b", "c"]), "b 0.5\n");
        assert_eq!(only(text, &["a"]).lines().count(), 2);
        assert_eq!(sum_where(text, "a", |one| one.label("x").as_deref() == Some("5")), Some(6.0));
    }

    #[test]
    fn values_end_at_the_quote_that_is_not_escaped() {
        let text = r#"a{path="/x\\",host="\"q\",\"} 7",kind="\n"} 3"#;
        let found: Vec<_> = named(text, "a").collect();
        assert_eq!(found.len(), 1, "{text}");
        let label = |name| found[0].label(name).map(Cow::into_owned);
        assert_eq!((label("path").as_deref(), label("kind").as_deref()), (Some("/x\\"), Some("\n")));
        assert_eq!((label("host").as_deref(), label("q")), (Some("\"q\",\"} 7"), None));
        assert_eq!(sum(text, "a"), Some(3.0));
    }

    #[test]
    fn what_does_not_end_is_no_series() {
        for text in ["a{", "a{x=\"1\" 2", "a{x=\"1\\\"} 2", "a{x=\"1} 2", "a{} ", "{"] {
            assert_eq!(named(text, name_of(text)).count(), 0, "{text}");
        }
    }
}
