use std::time::Duration;

/// A value that is not of the form that nginx knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct InvalidUnit {
    text: String,
    expected: &'static str,
}

/// Reads a number of bytes as nginx writes it: `8k`, `1m`, `1g`, or a plain number.
///
/// # Errors
/// The text is no such size, or one beyond 2^64 bytes.
pub fn parse_size(text: &str) -> Result<u64, InvalidUnit> {
    let invalid = || InvalidUnit { text: text.to_owned(), expected: "a size such as 8k, 1m or 1g" };
    let trimmed = text.trim();
    let (digits, shift) = match trimmed.bytes().last().map(|b| b.to_ascii_lowercase()) {
        Some(b'k') => (&trimmed[..trimmed.len() - 1], 10),
        Some(b'm') => (&trimmed[..trimmed.len() - 1], 20),
        Some(b'g') => (&trimmed[..trimmed.len() - 1], 30),
        _ => (trimmed, 0),
    };
    let number = parse_digits(digits).ok_or_else(invalid)?;
    number.checked_mul(1 << shift).ok_or_else(invalid)
}

/// Reads a time as nginx writes it: `60`, `60s`, `5m`, `1h30m`, `500ms`, `1d`; a plain number is seconds.
///
/// # Errors
/// The text is no such time, or a longer one than can be counted.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidUnit> {
    let invalid =
        || InvalidUnit { text: text.to_owned(), expected: "a time such as 60, 500ms, 30s, 5m or 1h" };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = parse_digits(&rest[..digits]).ok_or_else(invalid)?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit_ms = milliseconds(&rest[..letters]).ok_or_else(invalid)?;
        rest = rest[letters..].trim_start();
        let part = number.checked_mul(unit_ms).ok_or_else(invalid)?;
        total = total.checked_add(Duration::from_millis(part)).ok_or_else(invalid)?;
    }
    Ok(total)
}

/// Reads a whole number of seconds, as ingress-nginx's timeouts have it: with an optional plus sign, and
/// without a unit.
///
/// # Errors
/// The text is no whole number.
pub fn parse_seconds(text: &str) -> Result<Duration, InvalidUnit> {
    let trimmed = text.trim();
    parse_digits(trimmed.strip_prefix('+').unwrap_or(trimmed))
        .map(Duration::from_secs)
        .ok_or_else(|| InvalidUnit { text: text.to_owned(), expected: "a whole number of seconds" })
}

fn milliseconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => return None,
    })
}

/// `u64::from_str` takes a sign; nginx does not.
fn parse_digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("8k"), Ok(8192));
        assert_eq!(parse_size("1M"), Ok(1 << 20));
        assert_eq!(parse_size("0"), Ok(0));
        for text in ["", "k", "8kb", "-1", "+1", "1.5m", "99999999999g"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        for text in ["", "s", "5x", "-1s", "1.5s", "99999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds() {
        assert_eq!(parse_seconds(" 300 "), Ok(Duration::from_secs(300)));
        assert_eq!(parse_seconds("+5"), Ok(Duration::from_secs(5)));
        assert!(parse_seconds("5s").is_err());
        assert!(parse_seconds("5m").is_err());
    }
}
