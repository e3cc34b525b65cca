//! Functions for the tables of annotations and of `ConfigMap` keys.

use super::value;

/// Whether a value requests the default behaviour: it is empty, the default, or the same boolean as the
/// default.
pub(super) fn is_default(value: &str, default: &str) -> bool {
    let value = value.trim();
    let same_boolean = || value::boolean(value).is_ok() && value::boolean(value) == value::boolean(default);
    value.is_empty() || value.eq_ignore_ascii_case(default) || same_boolean()
}

/// A suggestion for an unknown name, as the end of a message; empty if no known name is similar.
pub(super) fn suggestion(unknown: &str, known: impl IntoIterator<Item = &'static str>) -> String {
    let similarity = |name: &'static str| (strsim::jaro_winkler(unknown, name), name);
    let best = known.into_iter().map(similarity).max_by(|(a, _), (b, _)| a.total_cmp(b));
    match best {
        Some((score, name)) if score >= SIMILARITY_MIN => format!("; did you mean {name:?}?"),
        _ => String::new(),
    }
}

/// The least similarity of a suggestion. A lower bound would suggest wrong names: `rate-limit` is 0.6 of
/// `limit-rate`.
const SIMILARITY_MIN: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_ask_for_nothing() {
        assert!(is_default(" off ", "off") && is_default("http", "HTTP") && is_default("0", "false"));
        assert!(is_default("", "true"), "as good as absent");
        assert!(!is_default("on", "off") && !is_default("true", "false"));
    }

    #[test]
    fn only_what_is_close_is_suggested() {
        let known = ["proxy-read-timeout", "proxy-send-timeout"];
        assert_eq!(suggestion("proxy-raed-timeout", known), "; did you mean \"proxy-read-timeout\"?");
        assert_eq!(suggestion("websocket-services", known), "");
    }
}
