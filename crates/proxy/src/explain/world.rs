//! A worker that serves nobody, and a request in it.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use jiff::tz::TimeZone;
use model::{Backends, ListenerId};
use observe::access::TimeCache;
use observe::log::{Kind, Writer};
use observe::spans::SpanExporter;
use observe::{MetricsOptions, Reason, Registry};
use routing::Snapshot;
use tokio::net::TcpStream;
use wire::h1::Request;

use super::steps::{self, Noted};
use super::{Answered, Asked, Explanation, Outcome, Tls, destination};
use crate::body::BodyStore;
use crate::buffer::Buffer;
use crate::client::Client;
use crate::clients::Clients;
use crate::clients::abuse::Tally;
use crate::clock::Clock;
use crate::conn::Conn;
use crate::deadline::{Deadline, Deadlines};
use crate::error_backend;
use crate::exchange::{Exchange, RequestStart};
use crate::filters;
use crate::guard::Relief;
use crate::head::HeadEdits;
use crate::options::{Budget, Share};
use crate::reply::{self, Answer};
use crate::serve::{self, Stop, Target};
use crate::socket::Socket;
use crate::stage::{Stage, Watch};
use crate::tls::{ClientTls, SharedTls, TlsListeners};
use crate::upstream::{Pool, SharedPool, Sources};
use crate::values;
use crate::worker::{Log, Published, Worker, WorkerConfig, WorkerParts};

/// A worker without clients, with a connection whose other end nobody holds.
pub(super) struct World {
    worker: Rc<Worker>,
    config: Rc<WorkerConfig>,
    socket: Socket,
}

/// Notes the steps of a request, and takes a status for the answer of an auth service.
struct Recording {
    assumed: u16,
    noted: RefCell<Vec<Noted>>,
}

/// How a connection begins.
enum Hello {
    Clear,
    Tls(Box<ClientTls>, Tls),
    Over(Outcome),
}

impl World {
    pub(super) fn new(snapshot: &Arc<Snapshot>, relief: Relief) -> io::Result<Self> {
        let start = Clock::begin();
        let (clock, registry) = (Clock::new(start), Registry::new(MetricsOptions::default()));
        let shared_tls = SharedTls::new(start)?;
        let tls_listeners = TlsListeners::new(snapshot, &shared_tls, None);
        let (recorder, writer) = (registry.recorder(), Writer::spawn(io::sink(), &registry)?);
        let (sink, streams) = (writer.sink(Kind::Requests, &recorder), writer.sink(Kind::Streams, &recorder));
        let time = TimeCache::new(TimeZone::system());
        let log = Log { sink, streams, time, hostname: Arc::from(""), pid: std::process::id() };
        // Nothing is configured for it, so that no span is sent.
        let spans = SpanExporter::new(&registry).sink();
        let deadlines = Deadlines::new(clock.clone(), Arc::default());
        let sources = Sources::new(Vec::new());
        let (shared_pool, timing) = (SharedPool::new(1), Rc::clone(&deadlines));
        let pool = Pool::new(0, clock.clone(), timing, shared_pool, registry, sources);
        let (clients, bodies) = (Clients::start(1, None)?, Arc::new(BodyStore::new(None)));
        let budget = Budget { connections: 1, datagram_sessions: 1 };
        let parts = WorkerParts {
            clock,
            deadlines,
            pool,
            clients,
            bodies,
            cache: None,
            forms: None,
            replica_secret: None,
            files: None,
            recorder,
            log,
            spans,
            budget,
            notices: Arc::default(),
            share: Share { index: 0, of: 1 },
        };
        let worker = Worker::new(parts, Published { snapshot: Arc::clone(snapshot), tls_listeners });
        worker.relieve(relief);
        let (ours, _) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let stream = TcpStream::from_std(OwnedFd::from(ours).into())?;
        Ok(Self { config: worker.config(), worker, socket: Socket::clear(stream) })
    }

    pub(super) async fn explain(&self, asked: &Asked<'_>) -> io::Result<Explanation> {
        let mut told = Explanation {
            tls: None,
            client: asked.client,
            path: None,
            host: None,
            route: None,
            steps: Vec::new(),
            outcome: Outcome::NoHandshake,
        };
        let tls = match self.hello(asked) {
            Hello::Over(outcome) => return Ok(Explanation { outcome, ..told }),
            Hello::Clear => None,
            Hello::Tls(client, shown) => {
                told.tls = Some(shown);
                Some(client)
            }
        };
        let conn = self.connection(asked, tls);
        let mut request = Request::default();
        let parsed = request.parse(asked.head, self.config.request_limits()).map_err(reply::malformed);
        let refusal = match parsed {
            Ok(true) => None,
            Ok(false) => Some(Reason::BadRequestLine),
            Err(reason) => Some(reason),
        };
        if let Some(reason) = refusal {
            return Ok(Explanation { outcome: self.refused(&conn, reason), ..told });
        }
        self.pass(&conn, asked.head, &request, &mut told).await;
        Ok(told)
    }

    /// How the connection begins: what `accept` and `tls` do with a `ClientHello`.
    fn hello(&self, asked: &Asked<'_>) -> Hello {
        let Some(configs) = self.config.tls_listeners.get(asked.listener) else { return Hello::Clear };
        let name = asked.server_name.map(str::to_ascii_lowercase);
        if configs.has_passthrough()
            && let Some(tls) = configs.passthrough(name.as_deref().map(str::as_bytes))
        {
            let one = tls.passthrough.map(Backends::One);
            let backends = tls.stream.as_ref().map(|stream| &stream.backends).or(one.as_ref());
            return Hello::Over(self.passed_on(backends, "as the client speaks"));
        }
        let Some(selection) = configs.select(name.as_deref()) else {
            return Hello::Over(Outcome::NoHandshake);
        };
        let stream = selection.host.and_then(|host| host.tls().stream.as_ref());
        if let Some(stream) = stream {
            return Hello::Over(self.passed_on(Some(&stream.backends), "as the client speaks, decrypted"));
        }
        let shown = Tls {
            certificate: selection.server_config.shown().cloned(),
            host: selection.host.map(|host| host.name().to_string()),
        };
        Hello::Tls(Box::new(ClientTls::imagined(name.map(Into::into), selection)), shown)
    }

    /// Where the bytes of a connection go that are no HTTP.
    fn passed_on(&self, backends: Option<&Backends>, protocol: &'static str) -> Outcome {
        let clusters = backends.into_iter().flat_map(Backends::clusters);
        let named = clusters
            .map(|id| (&*self.config.snapshot.cluster(id).name, self.worker.cluster(&self.config, id)));
        Outcome::PassedThrough(Box::new(destination::of_stream(named, protocol)))
    }

    fn connection(&self, asked: &Asked<'_>, tls: Option<Box<ClientTls>>) -> Conn {
        let ListenerId { port, .. } = asked.listener;
        let port = if port == 0 { asked.port } else { port };
        Conn {
            tls,
            peer: SocketAddr::new(asked.client, 0),
            named_port: None,
            listener: asked.listener,
            local: SocketAddr::new(asked.client, port),
            serial: 1,
            requests: Cell::new(1),
            tally: Tally::default(),
            last_lines: RefCell::default(),
            has_begun_handshake: Cell::new(false),
            is_turned_away: Cell::new(false),
            place: None,
            worker: Rc::clone(&self.worker),
        }
    }

    /// Takes the request as far as it goes.
    async fn pass(&self, conn: &Conn, head: &[u8], request: &Request, told: &mut Explanation) {
        let deadline = Deadline::new(&self.worker.deadlines);
        let begin = self.worker.clock.now();
        let client = Client::Http1(&self.socket);
        let arrival = RequestStart { conn, client, deadline: &deadline, config: &self.config, head, begin };
        let Some(exchange) = serve::exchange(&self.worker, arrival, request) else {
            told.outcome = self.refused(conn, Reason::BadTarget);
            return;
        };
        let recording = Recording::assuming(200);
        let admitted = exchange.admit(&recording).await;
        told.client = exchange.forwarded.client.to_canonical();
        told.path = Some(String::from_utf8_lossy(exchange.current_path()).into_owned());
        told.route = exchange.route.get().cloned();
        told.host = told.route.as_ref().map(|route| route.labels.host.clone());
        let noted = recording.noted.into_inner();
        told.steps = steps::describe(&exchange, &noted);
        for step in told.steps.iter_mut().filter(|step| step.stage == Stage::ExternalAuth) {
            step.text.push_str(&self.other_answers(arrival, request).await);
        }
        match admitted {
            Ok(Target::Files(files)) => told.outcome = Outcome::Files(exchange.file_asked(files)),
            Ok(Target::Endpoints(forward, cluster)) => {
                if let Some(policy) = &forward.cache {
                    told.steps.push(steps::of_cache(&exchange, policy));
                }
                told.steps.extend(steps::of_guard(&exchange, forward));
                match exchange.check_guard(forward) {
                    // What is kept is given to everybody.
                    Err(stop) if forward.cache.is_none() => {
                        told.outcome = self.answered(&exchange, stop);
                        steps::conclude(&mut told.steps, &told.outcome);
                    }
                    _ => {
                        told.steps.extend(steps::of_forward(&exchange, forward, cluster));
                        told.outcome = Outcome::Forwarded(destination::all(&exchange, forward, cluster));
                    }
                }
            }
            Ok(Target::Kept(_, policy)) => {
                told.steps.push(steps::of_cache(&exchange, policy));
                told.outcome = self.answered(&exchange, Reason::NoEndpoints.into());
            }
            Err(stop) => {
                told.outcome = self.answered(&exchange, stop);
                steps::conclude(&mut told.steps, &told.outcome);
            }
        }
    }

    /// What the request comes to where an auth service does not let it in.
    async fn other_answers(&self, arrival: RequestStart<'_>, request: &Request) -> String {
        let mut said_of_all = Vec::new();
        for assumed in [401, 403, 500] {
            let Some(exchange) = serve::exchange(&self.worker, arrival, request) else { continue };
            let recording = Recording::assuming(assumed);
            let said = match exchange.admit(&recording).await {
                Ok(_) => "lets it in all the same".to_owned(),
                Err(stop) => match self.answered(&exchange, stop) {
                    Outcome::Answered(answer) => match answer.location() {
                        Some(location) => format!("{} to {location}", answer.status),
                        None => answer.status.to_string(),
                    },
                    Outcome::Replaced(answer, by) => {
                        format!("{}, in its place {}", answer.status, by.upstream)
                    }
                    _ => continue,
                },
            };
            let name = if assumed == 500 { "anything else".to_owned() } else { assumed.to_string() };
            said_of_all.push(format!("; {name}: {said}"));
        }
        said_of_all.concat()
    }

    /// What a client gets in place of what it wanted.
    fn answered(&self, exchange: &Exchange<'_>, stop: Stop) -> Outcome {
        let is_replaced = exchange.is_replaced(&stop);
        let (answer, reason) = match stop {
            Stop::Answer(answer) => (*answer, None),
            Stop::Fault(reason) => (Answer::to(reason), Some(reason)),
        };
        if !is_replaced {
            return Outcome::Answered(self.of_answer(&answer, reason, &exchange.answer_edits(&answer)));
        }
        let Some((cluster, forward)) = error_backend::backend(exchange) else {
            let answer = Answer::not_found();
            return Outcome::Answered(self.of_answer(&answer, reason, &exchange.answer_edits(&answer)));
        };
        let by = destination::one(exchange, &forward, cluster, None);
        Outcome::Replaced(self.of_answer(&answer, reason, &HeadEdits::default()), Box::new(by))
    }

    /// The answer to a request of which not even the head can be used.
    fn refused(&self, conn: &Conn, reason: Reason) -> Outcome {
        let expand = |template: &_| values::expand_refused(&self.worker, conn, template);
        let edits = filters::response(self.config.settings(), conn.tls.is_some(), expand);
        Outcome::Answered(self.of_answer(&Answer::to(reason), Some(reason), &edits))
    }

    fn of_answer(&self, answer: &Answer, reason: Option<Reason>, edits: &HeadEdits<'_>) -> Answered {
        let mut head = Buffer::small(&self.worker.buffers);
        answer.write_head(&mut head, &self.worker.date(), None, edits);
        let head = String::from_utf8_lossy(head.data()).into_owned();
        Answered { status: answer.status, reason, head }
    }
}

impl Recording {
    fn assuming(status: u16) -> Self {
        Self { assumed: status, noted: RefCell::default() }
    }
}

impl Watch for &Recording {
    fn note(self, stage: Stage, goes_on: bool) {
        self.noted.borrow_mut().push(Noted { stage, goes_on });
    }

    fn assumed(self) -> Option<u16> {
        Some(self.assumed)
    }
}
