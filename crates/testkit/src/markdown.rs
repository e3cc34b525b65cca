//! Markdown of pages that tests and tools write: lines of prose as `cargo xtask tidy` wants them.

/// Characters of a line, at most.
const WIDTH: usize = 108;

/// The text in lines of at most 108 characters. Further lines of a list's item are indented; code is not
/// broken.
pub fn wrapped(text: &str) -> String {
    let indent = " ".repeat(marker(text));
    let (mut lines, mut width) = (String::with_capacity(text.len()), 0);
    for word in words(text) {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            lines.push('\n');
            lines.push_str(&indent);
            width = indent.len();
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(&word);
        width += length;
    }
    lines
}

/// Length of the marker of a list's item, `- ` or `1. `; 0 elsewhere.
fn marker(text: &str) -> usize {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match &text.as_bytes()[digits..] {
        [b'-', b' ', ..] if digits == 0 => 2,
        [b'.', b' ', ..] if digits > 0 => digits + 2,
        _ => 0,
    }
}

/// The words of a text; code with spaces in it is one word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_code = false;
    for word in text.split(' ') {
        match words.last_mut().filter(|_| in_code) {
            Some(code) => code.extend([" ", word]),
            None => words.push(word.to_owned()),
        }
        in_code ^= word.matches('`').count() % 2 == 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_outside_of_code() {
        let long = format!("- {} `a b` c", "x".repeat(104));
        assert_eq!(wrapped(&long), format!("- {}\n  `a b` c", "x".repeat(104)));
        assert_eq!(wrapped(&format!("12. {} y", "x".repeat(104))), format!("12. {}\n    y", "x".repeat(104)));
        assert_eq!(wrapped(&"word ".repeat(30)).lines().map(str::len).max(), Some(104));
        assert_eq!(wrapped("short"), "short");
    }
}
