//! Values as YAML for people: blocks, and texts in quotes where they need them.
//!
//! Never in here: the documents.

use std::fmt::Write;

use serde_json::Value;

/// The text of an object.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value, 0);
    text
}

fn write_value(text: &mut String, value: &Value, indent: usize) {
    let space = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                write!(text, "{space}{}:", scalar(&Value::from(name.as_str()))).unwrap();
                write_below(text, value, indent + 2);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut below = String::new();
                write_value(&mut below, item, indent + 2);
                // The first line of an item stands behind its dash.
                writeln!(text, "{space}- {}", below.trim()).unwrap();
            }
        }
        plain => writeln!(text, "{space}{}", scalar(plain)).unwrap(),
    }
}

fn write_below(text: &mut String, value: &Value, indent: usize) {
    let is_block = value.as_object().is_some_and(|it| !it.is_empty())
        || value.as_array().is_some_and(|it| !it.is_empty());
    if is_block {
        text.push('\n');
        write_value(text, value, indent);
    } else {
        writeln!(text, " {}", scalar(value)).unwrap();
    }
}

/// A value on one line: JSON, without the quotes where a text is the same without them.
fn scalar(value: &Value) -> String {
    let is_plain = |text: &str| {
        let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
        let is_other = ["true", "false", "on", "off", "yes", "no", "null", "y", "n"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word));
        is_word && !is_other && text.starts_with(|first: char| first.is_ascii_alphabetic())
    };
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    }
}

#[test]
fn what_is_written_is_read_again() {
    let value = serde_json::json!({
        "name": "a-b", "word": "on", "number": "10", "text": "a: \"b\"", "empty": {}, "none": [],
        "list": [{"a": 1, "b": [1, 2]}, "c", ["d"]], "deep": {"er": {"est": true}},
    });
    let written = text(&value);
    assert_eq!(serde_saphyr::from_str::<Value>(&written).unwrap(), value, "{written}");
}
