//! Asks a case's questions of a controller, and compares the answers with what is expected.
//!
//! Must not be in here: objects, the score.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context, Result, anyhow, bail, ensure};
use regex::Regex;
use testkit::{Connection, Response, TlsClient};

use super::case::{Names, Question, Saw};
use super::endpoint::Echo;
use super::stage::{HTTP, HTTPS};

/// An error says which answer is another one, and how.
pub(super) fn judge(questions: &[Question], names: &Names, controller: IpAddr) -> Result<()> {
    questions.iter().try_for_each(|question| {
        let question = question.at(names);
        question.judge(controller).with_context(|| question.ask.clone())
    })
}

impl Question {
    fn judge(&self, controller: IpAddr) -> Result<()> {
        let mut passed = 0;
        for _ in 0..self.times.unwrap_or(1) {
            let response = self.send(controller)?;
            if self.passes.is_some() && response.status == 200 {
                passed += 1;
                continue;
            }
            self.compare(&response)?;
        }
        let passes = self.passes.unwrap_or_default();
        ensure!(passed == passes, "{passed} pass, not {passes}");
        Ok(())
    }

    fn send(&self, controller: IpAddr) -> Result<Response> {
        let host = self.host.as_deref().context("a host")?;
        let mut request = format!("{} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n", self.ask);
        for (name, value) in &self.headers {
            write!(request, "{name}: {value}\r\n")?;
        }
        if let Some(length) = self.sends {
            write!(request, "Content-Length: {length}\r\n\r\n{}", "x".repeat(length))?;
        } else {
            request += "\r\n";
        }
        let port = if self.tls { HTTPS } else { HTTP };
        let address = SocketAddr::new(controller, port);
        // The client of tests panics where a connection breaks.
        let answer = catch_unwind(AssertUnwindSafe(|| {
            let mut connection =
                if self.tls { TlsClient::new(host).connect(address) } else { Connection::to(address) };
            connection.ask(&request)
        }));
        answer.map_err(|_| anyhow!("no answer"))
    }

    fn compare(&self, response: &Response) -> Result<()> {
        let status = self.status.unwrap_or(200);
        ensure!(response.status == status, "{} in place of {status}", response.status);
        for (name, expected) in &self.answered {
            let value = response.header(name);
            ensure!(fits(value.as_deref(), expected.as_deref())?, "{name}: {value:?}, not {expected:?}");
        }
        let text = String::from_utf8_lossy(&response.body);
        if let Some(body) = &self.body {
            ensure!(fits(Some(&text), Some(body))?, "the body is {text:?}");
        }
        if self.by.is_none() && self.saw.is_none() {
            return Ok(());
        }
        let echo: Echo =
            serde_json::from_str(&text).map_err(|_| anyhow!("no endpoint has answered: {text:?}"))?;
        if let Some(service) = &self.by {
            ensure!(echo.service == *service, "answered by {}, not by {service}", echo.service);
        }
        self.saw.as_ref().map_or(Ok(()), |saw| saw.compare(&echo))
    }
}

impl Saw {
    fn compare(&self, echo: &Echo) -> Result<()> {
        if let Some(method) = &self.method {
            ensure!(echo.method == *method, "the endpoint saw {}, not {method}", echo.method);
        }
        if let Some(target) = &self.target {
            ensure!(echo.target == *target, "the endpoint saw {}, not {target}", echo.target);
        }
        if let Some(bytes) = self.bytes {
            ensure!(echo.bytes == bytes, "the endpoint got {} bytes, not {bytes}", echo.bytes);
        }
        let mut seen: BTreeMap<String, &str> = BTreeMap::new();
        for (name, value) in &echo.headers {
            if seen.insert(name.to_ascii_lowercase(), value).is_some() {
                bail!("the endpoint saw {name} twice");
            }
        }
        for (name, expected) in &self.headers {
            let value = seen.get(&name.to_ascii_lowercase()).copied();
            ensure!(
                fits(value, expected.as_deref())?,
                "the endpoint saw {name}: {value:?}, not {expected:?}"
            );
        }
        Ok(())
    }
}

/// Whether a value is as expected: the same, or `~` and a regular expression that it matches.
fn fits(value: Option<&str>, expected: Option<&str>) -> Result<bool> {
    Ok(match (value, expected) {
        (Some(value), Some(expected)) => match expected.strip_prefix('~') {
            Some(expression) => Regex::new(expression.trim_start())?.is_match(value),
            None => value == expected,
        },
        (None, None) => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(body: &str) -> Response {
        Response {
            version: "HTTP/1.1".into(),
            status: 200,
            reason: "OK".into(),
            headers: vec![("Vary".into(), "Origin".into())],
            body: body.into(),
            trailers: Vec::new(),
        }
    }

    #[test]
    fn answers_that_are_not_as_expected_are_told() {
        let echo = r#"{"service":"a","method":"GET","target":"/x","headers":[["X-One","1"]],"bytes":0}"#;
        let judged = |yaml: &str, body: &str| {
            let question: Question = serde_saphyr::from_str(yaml).expect("a question");
            question.compare(&response(body)).map_err(|error| error.to_string())
        };
        assert_eq!(judged("{ask: GET /, by: a, saw: {target: /x, headers: {x-one: ~ ^1$}}}", echo), Ok(()));
        assert_eq!(judged("{ask: GET /, answered: {vary: Origin, x-none: null}}", echo), Ok(()));
        assert_eq!(judged("{ask: GET /, status: 404}", echo), Err("200 in place of 404".into()));
        assert_eq!(judged("{ask: GET /, by: b}", echo), Err("answered by a, not by b".into()));
        assert!(judged("{ask: GET /, saw: {headers: {x-one: '2'}}}", echo).is_err());
        assert!(judged("{ask: GET /, by: a}", "no JSON").is_err());
        assert!(judged("{ask: GET /, body: ~ ^nothing$}", "some").is_err());
    }
}
