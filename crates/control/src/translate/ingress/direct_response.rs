//! Fixed answers in place of an endpoint's (`forebay.io/direct-response`).

use model::{DirectResponse, HeadText, HeaderChanges};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Fault, Findings, Resolve};
use crate::problem::Reason;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "direct-response", Location, "", Supported(|s, v| set(&mut s.direct_response.status, status(v).map(Some))), ClosesLocations,
        "Status with which Forebay answers in place of an endpoint: 200 to 599.";
    "direct-response-body", Location, "", Supported(|s, v| set(&mut s.direct_response.body, Ok(v.to_owned()))),
        "Content of this answer.";
    "direct-response-body-from", Location, "", Supported(|s, v| set(&mut s.direct_response.body_from, Ok(value::name(v)))),
        "`ConfigMap` whose entry `body` is the content of this answer; its entry `content-type` is the media type.";
    "direct-response-content-type", Location, "text/plain; charset=utf-8", Supported(|s, v| set(&mut s.direct_response.content_type, media_type(v).map(Some))),
        "Media type of this answer.";
    "direct-response-headers", Location, "", Supported(|s, v| set(&mut s.direct_response.headers, headers(v))),
        "Headers of this answer, one in a line: `Cache-Control: no-store`.";
}

/// Name of the annotation that requests an answer.
const NAME: &str = "direct-response";
pub(super) const BODY_FROM: &str = "direct-response-body-from";

/// The media type of answers that say nothing of theirs.
const PLAIN: &str = "text/plain; charset=utf-8";

/// The entries of a `ConfigMap` with the content of an answer.
const BODY: &str = "body";
const MEDIA_TYPE: &str = "content-type";

/// Settings of fixed answers.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// The status; none for a route that has no fixed answer.
    status: Option<u16>,
    body: String,
    body_from: Option<String>,
    content_type: Option<String>,
    headers: Vec<(String, String)>,
}

impl Settings {
    /// Whether a fixed answer is requested.
    pub(super) fn is_asked_for(&self) -> bool {
        self.status.is_some()
    }
}

impl Resolve for Settings {
    type Resolved = ();

    /// Looks up the content, and reports settings without effect. A route whose content is missing is closed:
    /// the answer stands for an endpoint that nobody is to reach.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        let asker = context.asker;
        if self.status.is_none() {
            let others = asker.names().into_iter().filter(|name| name.starts_with("direct-response-"));
            for name in others.filter(|_| asker.given(NAME).is_none()) {
                let message = format!("{} has no effect without {}", asker.called(name), asker.key(NAME));
                findings.problems.extend(context.without_effect(name, message));
            }
            return;
        }
        let Some(name) = &self.body_from else { return };
        match content(context, name) {
            Ok((body, media_type)) => {
                self.body = body;
                self.content_type = self.content_type.take().or(media_type);
            }
            Err(fault) => close(context, findings, BODY_FROM, fault),
        }
    }
}

/// Closes the locations, because the content of an answer cannot be had.
pub(super) fn close(
    context: &Context<'_, '_>,
    findings: &mut Findings<'_>,
    name: &'static str,
    fault: Fault,
) {
    findings.guards.of_locations.push(format!("{}: {}", context.asker.called(name), fault.1));
    findings.problems.push(context.closing(name, fault));
}

/// The content of an answer and its media type, from a `ConfigMap`.
pub(super) fn content(context: &Context<'_, '_>, name: &str) -> Result<(String, Option<String>), Fault> {
    let configmap = context.configmap(&context.with_namespace(name))?;
    let entry = |key: &str| configmap.data.get(key).map(|value| value.value.clone());
    let missing = || (Reason::Missing, format!("ConfigMap {name} has no entry {BODY:?}"));
    let body = entry(BODY).ok_or_else(missing)?;
    let media_type = entry(MEDIA_TYPE).map(|text| media_type(&text));
    Ok((body, media_type.transpose().map_err(|why| (Reason::Invalid, format!("ConfigMap {name}: {why}")))?))
}

/// An answer with a media type.
pub(in crate::translate) fn answer(
    status: u16,
    body: String,
    media_type: Option<&str>,
    headers: &[(String, String)],
) -> DirectResponse {
    let media_type = ("Content-Type".to_owned(), media_type.unwrap_or(PLAIN).to_owned());
    let has_content = !matches!(status, 204 | 304);
    let headers =
        Some(media_type).filter(|_| has_content).into_iter().chain(headers.iter().cloned()).collect();
    DirectResponse { status, body, headers }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let Settings { status, body, content_type, headers, .. } = settings;
    route.respond = status.map(|status| answer(status, body.clone(), content_type.as_deref(), headers));
}

fn status(text: &str) -> Parsed<u16> {
    match value::number(text.trim())? {
        status @ 200..=599 => Ok(status),
        _ => Err(format!("{text:?} is no status from 200 to 599")),
    }
}

fn media_type(text: &str) -> Parsed<String> {
    let text = text.trim();
    let is_type = text.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
    match HeadText::new(text) {
        Ok(_) if is_type => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is no media type such as text/html; charset=utf-8")),
    }
}

/// Parses headers, one in a line.
fn headers(text: &str) -> Parsed<Vec<(String, String)>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pair = |line: &str| {
        let (name, value) =
            line.split_once(':').ok_or_else(|| format!("{line:?} is no header: it has no colon"))?;
        if name.trim().eq_ignore_ascii_case("content-type") {
            return Err(format!("{line:?}: the media type has a setting of its own"));
        }
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    let headers = lines.map(pair).collect::<Parsed<Vec<_>>>()?;
    HeaderChanges::new(headers.clone(), Vec::new(), Vec::new()).map_err(|why| why.to_string())?;
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_lines_with_a_colon() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers("X-A: 1\n\n X-B :2 "), Ok(vec![pair("X-A", "1"), pair("X-B", "2")]));
        for text in ["X-A", "X A: 1", "X-A: 1\rX-B: 2", "content-type: text/html", ": 1"] {
            assert!(headers(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn statuses_and_media_types_are_checked() {
        assert_eq!((status("200"), status(" 599 ")), (Ok(200), Ok(599)));
        assert!(["199", "600", "ok", ""].iter().all(|text| status(text).is_err()));
        assert_eq!(media_type("text/html"), Ok("text/html".to_owned()));
        assert!(["text", "/html", "text/", "text/html\r\nX: y"].iter().all(|text| media_type(text).is_err()));
    }

    #[test]
    fn an_answer_without_content_has_no_media_type() {
        assert_eq!(answer(204, String::new(), None, &[]).headers, []);
        assert_eq!(answer(200, String::new(), None, &[]).headers[0].1, PLAIN);
    }
}
