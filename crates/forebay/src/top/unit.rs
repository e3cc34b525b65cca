//! Numbers as people read them: three or four digits and a unit.

use super::answers::Quantile;
use super::text::Signs;

/// A count or a rate: `0`, `0.2`, `12.5`, `999`, `1.2k`, `3.4M`.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "?".to_owned();
    }
    let mut value = value;
    for unit in ["", "k", "M", "G", "T"] {
        let text = match value.abs() {
            below if below >= 99.95 || value == 0.0 || unit.is_empty() && value.fract() == 0.0 => {
                format!("{value:.0}")
            }
            _ => format!("{value:.1}"),
        };
        // A value that rounds to a thousand is shown in the next unit.
        if value.abs() < 999.5 {
            return text + unit;
        }
        value /= 1000.0;
    }
    "very many".to_owned()
}

/// A count with its unit's prefix.
pub(super) fn count(value: u64) -> String {
    number(value as f64)
}

/// A rate, a second.
pub(super) fn rate(value: Option<f64>, signs: Signs) -> String {
    value.map_or_else(|| signs.nothing().to_owned(), |value| format!("{}/s", number(value)))
}

/// A share, as percent.
pub(super) fn percent(ratio: Option<f64>, signs: Signs) -> String {
    let Some(ratio) = ratio.filter(|ratio| ratio.is_finite()) else { return signs.nothing().to_owned() };
    let percent = ratio * 100.0;
    // Not everything is not 100 %.
    let text = if ratio < 1.0 && percent >= 99.95 { "99.9".to_owned() } else { format!("{percent:.1}") };
    format!("{}%", text.trim_end_matches(".0"))
}

/// Bytes, in powers of 1024.
pub(super) fn bytes(value: u64) -> String {
    let mut value = value as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1023.5 {
            return if value < 99.95 && unit != "B" {
                format!("{value:.1} {unit}")
            } else {
                format!("{value:.0} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A time: `250 µs`, `1.2 ms`, `3.4 s`.
pub(super) fn seconds(value: f64, signs: Signs) -> String {
    let of = |value: f64, unit: &str| {
        let text = if value < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") };
        format!("{} {unit}", text.trim_end_matches(".0"))
    };
    match value {
        _ if !value.is_finite() => "?".to_owned(),
        small if small < 0.000_999_5 => of(value * 1e6, signs.microseconds()),
        small if small < 0.999_5 => of(value * 1e3, "ms"),
        _ => of(value, "s"),
    }
}

/// A quantile, as the console has it: in the first bucket of the histogram nothing but its upper bound is
/// known, in the last one nothing but its lower bound.
pub(super) fn quantile(value: Option<Quantile>, signs: Signs) -> String {
    match value {
        None => signs.nothing().to_owned(),
        Some(Quantile { above_seconds, at_most_seconds: None, .. }) => {
            format!("> {}", seconds(above_seconds, signs))
        }
        Some(Quantile { above_seconds, at_most_seconds: Some(bound), .. }) if above_seconds <= 0.0 => {
            format!("{} {}", signs.at_most(), seconds(bound, signs))
        }
        Some(Quantile { estimate_seconds, .. }) => seconds(estimate_seconds, signs),
    }
}

/// A long time in its two greatest units: `3d 4h`, `5m 7s`.
pub(super) fn span(value: f64) -> String {
    // A span beyond u64 is cut off there, and one below 0 is 0.
    #[expect(clippy::cast_sign_loss, reason = "the cast saturates")]
    let all = value as u64;
    let days = all / 86400;
    let hours = all / 3600 % 24;
    let minutes = all / 60 % 60;
    match all {
        86400.. => format!("{days}d {hours}h"),
        3600.. => format!("{hours}h {minutes}m"),
        60.. => format!("{minutes}m {}s", all % 60),
        _ => format!("{all}s"),
    }
}

/// A number of things, with the word for one of them: `1 error`, `2 errors`.
pub(super) fn counted(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits_and_a_unit() {
        for (value, expected) in [
            (0.0, "0"),
            (0.04, "0.0"),
            (3.0, "3"),
            (12.34, "12.3"),
            (99.96, "100"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (12_345.0, "12.3k"),
            (999_600.0, "1.0M"),
            (4e9, "4.0G"),
            (f64::NAN, "?"),
            (1e300, "very many"),
        ] {
            assert_eq!(number(value), expected, "{value}");
        }
    }

    #[test]
    fn units_are_those_that_people_know() {
        let signs = Signs::Unicode;
        let percents =
            [Some(1.0), Some(0.9999), Some(0.5), Some(0.0), None].map(|ratio| percent(ratio, signs));
        assert_eq!(percents, ["100%", "99.9%", "50%", "0%", "–"]);
        assert_eq!(
            [512, 1024, 3 << 20, 200 << 30, 3 << 40].map(bytes),
            ["512 B", "1.0 KiB", "3.0 MiB", "200 GiB", "3.0 TiB"]
        );
        let times = [0.000_25, 0.0012, 0.25, 0.9999, 3.42, 250.0].map(|value| seconds(value, signs));
        assert_eq!(times, ["250 µs", "1.2 ms", "250 ms", "1 s", "3.4 s", "250 s"]);
        assert_eq!(seconds(0.000_25, Signs::Ascii), "250 us");
        assert_eq!([7.9, 67.0, 3660.0, 273_600.0].map(span), ["7s", "1m 7s", "1h 1m", "3d 4h"]);
        assert_eq!([0, 1].map(|number| counted(number, "error")), ["0 errors", "1 error"]);
    }

    #[test]
    fn of_a_quantile_no_more_is_said_than_is_known() {
        let of = |above_seconds, at_most_seconds, estimate_seconds| {
            quantile(Some(Quantile { above_seconds, at_most_seconds, estimate_seconds }), Signs::Ascii)
        };
        assert_eq!(of(0.0, Some(0.005), 0.002), "<= 5 ms");
        assert_eq!(of(0.005, Some(0.01), 0.0075), "7.5 ms");
        assert_eq!(of(10.0, None, 10.0), "> 10 s");
        assert_eq!(quantile(None, Signs::Ascii), "-");
    }
}
