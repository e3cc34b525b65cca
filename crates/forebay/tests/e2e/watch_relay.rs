//! Replicas that share a watch of `EndpointSlice`s: binaries before a stand-in of an API server, which has
//! one Ingress, its Service, and slices that change.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Forebay, Port, Setup};

use crate::FOREBAY;
use crate::replicas::{SECRET, address};

const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: 'http://192.0.2.1'}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
users: [{name: test, user: {}}]
current-context: test
";

const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";

/// The stand-in of an API server. Its threads end with the connections.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    version: u64,
    slices: BTreeMap<String, Value>,
    events: Vec<(u64, String)>,
    watchers: Vec<Sender<String>>,
    /// Watches of slices at this moment, and lists of all slices so far.
    watches: usize,
    lists: usize,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = Self { address: listener.local_addr().expect("it is bound"), state: Arc::default() };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                // A client that breaks off ends its own thread.
                std::thread::spawn(move || drop(server.converse(&stream)));
            }
        });
        server
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with it")
    }

    /// Gives a Service's slice these endpoints.
    fn set(&self, service: &str, endpoints: &[SocketAddr]) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        let port = endpoints.first().map_or(80, SocketAddr::port);
        let endpoint =
            |address: &SocketAddr| json!({"addresses": [address.ip()], "conditions": {"ready": true}});
        let slice = json!({
            "metadata": {"namespace": "default", "name": service, "resourceVersion": version.to_string(),
                "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "ports": [{"port": port, "protocol": "TCP"}],
            "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
        });
        let line = format!("{}\n", json!({"type": "MODIFIED", "object": slice}));
        state.slices.insert(service.to_owned(), slice);
        state.watchers.retain(|watcher| watcher.send(line.clone()).is_ok());
        state.events.push((version, line));
    }

    fn converse(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
            while line.trim() != "" {
                line.clear();
                reader.read_line(&mut line)?;
            }
            line.clear();
            let (path, query) = target.split_once('?').unwrap_or((&target, ""));
            if query.contains("watch=true") {
                return self.watch(stream, path, query);
            }
            let (status, body) = match self.list(path, query) {
                Some(items) => {
                    let metadata = json!({"resourceVersion": self.state().version.to_string()});
                    (
                        "200 OK",
                        json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}),
                    )
                }
                None => (
                    "404 Not Found",
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}),
                ),
            };
            let body = body.to_string();
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            );
            (&*stream).write_all((head + &body).as_bytes())?;
        }
        Ok(())
    }

    fn list(&self, path: &str, query: &str) -> Option<Vec<Value>> {
        let service = json!({"service": {"name": "web", "port": {"number": 80}}});
        let paths = json!([{"path": "/", "pathType": "Prefix", "backend": service}]);
        let metadata = json!({"namespace": "default", "name": "web", "uid": "u", "resourceVersion": "1"});
        match path {
            "/apis/networking.k8s.io/v1/ingresses" => Some(vec![json!({"metadata": metadata, "spec":
                {"ingressClassName": "nginx", "rules": [{"host": "web.test", "http": {"paths": paths}}]}})]),
            "/apis/networking.k8s.io/v1/ingressclasses" => Some(vec![json!({"metadata": {"name": "nginx",
                "resourceVersion": "1"}, "spec": {"controller": "k8s.io/ingress-nginx"}})]),
            "/api/v1/services" => {
                Some(vec![json!({"metadata": metadata, "spec": {"ports": [{"port": 80, "targetPort": 80}]}})])
            }
            SLICES => {
                let mut state = self.state();
                state.lists += 1;
                Some(state.slices.values().cloned().collect())
            }
            _ if query.contains("labelSelector=kubernetes.io%2Fservice-name%3Dforebay") => {
                Some(self.state().slices.get("forebay").cloned().into_iter().collect())
            }
            _ => None,
        }
    }

    fn watch(&self, mut stream: &TcpStream, path: &str, query: &str) -> std::io::Result<()> {
        let number = |name: &str| {
            let mut values = query.split('&').filter_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            values.next_back().and_then(|value| value.parse::<u64>().ok()).expect("a number")
        };
        let (sender, lines) = channel();
        let end = Instant::now() + Duration::from_secs(number("timeoutSeconds"));
        let is_of_slices = path == SLICES;
        if is_of_slices {
            let mut state = self.state();
            let from = number("resourceVersion");
            for (_, line) in state.events.iter().filter(|(version, _)| *version > from) {
                sender.send(line.clone()).expect("it is received below");
            }
            state.watchers.push(sender.clone());
            state.watches += 1;
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        let sent = stream.write_all(head.as_bytes()).and_then(|()| send(stream, &lines, end));
        if is_of_slices {
            self.state().watches -= 1;
        }
        sent
    }

    fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.watches, state.lists)
    }
}

/// Sends lines until the end, or until the client has gone.
fn send(mut stream: &TcpStream, lines: &Receiver<String>, end: Instant) -> std::io::Result<()> {
    // A client sends nothing while it watches: what can be read is its end.
    stream.set_read_timeout(Some(Duration::from_millis(1)))?;
    loop {
        match lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => stream.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes())?,
            Err(RecvTimeoutError::Timeout) if Instant::now() < end => {
                if stream.peek(&mut [0]).is_ok_and(|read| read == 0) {
                    return Ok(());
                }
            }
            Err(_) => return stream.write_all(b"0\r\n\r\n"),
        }
    }
}

/// A replica at an address of its own.
fn start(server: &Server, number: u8, port: u16, folder: &TempDir) -> Forebay {
    let [kubeconfig, secret] = ["kubeconfig", "secret"].map(|name| folder.path().join(name));
    std::fs::write(&kubeconfig, KUBECONFIG).expect("a file");
    std::fs::write(&secret, SECRET).expect("a file");
    let arguments = [
        format!("--apiserver-host=http://{}", server.address),
        "--update-status=false".to_owned(),
        "--replicas-service=default/forebay".to_owned(),
        format!("--replicas-secret={}", secret.display()),
        format!("--replica-address={}", address(number)),
        "--replicas-per-watch=2".to_owned(),
        format!("--replicas-watch-port={port}"),
    ];
    Setup::following(FOREBAY, &kubeconfig).arguments(arguments).launch()
}

fn status(replica: &Forebay) -> Value {
    let status: Value = serde_json::from_slice(&replica.admin("/status").body).expect("it is JSON");
    status["sharedWatch"].clone()
}

/// Waits until a replica has this endpoint of Service `web`.
fn await_endpoint(replica: &Forebay, endpoint: &str) {
    replica.await_that(endpoint, || {
        let configuration = replica.configuration();
        let clusters = configuration["clusters"].as_array().cloned().unwrap_or_default();
        let mut endpoints = clusters.iter().flat_map(|one| one["endpoints"].as_array().into_iter().flatten());
        endpoints.any(|one| one["address"] == endpoint)
    });
}

#[test]
fn a_replica_follows_another_one_and_goes_on_without_it() {
    let (server, port) = (Server::start(), Port::tcp());
    let folder = tempfile::tempdir().expect("a folder");
    server.set("web", &["192.0.2.1:80".parse().expect("an address")]);
    // A replica that is not listed yet follows one that is.
    server.set("forebay", &[SocketAddr::from((address(0), 80))]);
    let mut relay = start(&server, 0, port.number(), &folder);
    relay.await_serving();
    let mut follower = start(&server, 1, port.number(), &folder);
    follower.await_serving();
    follower.await_that("one watch for both", || server.counts().0 == 1);
    assert_eq!(server.counts().1, 1, "one of them lists at the other");
    assert_eq!(status(&follower)["relay"], address(0).to_string());
    assert_eq!((&status(&relay)["followers"], &status(&relay)["relay"]), (&json!(1), &Value::Null));
    follower.await_metric("forebay_watch_relay_follows", &[], 1);
    relay.await_metric("forebay_watch_relay_followers", &[], 1);

    server.set("web", &["192.0.2.2:80".parse().expect("an address")]);
    await_endpoint(&relay, "192.0.2.2:80");
    await_endpoint(&follower, "192.0.2.2:80");

    drop(relay);
    server.set("web", &["192.0.2.3:80".parse().expect("an address")]);
    await_endpoint(&follower, "192.0.2.3:80");
    assert_eq!((status(&follower)["relay"].clone(), server.counts().1), (Value::Null, 1), "it lists nothing");
    assert!(follower.metrics().sum("forebay_watch_relay_fallbacks_total", &[]) > 0);
}
