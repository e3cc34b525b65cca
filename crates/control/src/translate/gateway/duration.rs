//! Durations as GEP-2257 writes them: `1h30m`, `500ms`.

use std::time::Duration;

use super::conditions::Fault;

/// The units, each with its number of milliseconds.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];

/// Reads a duration: at most four numbers, each of at most five digits and with a unit.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let (mut rest, mut total, mut count) = (text, 0, 0);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok().filter(|_| digits <= 5)?;
        rest = &rest[digits..];
        let (unit, millis) = UNITS.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        total += number * millis;
        count += 1;
    }
    (1..=4).contains(&count).then(|| Duration::from_millis(total))
}

/// Reads a duration that may be missing; zero means the same.
pub(super) fn read(text: Option<&str>) -> Result<Option<Duration>, Fault> {
    let Some(text) = text else { return Ok(None) };
    let invalid =
        || Fault::new("UnsupportedValue", format!("{text:?} is no duration such as 500ms or 1m30s"));
    let duration = parse(text).ok_or_else(invalid)?;
    Ok((duration > Duration::ZERO).then_some(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let millis = |text| parse(text).map(|duration| duration.as_millis());
        for (text, expected) in [("0s", 0), ("500ms", 500), ("1h30m", 5_400_000), ("1h1m1s1ms", 3_661_001)] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        for text in ["", "1", "s", "1d", "-1s", "1.5s", "123456s", "1h1m1s1ms1s", "1 s"] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
