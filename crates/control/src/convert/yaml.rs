//! YAML with comments: objects that are serialised as JSON values, and remarks above their fields.
//!
//! Never in here: the content of objects and remarks.

use std::fmt::Write;

use serde_json::Value;

use crate::legible::{self, is_hidden};

/// Remarks by the JSON pointer (RFC 6901) of their field; the pointer of the whole document is empty.
pub(super) type Remarks = Vec<(String, String)>;

/// Longest line of a comment, in characters.
const COMMENT_COLUMNS: usize = 120;

/// The fields that come first, in this order. All others follow by name.
const FIRST: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "type",
    "group",
    "name",
    "namespace",
    "sectionName",
    "gatewayClassName",
    "parentRefs",
    "targetRefs",
    "hostnames",
    "hostname",
    "port",
    "protocol",
    "matches",
    "path",
    "method",
    "filters",
    "backendRefs",
];

/// Writes a document, without the separator line. Fields without a value are left out.
pub(super) fn write(out: &mut String, document: &Value, remarks: &Remarks) {
    let mut writer = Writer { out, remarks };
    writer.comment("", 0);
    writer.mapping(document, "", 0);
}

/// Writes a comment for readers: each line begins with `# `.
pub(super) fn comment(out: &mut String, text: &str, indent: usize) {
    for line in text.lines() {
        for line in wrapped(line, COMMENT_COLUMNS.saturating_sub(indent)) {
            let _ = writeln!(out, "{:indent$}# {}", "", legible::line(&line));
        }
    }
}

struct Writer<'w> {
    out: &'w mut String,
    remarks: &'w Remarks,
}

impl Writer<'_> {
    fn comment(&mut self, pointer: &str, indent: usize) {
        for (_, text) in self.remarks.iter().filter(|(at, _)| at == pointer) {
            comment(self.out, text, indent);
        }
    }

    fn mapping(&mut self, value: &Value, pointer: &str, indent: usize) {
        self.fields(value, pointer, indent, false);
    }

    /// The fields of a mapping. `continues`: the first field follows the dash of a list item on the same
    /// line.
    fn fields(&mut self, value: &Value, pointer: &str, indent: usize, continues: bool) {
        let Value::Object(fields) = value else { return };
        let mut names: Vec<&String> =
            fields.keys().filter(|name| !is_empty(&fields[name.as_str()])).collect();
        names.sort_by_key(|name| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
        for (number, name) in names.into_iter().enumerate() {
            let field = &fields[name.as_str()];
            let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            if !(continues && number == 0) {
                self.comment(&pointer, indent);
                let _ = write!(self.out, "{:indent$}", "");
            }
            let _ = write!(self.out, "{}:", scalar(name));
            self.value(field, &pointer, indent);
        }
    }

    /// Writes the value after a name and its colon.
    fn value(&mut self, value: &Value, pointer: &str, indent: usize) {
        match value {
            Value::Object(_) => {
                self.out.push('\n');
                self.mapping(value, pointer, indent + 2);
            }
            Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
                let items: Vec<_> = items.iter().map(plain).collect();
                let _ = writeln!(self.out, " [{}]", items.join(", "));
            }
            Value::Array(items) => {
                self.out.push('\n');
                for (number, item) in items.iter().enumerate() {
                    let pointer = format!("{pointer}/{number}");
                    self.comment(&pointer, indent);
                    let _ = write!(self.out, "{:indent$}- ", "");
                    self.fields(item, &pointer, indent + 2, true);
                }
            }
            scalar => {
                let _ = writeln!(self.out, " {}", plain(scalar));
            }
        }
    }
}

/// Whether a field has no content. An empty text is content.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A text in a form that YAML reads as the same text: plain if no YAML type matches it, and otherwise in
/// JSON's quotes, because YAML is a superset of JSON.
fn scalar(text: &str) -> String {
    let is_of_name = |char: char| char.is_ascii_alphanumeric() || "-_./$".contains(char);
    let begins = text.starts_with(|char: char| char.is_ascii_alphabetic() || char == '/');
    let is_word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if begins && !is_word && text.chars().all(is_of_name) {
        text.to_owned()
    } else {
        let mut quoted = String::with_capacity(text.len() + 2);
        Value::from(text).to_string().chars().for_each(|char| push_escaped(char, &mut quoted));
        quoted
    }
}

/// Appends a character of a quoted text. JSON leaves some characters unescaped that YAML reads as line ends
/// or does not allow.
fn push_escaped(char: char, out: &mut String) {
    let code = u32::from(char);
    let _ = match is_hidden(char) {
        false => out.write_char(char),
        true if code <= 0xffff => write!(out, "\\u{code:04x}"),
        true => write!(out, "\\U{code:08x}"),
    };
}

/// Wraps the words of a line to this width, except for longer words.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in line.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.is_empty() => last.push_str(word),
            Some(last) if last.len() + 1 + word.len() <= columns => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn remarks_stand_above_their_fields() {
        let document = json!({
            "kind": "A", "metadata": {"name": "on", "labels": {}},
            "spec": {"rules": [{"matches": [{"path": "/"}], "none": []}, {"name": "b c"}], "hosts": ["x", "*.y"]},
        });
        let remarks = vec![
            (String::new(), "first\nsecond".to_owned()),
            ("/spec/rules/1".to_owned(), "of an item".to_owned()),
            ("/spec/hosts".to_owned(), "of a field".to_owned()),
        ];
        let mut text = String::new();
        write(&mut text, &document, &remarks);
        let expected = "# first\n# second\nkind: A\nmetadata:\n  name: \"on\"\nspec:\n  # of a field\n  hosts: [x, \"*.y\"]\n  rules:\n  \
                        - matches:\n    - path: /\n  # of an item\n  - name: \"b c\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn texts_are_read_back_as_they_are() {
        for text in [
            "a",
            "/",
            "",
            "1",
            "1.5",
            "no",
            "a: b",
            "#",
            "a\nb",
            "\"",
            "*",
            "- a",
            "é",
            "/(?i:a).*",
            "~",
            " ",
            "a\u{85}b\u{2028}c\u{2029}",
            "\u{7f}\u{9b}\u{1b}\u{feff}\u{202e}\u{e0001}",
        ] {
            let written = scalar(text);
            assert!(!written.contains(is_hidden), "{written:?}");
            let read: String = serde_saphyr::from_str(&written).unwrap();
            assert_eq!(read, text);
        }
    }

    #[test]
    fn a_comment_cannot_be_left() {
        let mut text = String::new();
        comment(
            &mut text,
            &format!("a\r\nkind: Secret {}\u{85}x: \u{1b}[0m\u{2028}y: z", "word ".repeat(40)),
            2,
        );
        assert!(!text.contains(|char: char| char != '\n' && is_hidden(char)), "{text:?}");
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.starts_with("  # ")), "{text}");
    }
}
