//! Headers that objects set: their allowed names and values.
//!
//! A name that decides about the framing of a message, or about a connection, belongs to the proxy: another
//! value could split one message into two.

use std::sync::Arc;

use model::template::Template;

use super::inputs::Inputs;
use super::value::Parsed;
use crate::names::NsName;
use crate::objects::{At, ConfigMap, Sourced};
use crate::problem::{Problem, Reason, Severity};

/// Headers with the templates of their values.
pub(super) type Templates = Vec<(String, Template)>;

/// The message that a header belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Response,
}

/// Headers of every message that end at the proxy, or are made by it.
const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers of a request that other settings control.
const OF_REQUESTS: &[&str] = &["expect", "host"];

/// Parses the name of a header that may be set: it must not affect the connection or the end of the message.
pub(super) fn name(text: &str, side: Side) -> Parsed<String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let lower = text.to_ascii_lowercase();
    let is_ours =
        FRAMING.contains(&lower.as_str()) || side == Side::Request && OF_REQUESTS.contains(&lower.as_str());
    if text.is_empty() || is_ours || !text.bytes().all(is_allowed) {
        return Err(format!("{text:?} is no header that can be set"));
    }
    Ok(text.to_owned())
}

/// A value with variables. White space around it, such as the last line break of a block of YAML, is removed.
pub(super) fn template(text: &str) -> Parsed<Template> {
    Template::parse(line(text)?).map_err(|error| error.to_string())
}

/// A value without variables.
pub(super) fn literal(text: &str) -> Parsed<String> {
    let text = line(text)?;
    let is_allowed = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    if text.is_empty() || !text.bytes().all(is_allowed) {
        return Err(format!("{text:?} is no value that a header can have"));
    }
    Ok(text.to_owned())
}

fn line(text: &str) -> Parsed<&str> {
    let line = text.trim();
    if line.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(format!("{line:?} has a line break or another control character"));
    }
    Ok(line)
}

/// The headers in the `ConfigMap` that a key of the settings names. Missing and invalid headers are left out
/// and reported.
pub(super) fn of_settings(
    key: &str,
    settings: &Sourced<ConfigMap>,
    side: Side,
    inputs: &Inputs<'_>,
    problems: &mut Vec<Problem>,
) -> Templates {
    let mut headers = Templates::new();
    let Some(named) = settings.data.get(key).filter(|named| !named.value.is_empty()) else { return headers };
    // A text that is no name has been reported when the key was read.
    let Ok(name) = named.value.trim().parse::<NsName>() else { return headers };
    let Some(configmap) = inputs.configmap(&name) else {
        let message = format!("key {key}: ConfigMap {name} is missing; no headers are set");
        problems.push(Problem::at(Severity::Error, settings, named, message).because(Reason::Missing));
        return headers;
    };
    for (header, value) in &configmap.data {
        let parsed = self::name(header, side).and_then(|name| Ok((name, template(&value.value)?)));
        match parsed {
            Ok(header) => headers.push(header),
            Err(why) => {
                let message = format!("header {header}: {why}; it is ignored");
                problems.push(Problem::at(Severity::Error, configmap, value, message));
            }
        }
    }
    headers
}

/// The headers of a `ConfigMap` without variables, or the reason why they cannot be set. Only names in
/// `allowed` may be set, in the same letter case.
pub(super) fn literals(configmap: &ConfigMap, allowed: &[String]) -> Parsed<Arc<[(String, String)]>> {
    let header = |(name, value): (&String, &At<String>)| {
        if !allowed.contains(name) {
            return Err(format!("header {name:?} is not one that global-allowed-response-headers lists"));
        }
        Ok((self::name(name, Side::Response)?, literal(&value.value)?))
    };
    configmap.data.iter().map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_frames_a_message_is_not_set() {
        for text in ["Content-Length", "TRANSFER-ENCODING", "connection", "", "X Y", "X:Y", "X\r\nY"] {
            assert!(name(text, Side::Response).is_err() && name(text, Side::Request).is_err(), "{text:?}");
        }
        assert!(name("Host", Side::Request).is_err());
        assert_eq!(name("X-Frame_Options.2", Side::Response).unwrap(), "X-Frame_Options.2");
    }

    #[test]
    fn a_value_is_one_line() {
        assert_eq!(literal(" a $b\n").unwrap(), "a $b");
        for text in ["", " ", "a\nb", "a\rb", "\u{e4}"] {
            assert!(literal(text).is_err(), "{text:?}");
        }
        assert!(template("$host\n").is_ok() && template("").is_ok());
        assert!(template("a\nb").is_err() && template("$nonsense").is_err());
    }
}
