//! The exclusion that would let a refused request pass, as YAML for an Ingress and for a `ForebayPolicy`.
//!
//! Names of variables and paths come from clients: those that could end a text of YAML are not written.

use serde::Serialize;

/// An exclusion, in the forms that objects have.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Exclusion {
    /// The annotation of an Ingress.
    ingress: String,
    /// The part of a `ForebayPolicy`.
    policy: String,
}

impl Exclusion {
    /// Leaves one variable out of one rule, on one path if that can be written. None if the variable is not
    /// the client's, or its name cannot be written.
    pub(super) fn of(rule: u64, variable: &str, path: &str) -> Option<Self> {
        let (collection, name) = variable.split_once(':').unwrap_or((variable, ""));
        let is_clients = FROM_CLIENTS.iter().any(|begin| collection.starts_with(begin));
        // A name with a slash before it would be an expression.
        if rule == 0 || !is_clients || !is_plain(collection) || !is_plain(name) || name.starts_with('/') {
            return None;
        }
        let path = Some(path).filter(|path| path.starts_with('/') && is_plain(path));
        let path = path.map(|path| format!("  path: {{type: Exact, value: \"{path}\"}}"));
        let rule = format!("- rules: [{rule}]");
        let lines = [Some(rule), path, Some(format!("  targets: [\"{variable}\"]"))];
        let below = |head: &str, indent: &str| {
            let lines = lines.iter().flatten().map(|line| format!("{indent}{line}\n"));
            format!("{head}{}", lines.collect::<String>())
        };
        Some(Self {
            ingress: below(
                "metadata:\n  annotations:\n    # Add it to the exclusions that are there.\n    forebay.io/waf-exclusions: |\n",
                "      ",
            ),
            policy: below("spec:\n  waf:\n    exclusions:\n", "    "),
        })
    }
}

/// The beginnings of the names of variables that a client fills. Scores and the like are the rules' own.
const FROM_CLIENTS: [&str; 6] = ["ARGS", "REQUEST_", "FILES", "XML", "MULTIPART_", "QUERY_STRING"];

/// Whether a text has only characters that mean nothing within YAML's quotes and in a target.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./~[]".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_argument_of_one_rule_is_left_out_on_one_path() {
        let exclusion = Exclusion::of(942_100, "ARGS:comment", "/editor").unwrap();
        let expected = "metadata:\n  annotations:\n    # Add it to the exclusions that are there.\n    \
                        forebay.io/waf-exclusions: |\n      - rules: [942100]\n        path: {type: Exact, value: \"/editor\"}\n        \
                        targets: [\"ARGS:comment\"]\n";
        assert_eq!(exclusion.ingress, expected);
        let expected = "spec:\n  waf:\n    exclusions:\n    - rules: [942100]\n      \
                        path: {type: Exact, value: \"/editor\"}\n      targets: [\"ARGS:comment\"]\n";
        assert_eq!(exclusion.policy, expected);
        let anywhere = Exclusion::of(942_100, "ARGS:comment", "/a\"b").unwrap();
        assert!(!anywhere.policy.contains("path"), "{}", anywhere.policy);
    }

    #[test]
    fn what_could_end_a_word_is_not_written() {
        for variable in [
            "ARGS:a\"b",
            "ARGS:a\nb",
            "ARGS:a,b",
            "ARGS:a;b",
            "ARGS:'",
            "ARGS:%{x}",
            "ARGS:a|b",
            "ARGS:/a/",
            "ARGS:\u{e4}",
        ] {
            assert_eq!(Exclusion::of(1, variable, "/"), None, "{variable:?}");
        }
        for variable in ["TX:BLOCKING_INBOUND_ANOMALY_SCORE", "", "IP:count"] {
            assert_eq!(Exclusion::of(949_110, variable, "/"), None, "{variable:?}");
        }
        assert_eq!(Exclusion::of(0, "ARGS:a", "/"), None, "a limit is no rule");
        assert!(Exclusion::of(1, "ARGS:items[0][id]", "/").is_some());
    }
}
