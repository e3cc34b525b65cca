//! A worker without clients, and a request in it.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use model::{Backends, Encryption, ListenerId};
use observe::Reason;
use reactor::TcpStream;
use routing::Snapshot;
use wire::h1::Request as ParsedRequest;

use super::steps::{self, Noted};
use super::{Answered, Asked, Explanation, Outcome, Tls, destination};
use crate::admit::errors;
use crate::admit::{Admitted, Target, let_in};
use crate::answer::attempted::Attempted;
use crate::answer::folder;
use crate::answer::own_answer::answer_edits;
use crate::drive::serve::{by_firewall, check_guard};
use crate::forward::error_backend::{self, ErrorBackend};
use crate::io::buffer::Buffer;
use crate::io::deadline::Deadline;
use crate::io::socket::Socket;
use crate::io::tls::ClientTls;
use crate::request::client::Client;
use crate::request::conn::Conn;
use crate::request::head::HeadEdits;
use crate::request::reply::{self, Answer};
use crate::request::stage::{Stage, Watch};
use crate::request::stop::Stop;
use crate::request::{Request, RequestStart};
use crate::route::filters;
use crate::route::route;
use crate::route::values;
use crate::worker::{Worker, WorkerConfig};

/// A worker without clients, with a connection that has no peer.
pub(super) struct World {
    worker: Rc<Worker>,
    config: Rc<WorkerConfig>,
    socket: Socket,
}

/// Notes the steps of a request, and assumes a status for the response of an auth service.
struct Recording {
    assumed: u16,
    noted: RefCell<Vec<Noted>>,
}

/// The beginning of a connection.
enum Hello {
    Clear,
    Tls(Box<ClientTls>, Tls),
    Over(Outcome),
}

impl World {
    pub(super) fn new(snapshot: &Arc<Snapshot>, asked: &Asked<'_>) -> io::Result<Self> {
        let worker = match asked.rollouts {
            Some(rollouts) => Worker::offline_with(snapshot, Arc::clone(rollouts))?,
            None => Worker::offline(snapshot)?,
        };
        worker.relieve(asked.relief);
        let (ours, _) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let stream = TcpStream::from_std(OwnedFd::from(ours).into())?;
        Ok(Self { config: worker.config(), worker, socket: Socket::clear(stream) })
    }

    pub(super) async fn explain(&self, asked: &Asked<'_>) -> io::Result<Explanation> {
        let mut explanation = Explanation {
            tls: None,
            client: asked.client,
            path: None,
            host: None,
            route: None,
            steps: Vec::new(),
            inspected: None,
            outcome: Outcome::NoHandshake,
        };
        let tls = match self.hello(asked) {
            Hello::Over(outcome) => return Ok(Explanation { outcome, ..explanation }),
            Hello::Clear => None,
            Hello::Tls(client, shown) => {
                explanation.tls = Some(shown);
                Some(client)
            }
        };
        let conn = self.connection(asked, tls);
        let mut request = ParsedRequest::default();
        let parsed = request.parse(asked.head, self.config.request_limits()).map_err(reply::malformed);
        let refusal = match parsed {
            Ok(true) => None,
            Ok(false) => Some(Reason::BadRequestLine),
            Err(reason) => Some(reason),
        };
        if let Some(reason) = refusal {
            return Ok(Explanation { outcome: self.refused(&conn, reason), ..explanation });
        }
        self.pass(&conn, asked, &request, &mut explanation).await;
        Ok(explanation)
    }

    /// The beginning of the connection: the work of `accept` and `tls` with a `ClientHello`.
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
            let is_clear = |id| self.config.snapshot.cluster(id).encryption == Encryption::Never;
            let protocol = if stream.backends.clusters().all(is_clear) {
                "as the client speaks, decrypted"
            } else {
                "as the client speaks, decrypted and encrypted again"
            };
            return Hello::Over(self.passed_on(Some(&stream.backends), protocol));
        }
        let shown = Tls {
            certificate: selection.server_config.shown().cloned(),
            host: selection.host.map(|host| host.name().to_string()),
        };
        Hello::Tls(Box::new(ClientTls::imagined(name.map(Into::into), selection)), shown)
    }

    /// The destination of a connection that is not HTTP.
    fn passed_on(&self, backends: Option<&Backends>, protocol: &'static str) -> Outcome {
        let clusters = backends.into_iter().flat_map(Backends::clusters);
        let named = clusters
            .map(|id| (&*self.config.snapshot.cluster(id).name, self.worker.cluster(&self.config, id)));
        Outcome::PassedThrough(Box::new(destination::of_stream(named, protocol)))
    }

    fn connection(&self, asked: &Asked<'_>, tls: Option<Box<ClientTls>>) -> Conn {
        let ListenerId { port, .. } = asked.listener;
        let port = if port == 0 { asked.port } else { port };
        let local = SocketAddr::new(asked.client, port);
        Conn::offline(&self.worker, asked.listener, asked.client, local, tls)
    }

    /// Takes the request through its steps.
    async fn pass(
        &self,
        conn: &Conn,
        asked: &Asked<'_>,
        parsed: &ParsedRequest,
        explanation: &mut Explanation,
    ) {
        let head = asked.head;
        let deadline = Deadline::new(&self.worker.deadlines);
        let begin = self.worker.clock.now();
        let client = Client::Http1(&self.socket);
        let start = RequestStart { conn, client, deadline: &deadline, config: &self.config, head, begin };
        let Some(request) = Request::new(&self.worker, start, parsed) else {
            explanation.outcome = self.refused(conn, Reason::BadTarget);
            return;
        };
        let recording = Recording::assuming(200);
        let (routed, result) = route(&request, &recording);
        let mut body = Buffer::empty(&self.worker.buffers);
        body.extend(asked.body);
        let rest = Some(&mut body).filter(|body| !body.is_empty());
        let (admitted, target) = let_in(&routed, result, rest, &recording).await;
        explanation.client = request.forwarded.client.to_canonical();
        explanation.path = Some(String::from_utf8_lossy(routed.current_path()).into_owned());
        explanation.route = routed.route.cloned();
        explanation.host = explanation.route.as_ref().map(|route| route.labels.host().to_owned());
        let noted = recording.noted.into_inner();
        explanation.inspected = steps::inspected(&admitted);
        explanation.steps = steps::describe(&admitted, &noted, explanation.inspected.as_ref());
        for step in explanation.steps.iter_mut().filter(|step| is_asked(step.stage)) {
            step.text.push_str(&self.other_answers(start, parsed).await);
        }
        self.settle(&admitted, target, explanation);
    }

    /// Adds the treatment after the request's checks.
    fn settle(
        &self,
        admitted: &Admitted<'_>,
        target: Result<Target<'_>, Stop>,
        explanation: &mut Explanation,
    ) {
        match target {
            Ok(Target::Files(files)) => {
                explanation.outcome = Outcome::Files(folder::file_asked(admitted, files));
            }
            Ok(Target::Endpoints(forward, cluster) | Target::Processed(forward, cluster)) => {
                if let Some(policy) = &forward.cache {
                    explanation.steps.push(steps::of_cache(admitted, policy));
                }
                explanation.steps.extend(steps::of_guard(admitted, forward));
                match check_guard(admitted, forward) {
                    // Cached responses are sent even during a shortage.
                    Err(stop) if forward.cache.is_none() => {
                        explanation.outcome = self.answered(admitted, stop);
                        steps::conclude(&mut explanation.steps, &explanation.outcome);
                    }
                    _ => {
                        explanation.steps.extend(steps::of_forward(admitted, forward, cluster));
                        explanation.outcome =
                            Outcome::Forwarded(destination::all(admitted, forward, cluster));
                    }
                }
            }
            Ok(Target::Cached(_, policy)) => {
                explanation.steps.push(steps::of_cache(admitted, policy));
                explanation.outcome = self.answered(admitted, Reason::NoEndpoints.into());
            }
            Err(stop) => {
                explanation.outcome = self.answered(admitted, stop);
                steps::conclude(&mut explanation.steps, &explanation.outcome);
            }
        }
    }

    /// The outcome of the request if an auth service refuses it.
    async fn other_answers(&self, start: RequestStart<'_>, parsed: &ParsedRequest) -> String {
        let mut said_of_all = Vec::new();
        for assumed in [401, 403, 500] {
            let Some(request) = Request::new(&self.worker, start, parsed) else { continue };
            let recording = Recording::assuming(assumed);
            let (routed, result) = route(&request, &recording);
            let said = match let_in(&routed, result, None, &recording).await {
                (_, Ok(_)) => "lets it in all the same".to_owned(),
                (admitted, Err(stop)) => match self.answered(&admitted, stop) {
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

    /// The response to a request that is stopped.
    fn answered(&self, admitted: &Admitted<'_>, stop: Stop) -> Outcome {
        let reason = match stop {
            Stop::Fault(reason) => Some(reason),
            Stop::Answer(_) => None,
        };
        let stop = by_firewall(admitted, stop);
        let page = errors::page_for_stop(admitted, &stop, false);
        let answer = match stop {
            Stop::Answer(answer) => *answer,
            Stop::Fault(reason) => Answer::to(reason),
        };
        let Some(page) = page else {
            let attempted = Attempted::new(admitted);
            return Outcome::Answered(self.of_answer(&answer, reason, &answer_edits(&attempted, &answer)));
        };
        let ErrorBackend { admitted, asked } = error_backend::choose(admitted, page);
        let Some((cluster, forward)) = asked else {
            let (answer, attempted) = (Answer::not_found(), Attempted::new(&admitted));
            return Outcome::Answered(self.of_answer(&answer, reason, &answer_edits(&attempted, &answer)));
        };
        let by = destination::one(&admitted, &forward, cluster, None);
        Outcome::Replaced(self.of_answer(&answer, reason, &HeadEdits::default()), Box::new(by))
    }

    /// The response to a request whose head is unusable.
    fn refused(&self, conn: &Conn, reason: Reason) -> Outcome {
        let expand = |template: &_| values::expand_refused(&self.worker, conn, template);
        let edits = filters::response(self.config.settings(), conn.tls.is_some(), expand, || None);
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

/// Whether a service is asked in a step, of which the answer is only assumed.
fn is_asked(stage: Stage) -> bool {
    matches!(stage, Stage::ExternalAuth | Stage::ExtAuthz)
}
