//! Directive `expires` of nginx, in all its forms.

use model::Expires;

use super::Fault;
use super::parse::Directive;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Units of nginx's times, the longest first, in the order in which a time may contain them.
const UNITS: &[(char, i64)] = &[
    ('y', 365 * DAY_SECONDS),
    ('M', 30 * DAY_SECONDS),
    ('w', 7 * DAY_SECONDS),
    ('d', DAY_SECONDS),
    ('h', 3600),
    ('m', 60),
    ('s', 1),
];

/// Reads `expires [modified] TIME`, `expires @TIME`, `expires epoch|max|off`.
pub(super) fn read(directive: &Directive) -> Result<Expires, Fault> {
    let (is_modified, text) = match directive.words.as_slice() {
        [text] => (false, text),
        [modified, text] if modified == "modified" => (true, text),
        _ => return Err(directive.fault("needs a time, or one of epoch, max and off")),
    };
    let invalid = || directive.fault(format!("has {text:?}, which is no time"));
    match text.as_str() {
        "epoch" | "max" | "off" if is_modified => Err(invalid()),
        "epoch" => Ok(Expires::Epoch),
        "max" => Ok(Expires::Max),
        "off" => Ok(Expires::Off),
        text => match text.strip_prefix('@') {
            Some(_) if is_modified => Err(directive.fault("has a time of day, which cannot be \"modified\"")),
            Some(time) => {
                let second = seconds(time).filter(|&second| second <= DAY_SECONDS);
                second.and_then(|second| u32::try_from(second).ok()).map(Expires::Daily).ok_or_else(invalid)
            }
            None => {
                let time = match text.strip_prefix('-') {
                    Some(time) => seconds(time).map(|time| -time),
                    None => seconds(text.strip_prefix('+').unwrap_or(text)),
                };
                let of = if is_modified { Expires::SinceModified } else { Expires::In };
                time.map(of).ok_or_else(invalid)
            }
        },
    }
}

/// Parses a time such as `60`, `1h30m` or `1y`.
fn seconds(text: &str) -> Option<i64> {
    let (mut rest, mut units, mut total) = (text, UNITS, 0_i64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = rest[..digits].parse().ok()?;
        let mut letters = rest[digits..].chars();
        let (unit, at) = match letters.next() {
            // A number without a unit ends the time.
            None => (1, UNITS.len() - 1),
            Some(letter) => {
                let at = units.iter().position(|(known, _)| *known == letter)?;
                (units[at].1, at)
            }
        };
        units = units.get(at + 1..).unwrap_or_default();
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = letters.as_str();
    }
    // A bound, because an HTTP date has a year of four digits.
    (!text.is_empty() && total <= 1000 * 365 * DAY_SECONDS).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_nginx_s() {
        for (text, expected) in [
            ("0", Some(0)),
            ("60", Some(60)),
            ("1h30m", Some(5400)),
            ("1d12", Some(DAY_SECONDS + 12)),
            ("1y", Some(365 * DAY_SECONDS)),
            ("2M1w", Some(67 * DAY_SECONDS)),
            ("1m1h", None),
            ("1s1s", None),
            ("", None),
            ("h", None),
            ("1ms", None),
            ("99999999999999999999", None),
            ("9999y", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
