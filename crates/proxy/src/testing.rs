//! Requests without clients, for tests of the steps of a request: a configuration is compiled, and a head is
//! taken through the steps up to the one that a test looks at.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use model::{
    Action, AppProtocol, Backends, Cluster, ClusterId, EndpointState, Forward, Host, HostName, LabelTexts,
    Labels, Listener, Model, PathMatch, Protocol, Route,
};
use reactor::TcpStream;
use routing::compile;
use wire::h1::Request as ParsedRequest;

use crate::admit::{Admitted, Target, let_in};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::io::event_loop::EventLoop;
use crate::io::socket::Socket;
use crate::io::tls::ClientTls;
use crate::request::client::Client;
use crate::request::conn::Conn;
use crate::request::stage::Unwatched;
use crate::request::stop::Stop;
use crate::request::{Request, RequestStart};
use crate::route::{Routed, route as find_route};
use crate::worker::{Worker, WorkerConfig};

/// The host whose routes a test configures.
pub(crate) const HOST: &str = "web.test";

/// A cluster with two endpoints, 10.0.0.1 and 10.0.0.2.
pub(crate) const TWO: ClusterId = ClusterId(0);
/// A cluster with one endpoint, 10.0.1.1.
pub(crate) const ONE: ClusterId = ClusterId(1);
/// A cluster without endpoints.
pub(crate) const EMPTY: ClusterId = ClusterId(2);
/// A cluster with one endpoint, 10.0.3.1, which speaks `FastCGI`.
pub(crate) const FAST_CGI: ClusterId = ClusterId(3);

/// The client of all requests.
pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

/// Bytes of a request's body that have come with its head.
pub(crate) fn rest(world: &World, bytes: &[u8]) -> Buffer {
    let mut rest = Buffer::small(&world.worker.buffers);
    rest.extend(bytes);
    rest
}

/// A worker without clients and its configuration.
pub(crate) struct World {
    pub(crate) worker: Rc<Worker>,
    config: Rc<WorkerConfig>,
    socket: Socket,
    /// The client's end of the socket.
    client: UnixStream,
    is_tls: bool,
    event_loop: EventLoop,
}

/// A configuration in which [`HOST`] has these routes, at port 80 in clear and at port 443 over TLS.
pub(crate) fn model(routes: impl IntoIterator<Item = Route>) -> Model {
    let host = Host {
        name: HostName::parse(HOST).unwrap(),
        aliases: model::Rare::default(),
        tls: Arc::default(),
        routes: routes.into_iter().map(Arc::new).collect(),
        wider: None,
    };
    let hosts: model::HostList = Arc::new(vec![Arc::new(host)].into());
    let listener = |port, protocol| Listener { address: None, port, protocol };
    Model {
        listeners: vec![
            listener(80, Protocol::Http(Arc::clone(&hosts))),
            listener(443, Protocol::Https(hosts)),
        ],
        clusters: [
            cluster("two", &[[10, 0, 0, 1], [10, 0, 0, 2]]),
            cluster("one", &[[10, 0, 1, 1]]),
            cluster("empty", &[]),
            Cluster { version: AppProtocol::FastCgi, ..cluster("fast-cgi", &[[10, 0, 3, 1]]) },
        ]
        .into_iter()
        .collect(),
        ..Model::default()
    }
}

fn cluster(name: &str, addresses: &[[u8; 4]]) -> Cluster {
    cluster_at(name, addresses.iter().map(|&address| SocketAddr::from((address, 8080))))
}

fn cluster_at(name: &str, addresses: impl Iterator<Item = SocketAddr>) -> Cluster {
    let endpoint = |address| model::Endpoint { address, state: EndpointState::Ready };
    Cluster { name: name.to_owned(), endpoints: addresses.map(endpoint).collect(), ..Cluster::default() }
}

/// Forwards to a cluster, and does nothing else.
pub(crate) fn forward(cluster: ClusterId) -> Forward {
    Forward::to(Backends::One(cluster))
}

/// A route for the paths below a prefix.
pub(crate) fn route(path: &str, action: Action) -> Route {
    let labels = Arc::new(Labels::from(LabelTexts { path: path.to_owned(), ..LabelTexts::default() }));
    Route::new(PathMatch::prefix(path).unwrap(), action, labels)
}

/// A route for all paths that forwards to a cluster.
pub(crate) fn route_to(cluster: ClusterId) -> Route {
    route("/", Action::Forward(forward(cluster)))
}

/// The outcome of a step in words: `goes on`, the status and the location of an answer, or the reason of a
/// refusal.
pub(crate) fn outcome<T>(result: &Result<T, Stop>) -> String {
    match result {
        Ok(_) => "goes on".to_owned(),
        Err(Stop::Fault(reason)) => format!("{reason:?}"),
        Err(Stop::Answer(answer)) => match answer.field("Location") {
            Some(location) => format!("{} to {location}", answer.status),
            None => answer.status.to_string(),
        },
    }
}

impl World {
    pub(crate) fn new(model: &Model) -> Self {
        let event_loop = EventLoop::new(|| ()).unwrap();
        let worker = Worker::offline(&Arc::new(compile(model, None, 1))).unwrap();
        let (ours, client) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        let socket = Socket::clear(TcpStream::from_std(OwnedFd::from(ours).into()).unwrap());
        Self { config: worker.config(), worker, socket, client, is_tls: false, event_loop }
    }

    /// A world in which [`HOST`] has one route.
    pub(crate) fn of(route: Route) -> Self {
        Self::new(&model([route]))
    }

    /// A world in which [`HOST`] has one route, and [`TWO`] has the endpoints at these addresses.
    pub(crate) fn served_by(route: Route, addresses: impl Iterator<Item = SocketAddr>) -> Self {
        let clusters = [cluster_at("two", addresses)].into_iter().collect();
        Self::new(&Model { clusters, ..model([route]) })
    }

    /// The same world, whose client speaks TLS.
    pub(crate) fn over_tls(self) -> Self {
        Self { is_tls: true, ..self }
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.event_loop.run(future)
    }

    /// The start of a request with the head of these lines, which is for [`HOST`] unless it has a `Host`.
    pub(crate) fn start<T>(
        &self,
        lines: &str,
        check: impl FnOnce(RequestStart<'_>, &ParsedRequest) -> T,
    ) -> T {
        let head = head(lines);
        let mut parsed = ParsedRequest::default();
        let is_whole = parsed.parse(&head, self.config.request_limits()).expect("a head of HTTP/1");
        assert!(is_whole);
        let conn = self.connection();
        let deadline = Deadline::new(&self.worker.deadlines);
        let start = RequestStart {
            conn: &conn,
            client: Client::Http1(&self.socket),
            deadline: &deadline,
            config: &self.config,
            head: &head,
            begin: self.worker.clock.now(),
        };
        check(start, &parsed)
    }

    /// A request; none if its target is no path.
    pub(crate) fn request_if_any<T>(&self, lines: &str, check: impl FnOnce(Option<&Request<'_>>) -> T) -> T {
        self.start(lines, |start, parsed| check(Request::new(&self.worker, start, parsed).as_ref()))
    }

    pub(crate) fn request<T>(&self, lines: &str, check: impl FnOnce(&Request<'_>) -> T) -> T {
        self.request_if_any(lines, |request| check(request.expect("the target is a path")))
    }

    /// A request whose route has been looked up, with what its filters say.
    pub(crate) fn routed<T>(&self, lines: &str, check: impl FnOnce(Routed<'_>, Result<(), Stop>) -> T) -> T {
        self.request(lines, |request| {
            let (routed, result) = find_route(request, Unwatched);
            check(routed, result)
        })
    }

    /// A request that has been through the checks of its client, with its target.
    pub(crate) fn admitted<T>(
        &self,
        lines: &str,
        check: impl FnOnce(Admitted<'_>, Result<Target<'_>, Stop>) -> T,
    ) -> T {
        self.routed(lines, |routed, result| {
            let (admitted, target) = self.block_on(let_in(&routed, result, None, Unwatched));
            check(admitted, target)
        })
    }

    /// All that the client has been sent since the last call.
    pub(crate) fn sent(&self) -> String {
        let mut bytes = vec![0; 1 << 16];
        match (&self.client).read(&mut bytes) {
            Ok(len) => String::from_utf8_lossy(&bytes[..len]).into_owned(),
            Err(_) => String::new(),
        }
    }

    fn connection(&self) -> Conn {
        let listeners = self.config.snapshot.listeners();
        let is_own = |listener: &&routing::Listener| listener.id.is_tls() == self.is_tls;
        let listener = listeners.iter().find(is_own).expect("a listener for the client").id;
        let tls = self.config.tls_listeners.get(listener).map(|configs| {
            let selection = configs.select(Some(HOST)).expect("names are not checked");
            Box::new(ClientTls::imagined(Some(HOST.into()), selection))
        });
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.port));
        Conn::offline(&self.worker, listener, CLIENT, local, tls)
    }
}

/// A head of these lines; HTTP/1.1 where the first does not say a version.
fn head(lines: &str) -> Vec<u8> {
    let (first, fields) = lines.split_once('\n').unwrap_or((lines, ""));
    let has_host = fields.lines().any(|line| line.starts_with("Host:"));
    let host = if has_host { String::new() } else { format!("Host: {HOST}\r\n") };
    let fields: String = fields.lines().flat_map(|line| [line, "\r\n"]).collect();
    let version = if first.contains(" HTTP/") { "" } else { " HTTP/1.1" };
    format!("{first}{version}\r\n{host}{fields}\r\n").into_bytes()
}
