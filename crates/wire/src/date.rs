//! Dates in HTTP (RFC 9110 section 5.6.7).

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const LONG_DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The IMF-fixdate of a time in seconds since 1970: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn imf_fixdate(unix_seconds: u64) -> String {
    let days = unix_seconds / 86_400;
    let second = unix_seconds % 86_400;
    let (year, month, day) = civil(days);
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month - 1],
        second / 3600,
        second / 60 % 60,
        second % 60,
    )
}

/// Year, month and day of a day since 1970, in the proleptic Gregorian calendar. Years are counted from
/// March, so that the leap day is a year's last and months have a regular length.
fn civil(days: u64) -> (u64, usize, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month as usize, day)
}

/// Seconds since 1970 of a date in any of the three forms; letters in any case, as RFC 9111 section 4.2
/// requires of caches. None for a text that is no date, or has another zone than GMT. A year of two digits is
/// in the past if it would be more than 50 years after `now`. A date before 1970 is 0.
pub fn parse(value: &[u8], now: u64) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    match text.split_once(',') {
        Some((day, rest)) if is_any_of(day, DAYS) => parse_fixdate(rest.strip_prefix(' ')?),
        Some((day, rest)) if is_any_of(day, LONG_DAYS) => parse_rfc850(rest.strip_prefix(' ')?, now),
        Some(_) => None,
        None => parse_asctime(text),
    }
}

/// Parses `06 Nov 1994 08:49:37 GMT`.
fn parse_fixdate(text: &str) -> Option<u64> {
    let [day, month, year, time, zone] = words(text, ' ')?;
    zone.eq_ignore_ascii_case("gmt").then_some(())?;
    seconds_of(number(year, 4)?, month_of(month)?, number(day, 2)?, time)
}

/// Parses `06-Nov-94 08:49:37 GMT`.
fn parse_rfc850(text: &str, now: u64) -> Option<u64> {
    let [date, time, zone] = words(text, ' ')?;
    zone.eq_ignore_ascii_case("gmt").then_some(())?;
    let [day, month, year] = words(date, '-')?;
    let this_year = civil(now / 86_400).0;
    let mut year = this_year / 100 * 100 + number(year, 2)?;
    if year > this_year + 50 {
        year -= 100;
    } else if year + 50 <= this_year {
        year += 100;
    }
    seconds_of(year, month_of(month)?, number(day, 2)?, time)
}

/// Parses `Sun Nov  6 08:49:37 1994`.
fn parse_asctime(text: &str) -> Option<u64> {
    let (names, rest) = text.split_at_checked("Sun Nov ".len())?;
    let (day, rest) = rest.split_at_checked("06".len())?;
    let [weekday, month] = words(names.strip_suffix(' ')?, ' ')?;
    is_any_of(weekday, DAYS).then_some(())?;
    let [time, year] = words(rest.strip_prefix(' ')?, ' ')?;
    let day = day.strip_prefix(' ').map_or_else(|| number(day, 2), |day| number(day, 1))?;
    seconds_of(number(year, 4)?, month_of(month)?, day, time)
}

fn words<const COUNT: usize>(text: &str, between: char) -> Option<[&str; COUNT]> {
    let mut words = text.split(between);
    let mut found = [""; COUNT];
    for place in &mut found {
        *place = words.next()?;
    }
    words.next().is_none().then_some(found)
}

fn is_any_of(word: &str, names: [&str; 7]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(word))
}

/// The number of a month, from 1.
fn month_of(word: &str) -> Option<u64> {
    MONTHS.iter().position(|name| name.eq_ignore_ascii_case(word)).map(|at| at as u64 + 1)
}

fn number(digits: &str, len: usize) -> Option<u64> {
    let is_number = digits.len() == len && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.bytes().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// The seconds of a date and time. A leap second, 60, is the first of the next minute.
fn seconds_of(year: u64, month: u64, day: u64, time: &str) -> Option<u64> {
    let [hour, minute, second] = words(time, ':')?;
    let (hour, minute, second) = (number(hour, 2)?, number(minute, 2)?, number(second, 2)?);
    let is_leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let days_in_month = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=days_in_month).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days_since_1970(year, month, day);
    Some(days.map_or(0, |days| days * 86_400 + hour * 3600 + minute * 60 + second))
}

/// The inverse of [`civil`]; none before 1970. It counts from the year -400, so that no number is negative.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = (year + 400) - u64::from(month <= 2);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let year_of_era = year % 400;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (year / 400 * 146_097 + day_of_era).checked_sub(719_468 + 146_097)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(imf_fixdate(seconds), text);
        }
    }

    /// The time 2026-11-22 00:00:00.
    const NOW: u64 = 1_795_305_600;

    #[test]
    fn all_three_forms_are_read() {
        for (text, seconds) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Wed Nov 16 08:49:37 1994", Some(784_975_777)),
            ("sUN, 06 nOV 1994 08:49:37 gmt", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Wed, 31 Dec 1969 23:59:59 GMT", Some(0)),
            ("Mon, 01 Jan 0001 00:00:00 GMT", Some(0)),
            ("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_800)),
            ("Thursday, 18-Aug-50 02:01:18 GMT", parse(b"Thu, 18 Aug 2050 02:01:18 GMT", NOW)),
            ("Sunday, 22-Nov-76 00:00:00 GMT", parse(b"Sun, 22 Nov 2076 00:00:00 GMT", NOW)),
            ("Tuesday, 22-Nov-77 00:00:00 GMT", parse(b"Tue, 22 Nov 1977 00:00:00 GMT", NOW)),
        ] {
            assert!(seconds.is_some());
            assert_eq!(parse(text.as_bytes(), NOW), seconds, "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 AEST",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Wed, 29 Feb 2023 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT x",
            "Sun, 06 Nov +994 08:49:37 GMT",
            "Day, 06 Nov 1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "S\u{fc}n, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(text.as_bytes(), NOW), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read(seconds in 0_u64..253_402_300_800) {
            proptest::prop_assert_eq!(parse(imf_fixdate(seconds).as_bytes(), NOW), Some(seconds));
        }

        #[test]
        fn nothing_panics(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40)) {
            parse(&text, NOW);
        }
    }
}
