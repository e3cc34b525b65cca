//! Times as people name them: `02:50`, `2026-11-27 02:50`, RFC 3339, `-30m`, `now`.
//!
//! Must not be in here: what happened then.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// A time as somebody has named it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    /// A time of the day in the local time zone: its last occurrence.
    Clock(Time),
    /// A date and a time in the local time zone.
    Local(DateTime),
    /// A moment with its offset from UTC.
    Moment(Timestamp),
    /// So long ago.
    Ago(Duration),
}

/// A time of which a record is asked, in milliseconds since 1970, with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from_ms: u64,
    pub(crate) until_ms: u64,
}

const EXPECTED: &str =
    "a time is 02:50, 2026-11-27 02:50, 2026-11-27T02:50:00Z, -30m for half an hour ago, or now";

impl When {
    /// Reads a time as a flag has it. A length of time without a sign is taken as one ago too, as kubectl
    /// takes it.
    pub(crate) fn parse(text: &str) -> Result<When, String> {
        let text = text.trim();
        if text == "now" {
            return Ok(When::Ago(Duration::ZERO));
        }
        let length = text.strip_prefix('-').unwrap_or(text);
        let has_unit = length.ends_with(|last: char| last.is_ascii_alphabetic());
        if has_unit && let Ok(ago) = model::parse_duration(length) {
            return Ok(When::Ago(ago));
        }
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Ok(When::Moment(moment));
        }
        let is_clock = |text: &str| text.contains(':') && !text.contains('-');
        if is_clock(text) {
            return time_of_day(text).map(When::Clock).ok_or_else(|| EXPECTED.to_owned());
        }
        let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
        let both = date.parse::<Date>().ok().zip(time_of_day(time));
        both.map(|(date, time)| When::Local(date.to_datetime(time))).ok_or_else(|| EXPECTED.to_owned())
    }

    /// The moment, as seen now.
    fn moment(self, now: &Zoned) -> anyhow::Result<Timestamp> {
        Ok(match self {
            When::Moment(moment) => moment,
            When::Ago(ago) => now.timestamp().checked_sub(ago)?,
            When::Local(local) => local.to_zoned(now.time_zone().clone())?.timestamp(),
            When::Clock(time) => {
                let today = now.date().to_datetime(time).to_zoned(now.time_zone().clone())?;
                let latest = if today > *now { today.yesterday_at(time)? } else { today };
                latest.timestamp()
            }
        })
    }

    /// The moment at or after another one: a time of the day is its next occurrence there.
    fn moment_after(self, begin: Timestamp, now: &Zoned) -> anyhow::Result<Timestamp> {
        let When::Clock(time) = self else { return self.moment(now) };
        let begin = begin.to_zoned(now.time_zone().clone());
        let same_day = begin.date().to_datetime(time).to_zoned(now.time_zone().clone())?;
        let next = if same_day < begin { same_day.tomorrow_at(time)? } else { same_day };
        Ok(next.timestamp())
    }
}

trait Neighbours: Sized {
    fn yesterday_at(&self, time: Time) -> anyhow::Result<Self>;
    fn tomorrow_at(&self, time: Time) -> anyhow::Result<Self>;
}

impl Neighbours for Zoned {
    fn yesterday_at(&self, time: Time) -> anyhow::Result<Zoned> {
        Ok(self.date().yesterday()?.to_datetime(time).to_zoned(self.time_zone().clone())?)
    }

    fn tomorrow_at(&self, time: Time) -> anyhow::Result<Zoned> {
        Ok(self.date().tomorrow()?.to_datetime(time).to_zoned(self.time_zone().clone())?)
    }
}

impl Range {
    /// All that was recorded.
    pub(crate) const ALL: Range = Range { from_ms: 0, until_ms: u64::MAX };

    /// From one time to another; an end that is not named is open.
    ///
    /// # Errors
    ///
    /// The end is not later than the begin.
    pub(crate) fn of(since: Option<When>, until: Option<When>, now: &Zoned) -> anyhow::Result<Range> {
        let begin = since.map(|since| since.moment(now)).transpose()?;
        let end = match (until, begin) {
            (None, _) => None,
            (Some(until), None) => Some(until.moment(now)?),
            (Some(until), Some(begin)) => Some(until.moment_after(begin, now)?),
        };
        let range = Range {
            from_ms: begin.map_or(Range::ALL.from_ms, milliseconds),
            until_ms: end.map_or(Range::ALL.until_ms, milliseconds),
        };
        anyhow::ensure!(range.from_ms < range.until_ms, "--until is not later than --since");
        Ok(range)
    }

    /// Reads `SINCE..UNTIL`, of which each side may be empty.
    pub(crate) fn parse(text: &str, now: &Zoned) -> anyhow::Result<Range> {
        let (since, until) =
            text.split_once("..").ok_or_else(|| anyhow::anyhow!("{text} is no range: SINCE..UNTIL"))?;
        let side = |side: &str| {
            let side = side.trim();
            let read = || When::parse(side).map_err(|why| anyhow::anyhow!("{side}: {why}"));
            (!side.is_empty()).then(read).transpose()
        };
        Range::of(side(since)?, side(until)?, now)
    }
}

/// Milliseconds since 1970; 0 before.
fn milliseconds(moment: Timestamp) -> u64 {
    u64::try_from(moment.as_millisecond()).unwrap_or(0)
}

fn time_of_day(text: &str) -> Option<Time> {
    let full = if text.matches(':').count() == 1 { format!("{text}:00") } else { text.to_owned() };
    full.parse().ok()
}

/// A moment in the local time zone, with the date where it is another one than that of `beside_ms`.
pub(crate) fn local(at_ms: u64, beside_ms: u64, zone: &TimeZone) -> String {
    let zoned = |at_ms: u64| timestamp(at_ms).to_zoned(zone.clone());
    let (at, beside) = (zoned(at_ms), zoned(beside_ms));
    let form = if at.date() == beside.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    at.strftime(form).to_string()
}

/// A moment in the local time zone, with its date.
pub(crate) fn local_with_date(at_ms: u64, zone: &TimeZone) -> String {
    timestamp(at_ms).to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A moment as RFC 3339 in UTC, to the millisecond.
pub(crate) fn rfc3339(at_ms: u64) -> String {
    format!("{:.3}", timestamp(at_ms))
}

fn timestamp(at_ms: u64) -> Timestamp {
    let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::MAX)
}

/// A length of time in its two greatest units.
pub(crate) fn length(milliseconds: u64) -> String {
    let seconds = (milliseconds + 500) / 1000;
    let units = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)];
    let Some(first) = units.iter().position(|(_, size)| seconds >= *size) else { return "0 s".to_owned() };
    let mut text = String::new();
    let mut rest = seconds;
    for (unit, size) in units.iter().skip(first).take(2) {
        if rest >= *size {
            let gap = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{gap}{} {unit}", rest / size);
            rest %= size;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        // Two hours ahead of UTC.
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        "2026-11-28T10:00:00Z".parse::<Timestamp>().unwrap().to_zoned(zone)
    }

    fn range(since: &str, until: &str) -> (String, String) {
        let range = Range::parse(&format!("{since}..{until}"), &now()).unwrap();
        (rfc3339(range.from_ms), rfc3339(range.until_ms))
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let of = |text: &str| When::parse(text).unwrap().moment(&now()).unwrap().to_string();
        for (text, moment) in [
            ("02:50", "2026-11-28T00:50:00Z"),
            ("02:50:30", "2026-11-28T00:50:30Z"),
            ("12:00", "2026-11-28T10:00:00Z"),
            ("12:01", "2026-11-27T10:01:00Z"),
            ("2026-11-27", "2026-11-26T22:00:00Z"),
            ("2026-11-27 02:50", "2026-11-27T00:50:00Z"),
            ("2026-11-27T02:50:10", "2026-11-27T00:50:10Z"),
            ("2026-11-27T02:50:10Z", "2026-11-27T02:50:10Z"),
            ("2026-11-27T02:50:10+08:00", "2026-11-26T18:50:10Z"),
            ("-30m", "2026-11-28T09:30:00Z"),
            ("1h30m", "2026-11-28T08:30:00Z"),
            ("-1d", "2026-11-27T10:00:00Z"),
            ("now", "2026-11-28T10:00:00Z"),
        ] {
            assert_eq!(of(text), moment, "{text}");
        }
        for wrong in ["", "soon", "25:00", "2026-13-01", "30", "-", "02:50 2026-11-27", "-30x"] {
            assert!(When::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_end_by_the_clock_is_after_the_begin() {
        assert_eq!(
            range("02:50", "03:20"),
            ("2026-11-28T00:50:00.000Z".into(), "2026-11-28T01:20:00.000Z".into())
        );
        assert_eq!(
            range("23:50", "00:20"),
            ("2026-11-27T21:50:00.000Z".into(), "2026-11-27T22:20:00.000Z".into())
        );
        assert_eq!(
            range("2026-11-20 23:50", "00:20"),
            ("2026-11-20T21:50:00.000Z".into(), "2026-11-20T22:20:00.000Z".into())
        );
        assert_eq!(range("-2h", "-1h").1, "2026-11-28T09:00:00.000Z");
        let all = Range::parse("..", &now()).unwrap();
        assert_eq!(all, Range::ALL);
        for wrong in ["-1h..-2h", "-1h", "x..", "..x"] {
            assert!(Range::parse(wrong, &now()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_shown_with_the_date_where_it_matters() {
        let zone = TimeZone::UTC;
        let day = 86_400_000;
        assert_eq!(local(day + 3_723_000, day, &zone), "01:02:03");
        assert_eq!(local(day - 1000, day, &zone), "1970-01-01 23:59:59");
        for (milliseconds, text) in
            [(0, "0 s"), (1400, "1 s"), (130_000, "2 min 10 s"), (3_600_000, "1 h"), (90_061_000, "1 d 1 h")]
        {
            assert_eq!(length(milliseconds), text);
        }
    }
}
