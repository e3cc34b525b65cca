//! A stand-in of an API server: lists and watches of objects that the soak changes. It forgets old versions,
//! as the real one does, and can be away.
//!
//! Must not be in here: which objects there are.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::lock::locked;
use crate::switch::{Parting, Switch};

/// Events that are kept for watches that begin at an older version.
const EVENTS_MAX: usize = 2000;
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// The objects, for all who change or serve them.
#[derive(Clone, Debug)]
pub(crate) struct Objects(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Mutex<Store>,
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Store {
    version: u64,
    /// By plural, then by namespace and name.
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    events: VecDeque<Event>,
}

#[derive(Clone, Debug)]
struct Event {
    version: u64,
    plural: String,
    kind: &'static str,
    object: Value,
}

/// A request for objects of one kind.
#[derive(Debug)]
struct Question {
    plural: String,
    namespace: Option<String>,
    name: Option<String>,
    /// The version at which a watch begins; none for a list.
    since: Option<u64>,
}

impl Default for Objects {
    fn default() -> Self {
        Self(Arc::new(Shared { store: Mutex::default(), version: watch::channel(0).0 }))
    }
}

impl Objects {
    /// Creates or replaces an object.
    pub(crate) fn apply(&self, mut object: Value) {
        let mut store = self.store();
        store.version += 1;
        let version = store.version;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        object["metadata"]["uid"] = identity(&object).into();
        let plural = plural(&object);
        let key = identity(&object);
        let old = store.objects.entry(plural.clone()).or_default().insert(key, object.clone());
        let kind = if old.is_some() { "MODIFIED" } else { "ADDED" };
        store.push(Event { version, plural, kind, object });
        drop(store);
        self.0.version.send_replace(version);
    }

    /// Deletes an object, if it is there.
    pub(crate) fn delete(&self, object: &Value) {
        let mut store = self.store();
        let plural = plural(object);
        let Some(mut old) = store.objects.entry(plural.clone()).or_default().remove(&identity(object)) else {
            return;
        };
        store.version += 1;
        let version = store.version;
        old["metadata"]["resourceVersion"] = version.to_string().into();
        store.push(Event { version, plural, kind: "DELETED", object: old });
        drop(store);
        self.0.version.send_replace(version);
    }

    /// Forgets all events, so that a watch that was interrupted has to list again.
    pub(crate) fn compact(&self) {
        self.store().events.clear();
    }

    /// Serves at an address, while the switch is on.
    pub(crate) async fn serve(self, address: SocketAddr, switch: Switch) {
        switch.listen(address, Parting::Abrupt, move |stream| self.clone().converse(stream)).await;
    }

    async fn converse(self, mut stream: TcpStream) {
        let mut unread = Vec::new();
        while let Some((line, body)) = read_request(&mut stream, &mut unread).await {
            let answered = match Question::parse(&line) {
                None => answer(&mut stream, 404, &status(404, "not found")).await,
                Some(_) if !line.starts_with("GET ") => answer(&mut stream, 200, &body).await,
                Some(question) => match question.since {
                    None => answer(&mut stream, 200, &self.list(&question).to_string()).await,
                    Some(since) => return self.watch(&mut stream, &question, since).await,
                },
            };
            if answered.is_err() {
                return;
            }
        }
    }

    fn list(&self, question: &Question) -> Value {
        let store = self.store();
        let all = store.objects.get(&question.plural).into_iter().flat_map(BTreeMap::values);
        let items: Vec<&Value> = all.filter(|object| question.is_about(object)).collect();
        let version = store.version.to_string();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
    }

    async fn watch(&self, stream: &mut TcpStream, question: &Question, since: u64) {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut versions = self.0.version.subscribe();
        if stream.write_all(head.as_bytes()).await.is_err() {
            return;
        }
        let mut seen = since;
        loop {
            let now = *versions.borrow_and_update();
            let Some(events) = self.events(question, seen) else {
                let event = json!({"type": "ERROR", "object": status_value(410, "too old resource version")});
                let _ = stream.write_all(chunk(&event).as_bytes()).await;
                let _ = stream.write_all(b"0\r\n\r\n").await;
                return;
            };
            let text: String = events.iter().map(chunk).collect();
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
            seen = seen.max(now);
            let mut byte = [0];
            tokio::select! {
                changed = versions.changed() => if changed.is_err() { return },
                // A client that has closed has no more use for the watch.
                read = stream.read(&mut byte) => if !matches!(read, Ok(1..)) { return },
            }
        }
    }

    /// The events after a version. None where that is forgotten.
    fn events(&self, question: &Question, since: u64) -> Option<Vec<Value>> {
        let store = self.store();
        let first = store.events.front().map_or(store.version + 1, |event| event.version);
        if since + 1 < first && since < store.version {
            return None;
        }
        let later = store.events.iter().filter(|event| event.version > since);
        let later = later.filter(|event| event.plural == question.plural && question.is_about(&event.object));
        Some(later.map(|event| json!({"type": event.kind, "object": event.object})).collect())
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        locked(&self.0.store)
    }
}

impl Store {
    fn push(&mut self, event: Event) {
        self.events.push_back(event);
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
        }
    }
}

impl Question {
    /// Reads the path of a request line. None for what is not served: groups, and single objects.
    fn parse(line: &str) -> Option<Question> {
        let target = line.split(' ').nth(1)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let words: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = &words[..] else { return None };
        let (namespace, plural) = match *rest {
            [plural] => (None, plural),
            ["namespaces", namespace, plural] => (Some(namespace.to_owned()), plural),
            _ => return None,
        };
        let value = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).next()
        };
        let name = value("fieldSelector").and_then(|selector| {
            let selector = selector.replace("%3D", "=");
            Some(selector.strip_prefix("metadata.name=")?.to_owned())
        });
        let is_watch = value("watch").is_some_and(|watch| watch == "true" || watch == "1");
        let since = value("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
        Some(Question { plural: plural.to_owned(), namespace, name, since: is_watch.then_some(since) })
    }

    fn is_about(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        self.namespace.as_ref().is_none_or(|namespace| metadata["namespace"] == namespace.as_str())
            && self.name.as_ref().is_none_or(|name| metadata["name"] == name.as_str())
    }
}

fn identity(object: &Value) -> String {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

fn plural(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    if kind.ends_with('s') { kind + "es" } else { kind + "s" }
}

fn status(code: u16, message: &str) -> String {
    status_value(code, message).to_string()
}

fn status_value(code: u16, message: &str) -> Value {
    let reason = if code == 410 { "Expired" } else { "NotFound" };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code,
    })
}

fn chunk(event: &Value) -> String {
    let text = format!("{event}\n");
    format!("{:x}\r\n{text}\r\n", text.len())
}

async fn answer(stream: &mut TcpStream, code: u16, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {code} -\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).await
}

/// The request line and the body of the next request. None at the end of the connection.
async fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<(String, String)> {
    loop {
        if let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&unread[..end]).to_ascii_lowercase();
            let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if unread.len() >= end + 4 + length {
                let line = String::from_utf8_lossy(&unread[..end]).lines().next()?.to_owned();
                let body = String::from_utf8_lossy(&unread[end + 4..end + 4 + length]).into_owned();
                unread.drain(..end + 4 + length);
                return Some((line, body));
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(len @ 1..) if unread.len() < REQUEST_BYTES_MAX => unread.extend_from_slice(&piece[..len]),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ingress(name: &str) -> Value {
        json!({"kind": "Ingress", "metadata": {"namespace": "default", "name": name}})
    }

    #[test]
    fn a_watch_sees_what_came_after_its_version_until_that_is_forgotten() {
        let objects = Objects::default();
        objects.apply(ingress("one"));
        objects.apply(ingress("two"));
        objects.delete(&ingress("one"));
        let path = "GET /apis/networking.k8s.io/v1/ingresses?watch=true&resourceVersion=1 HTTP/1.1";
        let question = Question::parse(path).expect("it is served");
        let kinds = |since| {
            let events = objects.events(&question, since)?;
            Some(events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect())
        };
        assert_eq!(kinds(1), Some(vec!["ADDED".to_owned(), "DELETED".to_owned()]));
        assert_eq!(kinds(3), Some(vec![]));
        objects.compact();
        assert_eq!((kinds(1), kinds(3)), (None, Some(vec![])));
        assert_eq!(objects.list(&question)["items"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn paths_name_kind_namespace_and_object() {
        let line =
            "GET /api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dsettings HTTP/1.1";
        let question = Question::parse(line).expect("it is served");
        assert!(question.since.is_none() && question.plural == "configmaps");
        assert!(!question.is_about(&json!({"metadata": {"namespace": "default", "name": "other"}})));
        assert!(question.is_about(&json!({"metadata": {"namespace": "default", "name": "settings"}})));
        assert!(Question::parse("GET /apis/gateway.networking.k8s.io HTTP/1.1").is_none());
    }
}
