//! Metrics as Prometheus has them scraped: its text format, version 0.0.4.

/// One line: the metric's name, its labels and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<'a> {
    /// The name.
    pub name: &'a str,
    /// What is between the braces, as it is written.
    pub labels: &'a str,
    /// The value.
    pub value: f64,
}

/// The series of a page. Lines that are none are left out.
pub fn series(text: &str) -> impl Iterator<Item = Series<'_>> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(parse)
}

/// The sum of all series of a metric; `None` where there is none.
pub fn sum(text: &str, name: &str) -> Option<f64> {
    sum_where(text, name, |_| true)
}

/// The same of those series alone that `choose` takes.
pub fn sum_where(text: &str, name: &str, choose: impl Fn(&Series<'_>) -> bool) -> Option<f64> {
    let values = series(text).filter(|series| series.name == name && choose(series));
    values.map(|series| series.value).reduce(|sum, value| sum + value)
}

impl Series<'_> {
    /// A label's value, as it is written.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.split("\",").find_map(|label| {
            let (known, value) = label.split_once("=\"")?;
            (known.trim() == name).then(|| value.trim_end_matches('"'))
        })
    }
}

fn parse(line: &str) -> Option<Series<'_>> {
    let (name, labels, rest) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, rest) = rest.rsplit_once('}')?;
            (name, labels, rest)
        }
        None => line.split_once(' ').map(|(name, rest)| (name, "", rest))?,
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Series { name, labels, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_and_added_up() {
        let text = "# HELP a b\n# TYPE a counter\na{x=\"1\",y=\"2, 3\"} 4\na{x=\"5\"} 6 1700000000\nb 0.5\nno series\n";
        assert_eq!((sum(text, "a"), sum(text, "b"), sum(text, "c")), (Some(10.0), Some(0.5), None));
        let first = series(text).next().expect("there is one");
        assert_eq!((first.label("y"), first.label("z")), (Some("2, 3"), None));
        assert_eq!(sum_where(text, "a", |one| one.label("x") == Some("5")), Some(6.0));
    }
}
