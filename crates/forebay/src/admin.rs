//! The admin server: `/console/`, `/livez`, `/readyz`, `/healthz`, `/metrics`, `/status`, `/configuration`,
//! `/overload`, `/explain`, `/doctor`, `/record`, `/abuse`, `/abuse/release`, `/cache/status`,
//! `/cache/purge`. It runs on its own thread, so that a scrape delays no request.

mod access;
mod oidc;
mod overload;
mod record;
mod reply;
mod sign_ins;

use std::convert::Infallible;
use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use control::acme::{Acme, Report};
use control::relay::Relay;
use control::{Condition, Providers};
use http::request::Parts;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, HOST, HeaderValue, ORIGIN, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use observe::Registry;
use proxy::{HandedSockets, Observer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

use crate::abuse::{self, Listing, Released};
use crate::cache::{CacheStatus, Orders, Purged, disk_figures, without_cache};
use crate::console::{self, Answer, Console};
use crate::doctor::serving::Findings;
use crate::explain::{self, Objects, Question};
use crate::instance_status::InstanceStatus;
use crate::past::answer::Readers;
use crate::relay::{self, RelayStatus};
use crate::server::{self, ConnectionSlot, Connections};
use crate::{allocator, canaries, configuration, machine, version};
pub(crate) use access::Access;
pub(crate) use oidc::SignIn;
use oidc::Visitor;
use reply::{JSON, Reply, TEXT, response};

/// The state that the admin server shows.
pub(crate) struct Admin {
    pub(crate) registry: Arc<Registry>,
    /// The proxy; set when the first configuration is served.
    pub(crate) observer: OnceLock<Observer>,
    /// The issuers of tokens; set when the configuration begins to be read.
    pub(crate) providers: OnceLock<Providers>,
    /// The certificates that are obtained; set when the configuration begins to be read.
    pub(crate) acme: OnceLock<Acme>,
    /// The watches that replicas share; set when the cluster begins to be followed.
    pub(crate) relay: OnceLock<Relay>,
    /// The condition of the watches on a cluster.
    pub(crate) condition: Mutex<Condition>,
    /// The latest findings of the doctor's checks.
    pub(crate) findings: Arc<Findings>,
    /// The reading of what the flight recorder holds.
    pub(crate) readers: Arc<Readers>,
    /// State of the console; none with `--console=false`.
    pub(crate) console: Option<Console>,
    /// Set when the process is about to stop, which makes it not ready.
    pub(crate) stopping: AtomicBool,
    /// Notified when a successor has taken over: its listener is the same socket.
    pub(crate) left: Notify,
    pub(crate) metrics: bool,
    pub(crate) access: Access,
    /// The sign-in for clients that may not see the pages of tenants by their address.
    pub(crate) sign_in: Option<SignIn>,
    /// Where the health check is, beside `/healthz`.
    pub(crate) health_path: String,
    /// The address that the server listens on.
    pub(crate) address: SocketAddr,
    /// The served objects, for explanations.
    pub(crate) served: Mutex<Option<Objects>>,
    /// The explanation in progress; one at a time, until it is done, whether its client is still there or
    /// not.
    pub(crate) explaining: Arc<Semaphore>,
    /// Places for questions, the one that is being answered included.
    pub(crate) explanations: Semaphore,
    /// When the process was started, or little later.
    pub(crate) begun: Instant,
}

/// Concurrent requests for `/explain`: one that is being answered, and those in the queue. Further ones are
/// answered 503.
pub(crate) const EXPLANATIONS_MAX: usize = 4;

/// Starts the server's thread, which ends with the process. It serves at most this number of connections at a
/// time.
pub(crate) fn spawn(listener: StdListener, admin: Arc<Admin>, connections_max: usize) -> io::Result<()> {
    server::spawn("admin", listener, move |listener| serve(listener, admin, connections_max))
}

async fn serve(listener: TcpListener, admin: Arc<Admin>, connections_max: usize) {
    if let Some(sign_in) = &admin.sign_in {
        sign_in.start();
    }
    if admin.console.is_some() {
        let keeping = Arc::clone(&admin);
        tokio::spawn(async move {
            if let Some(console) = &keeping.console {
                console.keep_history().await;
            }
        });
    }
    let converse = |stream, peer: SocketAddr, place| converse(Arc::clone(&admin), stream, peer.ip(), place);
    tokio::select! {
        () = Connections::new(connections_max).serve(listener, converse) => {}
        () = admin.left.notified() => {}
    }
    // Connections that are open are served on.
    std::future::pending::<()>().await;
}

async fn converse(admin: Arc<Admin>, stream: TcpStream, peer: IpAddr, place: ConnectionSlot) {
    let service = service_fn(|request| {
        let (admin, place) = (&admin, &place);
        async move {
            let (head, body) = request.into_parts();
            let mut response = match place.answering(admin.admit(&head, peer)).await {
                Err(refusal) => refusal.map(Reply::from),
                Ok(visitor) => {
                    // A client that sends its body slowly counts as waiting.
                    let answer = match admin.whole(Request::from_parts(head, body)).await {
                        Ok(request) => place.answering(admin.reply(&request)).await,
                        Err(refusal) => refusal.map(Reply::from),
                    };
                    visitor.adapt(answer)
                }
            };
            console::keep_to_itself(response.headers_mut());
            response.body_mut().occupy(place);
            Ok::<_, Infallible>(response)
        }
    });
    // An error here means that the client has broken off, which does not matter.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// The longest body of a request; none if its body does not count.
fn body_bytes_max<B>(request: &Request<B>) -> Option<usize> {
    match request.uri().path() {
        _ if request.method() != Method::POST => None,
        "/explain" => Some(explain::BODY_BYTES_MAX),
        oidc::BACK_CHANNEL => Some(oidc::LOGOUT_BYTES_MAX),
        _ => None,
    }
}

/// Whether a request for a path changes something.
fn is_change(path: &str) -> bool {
    matches!(path, "/cache/purge" | "/abuse/release")
}

/// Whether a path shows the configuration of tenants, or changes something for them.
fn tells_of_tenants(path: &str) -> bool {
    is_change(path)
        || console::is_path(path)
        || matches!(
            path,
            "/abuse"
                | "/configuration"
                | "/overload"
                | "/doctor"
                | "/explain"
                | "/cache/status"
                | "/record"
                | "/status"
        )
}

/// Binds the address of the server, or takes over the socket that was handed to this process for it.
pub(crate) fn bind(mut address: SocketAddr, handed: &HandedSockets) -> io::Result<StdListener> {
    address.set_port(handed.port("admin", address.port()));
    match handed.take(address, 0, 1).pop() {
        Some(socket) => Ok(socket),
        None => StdListener::bind(address),
    }
}

impl Admin {
    /// A request with its body, if its target takes one.
    async fn whole(&self, request: Request<Incoming>) -> Result<Request<Bytes>, Response<Full<Bytes>>> {
        let bytes_max = body_bytes_max(&request);
        let (head, body) = request.into_parts();
        let Some(bytes_max) = bytes_max else { return Ok(Request::from_parts(head, Bytes::new())) };
        let is_too_long = body.size_hint().lower() > bytes_max as u64;
        if !is_too_long && let Ok(body) = Limited::new(body, bytes_max).collect().await {
            return Ok(Request::from_parts(head, body.to_bytes()));
        }
        let hint = format!("the body did not come, or has more than {bytes_max} bytes\n");
        Err(response(StatusCode::PAYLOAD_TOO_LARGE, TEXT, hint))
    }

    /// Answers a request that may be answered.
    async fn reply(&self, request: &Request<Bytes>) -> Response<Reply> {
        let path = request.uri().path();
        if let Some(sign_in) = self.sign_in.as_ref().filter(|_| oidc::is_endpoint(path)) {
            return sign_in.answer(request).await.map(Reply::from);
        }
        match &self.console {
            Some(console) if console::is_path(path) => {
                match console.answer(request.uri(), request.headers()).await {
                    Answer::Whole(response) => response.map(Reply::from),
                    Answer::Events(response) => response.map(Reply::Events),
                }
            }
            _ if path == "/record" => {
                record::answer(&self.readers, request.uri().query().unwrap_or_default()).await
            }
            _ => self.answer(request).await.map(Reply::from),
        }
    }

    async fn answer(&self, request: &Request<Bytes>) -> Response<Full<Bytes>> {
        match request.uri().path() {
            "/livez" => response(StatusCode::OK, TEXT, "ok\n".to_owned()),
            "/readyz" | "/healthz" => self.readiness(),
            path if path == self.health_path => self.readiness(),
            "/metrics" if self.metrics => self.metrics(),
            "/status" => response(StatusCode::OK, JSON, format!("{:#}\n", serde_json::json!(self.status()))),
            "/configuration" => self.configuration(),
            "/overload" => response(StatusCode::OK, JSON, overload::describe(&self.registry)),
            "/explain" => self.explain(request).await,
            "/cache/status" => self.cache_status(),
            "/cache/purge" => self.purge(request.uri().query().unwrap_or_default()).await,
            "/abuse" => self.abuse(),
            "/abuse/release" => self.release(request.uri().query().unwrap_or_default()),
            "/doctor" => match self.findings.json() {
                Some(findings) => response(StatusCode::OK, JSON, findings),
                None => response(StatusCode::SERVICE_UNAVAILABLE, TEXT, "not looked yet\n".to_owned()),
            },
            _ => {
                let console = self.console.as_ref().map_or("", |_| "/console/, ");
                let hint = format!(
                    "try {console}/livez, /readyz, /metrics, /status, /configuration, /overload, /explain, /doctor, /record, /abuse, \
                     /abuse/release, /cache/status or /cache/purge\n"
                );
                response(StatusCode::NOT_FOUND, TEXT, hint)
            }
        }
    }

    /// Lets a client in that may see the requested path, by its address or because it has signed in.
    async fn admit(&self, head: &Parts, peer: IpAddr) -> Result<Visitor, Response<Full<Bytes>>> {
        if let Some(refusal) = self.refuse(head) {
            return Err(refusal);
        }
        let path = head.uri.path();
        let console = self.console.as_ref();
        if !tells_of_tenants(path) || console.is_some_and(|own| own.is_replicas(path, &head.headers)) {
            return Ok(Visitor::default());
        }
        let may_see = self.access.may_see_tenants(peer);
        match &self.sign_in {
            Some(_) if oidc::is_endpoint(path) => Ok(Visitor::default()),
            Some(sign_in) if !may_see || oidc::is_forwarded(&head.headers) => sign_in.visitor(head).await,
            _ if may_see => Ok(Visitor::default()),
            _ => {
                let hint = "this is for the machine itself, as by kubectl port-forward; --admin-allow adds networks\n";
                Err(response(StatusCode::FORBIDDEN, TEXT, hint.to_owned()))
            }
        }
    }

    /// The refusal of a request that nobody may make.
    fn refuse(&self, head: &Parts) -> Option<Response<Full<Bytes>>> {
        let host = head.headers.get(HOST).map(|host| host.to_str().unwrap_or_default());
        let path = head.uri.path();
        // Health is answered under any host name, as at ingress-nginx: a web page that reads the answer
        // learns nothing.
        let is_health = matches!(path, "/livez" | "/readyz" | "/healthz") || path == self.health_path;
        if host.is_some_and(|host| !is_health && !self.access.is_own_host(host)) {
            let hint = "this is not the name of an admin server; --admin-host adds names\n";
            return Some(response(StatusCode::MISDIRECTED_REQUEST, TEXT, hint.to_owned()));
        }
        // The provider sends browsers to the callback, and its own requests to the back channel. Both have
        // proofs of their own, and their methods are checked there.
        if self.sign_in.is_some() && matches!(path, oidc::CALLBACK | oidc::BACK_CHANNEL) {
            return None;
        }
        if !console::is_own(path, &head.headers) {
            let hint = "this is not for pages of other sites\n";
            return Some(response(StatusCode::FORBIDDEN, TEXT, hint.to_owned()));
        }
        let (methods, allowed, hint): (&[Method], _, _) = if is_change(path) {
            (&[Method::POST], "POST", "this takes POST\n")
        } else if path == "/explain" {
            (&[Method::GET, Method::HEAD, Method::POST], "GET, HEAD, POST", "nothing can be changed here\n")
        } else {
            (&[Method::GET, Method::HEAD], "GET, HEAD", "nothing can be changed here\n")
        };
        if !methods.contains(&head.method) {
            let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, hint.to_owned());
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            return Some(refused);
        }
        // A browser sends it with each POST, whatever page has made it do so.
        if head.method == Method::POST && head.headers.contains_key(ORIGIN) {
            let hint = "nothing is changed or explained for a web page's POST\n";
            return Some(response(StatusCode::FORBIDDEN, TEXT, hint.to_owned()));
        }
        None
    }

    /// How this process does.
    fn status(&self) -> InstanceStatus {
        let mut status = InstanceStatus {
            version: version::RELEASE.to_owned(),
            up_seconds: self.begun.elapsed().as_secs_f64(),
            generation: self.observer.get().map(Observer::acknowledged).unwrap_or_default(),
            requests: self.registry.requests(),
            ..InstanceStatus::default()
        };
        status.set_condition(&self.condition.lock().unwrap_or_else(PoisonError::into_inner));
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(served) = served {
            status.set_objects(&served.translation);
        }
        status.set_findings(&self.findings.all());
        status.canaries =
            self.observer.get().map(|observer| canaries::status(observer.rollouts())).unwrap_or_default();
        status.shared_watch = self.relay.get().map(RelayStatus::of);
        status.acme = self.acme.get().map(Acme::report).filter(|report| !report.directories.is_empty());
        status
    }

    /// The clients whose behaviour was noticed.
    fn abuse(&self) -> Response<Full<Bytes>> {
        let Some(observer) = self.observer.get() else { return nothing_served() };
        response(StatusCode::OK, JSON, format!("{:#}\n", serde_json::json!(Listing::of(observer))))
    }

    /// Drops penalties of clients.
    fn release(&self, query: &str) -> Response<Full<Bytes>> {
        let Some(observer) = self.observer.get() else { return nothing_served() };
        match abuse::whom(query) {
            Ok(whom) => {
                let released = serde_json::json!(Released::of(observer, &whom));
                response(StatusCode::OK, JSON, format!("{released:#}\n"))
            }
            Err(error) => {
                response(StatusCode::BAD_REQUEST, TEXT, format!("{}\n", crate::in_one_line(&error)))
            }
        }
    }

    /// Explains a request, on a thread of its own: a password may have to be checked for it.
    async fn explain(&self, request: &Request<Bytes>) -> Response<Full<Bytes>> {
        let unusable = |error: &anyhow::Error| {
            response(StatusCode::BAD_REQUEST, TEXT, format!("{}\n", crate::in_one_line(error)))
        };
        let question = match Question::of_query(request.uri().query().unwrap_or_default()) {
            Ok(question) => Question { body: request.body().clone(), ..question },
            Err(error) => return unusable(&error),
        };
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(served) = served else { return nothing_served() };
        let relief = self.observer.get().map(Observer::relief).unwrap_or_default();
        let rollouts = self.observer.get().map(|observer| Arc::clone(observer.rollouts()));
        let Ok(_place) = self.explanations.try_acquire() else {
            let hint = "as many ask as may; ask again\n";
            let mut busy = response(StatusCode::SERVICE_UNAVAILABLE, TEXT, hint.to_owned());
            busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return busy;
        };
        let turn = Arc::clone(&self.explaining).acquire_owned().await;
        let tell = move || {
            let _turn = turn;
            explain::report(&served, &question, relief, rollouts.as_ref())
        };
        match tokio::task::spawn_blocking(tell).await {
            Ok(Ok(told)) => response(StatusCode::OK, JSON, format!("{:#}\n", serde_json::json!(told))),
            Ok(Err(error)) => unusable(&error),
            Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        }
    }

    /// Has the proxy purge its cache, on a separate thread: all entries are visited.
    async fn purge(&self, query: &str) -> Response<Full<Bytes>> {
        let orders = Orders::of_query(query).and_then(|orders| orders.purges());
        let purges = match orders {
            Ok(purges) => purges,
            Err(error) => {
                return response(StatusCode::BAD_REQUEST, TEXT, format!("{}\n", crate::in_one_line(&error)));
            }
        };
        let Some(observer) = self.observer.get().cloned() else { return nothing_served() };
        let (elsewhere, everywhere) = (observer.clone(), purges.clone());
        let purge = move || {
            let purged = Purged {
                objects: observer.purge(&purges)?,
                disk: observer.has_disk(),
                hosts_without_cache: without_cache(&purges, &observer.snapshot()),
                replicas: 0,
                replicas_unreached: Vec::new(),
            };
            Some(purged)
        };
        match tokio::task::spawn_blocking(purge).await {
            Ok(Some(purged)) => {
                // Later than here: what has its home here cannot come back from there.
                let proxy::Elsewhere { told, unreached } = elsewhere.purge_elsewhere(&everywhere).await;
                let purged = Purged { replicas: told, replicas_unreached: unreached, ..purged };
                response(StatusCode::OK, JSON, format!("{:#}\n", serde_json::json!(purged)))
            }
            Ok(None) => no_cache(),
            Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        }
    }

    /// The cache's fill level, and its results by Ingress.
    fn cache_status(&self) -> Response<Full<Bytes>> {
        let Some(observer) = self.observer.get() else { return nothing_served() };
        let Some(figures) = observer.cache_figures() else { return no_cache() };
        let status = CacheStatus::new(&figures, self.registry.cache_totals());
        response(StatusCode::OK, JSON, format!("{:#}\n", serde_json::json!(status)))
    }

    /// Whether requests may come: every worker serves a complete configuration, and this process is not about
    /// to stop. Failing watches are listed in either case. ingress-nginx's `/healthz` has this meaning too.
    fn readiness(&self) -> Response<Full<Bytes>> {
        if self.stopping.load(Ordering::Relaxed) {
            return response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "stopping\n".to_owned());
        }
        let condition = self.condition.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_served = self.served.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let have_begun = self.observer.get().is_some_and(|observer| observer.acknowledged() > 0);
        let (status, mut text) = if have_begun && is_served {
            (StatusCode::OK, "ok\n".to_owned())
        } else if condition.waiting.is_empty() {
            (StatusCode::SERVICE_UNAVAILABLE, "not every worker has begun\n".to_owned())
        } else {
            let waiting = condition.waiting.join(", ");
            (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {waiting}\n"))
        };
        if condition.from_disk {
            text.push_str("serving what was kept on disk\n");
        }
        for trouble in &condition.troubles {
            let _ = writeln!(text, "cannot watch {trouble}");
        }
        response(status, TEXT, text)
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        if let Some(disk) = self.observer.get().and_then(Observer::cache_figures).and_then(|cache| cache.disk)
        {
            self.registry.set_cache_disk(disk_figures(&disk));
        }
        if let Some(providers) = self.providers.get() {
            self.registry.set_key_fetches(providers.fetches());
            let of_routes = providers.sign_ins();
            let of_console = self.sign_in.iter().map(|own| sign_ins::of(own.provider()));
            let all = of_routes.iter().map(|provider| sign_ins::of(provider)).chain(of_console);
            self.registry.set_sign_ins(all);
        }
        if let Some(observer) = self.observer.get() {
            self.registry.set_canaries(canaries::figures(observer.rollouts()));
        }
        if let Some(relay) = self.relay.get() {
            self.registry.set_relay(relay::figures(relay));
        }
        let report = self.acme.get().map(Acme::report).filter(|report| !report.directories.is_empty());
        self.registry.set_obtained_certificates(report.iter().flat_map(Report::counts));
        let mut text = String::new();
        let process = observe::Process { memory: allocator::memory(), ..machine::process() };
        self.registry.encode(&process, &mut text);
        response(StatusCode::OK, observe::CONTENT_TYPE, text)
    }

    fn configuration(&self) -> Response<Full<Bytes>> {
        let Some(observer) = self.observer.get() else {
            return response(StatusCode::SERVICE_UNAVAILABLE, TEXT, "there is none yet\n".to_owned());
        };
        let described = configuration::describe(&observer.snapshot(), observer.acknowledged());
        response(StatusCode::OK, JSON, described + "\n")
    }
}

fn nothing_served() -> Response<Full<Bytes>> {
    response(StatusCode::SERVICE_UNAVAILABLE, TEXT, "there is nothing served yet\n".to_owned())
}

fn no_cache() -> Response<Full<Bytes>> {
    let hint = "there is no cache: this runs without --cache-memory\n";
    response(StatusCode::CONFLICT, TEXT, hint.to_owned())
}
