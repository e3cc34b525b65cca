//! The directive `valid_referers`, which decides `$invalid_referer`: steps that compare `Referer`.

use model::template::Template;
use model::{Block, Check, Step, Test};

use super::parse::Directive;
use super::{Fault, Reader};

const NAME: &str = "invalid_referer";

impl Reader<'_> {
    /// Reads `valid_referers none|blocked|server_names|NAME|~REGEX ...`: `$invalid_referer` is `1`, and empty
    /// where any of them applies.
    pub(super) fn valid_referers(&self, directive: &Directive) -> Result<Vec<Step>, Fault> {
        let set = |value: &str| Ok(Step::Set(NAME.into(), self.template(directive, value)?));
        let valid = |steps: Vec<Step>| Block { steps, ..Block::default() };
        let referer = |check, is_negated| {
            let subject = self.template(directive, "$http_referer")?;
            Ok::<_, Fault>(Test { subject, check, is_negated })
        };
        let matching = |pattern: &str| Ok(Check::Matches(self.expression(directive, pattern, true)?));
        let mut steps = vec![set("1")?];
        let (mut names, mut allows_none) = (Vec::new(), false);
        for word in &directive.words {
            match word.as_str() {
                "none" => allows_none = true,
                "blocked" => {
                    let test = referer(matching("^https?://")?, true)?;
                    steps.push(Step::If(test, valid(vec![set("")?])));
                }
                "server_names" => {
                    let host = Test {
                        subject: self.template(directive, "$host")?,
                        check: Check::Equals(self.template(directive, "$1")?),
                        is_negated: false,
                    };
                    let inside = Step::If(host, valid(vec![set("")?]));
                    let test = referer(matching("^https?://([^/:]+)")?, false)?;
                    steps.push(Step::If(test, valid(vec![inside])));
                }
                name => names.push(pattern_of(name)),
            }
        }
        if !names.is_empty() {
            let test = referer(matching(&format!("^https?://(?:{})", names.join("|")))?, false)?;
            steps.push(Step::If(test, valid(vec![set("")?])));
        }
        let none = referer(Check::Equals(Template::default()), false)?;
        steps.push(Step::If(none, valid(vec![set(if allows_none { "" } else { "1" })?])));
        Ok(steps)
    }
}

/// The expression for a name as nginx has it, behind the scheme of a URL.
fn pattern_of(name: &str) -> String {
    if let Some(pattern) = name.strip_prefix('~') {
        return match pattern.strip_prefix('^') {
            Some(pattern) => pattern.to_owned(),
            None => format!(".*?{pattern}"),
        };
    }
    let (host, path) = name.split_once('/').map_or((name, None), |(host, path)| (host, Some(path)));
    let escaped = |text: &str| text.replace('.', r"\.").replace('+', r"\+");
    let host = match (host.strip_prefix("*."), host.strip_prefix('.'), host.strip_suffix(".*")) {
        (Some(host), ..) => format!(r"[^/:]+\.{}", escaped(host)),
        (_, Some(host), _) => format!(r"(?:[^/:]+\.)?{}", escaped(host)),
        (.., Some(host)) => format!(r"{}\.[^/:]+", escaped(host)),
        _ => escaped(host),
    };
    let path = path.map_or_else(|| "(?:/|$)".to_owned(), |path| format!("/{}", escaped(path)));
    format!("{host}(?::[0-9]+)?{path}")
}

#[cfg(test)]
mod tests {
    use model::{Expression, StepBudget};

    use super::*;

    #[test]
    fn names_match_as_in_nginx() {
        let matches = |name: &str, referer: &str| {
            let pattern = Expression::anywhere(&format!("^https?://(?:{})", pattern_of(name))).unwrap();
            pattern.try_match(referer.as_bytes(), &StepBudget::default()).unwrap()
        };
        for (name, referer) in [
            ("example.com", "http://EXAMPLE.com:81/a"),
            ("*.example.com", "https://a.b.example.com"),
            (".example.com", "https://example.com/"),
            ("example.*", "https://example.org/x"),
            ("example.com/a", "https://example.com/ab"),
            (r"~\.google\.", "https://www.google.com/"),
            ("~^a\\.test", "http://a.test/"),
        ] {
            assert!(matches(name, referer), "{name} {referer}");
        }
        for (name, referer) in [
            ("example.com", "http://example.com.evil.test/"),
            ("*.example.com", "https://example.com/"),
            ("example.com", "http://evil.test/?http://example.com/"),
            ("example.com/a", "https://example.com/b"),
        ] {
            assert!(!matches(name, referer), "{name} {referer}");
        }
    }
}
