//! An API server that replays: it lists what it was given, sends its watchers what happens, and takes
//! statuses.
//!
//! It answers at once, but for writes, which can take as long as etcd's disks would; and it costs little CPU,
//! so that what is measured is the reader's part. Must not be in here: what the objects are.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::store::{Objects, Written};

/// Events that are sent in one piece, as a busy API server does.
const EVENTS_AT_ONCE: usize = 500;
const ABSENT: &str =
    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
const CONFLICT: &str =
    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}"#;

/// The objects of a kind, as the API server sends them.
pub(super) struct Collection {
    /// The path without a namespace: `/api/v1/services`.
    pub(super) path: &'static str,
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) items: Vec<String>,
}

/// The contents of a server, and the time that its disks take.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) collections: Vec<Collection>,
    /// The answers to other paths: the versions and kinds of API groups.
    pub(super) documents: Vec<(String, Value)>,
    /// Time after which a write is done and answered. Writes wait beside each other, as those that etcd
    /// writes to its disk together.
    pub(super) write_latency: Duration,
}

/// The writes to the statuses of a kind so far.
#[derive(Clone, Copy, Default)]
pub(super) struct StatusWrites {
    pub(super) count: u64,
    /// The times of the first and the last one.
    pub(super) between: Option<(Instant, Instant)>,
}

/// A running server. It ends with the process.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    state: Arc<State>,
}

/// The objects of a kind, and the writes to their statuses.
struct Kept {
    path: &'static str,
    api_version: &'static str,
    kind: &'static str,
    objects: Mutex<Objects>,
    status_writes: Mutex<StatusWrites>,
}

struct State {
    kinds: Vec<Kept>,
    documents: Vec<(String, Value)>,
    write_latency: Duration,
    watchers: Mutex<Vec<(usize, Sender<Arc<str>>)>>,
    version: AtomicU64,
    /// Bytes that lists and watches have sent.
    sent: AtomicU64,
}

/// The request of a client.
struct Request {
    method: String,
    path: String,
    query: String,
    body: Vec<u8>,
}

impl Server {
    pub(super) fn start(collections: Vec<Collection>) -> Result<Server> {
        Server::with(Contents { collections, ..Contents::default() })
    }

    pub(super) fn with(contents: Contents) -> Result<Server> {
        let Contents { collections, documents, write_latency } = contents;
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let state = Arc::new(State {
            kinds: collections.into_iter().map(Kept::new).collect(),
            documents,
            write_latency,
            watchers: Mutex::default(),
            version: AtomicU64::new(1),
            sent: AtomicU64::default(),
        });
        let server = Server { address: listener.local_addr()?, state: Arc::clone(&state) };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                // A client that goes away ends its own connection.
                thread::spawn(move || drop(state.serve(stream)));
            }
        });
        Ok(server)
    }

    /// Sends an event about an object to the watchers of a kind. Returns how many there are.
    pub(super) fn send(&self, kind: &str, event: &str, object: &str) -> usize {
        let place = self.state.kinds.iter().position(|one| one.kind == kind);
        place.map_or(0, |place| self.state.send(place, event, object))
    }

    /// Writes an object as a client of the API server does: after the latency of a write it is stored, and
    /// the watchers get to know it. An object that replaces another one keeps the other's status.
    pub(super) fn write(&self, kind: &str, object: &mut Value) -> Result<()> {
        let kinds = &self.state.kinds;
        let place = kinds.iter().position(|one| one.kind == kind).with_context(|| format!("no {kind}"))?;
        thread::sleep(self.state.write_latency);
        let mut objects = kinds[place].objects();
        let event = if objects.put(object, self.next_version())? { "MODIFIED" } else { "ADDED" };
        self.state.send(place, event, &object.to_string());
        Ok(())
    }

    /// The objects of a kind as they are now.
    pub(super) fn objects(&self, kind: &str) -> Result<Vec<Value>> {
        let kept = self.state.kinds.iter().find(|one| one.kind == kind);
        let objects = kept.with_context(|| format!("no {kind}"))?.objects();
        objects.items().iter().map(|item| Ok(serde_json::from_str(item)?)).collect()
    }

    pub(super) fn status_writes(&self, kind: &str) -> StatusWrites {
        let kept = self.state.kinds.iter().find(|one| one.kind == kind);
        kept.map(|kept| *kept.status_writes()).unwrap_or_default()
    }

    /// Whether all kinds are watched, so that no event is lost.
    pub(super) fn is_watched(&self) -> bool {
        let watchers = self.state.watchers();
        (0..self.state.kinds.len()).all(|place| watchers.iter().any(|(of, _)| *of == place))
    }

    /// The next version of an object.
    pub(super) fn next_version(&self) -> u64 {
        self.state.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Bytes that were sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.state.sent.load(Ordering::Relaxed)
    }
}

impl Kept {
    fn new(collection: Collection) -> Kept {
        let Collection { path, api_version, kind, items } = collection;
        let objects = Mutex::new(Objects::new(items));
        Kept { path, api_version, kind, objects, status_writes: Mutex::default() }
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status_writes(&self) -> MutexGuard<'_, StatusWrites> {
        self.status_writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the object at a path, as `namespace/name` or `name`, and the subresource that the path
    /// names; none for the path of another kind.
    fn named<'p>(&self, path: &'p str) -> Option<(String, Option<&'p str>)> {
        let (base, plural) = self.path.rsplit_once('/')?;
        let rest: Vec<&str> = path.strip_prefix(base)?.strip_prefix('/')?.split('/').collect();
        match *rest {
            ["namespaces", namespace, of, name, ref rest @ ..] if of == plural && rest.len() < 2 => {
                Some((format!("{namespace}/{name}"), rest.first().copied()))
            }
            [of, name, ref rest @ ..] if of == plural && rest.len() < 2 => {
                Some((name.to_owned(), rest.first().copied()))
            }
            _ => None,
        }
    }
}

impl State {
    /// Sends an event about an object to the watchers of a kind. Returns how many there are.
    fn send(&self, place: usize, event: &str, object: &str) -> usize {
        let line: Arc<str> = format!("{{\"type\":\"{event}\",\"object\":{object}}}\n").into();
        let mut watchers = self.watchers();
        watchers.retain(|(of, watcher)| *of != place || watcher.send(Arc::clone(&line)).is_ok());
        watchers.iter().filter(|(of, _)| *of == place).count()
    }

    fn watchers(&self) -> MutexGuard<'_, Vec<(usize, Sender<Arc<str>>)>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        while let Some(request) = Request::read(&mut reader)? {
            let collection = self.kinds.iter().position(|one| one.path == request.path);
            match (request.method.as_str(), collection) {
                ("GET", Some(place)) if request.asks("watch") == Some("true") => {
                    return self.watch(&mut stream, place, &request);
                }
                ("GET", Some(place)) => {
                    let page = self.page(place, &request);
                    self.answer(&mut stream, "200 OK", page.as_bytes())?;
                }
                ("GET", None) => match self.found(&request.path)? {
                    Some(found) => self.answer(&mut stream, "200 OK", found.as_bytes())?,
                    None => self.answer(&mut stream, "404 Not Found", ABSENT.as_bytes())?,
                },
                ("DELETE", None) => self.answer(&mut stream, "404 Not Found", ABSENT.as_bytes())?,
                ("PATCH", None) => {
                    let (status, body) = self.patch(&request)?;
                    self.answer(&mut stream, status, &body)?;
                }
                // Nothing is written: the answer is what the object would be.
                _ => self.answer(&mut stream, "200 OK", &request.body)?,
            }
        }
        Ok(())
    }

    /// The document or the object at a path.
    fn found(&self, path: &str) -> Result<Option<String>> {
        if let Some((_, document)) = self.documents.iter().find(|(of, _)| of == path) {
            return Ok(Some(document.to_string()));
        }
        let mut named = self.kinds.iter().filter_map(|kept| Some((kept, kept.named(path)?)));
        let Some((kept, (key, None))) = named.next() else { return Ok(None) };
        Ok(kept.objects().find(&key)?.map(str::to_owned))
    }

    /// Writes a status, and answers with the object's metadata. Other patches change nothing: the answer is
    /// what the object would be.
    fn patch(&self, request: &Request) -> Result<(&'static str, Vec<u8>)> {
        thread::sleep(self.write_latency);
        let mut named =
            (0..).zip(&self.kinds).filter_map(|(at, kept)| Some((at, kept, kept.named(&request.path)?)));
        let Some((place, kept, (key, Some("status")))) = named.next() else {
            return Ok(("200 OK", request.body.clone()));
        };
        let patch = serde_json::from_slice(&request.body).context("the patch")?;
        let mut objects = kept.objects();
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        let object = match objects.merge_status(&key, &patch, version)? {
            Written::Object(object) => object,
            Written::Absent => return Ok(("404 Not Found", ABSENT.into())),
            Written::Conflict => return Ok(("409 Conflict", CONFLICT.into())),
        };
        self.send(place, "MODIFIED", &object.to_string());
        let mut writes = kept.status_writes();
        let now = Instant::now();
        let first = writes.between.map_or(now, |(first, _)| first);
        *writes = StatusWrites { count: writes.count + 1, between: Some((first, now)) };
        let metadata = json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
        });
        Ok(("200 OK", metadata.to_string().into()))
    }

    fn answer(&self, stream: &mut TcpStream, status: &str, body: &[u8]) -> Result<()> {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.sent.fetch_add(body.len() as u64, Ordering::Relaxed);
        stream.write_all(&[head.as_bytes(), body].concat())?;
        Ok(())
    }

    /// A page of a list.
    fn page(&self, place: usize, request: &Request) -> String {
        let kept = &self.kinds[place];
        let Kept { api_version, kind, .. } = kept;
        let objects = kept.objects();
        let items = objects.items();
        let number = |name: &str| request.asks(name).and_then(|value| value.parse::<usize>().ok());
        let begin = number("continue").unwrap_or(0).min(items.len());
        let end = begin.saturating_add(number("limit").unwrap_or(items.len())).min(items.len());
        let next = if end < items.len() { end.to_string() } else { String::new() };
        let version = self.version.load(Ordering::Relaxed);
        let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
        format!(
            "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[{}]}}",
            items[begin..end].join(",")
        )
    }

    fn watch(&self, stream: &mut TcpStream, place: usize, request: &Request) -> Result<()> {
        let (sender, events) = channel();
        self.watchers().push((place, sender));
        stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        let seconds = request.asks("timeoutSeconds").and_then(|value| value.parse().ok()).unwrap_or(60);
        let end = Instant::now() + Duration::from_secs(seconds);
        while let Some(lines) = next_lines(&events, end) {
            self.sent.fetch_add(lines.len() as u64, Ordering::Relaxed);
            stream.write_all(format!("{:x}\r\n{lines}\r\n", lines.len()).as_bytes())?;
        }
        stream.write_all(b"0\r\n\r\n")?;
        Ok(())
    }
}

/// The events that are due, as lines; none at the end of the watch.
fn next_lines(events: &Receiver<Arc<str>>, end: Instant) -> Option<String> {
    let first = match events.recv_timeout(end.saturating_duration_since(Instant::now())) {
        Ok(first) => first,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
    };
    let mut lines = String::from(&*first);
    lines.extend(events.try_iter().take(EVENTS_AT_ONCE).map(|line| line.to_string()));
    Some(lines)
}

impl Request {
    /// Reads a request; none at the end of the connection.
    fn read(reader: &mut BufReader<TcpStream>) -> Result<Option<Request>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let method = words.next().context("no method")?.to_owned();
        let target = words.next().context("no target")?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, query) = (path.to_owned(), query.to_owned());
        let mut length = 0;
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(Some(Request { method, path, query, body }))
    }

    fn asks(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|pair| pair.0 == name)
            .map(|it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, target: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")?;
        Ok(stream)
    }

    fn server() -> Result<Server> {
        let items = (0..3).map(|number| format!(r#"{{"metadata":{{"name":"a-{number}"}}}}"#)).collect();
        let path = "/api/v1/services";
        Server::start(vec![Collection { path, api_version: "v1", kind: "Service", items }])
    }

    fn answer(address: SocketAddr, method: &str, target: &str, body: &str) -> Result<(u16, Value)> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "{method} {target} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let answer = crate::ask::Answer::read(stream)?;
        Ok((answer.status, answer.json()?))
    }

    #[test]
    fn statuses_are_written_and_watchers_get_to_know_them() -> Result<()> {
        let item = json!({"metadata": {"name": "a", "namespace": "web", "resourceVersion": "1"}}).to_string();
        let path = "/apis/gateway.networking.k8s.io/v1/httproutes";
        let collection = Collection { path, api_version: "v1", kind: "HTTPRoute", items: vec![item] };
        let documents = vec![("/apis/x".to_owned(), json!({"kind": "APIGroup"}))];
        let write_latency = Duration::from_millis(1);
        let server = Server::with(Contents { collections: vec![collection], documents, write_latency })?;
        let mut watch = BufReader::new(ask(server.address, &format!("{path}?watch=true&timeoutSeconds=60"))?);
        let mut line = String::new();
        while watch.read_line(&mut line)? > 2 {
            line.clear();
        }
        let route = "/apis/gateway.networking.k8s.io/v1/namespaces/web/httproutes/a";
        let patch =
            |version: &str| json!({"metadata": {"resourceVersion": version}, "status": {"parents": []}});
        let write = |version| {
            answer(server.address, "PATCH", &format!("{route}/status"), &patch(version).to_string())
        };
        assert_eq!(write("0")?.0, 409);
        let (status, written) = write("1")?;
        assert_eq!((status, &written["kind"]), (200, &json!("PartialObjectMetadata")));
        let (_, now) = answer(server.address, "GET", route, "")?;
        assert_eq!((&now["status"], &now["metadata"]), (&json!({"parents": []}), &written["metadata"]));
        assert_eq!(
            (server.objects("HTTPRoute")?, server.status_writes("HTTPRoute").count),
            (vec![now.clone()], 1)
        );
        let mut lines = watch.lines().skip(1);
        let event: Value = serde_json::from_str(&lines.next().context("an event")??)?;
        assert_eq!((&event["type"], &event["object"]), (&json!("MODIFIED"), &now));
        assert_eq!(answer(server.address, "GET", "/apis/x", "")?, (200, json!({"kind": "APIGroup"})));
        assert_eq!(answer(server.address, "GET", "/apis/y", "")?.0, 404);
        assert_eq!(answer(server.address, "PATCH", &format!("{route}b/status"), "{}")?.0, 404);
        Ok(())
    }

    #[test]
    fn lists_have_pages_and_watches_get_events() -> Result<()> {
        let server = server()?;
        let mut reader = BufReader::new(ask(server.address, "/api/v1/services?limit=2&continue=1")?);
        let mut length = 0;
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            if let Some(value) = line.trim().strip_prefix("Content-Length: ") {
                length = value.parse()?;
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let list: Value = serde_json::from_slice(&body)?;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
        assert_eq!(
            (&list["items"][0]["metadata"]["name"], &list["metadata"]["continue"]),
            (&json!("a-1"), &json!(""))
        );

        let watch = ask(server.address, "/api/v1/services?watch=true&timeoutSeconds=5")?;
        let mut reader = BufReader::new(watch);
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        assert!(server.is_watched());
        assert_eq!(server.send("Service", "MODIFIED", r#"{"metadata":{"name":"a-1"}}"#), 1);
        line.clear();
        reader.read_line(&mut line)?;
        line.clear();
        reader.read_line(&mut line)?;
        let event: Value = serde_json::from_str(&line)?;
        assert_eq!(
            (&event["type"], event["object"]["metadata"]["name"].as_str()),
            (&json!("MODIFIED"), Some("a-1"))
        );
        Ok(())
    }
}
