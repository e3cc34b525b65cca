//! A proxy that a test runs itself, with a configuration of its own making.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cache_disk::Disk;
use model::{
    Action, Backends, Cluster, ClusterId, Endpoint, EndpointState, Forward, Host, HostName, HostTls,
    LabelTexts, Labels, Listener, ListenerKind, Model, PathMatch, Protocol, Route, Stream, Transport,
};
use observe::log::Writer;
use observe::{MetricsOptions, Process, Registry};
use proxy::guard::Relief;
use proxy::{Budget, Observer, Options, Proxy};
use routing::{Snapshot, compile};
use testkit::{Connection, Metrics, PATIENCE, Port};

/// A timeout that ends in a test. Before it ends, the test's thread does its own part, on a busy machine too.
pub(crate) const BRIEF: Duration = Duration::from_secs(1);

/// A running proxy with one service.
pub(crate) struct World {
    proxy: Option<Proxy>,
    registry: Arc<Registry>,
    log: Arc<Mutex<Vec<u8>>>,
    writer: Option<Writer>,
    model: Model,
    snapshot: Arc<Snapshot>,
    /// Of the TCP or UDP service.
    port: Option<Port>,
}

impl World {
    /// A TCP service with these endpoints, changed before it starts.
    pub(crate) fn tcp(endpoints: &[SocketAddr], change: impl FnOnce(&mut Model)) -> Self {
        Self::start(Transport::Tcp, endpoints, change)
    }

    /// The same over UDP.
    pub(crate) fn udp(endpoints: &[SocketAddr], change: impl FnOnce(&mut Model)) -> Self {
        Self::start(Transport::Udp, endpoints, change)
    }

    /// A host `web.test` over HTTP with these endpoints, changed before it starts.
    pub(crate) fn http(endpoints: &[SocketAddr], change: impl FnOnce(&mut Model)) -> Self {
        Self::http_with_folder(None, endpoints, change)
    }

    /// The same with a folder for bodies.
    pub(crate) fn http_with_folder(
        folder: Option<OwnedFd>,
        endpoints: &[SocketAddr],
        change: impl FnOnce(&mut Model),
    ) -> Self {
        Self::run(None, (folder, None), http_model(endpoints), change)
    }

    /// The same with a second tier of the cache.
    pub(crate) fn http_with_disk(
        disk: Arc<Disk>,
        endpoints: &[SocketAddr],
        change: impl FnOnce(&mut Model),
    ) -> Self {
        Self::run(None, (None, Some(disk)), http_model(endpoints), change)
    }

    fn start(transport: Transport, endpoints: &[SocketAddr], change: impl FnOnce(&mut Model)) -> Self {
        let port = match transport {
            Transport::Tcp => Port::tcp(),
            Transport::Udp => Port::udp(),
        };
        let model = Model {
            clusters: [cluster(endpoints)].into_iter().collect(),
            listeners: vec![stream(port.number(), transport)],
            ..Model::default()
        };
        Self::run(Some(port), (None, None), model, change)
    }

    fn run(
        port: Option<Port>,
        (body_folder, cache_disk): (Option<OwnedFd>, Option<Arc<Disk>>),
        mut model: Model,
        change: impl FnOnce(&mut Model),
    ) -> Self {
        // A test ends without a wait for the connections that it leaves open.
        model.settings.client.shutdown_timeout = Duration::from_millis(100);
        change(&mut model);
        let registry = Registry::new(MetricsOptions::default());
        let log = Arc::<Mutex<Vec<u8>>>::default();
        let writer = Writer::spawn(Shared(Arc::clone(&log)), &registry).unwrap();
        let snapshot = Arc::new(compile(&model, None, 1));
        let options = Options {
            files: None,
            workers: vec![None],
            source_addresses: Vec::new(),
            body_folder,
            cache_bytes: Some(128 << 20),
            cache_disk,
            replica_secret: None,
            sign_ins: identity::oidc::directory::Directory::default(),
            replicas_udp_port: None,
            limit_redis: None,
            budget: Budget { connections: 1000, datagram_sessions: 1000 },
            fallback_certificate: None,
            rollouts: Arc::default(),
            health_news: Arc::default(),
            worker_ends: Arc::default(),
            handed: Arc::default(),
            hostname: "test".to_owned(),
        };
        let proxy = Proxy::start(&options, Arc::clone(&snapshot), &registry, &writer).unwrap();
        let world = Self { proxy: Some(proxy), registry, log, writer: Some(writer), model, snapshot, port };
        world.await_generation();
        world
    }

    /// Has the worker do something about what the process has too little of.
    pub(crate) fn order(&self, relief: Relief) {
        self.proxy.as_ref().unwrap().guard().order(relief);
    }

    /// Goes over to another configuration.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Model)) {
        change(&mut self.model);
        let generation = self.snapshot.generation + 1;
        self.snapshot = Arc::new(compile(&self.model, Some(&self.snapshot), generation));
        self.proxy.as_ref().unwrap().publish(Arc::clone(&self.snapshot));
        self.await_generation();
    }

    fn await_generation(&self) {
        let observer = self.observer();
        await_that("the configuration to be in force", || {
            observer.acknowledged() == self.snapshot.generation
        });
    }

    pub(crate) fn observer(&self) -> Observer {
        self.proxy.as_ref().unwrap().observer()
    }

    pub(crate) fn port(&self) -> u16 {
        self.service().number()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.service().address()
    }

    fn service(&self) -> &Port {
        self.port.as_ref().expect("asked of a world with a TCP or UDP service")
    }

    /// A client of HTTP.
    pub(crate) fn http_client(&self) -> Connection {
        Connection::to(self.http_address())
    }

    /// Where clients of HTTP connect to.
    pub(crate) fn http_address(&self) -> SocketAddr {
        let (id, address) = self.proxy.as_ref().unwrap().addresses()[0];
        assert_eq!(id.kind, ListenerKind::Http);
        ([127, 0, 0, 1], address.port()).into()
    }

    /// Where clients of HTTPS connect to, if the model has a listener for them.
    pub(crate) fn https_address(&self) -> SocketAddr {
        let addresses = self.proxy.as_ref().unwrap().addresses();
        let (_, address) = addresses.iter().find(|(id, _)| id.is_tls()).expect("a listener with TLS");
        ([127, 0, 0, 1], address.port()).into()
    }

    pub(crate) fn client(&self) -> Connection {
        Connection::to(self.address())
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics::parse(&self.page())
    }

    /// The metrics as text.
    pub(crate) fn page(&self) -> String {
        let mut page = String::new();
        self.registry.encode(&Process::default(), &mut page);
        page
    }

    pub(crate) fn await_metric(&self, name: &str, labels: &[(&str, &str)], value: u64) {
        await_that(&format!("{name} to be {value}"), || self.metrics().sum(name, labels) == value);
    }

    /// Waits until nobody is connected any more.
    pub(crate) fn await_quiet(&self) {
        self.await_metric("forebay_stream_connections", &[], 0);
    }

    /// Has it stop, without waiting for that.
    pub(crate) fn tell_to_stop(&self) {
        self.proxy.as_ref().unwrap().stop();
    }

    /// Stops it; returns the access log.
    pub(crate) fn stop(mut self) -> String {
        self.end();
        String::from_utf8(std::mem::take(&mut *self.log.lock().unwrap())).unwrap()
    }

    fn end(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            proxy.stop();
            proxy.join().unwrap();
        }
        if let Some(writer) = self.writer.take() {
            writer.join();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

fn http_model(endpoints: &[SocketAddr]) -> Model {
    Model {
        listeners: vec![http(0, host("web.test"))],
        clusters: [cluster(endpoints)].into_iter().collect(),
        ..Model::default()
    }
}

pub(crate) fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

pub(crate) fn cluster(endpoints: &[SocketAddr]) -> Cluster {
    let endpoint = |&address| Endpoint { address, state: EndpointState::Ready };
    Cluster {
        name: "default-echo-7".to_owned(),
        identity: "default/echo:7".to_owned(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        ..Cluster::default()
    }
}

/// Listens for HTTP at a port, for one host.
pub(crate) fn http(port: u16, host: Host) -> Listener {
    Listener { address: None, port, protocol: Protocol::Http(Arc::new(vec![Arc::new(host)].into())) }
}

/// A host whose only route forwards to the cluster.
pub(crate) fn host(name: &str) -> Host {
    let forward = Forward::to(Backends::One(ClusterId(0)));
    let route = Route::new(PathMatch::root(), Action::Forward(forward), Arc::default());
    Host {
        name: HostName::parse(name).expect("it is a name"),
        aliases: model::Rare::default(),
        tls: Arc::new(HostTls::default()),
        routes: vec![Arc::new(route)],
        wider: None,
    }
}

pub(crate) fn stream(port: u16, transport: Transport) -> Listener {
    let stream = Stream {
        backends: Backends::One(ClusterId(0)),
        accepts_proxy_header: false,
        sends_proxy_header: false,
        counts_responses: true,
        labels: Labels::from(LabelTexts {
            namespace: "default".to_owned(),
            service: "echo".to_owned(),
            service_port: "7".to_owned(),
            ..LabelTexts::default()
        }),
    };
    let protocol = match transport {
        Transport::Tcp => Protocol::Tcp(stream),
        Transport::Udp => Protocol::Udp(stream),
    };
    Listener { address: None, port, protocol }
}

/// Changes the first listener, which is a TCP service.
pub(crate) fn tcp_service(model: &mut Model, change: impl FnOnce(&mut Stream)) {
    let Protocol::Tcp(stream) = &mut model.listeners[0].protocol else { panic!("not a TCP service") };
    change(stream);
}

/// Changes the only host of the first listener, which is one of HTTP.
pub(crate) fn web(model: &mut Model, change: impl FnOnce(&mut Host)) {
    let Protocol::Http(hosts) = &mut model.listeners[0].protocol else { panic!("not HTTP") };
    let hosts = Arc::make_mut(hosts);
    let mut host = Host::clone(hosts.get(0).expect("the only host"));
    change(&mut host);
    hosts.replace(0, Arc::new(host));
}

struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
