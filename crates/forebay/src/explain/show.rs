//! An explanation as text, in the style of `kubectl describe`.

use std::fmt::Write;

use control::legible;

use super::report::{Report, ReportedDestination};
use super::sources::Source;

/// The whole explanation.
pub(super) fn text(told: &Report) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{:<13}{}", format!("{name}:"), legible::line(value));
    };
    line("Request", &format!("{} {}", told.method, told.url));
    line("Client", &told.client);
    line("Listener", &told.listener);
    if let Some(certificate) = &told.certificate {
        line("Certificate", certificate);
    }
    if let Some(path) = &told.path {
        line("Path", path);
    }
    match &told.route {
        Some(route) => {
            line("Host", &route.host);
            line("Route", &format!("{} {}", route.path_type, route.path));
            if let Some(from) = &route.from {
                line("From", from);
            }
        }
        None => line("Route", "none"),
    }
    if !told.steps.is_empty() {
        let _ = writeln!(out, "Steps:");
    }
    for (number, step) in (1..).zip(&told.steps) {
        let _ = writeln!(out, "  {number:>2}. {:<8} {}: {}", step.verdict, step.step, step.text);
        for source in &step.from {
            let _ = writeln!(out, "               {}", of_source(source));
        }
        for found in &step.matches {
            found.write(&mut out, "               ");
        }
        if step.is_default {
            let _ = writeln!(out, "               (default)");
        }
    }
    let _ = writeln!(out, "Outcome:     {}", told.outcome);
    if let Some(reason) = &told.reason {
        let _ = writeln!(out, "Reason:      {reason}");
    }
    if let Some(answer) = &told.answer {
        head(&mut out, "Answer", answer);
    }
    told.destinations.iter().for_each(|to| destination(&mut out, to));
    legible::lines(&out).into_owned()
}

fn destination(out: &mut String, to: &ReportedDestination) {
    let _ = writeln!(out, "Upstream:    {} ({})", to.upstream, to.protocol);
    if let Some(choice) = &to.choice {
        let _ = writeln!(out, "  Chosen:    {choice}");
    }
    let endpoints = if to.endpoints.is_empty() { "none".to_owned() } else { to.endpoints.join(" ") };
    let _ = writeln!(out, "  Endpoints: {endpoints} ({})", to.how);
    if !to.others.is_empty() {
        let _ = writeln!(out, "  Others:    {}", to.others.join(" "));
    }
    if !to.request.is_empty() {
        head(out, "  Is sent", &to.request);
    }
}

fn head(out: &mut String, name: &str, head: &str) {
    let _ = writeln!(out, "{name}:");
    for line in head.lines().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "    {line}");
    }
}

/// `rewrite-target: /$1 (Ingress default/web, web.yaml:12)`. Of a value with several lines the first is
/// shown.
fn of_source(source: &Source) -> String {
    let mut lines = source.value.lines();
    let first = lines.next().unwrap_or_default();
    let more = if lines.next().is_some() { " ..." } else { "" };
    let place = match (&source.file, source.line) {
        (Some(file), Some(line)) => format!(", {file}:{line}"),
        (Some(file), None) => format!(", {file}"),
        (None, _) => String::new(),
    };
    format!("{}: {first}{more} ({}{place})", source.name, source.object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_wrote_moves_no_cursor() {
        let told = json!({
            "isServed": true, "method": "GET", "url": "http://a.test/\u{1b}[31m", "client": "192.0.2.1",
            "listener": "HTTP :80", "path": "/\u{9b}2J\nReason: forged", "steps": [
                {"step": "redirect", "verdict": "passes", "text": "to \u{202e}x", "from": [
                    {"name": "app-root", "value": "/\u{1b}]0;x\u{7}", "object": "Ingress a/b"},
                ]},
            ],
            "outcome": "is answered", "destinations": [],
        });
        let text = text(&serde_json::from_value(told).expect("an explanation"));
        assert!(!text.contains(|char: char| char != '\n' && legible::is_hidden(char)), "{text:?}");
        assert!(text.contains("http://a.test/\\u{1b}[31m\n") && !text.contains("\nReason: forged"), "{text}");
    }
}
