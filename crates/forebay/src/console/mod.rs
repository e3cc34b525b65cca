//! The console at `/console/` of the admin server. Read-only, and for the clients that may see
//! `/configuration`.
//!
//! `/console/state` is the overview, `/console/events` the same each second, `/console/history` the charts of
//! the last day, `/console/replicas` the overviews of all replicas, `/console/requests` requests as they end,
//! `/console/firewall` requests that firewalls refused, `/console/issuers` the keys of tokens,
//! `/console/providers` the providers at which people sign in, `/console/certificates` the certificates that
//! are obtained, `/console/objects` the configuration, `/console/traffic` traffic of routes and clusters,
//! `/console/problems` and `/console/changes` the lists of those names, `/console/past` the time line of what
//! was recorded. The structs are documented where they are defined. All other paths are files of the page,
//! which queries these paths and no other server.
//!
//! Must not be in here: work of the request path for the console; access control, which is the admin
//! server's.

mod causes;
mod changes;
mod counts;
mod events;
mod exclusion;
mod failing;
mod firewall;
mod history;
mod issuers;
mod objects;
mod page;
mod providers;
mod quantile;
mod replicas;
mod requests;
mod sampler;
mod seen;
mod state;
mod traffic;

use std::sync::{Arc, OnceLock};

use control::acme::Acme;
use control::{Condition, Translation};
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Response, StatusCode, Uri};
use observe::Registry;
use proxy::Observer;
use serde::Serialize;

use crate::doctor::serving::Findings;
use crate::explain::Objects;
use crate::past::answer::{Readers, Refusal};
use crate::query;
use changes::Changes;
pub(crate) use changes::{Change, Names};
pub(crate) use events::EventStream;
use events::Watchers;
use firewall::Firewall;
use history::History;
use objects::Listing;
pub(crate) use quantile::estimate;
pub(crate) use replicas::Replicas;
use seen::Seen;

/// Where the console is.
const PREFIX: &str = "/console";

/// Permissions of the page: to run its own script, to use its own style, and to query its own server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The console of a running Forebay.
pub(crate) struct Console {
    seen: Arc<Seen>,
    changes: Changes,
    watchers: Arc<Watchers>,
    history: History,
    past: Arc<Readers>,
    replicas: Replicas,
    /// The certificates that are obtained; set when the configuration begins to be read.
    pub(crate) acme: OnceLock<Acme>,
}

/// An answer of the console.
pub(crate) enum Answer {
    /// A complete response.
    Whole(Response<Bytes>),
    /// A stream of events.
    Events(Response<EventStream>),
}

/// Whether a path is one of the console.
pub(crate) fn is_path(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Console {
    /// For an admin server with this number of connections at a time.
    pub(crate) fn new(
        registry: &Arc<Registry>,
        findings: &Arc<Findings>,
        past: &Arc<Readers>,
        replicas: Replicas,
        connections_max: usize,
    ) -> Self {
        Self {
            seen: Arc::new(Seen::new(Arc::clone(registry), Arc::clone(findings))),
            changes: Changes::default(),
            watchers: Arc::new(Watchers::new(connections_max)),
            history: History::default(),
            past: Arc::clone(past),
            replicas,
            acme: OnceLock::new(),
        }
    }

    /// Notes that the proxy runs.
    pub(crate) fn begins(&self, observer: Observer) {
        let _ = self.seen.observer.set(observer);
    }

    /// Takes over the configuration that is served from now on, with the previous one.
    pub(crate) fn serves(&self, objects: Objects, before: &Translation) {
        self.changes.note(objects.snapshot.generation, before, &objects.translation);
        self.seen.serves(objects);
    }

    /// Notes how it is with the watches on the cluster.
    pub(crate) fn note(&self, condition: &Condition) {
        self.seen.note(condition);
    }

    /// Keeps the history, for ever.
    pub(crate) async fn keep_history(&self) {
        self.history.keep(&self.seen.registry).await;
    }

    /// Answers a request for one of the console's paths, from a client with access.
    pub(crate) async fn answer(&self, uri: &Uri, headers: &HeaderMap) -> Answer {
        let path = uri.path();
        let mut answer = match path.strip_prefix(PREFIX).unwrap_or_default() {
            "" => Answer::Whole(moved()),
            "/events" => events(self.watchers.watch(&self.seen)),
            "/requests" => self.requests(uri.query().unwrap_or_default()),
            "/state" => Answer::Whole(json_or_busy(self.watchers.state(&self.seen).await)),
            "/traffic" => {
                let traffic = self.watchers.traffic(&self.seen).await;
                Answer::Whole(json_or_busy(traffic.map(|traffic| bytes(&traffic))))
            }
            "/objects" => Answer::Whole(self.list(|objects| bytes(&Listing::of(objects))).await),
            "/problems" => {
                let list = |objects: &Objects| bytes(&objects::problems(&objects.translation));
                Answer::Whole(self.list(list).await)
            }
            "/replicas" => Answer::Whole(json(self.replicas.told(&self.watchers, &self.seen).await)),
            "/history" => Answer::Whole(json(bytes(&self.history.told()))),
            "/past" => Answer::Whole(self.past(uri.query().unwrap_or_default()).await),
            "/firewall" => Answer::Whole(self.firewall()),
            "/issuers" => Answer::Whole(self.list(|objects| bytes(&issuers::of(&objects.translation))).await),
            "/providers" => {
                Answer::Whole(self.list(|objects| bytes(&providers::of(&objects.translation))).await)
            }
            "/certificates" => {
                let report = self.acme.get().map(Acme::report).unwrap_or_default();
                Answer::Whole(json(bytes(&report)))
            }
            "/changes" => Answer::Whole(json(bytes(&self.changes.all()))),
            _ => {
                let missing = || refusal(StatusCode::NOT_FOUND, "the console is at /console/\n");
                Answer::Whole(page::file(path, headers).unwrap_or_else(missing))
            }
        };
        protect(match &mut answer {
            Answer::Whole(response) => response.headers_mut(),
            Answer::Events(response) => response.headers_mut(),
        });
        answer
    }

    /// Whether a request may be answered although it is not from this machine: another replica asks how this
    /// one does.
    pub(crate) fn is_replicas(&self, path: &str, headers: &HeaderMap) -> bool {
        path == "/console/state" && self.replicas.is_others(headers, &self.seen)
    }

    fn requests(&self, query: &str) -> Answer {
        let filter = match query.split('&').find_map(|part| part.strip_prefix("q=")) {
            Some(filter) => query::decode(filter),
            None => Some(String::new()),
        };
        let Some(filter) = filter else {
            return Answer::Whole(refusal(StatusCode::BAD_REQUEST, "q is not a text as a URL has it\n"));
        };
        events(requests::watch(&self.watchers, self.seen.registry.tail(), &filter))
    }

    async fn past(&self, query: &str) -> Response<Bytes> {
        match self.past.course(query).await {
            Ok(course) => json(bytes(&course)),
            Err(Refusal::Unusable(why)) => refusal(StatusCode::BAD_REQUEST, &(why + "\n")),
            Err(Refusal::Failed(why)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &(why + "\n")),
            Err(Refusal::Busy) => {
                let hint = "somebody else reads the record; ask again\n";
                let mut busy = refusal(StatusCode::SERVICE_UNAVAILABLE, hint);
                busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                busy
            }
        }
    }

    fn firewall(&self) -> Response<Bytes> {
        json(bytes(&Firewall::of(&self.seen.registry)))
    }

    /// A list of the served objects, made on a separate thread: there may be hundreds of thousands of routes.
    async fn list(&self, list: impl FnOnce(&Objects) -> Bytes + Send + 'static) -> Response<Bytes> {
        let Some(objects) = self.seen.served() else {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "there is nothing served yet\n");
        };
        match tokio::task::spawn_blocking(move || list(&objects)).await {
            Ok(listed) => json(listed),
            Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        }
    }
}

/// Whether a request comes from the page itself or from a program. Browsers say so in a header that no page
/// can forge (Fetch Metadata Request Headers). Another site's page could not read an answer, but it could
/// take all seats. It may have a link to the page.
pub(crate) fn is_own(path: &str, headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    matches!(site, None | Some(b"same-origin" | b"none")) || matches!(path, "/console" | "/console/")
}

/// A stream of events, or a refusal where there is no room for one more.
fn events(stream: Option<EventStream>) -> Answer {
    let Some(stream) = stream else {
        let hint = "as many watch as may: close another console, or ask /console/state\n";
        let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, hint);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
        return Answer::Whole(response);
    };
    let mut response = Response::new(stream);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Answer::Events(response)
}

fn bytes<T: Serialize + ?Sized>(value: &T) -> Bytes {
    serde_json::to_vec(value).expect("numbers and text").into()
}

fn json(content: Bytes) -> Response<Bytes> {
    let mut response = Response::new(content);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn json_or_busy(content: Option<Bytes>) -> Response<Bytes> {
    let busy = || refusal(StatusCode::SERVICE_UNAVAILABLE, "the process is too busy to measure; ask again\n");
    content.map_or_else(busy, json)
}

fn moved() -> Response<Bytes> {
    let mut response = refusal(StatusCode::PERMANENT_REDIRECT, "the console is at /console/\n");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/console/"));
    response
}

fn refusal(status: StatusCode, hint: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(hint.to_owned()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Headers of every response of the admin server: browsers do not guess its type, and no other site's page
/// may read it.
pub(crate) fn keep_to_itself(headers: &mut HeaderMap) {
    for (name, value) in
        [("x-content-type-options", "nosniff"), ("cross-origin-resource-policy", "same-origin")]
    {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

/// Headers of the console's responses: browsers do not store data, and revalidate the page's own files.
fn protect(headers: &mut HeaderMap) {
    for (name, value) in
        [("content-security-policy", POLICY), ("x-frame-options", "DENY"), ("referrer-policy", "no-referrer")]
    {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
