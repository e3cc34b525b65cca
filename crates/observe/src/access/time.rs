use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The time of a log line, as a number and as text. The default is the epoch with empty texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time<'a> {
    /// Time since the epoch.
    pub unix: Duration,
    /// Common Log Format: `20/Nov/2026:11:03:50 +0000`.
    pub local: &'a str,
    /// ISO 8601: `2026-11-20T11:03:50+00:00`.
    pub iso8601: &'a str,
}

/// A notation of the time as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// Common Log Format: `20/Nov/2026:11:03:50 +0000`.
    Common,
    /// ISO 8601: `2026-11-20T11:03:50+00:00`.
    Iso8601,
}

/// Formats the time once a second.
#[derive(Debug)]
pub struct TimeCache {
    zone: TimeZone,
    second: Option<u64>,
    local: String,
    iso8601: String,
}

impl TimeCache {
    /// A cache that formats in this time zone.
    pub fn new(zone: TimeZone) -> Self {
        Self { zone, second: None, local: String::new(), iso8601: String::new() }
    }

    /// The time, which is given as time since the epoch, with its texts.
    pub fn at(&mut self, unix: Duration) -> Time<'_> {
        if self.second != Some(unix.as_secs()) {
            self.render(unix.as_secs());
        }
        Time { unix, local: &self.local, iso8601: &self.iso8601 }
    }

    fn render(&mut self, second: u64) {
        let timestamp = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
        let timestamp = timestamp.unwrap_or(Timestamp::MAX);
        let time = timestamp.to_zoned(self.zone.clone());
        self.second = Some(second);
        for (text, format) in
            [(&mut self.local, "%d/%b/%Y:%H:%M:%S %z"), (&mut self.iso8601, "%Y-%m-%dT%H:%M:%S%:z")]
        {
            text.clear();
            write!(text, "{}", time.strftime(format)).expect("the format has only fields that each time has");
        }
    }
}

impl<'a> Time<'a> {
    /// The text in one of the notations.
    pub fn text(&self, form: TimeForm) -> &'a str {
        match form {
            TimeForm::Common => self.local,
            TimeForm::Iso8601 => self.iso8601,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_notations_are_in_the_zone() {
        let mut cache = TimeCache::new(TimeZone::fixed(jiff::tz::offset(2)));
        let time = cache.at(Duration::from_millis(951_786_000_250));
        assert_eq!(time.local, "29/Feb/2000:03:00:00 +0200");
        assert_eq!(time.iso8601, "2000-02-29T03:00:00+02:00");
        assert_eq!(cache.at(Duration::from_secs(951_786_001)).local, "29/Feb/2000:03:00:01 +0200");
    }

    #[test]
    fn no_time_panics() {
        assert!(TimeCache::new(TimeZone::UTC).at(Duration::MAX).local.contains("9999"));
    }
}
