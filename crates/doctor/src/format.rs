//! Formats figures for messages.
//!
//! Must not be in here: sentences.

use crate::text::{Text, say};

/// A count: `28,232`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count that was estimated: rounded, and 0 if negative.
#[expect(clippy::cast_sign_loss, reason = "it is none where it would be less")]
pub(crate) fn whole(number: f64) -> String {
    count(number.max(0.0).round() as u64)
}

/// A rate or a mean: `4,300`, `12`, `0.31`.
pub(crate) fn rate(number: f64) -> String {
    if number >= 10.0 || number <= 0.0 {
        whole(number)
    } else if number >= 1.0 {
        format!("{number:.1}")
    } else {
        format!("{number:.2}")
    }
}

/// A share between 0 and 1: `98 %`, `0.31 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", rate(share * 100.0))
}

/// `1 route`, `2,000 routes`.
pub(crate) fn routes(number: usize) -> Text {
    let figure = count(number as u64);
    if number == 1 { say!("{} route", figure) } else { say!("{} routes", figure) }
}

/// `1 machine`, `2 machines`.
pub(crate) fn machines(number: usize) -> Text {
    let figure = count(number as u64);
    if number == 1 { say!("{} machine", figure) } else { say!("{} machines", figure) }
}

/// `1 CPU`, `2 CPUs`.
pub(crate) fn cpus(number: usize) -> Text {
    let figure = count(number as u64);
    if number == 1 { say!("{} CPU", figure) } else { say!("{} CPUs", figure) }
}

/// `1 worker`, `2 workers`.
pub(crate) fn workers(number: usize) -> Text {
    let figure = count(number as u64);
    if number == 1 { say!("{} worker", figure) } else { say!("{} workers", figure) }
}

/// A time: `12 ms`, `1.2 ms`, `3.4 s`.
pub(crate) fn time(seconds: f64) -> String {
    if seconds >= 1.0 { format!("{} s", rate(seconds)) } else { format!("{} ms", rate(seconds * 1000.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_at_a_glance() {
        let counts = [0, 12, 999, 1000, 28_232, 1_234_567].map(count);
        assert_eq!(counts, ["0", "12", "999", "1,000", "28,232", "1,234,567"]);
        assert_eq!([4300.4, 10.0, 1.04, 0.312, 0.0].map(rate), ["4,300", "10", "1.0", "0.31", "0"]);
        assert_eq!([1, 2000].map(|number| routes(number).english()), ["1 route", "2,000 routes"]);
        assert_eq!([0.98, 0.003].map(percent), ["98 %", "0.30 %"]);
        assert_eq!([0.0012, 0.25, 3.4].map(time), ["1.2 ms", "250 ms", "3.4 s"]);
    }
}
