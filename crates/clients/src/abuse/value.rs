//! A value that identifies a client, as operators see it.

use crate::limits::ABUSE_VALUE_CHARS_MAX;

/// The beginning of a value, with control characters replaced, so that it is safe to print on a terminal.
pub(super) fn legible(value: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(value);
    let shown = text.chars().take(ABUSE_VALUE_CHARS_MAX);
    shown
        .map(|char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char })
        .collect::<String>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_line_of_bounded_length() {
        assert_eq!(&*legible(b"user 7"), "user 7");
        assert_eq!(
            &*legible("caf\u{e9}\r\n\u{1b}[2J\u{9b}".as_bytes()),
            "caf\u{e9}\u{fffd}\u{fffd}\u{fffd}[2J\u{fffd}"
        );
        assert_eq!(&*legible(b"\xff\xfe"), "\u{fffd}\u{fffd}");
        assert_eq!(legible(&[b'x'; 1000]).len(), ABUSE_VALUE_CHARS_MAX);
    }
}
