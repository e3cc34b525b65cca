//! Replicas that share a watch of `EndpointSlice`s, each with a server of its own, before a stand-in of an
//! API server that counts lists and watches.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use testkit::Port;
use tokio::net::TcpSocket;
use tokio::sync::{mpsc, watch as channel};
use tokio::task::{AbortHandle, JoinSet};
use tower::BoxError;

use super::*;
use crate::relay::{Relay, RelayOptions};

/// Longest wait, much longer than any takes: a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_mins(1);
const SECRET: &[u8] = b"a secret that all replicas have";

/// An API server with slices.
#[derive(Clone)]
struct Server(Arc<ServerState>);

struct ServerState {
    objects: Mutex<Objects>,
    counts: channel::Sender<Counts>,
}

#[derive(Default)]
struct Objects {
    version: u64,
    slices: BTreeMap<String, Value>,
    members: Vec<IpAddr>,
    events: Vec<(u64, Bytes)>,
    watchers: Vec<mpsc::UnboundedSender<Bytes>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    lists: usize,
    /// Watches at this moment.
    watches: usize,
}

/// A watch; it ends when this is dropped.
struct Watching(Server);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.0.counts.send_modify(|counts| counts.watches -= 1);
    }
}

impl Server {
    /// A server with one slice.
    fn new(version: u64) -> Self {
        let objects = Objects { version, ..Objects::default() };
        let server =
            Self(Arc::new(ServerState { objects: objects.into(), counts: channel::Sender::default() }));
        server.change("first", 1);
        server
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.0.objects.lock().unwrap()
    }

    /// Gives a slice another address, whose number only ever rises.
    fn change(&self, name: &str, round: u32) {
        let endpoints = json!([{"addresses": [Ipv4Addr::from(round).to_string()]}]);
        self.put(name, &endpoints, "MODIFIED", "other");
    }

    fn remove(&self, name: &str) {
        self.put(name, &json!([]), "DELETED", "other");
    }

    /// Says which replicas there are.
    fn introduce(&self, members: &[IpAddr]) {
        self.objects().members = members.to_vec();
        self.put("replicas", &json!([{"addresses": ["255.255.255.255"]}]), "MODIFIED", "forebay");
    }

    fn put(&self, name: &str, endpoints: &Value, event: &str, service: &str) {
        let mut objects = self.objects();
        objects.version += 1;
        let version = objects.version;
        let object = json!({
            "metadata": {"namespace": "a", "name": name, "resourceVersion": version.to_string(),
                "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": [],
        });
        let line = Bytes::from(format!("{}\n", json!({"type": event, "object": object})));
        if event == "DELETED" {
            objects.slices.remove(name);
        } else {
            objects.slices.insert(name.to_owned(), object);
        }
        objects.watchers.retain(|watcher| watcher.send(line.clone()).is_ok());
        objects.events.push((version, line));
    }

    async fn counts(&self, are_right: impl FnMut(&Counts) -> bool) {
        let mut counts = self.0.counts.subscribe();
        let is_settled = tokio::time::timeout(PATIENCE, counts.wait_for(are_right)).await.is_ok();
        assert!(is_settled, "{:?}", *self.0.counts.borrow());
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let answer = move |request: Request<Body>| {
            let answer = server.answer(request.uri());
            async move { Ok::<_, kube::Error>(Response::new(answer)) }
        };
        Client::new(service_fn(answer), "a")
    }

    fn answer(&self, uri: &http::Uri) -> UnsyncBoxBody<Bytes, BoxError> {
        let query = uri.query().unwrap_or_default();
        let number = |name: &str| {
            let mut values = query.split('&').filter_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            values.next_back().and_then(|value| value.parse::<u64>().ok())
        };
        if query.contains("watch=true") {
            return self.watch(number("resourceVersion").unwrap(), number("timeoutSeconds").unwrap());
        }
        let objects = self.objects();
        let items: Vec<_> = if query.contains("labelSelector") {
            let endpoint = |address: &IpAddr| json!({ "addresses": [address] });
            vec![json!({"endpoints": objects.members.iter().map(endpoint).collect::<Vec<_>>()})]
        } else {
            self.0.counts.send_modify(|counts| counts.lists += 1);
            objects.slices.values().cloned().collect()
        };
        let metadata = json!({"resourceVersion": objects.version.to_string()});
        let list =
            json!({"kind": "EndpointSliceList", "apiVersion": "v1", "metadata": metadata, "items": items});
        Full::from(list.to_string()).map_err(BoxError::from).boxed_unsync()
    }

    fn watch(&self, from: u64, seconds: u64) -> UnsyncBoxBody<Bytes, BoxError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut objects = self.objects();
        for (_, line) in objects.events.iter().filter(|(version, _)| *version > from) {
            sender.send(line.clone()).unwrap();
        }
        objects.watchers.push(sender);
        self.0.counts.send_modify(|counts| counts.watches += 1);
        let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
        let state = (receiver, Watching(self.clone()));
        let lines = stream::unfold(state, move |(mut receiver, watching)| async move {
            let line = tokio::time::timeout_at(end, receiver.recv()).await.ok()??;
            Some((Ok(Frame::data(line)), (receiver, watching)))
        });
        StreamBody::new(lines).boxed_unsync()
    }
}

/// A replica: its slices, each with the number of its last address.
struct Replica {
    address: IpAddr,
    relay: Relay,
    slices: channel::Receiver<BTreeMap<String, u32>>,
    tasks: Vec<AbortHandle>,
}

/// Replicas before one server.
struct Replicas {
    port: Port,
    running: JoinSet<()>,
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, 10 + number])
}

impl Replicas {
    fn new() -> Self {
        Self { port: Port::tcp(), running: JoinSet::new() }
    }

    /// Starts replicas, each before a server. All listen before one of them asks another.
    fn start(&mut self, replicas: &[(u8, &Server, &[u8])]) -> Vec<Replica> {
        let mut listening = Vec::new();
        for (number, _, secret) in replicas {
            let relay = Relay::hasty(RelayOptions {
                per_watch: 3,
                port: self.port.number(),
                service: NsName::new("a", "forebay"),
                own: address(*number),
                secret: secret.to_vec(),
            });
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.set_reuseport(true).unwrap();
            socket.bind(relay.address()).unwrap();
            let listener = socket.listen(16).unwrap();
            let serving = self.running.spawn(relay.clone().serve(listener));
            listening.push((relay, serving));
        }
        let started = replicas.iter().zip(listening).map(|((number, server, _), (relay, serving))| {
            let (sender, slices) = channel::channel(BTreeMap::new());
            let [.., watch] = Watch::of_routing(None, Some(&relay));
            let (events, _) = watch.start(server.client(), 0);
            let following = self.running.spawn(follow(events, sender));
            Replica { address: address(*number), relay, slices, tasks: vec![serving, following] }
        });
        started.collect()
    }

    /// Starts three replicas before a server, and waits until one of them watches for all.
    async fn three(&mut self, server: &Server) -> Vec<Replica> {
        server.introduce(&[0, 1, 2].map(address));
        let mut all = self.start(&[0, 1, 2].map(|number| (number, server, SECRET)));
        for replica in &mut all {
            replica.has("first", Some(1)).await;
        }
        server.counts(|counts| counts.watches == 1).await;
        all
    }
}

/// Notes what a watch brings. No slice may go back to an earlier address.
async fn follow(mut events: watch::Stream, slices: channel::Sender<BTreeMap<String, u32>>) {
    let mut listed = None;
    while let Some((_, happening)) = events.next().await {
        match happening {
            Happening::Began => listed = Some(HashSet::new()),
            Happening::Found(key, Thing::Object(Object::EndpointSlice(slice))) => {
                let round = u32::from(slice.endpoints[0].addresses[0].parse::<Ipv4Addr>().unwrap());
                slices.send_modify(|slices| {
                    let before = slices.insert(key.name.clone(), round);
                    assert!(before.is_none_or(|before| before <= round), "{key} goes back to {round}");
                });
                if let Some(listed) = &mut listed {
                    listed.insert(key.name);
                }
            }
            Happening::Found(key, _) => panic!("{key} is no slice"),
            Happening::Gone(key) => slices.send_modify(|slices| _ = slices.remove(&key.name)),
            Happening::Complete => {
                let listed = listed.take().unwrap_or_default();
                slices.send_modify(|slices| slices.retain(|name, _| listed.contains(name)));
            }
            Happening::Failed(_) | Happening::Quiet => {}
        }
    }
}

impl Replica {
    async fn has(&mut self, name: &str, round: Option<u32>) {
        let is_there = |slices: &BTreeMap<String, u32>| slices.get(name).copied() == round;
        let waited = tokio::time::timeout(PATIENCE, self.slices.wait_for(is_there)).await;
        waited.expect("it hears of it in time").expect("it goes on");
    }

    fn end(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

#[tokio::test]
async fn one_of_three_watches_and_all_hear_of_a_change() {
    let (server, mut replicas) = (Server::new(100), Replicas::new());
    let mut all = replicas.three(&server).await;
    assert_eq!(server.0.counts.borrow().lists, 1, "the others list at the relay");
    for round in 2..50 {
        server.change("first", round);
        server.change("second", round);
    }
    server.remove("second");
    server.change("third", 7);
    for replica in &mut all {
        replica.has("third", Some(7)).await;
        assert_eq!((replica.slices.borrow().get("second"), replica.slices.borrow()["first"]), (None, 49));
    }
    let figures: Vec<_> = all.iter().map(|replica| replica.relay.figures()).collect();
    let relay = all.iter().find(|replica| replica.relay.figures().followers == 2).expect("one has two");
    let following = figures.iter().filter(|figures| figures.relay == Some(relay.address)).count();
    assert_eq!(following, 2, "{figures:?}");
    assert!(
        relay.relay.figures().sent_bytes > 0 && figures.iter().all(|it| it.fallbacks == 0),
        "{figures:?}"
    );
}

#[tokio::test]
async fn followers_of_a_relay_that_ends_go_on_where_it_ended_and_find_another() {
    let (server, mut replicas) = (Server::new(100), Replicas::new());
    let mut all = replicas.three(&server).await;
    let place = all.iter().position(|replica| replica.relay.figures().relay.is_none()).unwrap();
    let relay = all.remove(place);
    let changing = server.clone();
    let changes = tokio::spawn(async move {
        for round in 2..2000 {
            changing.change("first", round);
            if round == 500 {
                relay.end();
            }
            tokio::task::yield_now().await;
        }
    });
    changes.await.unwrap();
    for replica in &mut all {
        replica.has("first", Some(1999)).await;
        assert!(replica.relay.figures().fallbacks > 0);
    }
    assert_eq!(server.0.counts.borrow().lists, 1, "nobody lists for it");
    // The endpoints of the Service say that it has gone.
    let left: Vec<_> = all.iter().map(|replica| replica.address).collect();
    server.introduce(&left);
    server.counts(|counts| counts.watches == 1).await;
    server.change("first", 2000);
    for replica in &mut all {
        replica.has("first", Some(2000)).await;
    }
}

#[tokio::test]
async fn a_replica_with_another_secret_watches_by_itself() {
    let (server, mut replicas) = (Server::new(100), Replicas::new());
    server.introduce(&[0, 1].map(address));
    let mut all = replicas.start(&[(0, &server, SECRET), (1, &server, b"another secret".as_slice())]);
    for replica in &mut all {
        replica.has("first", Some(1)).await;
    }
    server.counts(|counts| counts.watches == 2).await;
    assert_eq!(all.iter().map(|replica| replica.relay.figures().followers).sum::<usize>(), 0);
    server.change("first", 2);
    for replica in &mut all {
        replica.has("first", Some(2)).await;
    }
}

#[tokio::test]
async fn a_replica_does_not_go_back_to_a_relay_that_is_behind() {
    // The relay's server is the same one as it was earlier.
    let (server, earlier) = (Server::new(200), Server::new(100));
    let mut replicas = Replicas::new();
    let members = [0, 1].map(address);
    earlier.introduce(&members);
    server.introduce(&members);
    server.change("first", 5);
    let first = replicas.start(&[(0, &earlier, SECRET)]).remove(0);
    earlier.counts(|counts| counts.watches == 1).await;
    // A follower has found that the other one is not there.
    let is_relay = first.relay.figures().fallbacks == 0;
    first.end();
    replicas.running.shutdown().await;
    let [behind, ahead] = if is_relay { [0, 1] } else { [1, 0] };
    let mut follower = replicas.start(&[(ahead, &server, SECRET)]).remove(0);
    follower.has("first", Some(5)).await;
    let mut relay = replicas.start(&[(behind, &earlier, SECRET)]).remove(0);
    relay.has("first", Some(1)).await;
    let fallbacks = follower.relay.figures().fallbacks;
    let refused = async {
        while follower.relay.figures().fallbacks < fallbacks + 2 {
            server.change("second", 1);
            follower.slices.changed().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("it asks the relay, and is refused");
    assert_eq!((relay.relay.figures().followers, follower.slices.borrow()["first"]), (0, 5));
}
