//! The table of values in the chart's README, made from the comments in `values.yaml`.
//!
//! `# -- TEXT`, and lines of comment below it, are of the key that follows. Keys without have no row.

use anyhow::{Context, Result};
use serde_json::Value;

/// The beginning and the end of the table; the rest of the file is written by hand.
const HEAD: &str = "| value | default | |\n|---|---|---|\n";
/// Longer defaults are left to `values.yaml`.
const DEFAULT_MAX: usize = 60;

/// The README with the table of these values, which is its end.
pub(super) fn replace(readme: &str, values: &str) -> Result<String> {
    let at = readme.find(HEAD).context("README.md has no table of values")?;
    let defaults: Value = serde_saphyr::from_str(values)?;
    let rows = rows(values).into_iter().map(|(path, text)| {
        let default = path.iter().fold(&defaults, |value, key| &value[key]);
        format!("| `{}` | {} | {} |\n", path.join("."), shown(default), text.replace('|', "\\|"))
    });
    Ok(rows.fold(format!("{}{HEAD}", &readme[..at]), |text, row| text + &row))
}

fn shown(default: &Value) -> String {
    match default.to_string() {
        _ if default.is_null() => String::new(),
        text if text.len() > DEFAULT_MAX => "…".to_owned(),
        text => format!("`{text}`"),
    }
}

/// Keys with their texts, in the file's order.
fn rows(values: &str) -> Vec<(Vec<String>, String)> {
    let (mut rows, mut path, mut text) = (Vec::new(), Vec::<(usize, String)>::new(), None::<String>);
    for line in values.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if let Some(begun) = content.strip_prefix("# -- ") {
            text = Some(begun.to_owned());
            continue;
        }
        let comment = content.strip_prefix("# ");
        let Some(key) = key(comment.unwrap_or(content)).filter(|_| comment.is_none() || text.is_some())
        else {
            match (&mut text, comment) {
                (Some(text), Some(more)) => *text = format!("{text} {more}"),
                _ => text = None,
            }
            continue;
        };
        path.retain(|(outer, _)| *outer < indent);
        path.push((indent, key.to_owned()));
        if let Some(text) = text.take() {
            rows.push((path.iter().map(|(_, key)| key.clone()).collect(), text));
        }
    }
    rows
}

/// The key that a line sets.
fn key(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_key && (rest.is_empty() || rest.starts_with(' '))).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_text_above_them() {
        let values = "# Of the file.\na:\n  # -- What b is,\n  # in two lines.\n  b: 1\n  c: 2\n# -- Not set.\n# d: x\n";
        let readme = format!("# Chart\n\n{HEAD}| old |\n");
        let expected =
            format!("# Chart\n\n{HEAD}| `a.b` | `1` | What b is, in two lines. |\n| `d` |  | Not set. |\n");
        assert_eq!(replace(&readme, values).unwrap(), expected);
    }

    #[test]
    fn comments_are_not_keys() {
        assert_eq!(key("Paths are these: a"), None);
        assert_eq!(key("pullPolicy: IfNotPresent"), Some("pullPolicy"));
    }
}
