//! Ingresses that are ignored as if they did not exist because of the content of their annotations or names,
//! as in ingress-nginx. There the check prevents the injection of text into a configuration; here it only
//! enforces the operator's restrictions, and nothing else depends on it.

use super::annotation::Risk;
use super::annotations::named;
use crate::objects::{At, Ingress, Sourced};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity, SourceLocation};

/// The restrictions on the content of Ingresses.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    /// The highest risk of an Ingress's annotations.
    pub(in crate::translate) risk_max: Risk,
    /// Annotations may contain nginx's configuration.
    pub(in crate::translate) allows_snippets: bool,
    /// Words that no annotation may contain.
    pub(in crate::translate) blocked_words: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { risk_max: Risk::High, allows_snippets: false, blocked_words: Vec::new() }
    }
}

impl Settings {
    /// The reason for ignoring an Ingress because of one of its annotations; none if the annotation is
    /// allowed.
    pub(in crate::translate) fn refusal(&self, name: &str, value: &str) -> Option<String> {
        let risk = named(name).map(|annotation| annotation.risk);
        if let Some(risk) = risk.filter(|&risk| risk > self.risk_max) {
            let old = if self.allows_snippets && self.risk_max == Risk::High {
                " (ingress-nginx before 1.12 allowed Critical by default)"
            } else {
                ""
            };
            return Some(format!(
                "its risk is {risk:?}, and annotations-risk-level of the ConfigMap allows {:?} at most{old}",
                self.risk_max
            ));
        }
        let word = self.blocked_words.iter().find(|word| value.contains(word.as_str()));
        word.map(|word| format!("it holds {word:?}, which annotation-value-word-blocklist forbids"))
    }

    /// Whether an annotation has no effect because it contains nginx's configuration.
    pub(super) fn drops(&self, name: &str) -> bool {
        !self.allows_snippets && name.ends_with("-snippet")
    }
}

/// The reasons for ignoring an Ingress; empty if it is not ignored.
pub(super) fn refusals(ingress: &Sourced<Ingress>, settings: &Settings, options: &Options) -> Vec<Problem> {
    const IGNORED: &str = "the Ingress is ignored, as by ingress-nginx";
    let mut problems = Vec::new();
    for (key, value) in ingress.metadata.annotations.iter() {
        let name = key.split_once('/').filter(|(prefix, _)| *prefix == options.annotations_prefix);
        let Some(why) = name.and_then(|(_, name)| settings.refusal(name, &value.value)) else { continue };
        let message = format!("annotation {key}: {why}; {IGNORED}");
        problems.push(Problem::at(Severity::Error, ingress, value, message).because(Reason::Annotation));
    }
    if options.deep_inspect {
        problems.extend(inspected(ingress).filter(|(_, text, _)| is_suspicious(text)).map(
            |(what, text, place)| {
                let message =
                    format!("{what} {text:?} looks like part of a configuration (--deep-inspect); {IGNORED}");
                Problem::in_place(Severity::Error, &place, message).because(Reason::Annotation)
            },
        ));
    }
    problems
}

/// The names and paths of an Ingress.
fn inspected(ingress: &Sourced<Ingress>) -> impl Iterator<Item = (&'static str, &str, SourceLocation)> {
    let spec = &ingress.spec;
    let hosts = spec.rules.iter().filter_map(|rule| rule.value.host.as_ref());
    let hosts = hosts.map(|host| ("host", &*host.value, SourceLocation::at(ingress, host)));
    let paths = spec.rules.iter().filter_map(|rule| rule.value.http.as_ref()).flat_map(|http| &http.paths);
    let paths = paths
        .filter_map(|path| Some(("path", path.value.path.as_deref()?, SourceLocation::at(ingress, path))));
    let names = spec.tls.iter().flat_map(move |tls| {
        tls.value.hosts.iter().map(move |host| ("TLS host", host.as_str(), SourceLocation::at(ingress, tls)))
    });
    let secrets = spec.tls.iter().filter_map(|tls| tls.value.secret_name.as_ref());
    let secrets =
        secrets.map(|name: &At<String>| ("Secret", name.value.as_str(), SourceLocation::at(ingress, name)));
    hosts.chain(paths).chain(names).chain(secrets)
}

/// The rules of ingress-nginx's `internal/ingress/inspector`.
fn is_suspicious(text: &str) -> bool {
    const ANYWHERE: &[&str] = &[
        "/etc/passwd",
        "/etc/shadow",
        "/etc/group",
        "/etc/nginx",
        "/etc/ingress-controller",
        "/var/run/secrets",
        "_by_lua",
    ];
    let directive = |name| text.split_once(name).is_some_and(|(_, rest)| rest.contains(';'));
    directive("alias") || directive("root") || ANYWHERE.iter().any(|part| text.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_configuration_is_suspicious() {
        for text in ["/a;alias /x;", "/{root /;}", "a_by_lua_block", "x/etc/passwd", "/var/run/secrets/k"] {
            assert!(is_suspicious(text), "{text}");
        }
        for text in ["/alias", "/root/x", "/a;b", "www.root.test", "/;root", "/etc/hosts"] {
            assert!(!is_suspicious(text), "{text}");
        }
    }

    #[test]
    fn risks_and_words_are_looked_at() {
        let settings = Settings { blocked_words: vec!["load_module".to_owned()], ..Settings::default() };
        assert!(settings.refusal("server-snippet", "").is_some(), "an empty one like any");
        assert!(settings.refusal("auth-url", "http://a/").is_none(), "High is allowed");
        assert!(settings.refusal("auth-url", "http://load_modules/").is_some());
        assert!(settings.refusal("nonsense", "x").is_none());
        let strict = Settings { risk_max: Risk::Low, ..Settings::default() };
        assert!(
            strict.refusal("whitelist-source-range", "10.0.0.0/8").is_some()
                && strict.refusal("canary", "1").is_none()
        );
    }
}
