//! Formats figures for people.

/// A time, given in microseconds, with a suitable unit.
pub(crate) fn time(micros: f64) -> String {
    match micros {
        us if us < 0.05 => "0 us".to_owned(),
        us if us < 10.0 => format!("{us:.1} us"),
        us if us < 1e3 => format!("{us:.0} us"),
        us if us < 10e3 => format!("{:.2} ms", us / 1e3),
        us if us < 100e3 => format!("{:.1} ms", us / 1e3),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// A size with a suitable unit.
pub(crate) fn bytes(count: u64) -> String {
    let value = count as f64;
    match value {
        v if v < 1e3 => format!("{count} bytes"),
        v if v < 1e6 => format!("{:.1} kB", v / 1e3),
        v if v < 1e9 => format!("{:.1} MB", v / 1e6),
        v => format!("{:.2} GB", v / 1e9),
    }
}

/// A number with separated thousands; with a decimal if it is small.
pub(crate) fn grouped(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// `1 thread`, `2 threads`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(count as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let shown = [0.001, 4.26, 251.4, 1_234.0, 12_345.0, 123_456.0, 1_234_567.0].map(time);
        assert_eq!(shown, ["0 us", "4.3 us", "251 us", "1.23 ms", "12.3 ms", "123 ms", "1.23 s"]);
    }

    #[test]
    fn numbers_are_grouped_and_counted() {
        assert_eq!([0.0, 7.25, 999.6, 1_234_567.0].map(grouped), ["0", "7.2", "1,000", "1,234,567"]);
        assert_eq!([1, 2].map(|count| counted(count, "thread")), ["1 thread", "2 threads"]);
        assert_eq!(
            [999, 1_500, 27_300_000, 2_590_000_000].map(bytes),
            ["999 bytes", "1.5 kB", "27.3 MB", "2.59 GB"]
        );
    }
}
