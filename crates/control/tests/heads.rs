//! No string of an object adds a line to a head, or an attribute to a cookie.
//!
//! Each text of each field of the cases and examples gets in turn a line break, a NUL, and a semicolon with
//! an attribute, whatever the kind of its object is. So a field is tested as soon as a case has it. The model
//! must not contain these additions, except in texts that no head can contain: names in metrics, and reasons
//! for closing a route.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::Options;
use control::index::Index;
use control::resolve::Resolved;
use control::source::objects_in;
use control::translate::translate;
use model::{Action, Backends, Balance, Model, RequestFilter, ResponseFilter, Route};
use serde_json::Value;

/// Bytes that are appended to a text.
const ENDS: [&str; 2] = ["\r\nX-Injected: 1", "\0X-Injected"];
const ATTRIBUTE: &str = "; Injected=1";

/// The number of objects tested for each field. It is above one, because a field may have an effect only if
/// the object lacks another.
const TRIES_PER_FIELD: usize = 2;

#[test]
fn no_field_of_any_kind_adds_a_line_to_a_head() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut files = Vec::new();
    for folder in ["cases", "gateway-cases", "../../../examples"] {
        collect(&tests.join(folder), &mut files);
    }
    files.sort();
    let (mut tried, mut found) = (BTreeMap::<String, usize>::new(), Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let Some(documents) = documents(&text) else { continue };
        for at in 0..documents.len() {
            let mut fields = Vec::new();
            list(&documents[at], &mut Vec::new(), &mut fields);
            for field in fields {
                let name = name(&documents[at], &field);
                let count = tried.entry(name.clone()).or_default();
                if *count == TRIES_PER_FIELD {
                    continue;
                }
                *count += 1;
                for end in ENDS.iter().chain([&ATTRIBUTE]) {
                    let model = with(&documents, at, &field, end);
                    found.extend(
                        model.and_then(|model| injected(&model, end)).map(|what| format!("{name}: {what}")),
                    );
                }
            }
        }
    }
    assert!(tried.len() > 300, "only {} fields are tried", tried.len());
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}

/// The documents of a file; none if a document is not YAML, which is the subject of some cases.
fn documents(text: &str) -> Option<Vec<Value>> {
    let parts = text.split("\n---");
    let parsed: Result<Vec<Value>, _> = parts.map(serde_saphyr::from_str).collect();
    Some(parsed.ok()?.into_iter().filter(Value::is_object).collect())
}

/// The path of a text in its document.
type Field = Vec<String>;

fn list(value: &Value, way: &mut Field, fields: &mut Vec<Field>) {
    let mut each = |key: String, value: &Value| {
        way.push(key);
        list(value, way, fields);
        way.pop();
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| each(key.clone(), value)),
        Value::Array(all) => all.iter().enumerate().for_each(|(at, value)| each(at.to_string(), value)),
        Value::String(_) if way.len() > 1 => fields.push(way.clone()),
        _ => {}
    }
}

/// A field by its kind and path, without indices of lists.
fn name(document: &Value, field: &Field) -> String {
    let mut name = document["kind"].as_str().unwrap_or_default().to_owned();
    for step in field.iter().filter(|step| step.parse::<usize>().is_err()) {
        let _ = write!(name, ".{step}");
    }
    name
}

fn with(documents: &[Value], at: usize, field: &Field, end: &str) -> Option<Model> {
    let mut documents = documents.to_vec();
    let mut value = &mut documents[at];
    for step in field {
        value = match value {
            Value::Array(all) => &mut all[step.parse::<usize>().unwrap()],
            other => &mut other[step.as_str()],
        };
    }
    let text = value.as_str().unwrap().trim_end().to_owned();
    *value = Value::String(text + end);
    let text: Vec<_> = documents.iter().map(Value::to_string).collect();
    let objects = objects_in(&text.join("\n---\n")).ok()?;
    let options = Options {
        validates_annotations: false,
        configmap: Some("default/settings".parse().unwrap()),
        ..Options::default()
    };
    Some(translate(&Index::build(&objects).0, &options, &Resolved::default(), now()).model)
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_782_864_000)
}

/// A text for heads that contains the addition.
fn injected(model: &Model, end: &str) -> Option<String> {
    let mut texts = Vec::new();
    for listener in &model.listeners {
        for host in listener.hosts().into_iter().flat_map(|hosts| hosts.iter()) {
            texts.push(format!("{:?} {:?}", host.name, host.aliases));
            host.routes.iter().for_each(|route| in_heads(route, &mut texts));
        }
    }
    for (_, cluster) in model.clusters.iter() {
        if let Balance::Cookie(affinity) = &cluster.balance {
            texts.push(format!("{:?} {:?}", affinity.cookie, affinity.header));
        }
    }
    let settings = &model.settings;
    texts.push(format!("{:?} {:?}", settings.tls.strict_transport_security, settings.heads));
    if end == ATTRIBUTE {
        texts.retain(|text| text.contains("AffinityCookie"));
    }
    let written = format!("{end:?}");
    let written = written.trim_matches('"');
    texts.into_iter().find(|text| text.contains(written))
}

/// Texts that become part of heads of a route's requests and responses. Targets and values of requests are
/// left out, because they are escaped when they are written.
fn in_heads(route: &Route, texts: &mut Vec<String>) {
    texts.push(format!("{:?} {:?}", route.path, route.labels.path()));
    for filter in route.request_filters.as_slice() {
        texts.push(match filter {
            RequestFilter::UrlRewrite(rewrite) => format!("{:?}", rewrite.host),
            RequestFilter::RequestRedirect(redirect) => format!("{:?}", redirect.host),
            RequestFilter::Maintenance(maintenance) => format!("{:?}", maintenance.response.headers),
            RequestFilter::Rewrite(_) => continue,
            other => format!("{other:?}"),
        });
    }
    for filter in route.response_filters.as_slice() {
        texts.push(match filter {
            ResponseFilter::CrossOrigin(cors) => {
                format!("{:?} {:?} {:?}", cors.methods, cors.headers, cors.expose)
            }
            other => format!("{other:?}"),
        });
    }
    if let Some(access) = &route.access {
        let of_certificate = access.client_certificate.as_ref().map(|it| &it.error_page);
        let realm = access.basic.as_ref().map(|basic| &basic.realm);
        texts.push(format!("{of_certificate:?} {realm:?}"));
        if let Some(external) = &access.external {
            texts.push(format!("{:?}", external.check));
        }
    }
    if let Action::Respond(response) = &route.action {
        texts.push(format!("{:?}", response.headers));
    }
    if let Action::Forward(forward) = &route.action {
        texts.push(format!("{:?} {:?}", forward.head, forward.connection_header));
        if let Backends::Split(split) = &forward.backends {
            let of_backends = split.backends().iter().filter_map(|backend| backend.filters.as_ref());
            texts.extend(of_backends.map(|filters| {
                let host = filters.rewrite.as_ref().map(|rewrite| &rewrite.host);
                format!("{host:?} {:?} {:?}", filters.request_headers, filters.response_headers)
            }));
        }
    }
}
