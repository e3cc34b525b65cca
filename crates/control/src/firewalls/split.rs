//! Snippets that include the core rules themselves, as ingress-nginx's documentation shows. The parts around
//! that line are compiled alone, so that the core rules are compiled once for all.

use super::folder::CORE_FILE;
use super::wanted::Wanted;

/// The parts of a snippet around the core rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) before: String,
    /// It begins with as many empty lines as stand before it, so that its places are those of the whole
    /// snippet.
    pub(super) after: Option<String>,
}

/// The rules that are wanted, with the core rules if the snippet includes them, and the parts of the snippet.
pub(super) fn split(wanted: &Wanted) -> (Wanted, Parts) {
    let snippet = wanted.snippet.as_ref().filter(|text| !text.trim().is_empty());
    let mut wanted = Wanted { snippet: snippet.cloned(), ..wanted.clone() };
    let text = wanted.snippet.as_deref().unwrap_or_default();
    let parts = around_core(text).unwrap_or_else(|| Parts { before: text.to_owned(), after: None });
    wanted.base.core |= parts.after.is_some();
    (wanted, parts)
}

/// The parts of a text around the line that includes the core rules; none without such a line.
pub(super) fn around_core(text: &str) -> Option<Parts> {
    let mut at = 0;
    let mut continues = false;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if !continues && includes_core(line) {
            let after = "\n".repeat(number + 1) + &text[at + line.len()..];
            return Some(Parts { before: text[..at].to_owned(), after: Some(after) });
        }
        continues = line.trim_end().ends_with('\\');
        at += line.len();
    }
    None
}

/// Whether a line is the directive that includes all of the core rules.
fn includes_core(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_include = words.next().is_some_and(|word| word.eq_ignore_ascii_case("Include"));
    let is_core = words.next().is_some_and(|word| word.trim_matches(['"', '\'']) == CORE_FILE);
    is_include && is_core && words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_rules_are_taken_out_of_a_snippet() {
        let wanted = |text: &str| Wanted { snippet: Some(text.into()), ..Wanted::default() };
        let text = format!("SecRuleEngine On\n  Include \"{CORE_FILE}\"\nSecAction id:1\n");
        let (all, parts) = split(&wanted(&text));
        assert!(all.base.core);
        assert_eq!(parts.before, "SecRuleEngine On\n");
        assert_eq!(parts.after.as_deref(), Some("\n\nSecAction id:1\n"), "on its third line, as before");
        for text in ["SecRuleEngine On", "# Include x", &format!("SecAction \\\nInclude {CORE_FILE}")] {
            let (all, parts) = split(&wanted(text));
            assert_eq!((all.base.core, &*parts.before, parts.after), (false, text, None), "{text}");
        }
        assert_eq!(split(&wanted(" \n")).0.snippet, None, "a blank one is none");
    }
}
