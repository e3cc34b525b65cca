//! Selects lines of an access log by host, status or reason, in any format of the lines.

use anyhow::{Context, bail};
use model::template::{Part, parse_parts};
use observe::Reason;
use regex::bytes::Regex;

use crate::instance_status::AccessLog;

/// Variables that name the host of a request, the most exact first. `$server_name` is the rule's, which may
/// be a wildcard.
const HOST_VARIABLES: [&str; 5] = ["host", "best_http_host", "http_host", "ssl_server_name", "server_name"];

/// The variable with the reason of a fault.
const REASON_VARIABLE: &str = "forebay_reason";

/// Conditions on lines.
pub(super) struct Filter {
    pattern: Regex,
    hosts: Vec<String>,
    statuses: Vec<(u16, u16)>,
    reasons: Vec<Reason>,
}

/// The decision of a filter on a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Meant,
    /// A request that does not match.
    Other,
    /// It is not of this format.
    Strange,
}

impl Filter {
    /// A filter for an access log. Without hosts every host matches, and without statuses every status.
    ///
    /// # Errors
    ///
    /// The log is not among those of Pods, or its format lacks a value of the filter.
    pub(super) fn new(
        log: &AccessLog,
        hosts: Vec<String>,
        statuses: Vec<(u16, u16)>,
        reasons: Vec<Reason>,
    ) -> anyhow::Result<Self> {
        is_in_logs(log)?;
        let parts = parse_parts(&log.format, |name| Some(name.to_owned()))
            .with_context(|| format!("cannot read the format of the access log {:?}", log.format))?;
        let has =
            |wanted: &str| parts.iter().any(|part| matches!(part, Part::Variable(name) if name == wanted));
        let host = HOST_VARIABLES.into_iter().find(|name| has(name));
        if !hosts.is_empty() && host.is_none() {
            bail!(
                "--host: lines of the access log do not say the host. Its format, log-format-upstream in the ConfigMap, has none of {}: \
                 {}",
                HOST_VARIABLES.map(|name| format!("${name}")).join(", "),
                log.format
            );
        }
        if !statuses.is_empty() && !has("status") {
            bail!(
                "--status: lines of the access log do not say the status. Its format, log-format-upstream in the ConfigMap, has no \
                 $status: {}",
                log.format
            );
        }
        if !reasons.is_empty() && !has(REASON_VARIABLE) {
            bail!(
                "--reason: lines of the access log do not have the reason. Its format, log-format-upstream in the ConfigMap, has no \
                 ${REASON_VARIABLE}: {}",
                log.format
            );
        }
        let hosts = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        Ok(Self { pattern: pattern(&parts, host)?, hosts, statuses, reasons })
    }

    /// Judges a line, without its end.
    pub(super) fn judge(&self, line: &[u8]) -> Verdict {
        let Some(found) = self.pattern.captures(line) else { return Verdict::Strange };
        let value =
            |name| found.name(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let is_host = |host: String| {
            let host = host.to_ascii_lowercase();
            self.hosts.iter().any(|meant| host == *meant || without_port(&host) == meant)
        };
        let is_status = |status: String| {
            let status = status.parse().unwrap_or(0);
            self.statuses.iter().any(|(first, last)| (*first..=*last).contains(&status))
        };
        let is_reason = |text: String| self.reasons.iter().any(|reason| reason.name() == text);
        let is_meant = (self.hosts.is_empty() || value("host").is_some_and(is_host))
            && (self.statuses.is_empty() || value("status").is_some_and(is_status))
            && (self.reasons.is_empty() || value("reason").is_some_and(is_reason));
        if is_meant { Verdict::Meant } else { Verdict::Other }
    }
}

/// Why lines of the access log are not among those of a Pod.
fn is_in_logs(log: &AccessLog) -> anyhow::Result<()> {
    if !log.enabled {
        bail!("there is no access log: it is turned off in the ConfigMap (disable-access-log)");
    }
    if !["stdout", "stderr"].contains(&log.output.as_str()) {
        bail!(
            "the access log goes to {}, so that the logs of Pods do not have it (access-log-path)",
            log.output
        );
    }
    Ok(())
}

/// The host of `host:port`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The expression that lines of a format match. Values are escaped in lines, so that what stands between them
/// ends them.
fn pattern(parts: &[Part<String>], host: Option<&str>) -> anyhow::Result<Regex> {
    let mut has_host = false;
    let mut has_status = false;
    let mut has_reason = false;
    let mut text = String::from("(?s-u)^");
    for part in parts {
        match part {
            Part::Text(literal) => text.push_str(&regex::escape(literal)),
            Part::Variable(name) if Some(name.as_str()) == host && !has_host => {
                has_host = true;
                text.push_str(r#"(?<host>[^\s"]*?)"#);
            }
            Part::Variable(name) if name == "status" && !has_status => {
                has_status = true;
                text.push_str("(?<status>[0-9]{3})");
            }
            Part::Variable(name) if name == REASON_VARIABLE && !has_reason => {
                has_reason = true;
                text.push_str("(?<reason>[a-z0-9_]*|-)");
            }
            Part::Variable(_) => text.push_str(".*?"),
        }
    }
    text.push('$');
    Regex::new(&text).context("the format of the access log is too long for a filter")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(format: &str) -> AccessLog {
        AccessLog { enabled: true, output: "stdout".to_owned(), format: format.to_owned() }
    }

    fn filter(format: &str, hosts: &[&str], statuses: &[(u16, u16)]) -> anyhow::Result<Filter> {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        Filter::new(&log(format), hosts, statuses.to_vec(), Vec::new())
    }

    const LINE: &str = r#"10.0.0.1 - - [23/Nov/2026:05:24:59 +0000] "GET /a?b=\x22 500 x HTTP/1.1" 503 2 "-" "curl/8 \x22" 35 0.001 [shop-web-80] [] 10.0.0.2:80 2 0.001 200 0a1b"#;

    #[test]
    fn lines_of_the_default_format_are_found_by_their_status() {
        let filter = filter(model::log::DEFAULT_FORMAT, &[], &[(500, 599)]).unwrap();
        assert_eq!(filter.judge(LINE.as_bytes()), Verdict::Meant);
        assert_eq!(filter.judge(LINE.replace("\" 503 ", "\" 404 ").as_bytes()), Verdict::Other);
        assert_eq!(filter.judge(b"2026-11-23T05:24:59Z  INFO forebay: serving"), Verdict::Strange);
    }

    #[test]
    fn lines_of_a_format_with_a_host_are_found_by_it() {
        let format = format!("$host {}", model::log::DEFAULT_FORMAT);
        let filter = filter(&format, &["Shop.test", "b.test"], &[(503, 503)]).unwrap();
        assert_eq!(filter.judge(format!("shop.test {LINE}").as_bytes()), Verdict::Meant);
        assert_eq!(filter.judge(format!("c.test {LINE}").as_bytes()), Verdict::Other);
        let other = LINE.replace("\" 503 ", "\" 200 ");
        assert_eq!(filter.judge(format!("b.test {other}").as_bytes()), Verdict::Other);
        assert_eq!(filter.judge(LINE.as_bytes()), Verdict::Strange);
    }

    #[test]
    fn lines_of_json_are_found_too() {
        let format = r#"{"agent": "$http_user_agent", "status": $status, "vhost": "${http_host}"}"#;
        let filter = filter(format, &["a.test"], &[]).unwrap();
        let line = r#"{"agent": "x\", \"vhost\": \"b.test\"}", "status": 200, "vhost": "A.test:8443"}"#;
        assert_eq!(filter.judge(line.as_bytes()), Verdict::Meant);
        assert_eq!(filter.judge(line.replace("A.test", "b.test").as_bytes()), Verdict::Other);
        assert_eq!(filter.judge(b"{}"), Verdict::Strange);
    }

    #[test]
    fn lines_are_found_by_the_reason_of_their_fault() {
        for format in [
            "$status $forebay_reason $uri",
            r#"{"status": $status, "reason": "$forebay_reason", "uri": "$uri"}"#,
        ] {
            let filter = Filter::new(&log(format), Vec::new(), Vec::new(), vec![Reason::QueueFull]).unwrap();
            let line = |reason: &str| {
                format
                    .replace("$status", "503")
                    .replace("$forebay_reason", reason)
                    .replace("$uri", "/queue_full")
            };
            assert_eq!(filter.judge(line("queue_full").as_bytes()), Verdict::Meant);
            assert_eq!(filter.judge(line("queue_timeout").as_bytes()), Verdict::Other);
            assert_eq!(filter.judge(line("").as_bytes()), Verdict::Other);
        }
        let missing = Filter::new(&log("$status"), Vec::new(), Vec::new(), vec![Reason::QueueFull]);
        assert!(missing.is_err_and(|error| error.to_string().contains("has no $forebay_reason: $status")));
    }

    #[test]
    fn bytes_that_are_no_text_are_no_obstacle() {
        let filter = filter("$host $uri", &["a.test"], &[]).unwrap();
        assert_eq!(filter.judge(b"a.test /\xff\xfe"), Verdict::Meant);
    }

    #[test]
    fn what_a_format_does_not_say_is_told() {
        let said =
            |format: &str, hosts: &[&str], statuses: &[(u16, u16)]| match filter(format, hosts, statuses) {
                Err(error) => error.to_string(),
                Ok(_) => panic!("it can be used"),
            };
        let no_host = said(model::log::DEFAULT_FORMAT, &["a.test"], &[]);
        assert!(no_host.contains("do not say the host") && no_host.contains("$http_host"), "{no_host}");
        assert!(no_host.ends_with(model::log::DEFAULT_FORMAT), "{no_host}");
        assert!(said("$host", &[], &[(200, 200)]).contains("has no $status: $host"));
        let off = AccessLog { enabled: false, ..log("$host") };
        assert!(
            Filter::new(&off, Vec::new(), Vec::new(), Vec::new())
                .is_err_and(|error| error.to_string().contains("turned off"))
        );
        let away = AccessLog { output: "/var/log/a.log".to_owned(), ..log("$host") };
        let away =
            Filter::new(&away, Vec::new(), Vec::new(), Vec::new()).err().map(|error| error.to_string());
        assert!(away.is_some_and(|error| error.contains("goes to /var/log/a.log")));
    }
}
