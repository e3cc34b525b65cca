//! Short texts of numbers with their unit, for labels.
//!
//! Must not be in here: positions.

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain count.
    Count,
    /// Seconds since a start.
    Seconds,
    /// A latency in microseconds.
    Microseconds,
    /// A share; 1 stands for all.
    Share,
}

impl Unit {
    /// `value` as a short text.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::Count => count(value),
            Unit::Seconds => format!("{} s", plain(value)),
            Unit::Microseconds => latency(value),
            Unit::Share => share(value),
        }
    }
}

fn count(value: f64) -> String {
    let (divisor, suffix) = match value.abs() {
        1e9.. => (1e9, "G"),
        1e6.. => (1e6, "M"),
        // 1,200 is written in full, which is as short as 1.2k is.
        1e4.. => (1e3, "k"),
        _ => (1.0, ""),
    };
    plain(value / divisor) + suffix
}

fn latency(microseconds: f64) -> String {
    match microseconds.abs() {
        1e6.. => plain(microseconds / 1e6) + " s",
        1e3.. => plain(microseconds / 1e3) + " ms",
        _ => plain(microseconds) + " µs",
    }
}

/// A share with as many digits as it has nines.
fn share(value: f64) -> String {
    let percent = value * 100.0;
    // Rounded to a tenth, or for the last percent to as many digits as there are nines.
    let tenths = std::iter::successors(Some(1.0), |part| Some(part / 10.0)).take(8);
    let digits = tenths.take_while(|part| 100.0 - percent < part * 0.999).count() + 1;
    trim(&format!("{percent:.digits$}")) + " %"
}

/// About three significant digits, without zeros at the end.
fn plain(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let text = trim(&format!("{value:.digits$}"));
    let is_long = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_long { format!("{},{}", &text[..1], &text[1..]) } else { text }
}

fn trim(text: &str) -> String {
    if !text.contains('.') {
        return text.to_owned();
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (unit, value, text) in [
            (Unit::Count, 0.0, "0"),
            (Unit::Count, 0.25, "0.25"),
            (Unit::Count, 1500.0, "1,500"),
            (Unit::Count, 25_000.0, "25k"),
            (Unit::Count, 1_250_000.0, "1.25M"),
            (Unit::Seconds, 2.5, "2.5 s"),
            (Unit::Microseconds, 250.0, "250 µs"),
            (Unit::Microseconds, 1000.0, "1 ms"),
            (Unit::Microseconds, 2e6, "2 s"),
            (Unit::Share, 0.0, "0 %"),
            (Unit::Share, 0.5, "50 %"),
            (Unit::Share, 0.9, "90 %"),
            (Unit::Share, 0.99, "99 %"),
            (Unit::Share, 0.999, "99.9 %"),
            (Unit::Share, 0.99999, "99.999 %"),
        ] {
            assert_eq!(unit.show(value), text);
        }
    }
}
