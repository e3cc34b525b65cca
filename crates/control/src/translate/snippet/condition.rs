//! The conditions of `if`.

use model::{Check, Test};

use super::parse::Directive;
use super::{Fault, Reader};

impl Reader<'_> {
    /// Reads `($x)`, `($x = text)`, `($x != text)`, and regular expressions with `~`, `~*`, `!~`, `!~*`.
    pub(super) fn condition(&self, directive: &Directive) -> Result<Test, Fault> {
        let words = inside_parentheses(&directive.words);
        let words = words.ok_or_else(|| directive.fault("has no condition in parentheses"))?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (subject, operator, text) = match words.as_slice() {
            [subject] => (subject, "", ""),
            [subject, operator, text] => (subject, *operator, *text),
            _ => return Err(directive.fault("has no condition that is understood")),
        };
        let name = subject.strip_prefix('$').filter(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
        let name =
            name.ok_or_else(|| directive.fault(format!("asks for {subject:?}, which is no variable")))?;
        let (check, is_negated) = match operator {
            "" => (Check::IsTrue, false),
            "=" => (Check::Equals(self.template(directive, text)?), false),
            "!=" => (Check::Equals(self.template(directive, text)?), true),
            "~" => (Check::Matches(self.expression(directive, text, false)?), false),
            "~*" => (Check::Matches(self.expression(directive, text, true)?), false),
            "!~" => (Check::Matches(self.expression(directive, text, false)?), true),
            "!~*" => (Check::Matches(self.expression(directive, text, true)?), true),
            _ => return Err(directive.fault(format!("compares by {operator:?}, which is not understood"))),
        };
        Ok(Test { subject: self.template(directive, &format!("${{{name}}}"))?, check, is_negated })
    }
}

/// The words without the parentheses around them.
fn inside_parentheses(words: &[String]) -> Option<Vec<String>> {
    let mut words = words.to_vec();
    let first = words.first_mut()?;
    *first = first.strip_prefix('(')?.to_owned();
    let last = words.last_mut()?;
    *last = last.strip_suffix(')')?.to_owned();
    if words.first().is_some_and(String::is_empty) {
        words.remove(0);
    }
    if words.last().is_some_and(String::is_empty) {
        words.pop();
    }
    Some(words)
}
