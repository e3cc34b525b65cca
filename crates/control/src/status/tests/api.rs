//! An API server for tests: objects by path, versions, conflicts, selectors of labels and names, watches.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::client::{Connection, Versions};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

#[derive(Clone)]
pub(super) struct Api {
    state: Arc<Mutex<State>>,
    version: watch::Sender<u64>,
    pub(super) versions: Versions,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    /// The changes: version, collection, type of event, object.
    log: Vec<(u64, String, &'static str, Value)>,
    requests: Vec<(Method, String)>,
    faults: VecDeque<(Method, &'static str, u16)>,
    is_away: bool,
    is_mute: bool,
}

impl Api {
    pub(super) fn new() -> Self {
        Self { state: Arc::default(), version: watch::Sender::new(1), versions: Versions::default() }
    }

    pub(super) fn connection(&self) -> Connection {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { api.serve(request).await }
        });
        let client = Client::new(service, "default");
        Connection {
            client,
            namespace: "default".to_owned(),
            url: "http://api.test/".to_owned(),
            versions: self.versions.clone(),
        }
    }

    /// Whether requests fail from now on.
    pub(super) fn go_away(&self, is_away: bool) {
        self.state().is_away = is_away;
    }

    /// Whether requests are executed without a response from now on.
    pub(super) fn mute(&self, is_mute: bool) {
        self.state().is_mute = is_mute;
    }

    /// Makes the next request of this kind fail.
    pub(super) fn fail(&self, method: Method, part_of_path: &'static str, code: u16) {
        self.state().faults.push_back((method, part_of_path, code));
    }

    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }

    /// The objects of a collection.
    pub(super) fn list(&self, collection: &str) -> Vec<Value> {
        let state = self.state();
        // All objects of a namespaced kind together are a collection too.
        let is_within = |of: &str| {
            let (kind, plural) = split(collection).unwrap();
            let rest = of.strip_prefix(kind).and_then(|rest| rest.strip_prefix("/namespaces/"));
            rest.is_some_and(|rest| rest.split_once('/').is_some_and(|(_, last)| last == plural))
        };
        let is_in = |path: &str| split(path).is_some_and(|(of, _)| of == collection || is_within(of));
        state.objects.iter().filter(|(path, _)| is_in(path)).map(|(_, object)| object.clone()).collect()
    }

    pub(super) fn put(&self, path: &str, mut object: Value) {
        let name = path.rsplit_once('/').map(|(_, name)| name);
        object["metadata"]["name"] = json!(name);
        self.store(path, object);
    }

    pub(super) fn delete(&self, path: &str) {
        let object = self.state().objects.remove(path).unwrap();
        self.log("DELETED", path, object);
    }

    /// The number of requests so far with this method and this text in the path.
    pub(super) fn count(&self, method: &Method, part_of_path: &str) -> usize {
        let is_such = |(of, path): &&(Method, String)| of == method && path.contains(part_of_path);
        self.state().requests.iter().filter(is_such).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn store(&self, path: &str, mut object: Value) -> Value {
        let version = *self.version.borrow() + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let before = self.state().objects.insert(path.to_owned(), object.clone());
        self.log(if before.is_some() { "MODIFIED" } else { "ADDED" }, path, object.clone());
        object
    }

    fn log(&self, kind: &'static str, path: &str, object: Value) {
        let version = *self.version.borrow() + 1;
        let collection = split(path).unwrap().0.to_owned();
        self.state().log.push((version, collection, kind, object));
        self.version.send_replace(version);
    }

    async fn serve(&self, request: Request<Body>) -> Result<Answer, &'static str> {
        let (head, body) = request.into_parts();
        let (method, path) = (head.method, head.uri.path().to_owned());
        {
            let mut state = self.state();
            if state.is_away {
                return Err("connection refused");
            }
            state.requests.push((method.clone(), path.clone()));
            let is_due = |(of, part, _): &(Method, &str, u16)| *of == method && path.contains(part);
            if let Some(at) = state.faults.iter().position(is_due) {
                let code = state.faults.remove(at).unwrap().2;
                return Ok(failure(code));
            }
        }
        let body = body.collect_bytes().await.unwrap();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let query: BTreeMap<_, _> =
            head.uri.query().unwrap_or_default().split('&').filter_map(parameter).collect();
        let answer = match method {
            Method::GET if query.contains_key("watch") => self.watch(&path, query),
            Method::GET => self.read(&path, &query),
            Method::POST => self.create(&path, body),
            Method::PUT => self.replace(&path, body),
            Method::PATCH => self.patch(&path, &body),
            _ => failure(405),
        };
        if self.state().is_mute {
            std::future::pending::<()>().await;
        }
        Ok(answer)
    }

    fn read(&self, path: &str, query: &BTreeMap<String, String>) -> Answer {
        if let Some(object) = self.get(path) {
            return success(&object);
        }
        if is_object(path) {
            return failure(404);
        }
        let items: Vec<_> = self.list(path).into_iter().filter(|object| is_selected(object, query)).collect();
        let version = self.version.borrow().to_string();
        success(&json!({"metadata": {"resourceVersion": version}, "items": items}))
    }

    fn create(&self, collection: &str, object: Value) -> Answer {
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        if self.get(&path).is_some() { failure(409) } else { success(&self.store(&path, object)) }
    }

    fn replace(&self, path: &str, object: Value) -> Answer {
        match self.get(path) {
            None => failure(404),
            Some(old) if old["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] => {
                failure(409)
            }
            Some(_) => success(&self.store(path, object)),
        }
    }

    fn patch(&self, path: &str, patch: &Value) -> Answer {
        let path = path.strip_suffix("/status").unwrap_or(path);
        let Some(mut object) = self.get(path) else { return failure(404) };
        let uid = &patch["metadata"]["uid"];
        if !uid.is_null() && *uid != object["metadata"]["uid"] {
            return failure(409);
        }
        let version = &patch["metadata"]["resourceVersion"];
        if !version.is_null() && *version != object["metadata"]["resourceVersion"] {
            return failure(409);
        }
        merge(&mut object, patch);
        success(&self.store(path, object))
    }

    fn watch(&self, path: &str, query: BTreeMap<String, String>) -> Answer {
        let from: u64 = query["resourceVersion"].parse().unwrap();
        let begin = (self.clone(), self.version.subscribe(), path.to_owned(), query, from);
        let batches = stream::unfold(begin, |(api, mut versions, path, query, from)| async move {
            let to = *versions.wait_for(|version| *version > from).await.ok()?;
            let mut lines = String::new();
            for (_, _, kind, object) in api.state().log.iter().filter(|(version, of, _, object)| {
                (from + 1..=to).contains(version) && *of == path && is_selected(object, &query)
            }) {
                lines += &json!({"type": kind, "object": object}).to_string();
                lines.push('\n');
            }
            Some((lines, (api, versions, path, query, to)))
        });
        let frames = batches.map(|lines| Ok(hyper::body::Frame::data(Bytes::from(lines))));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

/// The collection and the name in a path.
fn split(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once('/')
}

/// Whether a path names an object rather than a collection: `/api/v1/nodes/a`, `/api/v1/namespaces/a/pods/b`.
fn is_object(path: &str) -> bool {
    let parts = path.split('/').skip(if path.starts_with("/apis/") { 4 } else { 3 });
    let parts: Vec<_> = parts.collect();
    parts.len() == 4 || parts.len() == 2 && parts[0] != "namespaces"
}

fn is_selected(object: &Value, query: &BTreeMap<String, String>) -> bool {
    let terms = |key: &str| -> Vec<(String, String)> {
        let text = query.get(key).map(String::as_str).unwrap_or_default();
        let term = |term: &str| term.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        text.split(',').filter_map(term).collect()
    };
    let metadata = &object["metadata"];
    terms("labelSelector").iter().all(|(key, value)| metadata["labels"][key] == **value)
        && terms("fieldSelector").iter().all(|(_, name)| metadata["name"] == **name)
}

fn parameter(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    let value = value.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/");
    Some((key.to_owned(), value))
}

/// Applies a JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

fn success(object: &Value) -> Answer {
    Response::new(Full::new(Bytes::from(object.to_string())).boxed_unsync())
}

fn failure(code: u16) -> Answer {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "",
    };
    let status = json!({
        "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "told to fail",
    });
    let mut answer = success(&status);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}
