//! Parsers for the values of annotations and `ConfigMap` keys.

use std::time::Duration;

use ipnet::IpNet;
use model::{Balance, ConnectionHeader, Http3, RetryOn, TlsVersions};

use crate::options::parse_network;

/// A parsed value, or an error message for the author of the text.
pub(super) type Parsed<T> = Result<T, String>;

/// The result of applying a value: a remark if only a part of it was applied, or the error.
pub(super) type Applied = Parsed<Option<String>>;

/// Sets a field if the value was parsed; otherwise the field stays.
pub(super) fn set<T>(field: &mut T, parsed: Parsed<T>) -> Applied {
    *field = parsed?;
    Ok(None)
}

/// A value whose zero stands for no limit.
pub(super) fn positive<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// A boolean in the forms of Go's `strconv.ParseBool`, which ingress-nginx uses: blanks around the text are
/// an error.
pub(crate) fn boolean(text: &str) -> Parsed<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither \"true\" nor \"false\"")),
    }
}

/// A boolean in nginx's form, `on` or `off`.
pub(super) fn on_off(text: &str) -> Parsed<bool> {
    match text.trim() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text:?} is neither \"on\" nor \"off\"")),
    }
}

/// Whether HTTP/3 is served, and whom responses tell of it.
pub(super) fn http3(text: &str) -> Parsed<Http3> {
    match text.trim() {
        "auto" => Ok(Http3::Auto),
        "on" => Ok(Http3::On),
        "off" => Ok(Http3::Off),
        _ => Err(format!("{text:?} is none of \"auto\", \"on\" and \"off\"")),
    }
}

/// TLS versions in the form of nginx's `ssl_protocols`, separated by blanks, and a remark about versions that
/// are too old to be supported.
pub(super) fn tls_versions(text: &str) -> Parsed<(TlsVersions, Option<String>)> {
    let mut versions = TlsVersions { v12: false, v13: false };
    let mut old = Vec::new();
    for word in text.split_whitespace() {
        match word {
            "TLSv1.2" => versions.v12 = true,
            "TLSv1.3" => versions.v13 = true,
            "SSLv2" | "SSLv3" | "TLSv1" | "TLSv1.1" => old.push(word),
            _ => return Err(format!("{word:?} is no version such as TLSv1.2")),
        }
    }
    if !versions.v12 && !versions.v13 {
        return Err(format!("{text:?} names neither TLSv1.2 nor TLSv1.3, and others are not available"));
    }
    let remark = (!old.is_empty()).then(|| format!("ignored: {} not available", old.join(", ")));
    Ok((versions, remark))
}

/// Seconds without a unit. Blanks around the number are an error.
pub(super) fn seconds(text: &str) -> Parsed<Duration> {
    if text != text.trim() {
        return Err(format!("{text:?} is not a whole number of seconds: it has a blank"));
    }
    model::parse_seconds(text).map_err(|error| error.to_string())
}

pub(super) fn duration(text: &str) -> Parsed<Duration> {
    model::parse_duration(text).map_err(|error| error.to_string())
}

pub(super) fn size(text: &str) -> Parsed<u64> {
    model::parse_size(text).map_err(|error| error.to_string())
}

/// Parses a text in YAML.
pub(crate) fn yaml(text: &str) -> Parsed<serde_json::Value> {
    let faulty = |error: &dyn std::fmt::Display| {
        // The lines that follow show the text.
        format!("no YAML: {}", error.to_string().lines().next().unwrap_or_default())
    };
    serde_saphyr::from_str(text).map_err(|error| faulty(&error))
}

/// A whole number as Go's `strconv.Atoi` reads it: blanks around it are an error.
pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Parsed<T> {
    text.parse().map_err(|_| format!("{text:?} is not a whole number"))
}

/// The characters that ingress-nginx allows, besides letters and digits, in a name, a URL, a text with
/// variables and a regular expression.
pub(super) const NAME: &str = "-._~/:";
pub(super) const URL: &str = "-._~/:,?&=";
pub(super) const VARIABLE: &str = "-_${}";
pub(super) const REGEX: &str = "-._~/:^$[](){}*+?|&=\\";

/// A text of letters, digits and some other characters. Blanks around it are removed.
pub(super) fn characters(text: &str, others: &str) -> Parsed<String> {
    let value = text.trim();
    match value.chars().find(|c| !c.is_ascii_alphanumeric() && !others.contains(*c)) {
        _ if value.is_empty() => Err("it is empty".to_owned()),
        Some(wrong) => Err(format!("{text:?} has a character that is not allowed: {wrong:?}")),
        None => Ok(value.to_owned()),
    }
}

/// A text of letters, digits and some other characters. Spaces are not checked; those within the text stay.
pub(super) fn spaced(text: &str, others: &str) -> Parsed<String> {
    characters(&text.replace(' ', ""), others).map(|_| text.trim().to_owned())
}

/// A name; none if the text is empty.
pub(super) fn name(text: &str) -> Option<String> {
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// The unchanged text; none if it is blank.
pub(super) fn unless_blank(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.trim().is_empty())
}

/// Items separated by commas, without the blanks around them.
pub(crate) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Networks in CIDR notation, separated by commas. An address alone is a network that holds only itself.
pub(super) fn networks(text: &str) -> Parsed<Vec<IpNet>> {
    list(text).iter().map(|item| network(item)).collect()
}

/// A network in CIDR notation, or an address.
pub(super) fn network(text: &str) -> Parsed<IpNet> {
    parse_network(text)
}

pub(super) fn balance(text: &str) -> Parsed<Balance> {
    match text.trim() {
        // The other names belong to load balancing that annotations of their own turn on.
        "round_robin" | "chash" | "chashsubset" | "sticky_balanced" | "sticky_persistent" => {
            Ok(Balance::RoundRobin)
        }
        "ewma" => Ok(Balance::Ewma),
        _ => Err(format!("{text:?} is neither \"round_robin\" nor \"ewma\"")),
    }
}

pub(super) fn connection_header(text: &str) -> Parsed<ConnectionHeader> {
    match text.trim() {
        "close" => Ok(ConnectionHeader::Close),
        "keep-alive" => Ok(ConnectionHeader::KeepAlive),
        _ => Err(format!("{text:?} is neither \"close\" nor \"keep-alive\"")),
    }
}

/// The failures that lead to a retry, separated by blanks (nginx: `proxy_next_upstream`).
pub(super) fn retry_on(text: &str) -> Parsed<RetryOn> {
    let mut on = RetryOn { error: false, timeout: false, ..RetryOn::default() };
    for word in text.split_whitespace() {
        match word {
            "error" => on.error = true,
            "timeout" => on.timeout = true,
            "invalid_header" => on.invalid_header = true,
            "non_idempotent" => on.non_idempotent = true,
            "off" => return Ok(RetryOn { error: false, timeout: false, ..RetryOn::default() }),
            _ => on.statuses.push(retry_status(word)?),
        }
    }
    Ok(on)
}

fn retry_status(word: &str) -> Parsed<u16> {
    let status = word.strip_prefix("http_").and_then(|digits| digits.parse().ok());
    status.filter(|status| matches!(status, 403 | 404 | 429 | 500 | 502 | 503 | 504)).ok_or_else(|| {
        format!("{word:?} is none of error, timeout, invalid_header, non_idempotent, off, and http_500 and the like")
    })
}

/// Number and size of buffers (nginx: `large_client_header_buffers`). Returns the size of one buffer and of
/// all together, in bytes.
pub(super) fn header_buffers(text: &str) -> Parsed<(usize, usize)> {
    let invalid = || format!("{text:?} is not a number and a size such as \"4 8k\"");
    let (count, bytes) = text.trim().split_once(char::is_whitespace).ok_or_else(invalid)?;
    let count: usize = count.parse().map_err(|_| invalid())?;
    let line = size(bytes).ok().and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(invalid)?;
    let head = line.checked_mul(count).filter(|&bytes| bytes > 0).ok_or_else(invalid)?;
    Ok((line, head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_go_s() {
        assert_eq!((boolean("true"), boolean("F")), (Ok(true), Ok(false)));
        assert!(["yes", "", "tRue", " true"].iter().all(|text| boolean(text).is_err()));
    }

    #[test]
    fn networks_may_be_lone_addresses() {
        let parsed = networks("10.0.0.0/8, 127.0.0.1,::1").unwrap();
        assert_eq!(
            parsed.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.0.0.0/8", "127.0.0.1/32", "::1/128"]
        );
        assert!(networks("10.0.0.0/33").is_err());
        assert_eq!(networks(""), Ok(vec![]));
    }

    #[test]
    fn versions_that_are_too_old_are_left_out() {
        let (versions, remark) = tls_versions("TLSv1.1 TLSv1.2").unwrap();
        assert_eq!(versions, TlsVersions { v12: true, v13: false });
        assert_eq!(remark.unwrap(), "ignored: TLSv1.1 not available");
        assert_eq!(tls_versions("TLSv1.3 TLSv1.2").unwrap(), (TlsVersions::default(), None));
        assert!(
            tls_versions("TLSv1 SSLv3").is_err() && tls_versions("").is_err() && tls_versions("1.3").is_err()
        );
    }

    #[test]
    fn retry_conditions() {
        let on = retry_on("error http_502 non_idempotent").unwrap();
        assert!(on.error && !on.timeout && on.non_idempotent);
        assert_eq!(on.statuses, [502]);
        assert_eq!(retry_on("off").unwrap(), RetryOn { error: false, timeout: false, ..RetryOn::default() });
        assert!(retry_on("http_200").is_err() && retry_on("errors").is_err());
    }

    #[test]
    fn header_buffers_are_a_number_and_a_size() {
        assert_eq!(header_buffers("4 8k"), Ok((8192, 32768)));
        for text in ["", "4", "8k", "0 8k", "4 0", "99999999999999999999 8k"] {
            assert!(header_buffers(text).is_err(), "{text}");
        }
    }
}
