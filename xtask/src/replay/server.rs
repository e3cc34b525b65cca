//! An API server that replays: it lists what it was given, and sends its watchers what happens.
//!
//! It answers at once and costs little CPU, so that what is measured is the reader's part. Must not be in
//! here: what the objects are.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;

/// Events that are sent in one piece, as a busy API server does.
const EVENTS_AT_ONCE: usize = 500;
const ABSENT: &str =
    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;

/// The objects of a kind, as the API server sends them.
pub(super) struct Collection {
    /// The path without a namespace: `/api/v1/services`.
    pub(super) path: &'static str,
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) items: Vec<String>,
}

/// A running server. It ends with the process.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    state: Arc<State>,
}

struct State {
    collections: Vec<Collection>,
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
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let state = Arc::new(State {
            collections,
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
        let Some(place) = self.state.collections.iter().position(|one| one.kind == kind) else { return 0 };
        let line: Arc<str> = format!("{{\"type\":\"{event}\",\"object\":{object}}}\n").into();
        let mut watchers = self.state.watchers();
        watchers.retain(|(of, watcher)| *of != place || watcher.send(Arc::clone(&line)).is_ok());
        watchers.iter().filter(|(of, _)| *of == place).count()
    }

    /// Whether all kinds are watched, so that no event is lost.
    pub(super) fn is_watched(&self) -> bool {
        let watchers = self.state.watchers();
        (0..self.state.collections.len()).all(|place| watchers.iter().any(|(of, _)| *of == place))
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

impl State {
    fn watchers(&self) -> MutexGuard<'_, Vec<(usize, Sender<Arc<str>>)>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        while let Some(request) = Request::read(&mut reader)? {
            let collection = self.collections.iter().position(|one| one.path == request.path);
            match (request.method.as_str(), collection) {
                ("GET", Some(place)) if request.asks("watch") == Some("true") => {
                    return self.watch(&mut stream, place, &request);
                }
                ("GET", Some(place)) => {
                    let page = self.page(place, &request);
                    self.answer(&mut stream, "200 OK", page.as_bytes())?;
                }
                ("GET" | "DELETE", None) => self.answer(&mut stream, "404 Not Found", ABSENT.as_bytes())?,
                // Nothing is written: the answer is what the object would be.
                _ => self.answer(&mut stream, "200 OK", &request.body)?,
            }
        }
        Ok(())
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
        let Collection { api_version, kind, items, .. } = &self.collections[place];
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
    use serde_json::Value;

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
