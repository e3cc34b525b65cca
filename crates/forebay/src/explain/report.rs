//! The form of an explanation: the content of `--output json` and of the admin server's `/explain`, from
//! which the text is made.

use std::sync::Arc;

use anyhow::Context;
use model::{ListenerId, ListenerKind};
use proxy::Rollouts;
use proxy::explain::{self, Answered, Asked, Explanation, Outcome, Stage, Verdict};
use proxy::guard::Relief;
use serde::{Deserialize, Serialize};

use super::Question;
use super::sources::{self, Objects, Source};
use crate::waf::Matched;

/// The explanation of a request.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Whether the request succeeds, as far as that is known here.
    pub(crate) is_served: bool,
    pub(super) method: String,
    pub(super) url: String,
    /// The client, behind the proxies that are believed.
    pub(super) client: String,
    /// Name of the listener, as `HTTP :80`.
    pub(super) listener: String,
    /// The certificate that is shown, over TLS.
    pub(super) certificate: Option<String>,
    /// The normalised path.
    pub(super) path: Option<String>,
    pub(super) route: Option<ReportedRoute>,
    /// In the order in which they are done.
    pub(super) steps: Vec<ReportedStep>,
    /// In one sentence.
    pub(super) outcome: String,
    /// Status of the answer, where Forebay answers by itself.
    pub(super) status: Option<u16>,
    /// Why, where that is an error.
    pub(super) reason: Option<String>,
    pub(super) location: Option<String>,
    /// The answer's head.
    pub(super) answer: Option<String>,
    /// Whose endpoints may be asked.
    pub(super) destinations: Vec<ReportedDestination>,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReportedRoute {
    pub(super) host: String,
    pub(super) path: String,
    pub(super) path_type: String,
    /// The object that declares it, with file and line.
    pub(super) from: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReportedStep {
    pub(super) step: String,
    /// `passes`, `changes`, `answers` or `unknown`.
    pub(super) verdict: String,
    pub(super) text: String,
    /// The sources that cause the step.
    pub(super) from: Vec<Source>,
    /// The step is a default.
    #[serde(default)]
    pub(super) is_default: bool,
    /// The rules of the firewall that match.
    #[serde(default)]
    pub(super) matches: Vec<Matched>,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct ReportedDestination {
    pub(super) upstream: String,
    /// The reason for the choice among several.
    pub(super) choice: Option<String>,
    pub(super) protocol: String,
    /// How an endpoint is picked.
    pub(super) how: String,
    pub(super) endpoints: Vec<String>,
    /// Endpoints that are not selected for this request at first.
    pub(super) others: Vec<String>,
    /// The head that the endpoint gets.
    pub(super) request: String,
}

/// Explains a request with the objects that cause its steps. `relief` is the queried process's reaction to
/// shortages, and `rollouts` its canaries, if there is a process.
///
/// # Errors
///
/// The question is no valid request, or there is no listener for it.
pub(crate) fn report(
    objects: &Objects,
    question: &Question,
    relief: Relief,
    rollouts: Option<&Arc<Rollouts>>,
) -> anyhow::Result<Report> {
    let sent = question.sent()?;
    let kind = if sent.is_tls { ListenerKind::Https } else { ListenerKind::Http };
    let listeners =
        || objects.snapshot.listeners().iter().map(|listener| listener.id).filter(|id| id.kind == kind);
    let listener = listeners().find(|id| id.port == sent.port).or_else(|| listeners().next());
    let listener = listener.with_context(|| format!("there is no listener for {}", kind.as_str()))?;
    let asked = Asked {
        listener,
        port: sent.port,
        client: question.client,
        server_name: sent.server_name.as_deref(),
        head: sent.head.as_bytes(),
        body: &question.body,
        relief,
        rollouts,
    };
    let explanation = explain::explain(&objects.snapshot, &asked).context("cannot explain")?;
    Ok(told(objects, question, listener, &explanation))
}

fn told(objects: &Objects, question: &Question, listener: ListenerId, it: &Explanation) -> Report {
    let route = it.route.as_ref();
    let certificate = it.tls.as_ref().map(|tls| match &tls.certificate {
        Some(info) => format!("Secret {}/{}", info.namespace, info.object),
        None => "the one that is made up at the start: nobody has configured one for this name".to_owned(),
    });
    let steps = it.steps.iter().map(|step| {
        let from = objects.sources(step.stage, route);
        ReportedStep {
            step: sources::name(step.stage).to_owned(),
            verdict: word(step.verdict).to_owned(),
            text: step.text.clone(),
            is_default: from.is_empty() && sources::has_default(step.stage),
            matches: if step.stage == Stage::Firewall { matches(it) } else { Vec::new() },
            from,
        }
    });
    let (answer, destinations) = parts(&it.outcome);
    let is_error = answer.is_some_and(|answer| answer.status >= 400);
    Report {
        is_served: !is_error && !matches!(it.outcome, Outcome::NoHandshake | Outcome::Replaced(..)),
        method: question.method.clone(),
        url: question.url.clone(),
        client: it.client.to_string(),
        listener: format!(
            "{} {}:{}",
            listener.kind.as_str(),
            listener.address.map(|address| address.to_string()).unwrap_or_default(),
            listener.port
        ),
        certificate,
        path: it.path.clone(),
        route: route.map(|route| ReportedRoute {
            host: route.labels.host().to_owned(),
            path: route.path.path().to_owned(),
            path_type: route.path.kind().as_str().to_owned(),
            from: objects.origin(route).map(ToString::to_string),
        }),
        steps: steps.collect(),
        outcome: sentence(&it.outcome),
        status: answer.map(|answer| answer.status),
        reason: answer.and_then(|answer| answer.reason).map(|reason| reason.name().to_owned()),
        location: answer.and_then(Answered::location).map(str::to_owned),
        answer: answer.map(|answer| answer.head.clone()),
        destinations: destinations.iter().map(destination).collect(),
    }
}

/// The rules of the firewall that match.
fn matches(it: &Explanation) -> Vec<Matched> {
    let reports = it.inspected.iter().map(|inspected| &inspected.report);
    reports.flat_map(|report| &report.matches).map(Matched::from).collect()
}

fn destination(to: &explain::Destination) -> ReportedDestination {
    let texts = |addresses: &[std::net::SocketAddr]| addresses.iter().map(ToString::to_string).collect();
    ReportedDestination {
        upstream: to.upstream.clone(),
        choice: to.choice.clone(),
        protocol: to.protocol.to_owned(),
        how: to.how.clone(),
        endpoints: texts(&to.endpoints),
        others: texts(&to.others),
        request: to.head.clone(),
    }
}

fn parts(outcome: &Outcome) -> (Option<&Answered>, &[explain::Destination]) {
    match outcome {
        Outcome::NoHandshake | Outcome::Files(_) => (None, &[]),
        Outcome::PassedThrough(to) => (None, std::slice::from_ref(to)),
        Outcome::Answered(answer) => (Some(answer), &[]),
        Outcome::Replaced(answer, by) => (Some(answer), std::slice::from_ref(by)),
        Outcome::Forwarded(to) => (None, to),
    }
}

fn sentence(outcome: &Outcome) -> String {
    match outcome {
        Outcome::NoHandshake => "the handshake is refused: no host has this name".to_owned(),
        Outcome::PassedThrough(to) => {
            format!("the connection is passed through to {} without being decrypted", to.upstream)
        }
        Outcome::Answered(answer) => match (answer.status, answer.location()) {
            (444, _) => "the connection is closed without an answer".to_owned(),
            (status, Some(location)) => format!("answered by Forebay: {status}, Location: {location}"),
            (status, None) => format!("answered by Forebay: {status}"),
        },
        Outcome::Files(name) => {
            format!("answered by Forebay with the file {name} below --files-root, if there is one")
        }
        Outcome::Replaced(answer, by) => {
            format!("{} in place of Forebay's own {}: whatever it answers", by.upstream, answer.status)
        }
        Outcome::Forwarded(to) => {
            let names: Vec<_> = to.iter().map(|to| to.upstream.as_str()).collect();
            format!("passed on to {}", names.join(" or "))
        }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passes => "passes",
        Verdict::Changes => "changes",
        Verdict::Answers => "answers",
        Verdict::Unknown => "unknown",
    }
}
