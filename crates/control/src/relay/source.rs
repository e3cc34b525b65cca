//! The client by which a replica lists and watches slices: it asks a relay where there is one, and else the
//! API server.
//!
//! Whatever is wrong with a relay, the same request goes to the next one, and then to the API server: the
//! watch goes on from its last version. The follower comes back to a relay when its watch ends.
//!
//! Never in here: what slices say.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Client;
use tokio::time::timeout;
use tower::{BoxError, service_fn};

use super::asked::{Asked, GREETING, RELEASE, RELEASE_NAME, VERSION_SEEN, now};
use super::body::{Body, Broken, Frames};
use super::members::{self, Member, Role};
use super::{Relay, random_below};
use crate::client::causes;

/// Relays that are asked before the API server is.
const RELAYS_ASKED: usize = 2;

/// Time after which replicas are listed again if none seemed to change.
const MEMBERS_LAST: Duration = Duration::from_mins(5);

/// Most bytes of the reason for which a replica refuses.
const REASON_BYTES_MAX: usize = 1024;

struct Source {
    relay: Relay,
    direct: Client,
    http: HttpClient<HttpConnector, Empty<Bytes>>,
    known: Mutex<Known>,
}

/// The replicas, as this one knows them.
#[derive(Default)]
struct Known {
    members: Vec<Member>,
    listed: Option<Instant>,
    /// Relays that have failed, each with the time until which it is not asked.
    resting: Vec<(IpAddr, Instant)>,
}

impl Relay {
    /// A client for the list and the watch of slices, which asks a relay where there is one, and else by the
    /// given client.
    pub(crate) fn client(&self, direct: Client) -> Client {
        client(self.clone(), direct)
    }
}

fn client(relay: Relay, direct: Client) -> Client {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(relay.0.pace.answer));
    let http = HttpClient::builder(TokioExecutor::new()).build(connector);
    let namespace = direct.default_namespace().to_owned();
    let source = Arc::new(Source { relay, direct, http, known: Mutex::default() });
    let service = service_fn(move |request| {
        let source = Arc::clone(&source);
        async move { source.send(request).await }
    });
    Client::new(service, namespace)
}

impl Source {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(self: Arc<Self>, request: Request<kube::client::Body>) -> Result<Response<Body>, BoxError> {
        let (mut parts, body) = request.into_parts();
        let asked = Asked::of(&parts.uri);
        if let Some(page) = asked.page() {
            return Ok(self.ask(page.relay, &parts, &asked).await.unwrap_or_else(|why| {
                self.note_failure(page.relay, &why);
                expired()
            }));
        }
        let role = self.role().await;
        if !role.is_relay && asked.is_for_relays() {
            for relay in self.usable(&role.relays) {
                self.relay.0.hub.ask_relay(relay);
                match self.ask(relay, &parts, &asked).await {
                    Ok(response) => return Ok(response),
                    Err(why) => self.note_failure(relay, &why),
                }
            }
            self.return_later(&mut parts, &asked).await;
        }
        self.ask_directly(Request::from_parts(parts, body), &asked).await
    }

    /// The relays that have not failed recently, as far as they are asked.
    fn usable(&self, relays: &[IpAddr]) -> Vec<IpAddr> {
        let (mut known, now) = (self.known(), Instant::now());
        known.resting.retain(|(_, until)| *until > now);
        let is_resting = |relay: &IpAddr| known.resting.iter().any(|(resting, _)| resting == relay);
        relays.iter().copied().filter(|relay| !is_resting(relay)).take(RELAYS_ASKED).collect()
    }

    fn note_failure(&self, relay: IpAddr, why: &str) {
        tracing::info!(%relay, why, "the watch of endpoints goes on without this relay");
        self.relay.0.fallbacks.fetch_add(1, Ordering::Relaxed);
        let rest = self.relay.0.pace.rest;
        self.known().resting.push((relay, Instant::now() + rest + random_below(rest)));
    }

    /// Has a replica that ought to follow a relay come back before long, and not list at the same time as
    /// others.
    async fn return_later(&self, parts: &mut Parts, asked: &Asked) {
        let pace = self.relay.0.pace;
        if asked.watch_from().is_none() {
            tokio::time::sleep(random_below(pace.spread)).await;
            return;
        }
        let Some(given) = asked.value("timeoutSeconds") else { return };
        let seconds = (pace.rest / 2 + random_below(pace.rest)).as_secs().max(1);
        let given = format!("timeoutSeconds={given}");
        let changed = parts.uri.to_string().replacen(&given, &format!("timeoutSeconds={seconds}"), 1);
        if let Ok(uri) = changed.parse() {
            parts.uri = uri;
        }
    }

    async fn ask_directly(
        &self,
        request: Request<kube::client::Body>,
        asked: &Asked,
    ) -> Result<Response<Body>, BoxError> {
        let hub = &self.relay.0.hub;
        hub.ask_api_server(request.uri().path());
        let response = self.direct.send(request).await?;
        if let Some(from) = asked.watch_from().filter(|_| response.status().is_success()) {
            hub.watches_from(from);
        }
        Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
    }

    /// Sends a request to a relay, and waits until it has proven to be one.
    async fn ask(
        self: &Arc<Self>,
        relay: IpAddr,
        parts: &Parts,
        asked: &Asked,
    ) -> Result<Response<Body>, String> {
        let shared = &self.relay.0;
        let (pace, is_watch) = (shared.pace, asked.watch_from().is_some());
        asked.watch_from().into_iter().for_each(|from| shared.hub.note_known(from));
        let seen = shared.hub.seen();
        let seen = if is_watch { seen.event } else { seen.version };
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let target = format!("{path}?{query}&{RELEASE_NAME}={RELEASE}&{VERSION_SEEN}={seen}");
        let (greeting, number) =
            shared.key.greet(relay, &target, now()).map_err(|_| "the system has no random numbers")?;
        let uri = format!("http://{}{target}", SocketAddr::new(relay, shared.port));
        let request = Request::get(uri).header(GREETING, greeting).body(Empty::new());
        let request = request.map_err(|error| error.to_string())?;
        let patience = if is_watch { pace.answer } else { pace.list };
        let response = timeout(patience, self.http.request(request)).await;
        let response = response.map_err(|_| "it does not answer")?.map_err(|error| causes(&error))?;
        if response.status() != StatusCode::OK {
            return Err(refused(response).await);
        }
        let number_of_answer = response.headers().get(GREETING).map(http::HeaderValue::as_bytes);
        let opener = number_of_answer.and_then(|text| shared.key.open(number, text));
        let opener = opener.ok_or("it is no relay")?;
        let mut frames = Frames::new(response.into_body(), opener);
        if !is_watch {
            return Ok(Response::new(frames.whole(patience).await.map_err(|broken| broken.to_string())?));
        }
        let first = frames.next(pace.answer).await.map_err(|broken| broken.to_string())?;
        let first = first.ok_or("it ends at once")?;
        let source = Arc::clone(self);
        let failed = move |broken: Broken| source.note_failure(relay, &broken.to_string());
        Ok(Response::new(frames.events(first, pace.silence, failed)))
    }

    /// The role of this replica among all. Replicas are listed at the beginning, and after they have changed.
    async fn role(&self) -> Role {
        let shared = &self.relay.0;
        let age = self.known().listed.map(|listed| listed.elapsed());
        let have_changed = shared.members_changed.load(Ordering::Relaxed);
        if age.is_none_or(|age| age >= MEMBERS_LAST || have_changed && age >= shared.pace.rest) {
            shared.members_changed.store(false, Ordering::Relaxed);
            match timeout(shared.pace.list, members::list(&self.direct, &shared.service)).await {
                Ok(Ok(members)) => {
                    let mut known = self.known();
                    (known.members, known.listed) = (members, Some(Instant::now()));
                }
                Ok(Err(error)) => tracing::debug!(%error, "the replicas cannot be listed"),
                Err(_) => tracing::debug!("the replicas are not listed in time"),
            }
        }
        Role::of(shared.own, &self.known().members, shared.per_watch)
    }
}

/// The reason that a replica gives for not answering, as far as it is short.
async fn refused(response: Response<hyper::body::Incoming>) -> String {
    let status = response.status();
    let text = Limited::new(response.into_body(), REASON_BYTES_MAX).collect();
    let text = timeout(Duration::from_secs(1), text).await.ok().and_then(Result::ok);
    let text = text.map(|text| String::from_utf8_lossy(&text.to_bytes()).into_owned());
    format!("{status}: {}", text.unwrap_or_default())
}

/// The API server's answer for a page that is not there any more: the list is begun anew.
fn expired() -> Response<Body> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired",
        "message": "the replica that listed does not answer", "code": 410,
    });
    let body = Full::from(status.to_string()).map_err(BoxError::from).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::GONE;
    response
}
