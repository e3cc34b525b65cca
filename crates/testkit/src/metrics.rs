//! The samples of `/metrics`.

/// The samples of one scrape.
#[derive(Clone, Debug)]
pub struct Metrics {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: String,
}

impl Metrics {
    /// Reads a page.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self { samples: lines.map(Sample::parse).collect() }
    }

    /// The sum of a metric's samples with these labels, which must be whole numbers. Zero if there are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let samples = self.samples.iter().filter(|sample| sample.is(name, labels));
        samples.map(|sample| sample.value.parse::<u64>().expect("a whole number")).sum()
    }

    /// The number of a metric's samples that have these labels.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> usize {
        self.samples.iter().filter(|sample| sample.is(name, labels)).count()
    }

    /// The value of a metric's only sample.
    pub fn value(&self, name: &str) -> f64 {
        let found: Vec<&Sample> = self.samples.iter().filter(|sample| sample.is(name, &[])).collect();
        let [only] = found[..] else { panic!("{} samples of {name}", found.len()) };
        only.value.parse().expect("a number")
    }

    /// The labels of a metric's only sample that has these.
    pub fn labels(&self, name: &str, labels: &[(&str, &str)]) -> Vec<(&str, &str)> {
        let found: Vec<&Sample> = self.samples.iter().filter(|sample| sample.is(name, labels)).collect();
        let [only] = found[..] else { panic!("{} samples of {name}{labels:?}", found.len()) };
        only.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

impl Sample {
    /// `name{label="value",...} number`. No label value in tests holds a comma or a quote.
    fn parse(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
        let label = |text: &str| {
            let (name, value) = text.split_once('=').expect("a label");
            (name.to_owned(), value.trim_matches('"').to_owned())
        };
        Self { name: name.to_owned(), labels: labels.map(label).collect(), value: value.to_owned() }
    }

    fn is(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        let has = |(name, value): &(&str, &str)| self.labels.iter().any(|(n, v)| n == name && v == value);
        self.name == name && labels.iter().all(has)
    }
}
