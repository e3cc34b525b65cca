//! The server of a relay: lists and watches of `EndpointSlice`s for replicas that have the secret.
//!
//! Never in here: which replica follows which.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::asked::{self, Asked, GREETING, RELEASE, RELEASE_NAME, VERSION_SEEN, now};
use super::hub::{Place, Read, Refusal};
use super::seal::Sealer;
use super::{Relay, Shared, wire};

/// Time in which a connection has to make a request.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);

/// Longest life of a connection, longer than a watch: one whose other side is silent ends then.
const CONNECTION_MAX: Duration = Duration::from_mins(3);

/// Longest watch of a follower; it then asks again.
const WATCH_MAX: Duration = Duration::from_secs(100);

/// Pause before the next accept if no descriptors are left; others may be closed meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections beside those of followers, for lists and for requests that are refused.
const CONNECTIONS_BESIDE: usize = 32;

/// Most slices of a page.
const PAGE_MAX: usize = 1000;

type Body = UnsyncBoxBody<Bytes, Infallible>;

impl Relay {
    /// Serves followers until this replica ends its watches.
    pub async fn serve(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(self.followers_max() + CONNECTIONS_BESIDE));
        let mut news = self.0.hub.subscribe();
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = news.wait_for(|()| self.0.hub.has_given_up()) => return,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let relay = self.clone();
            tokio::spawn(async move {
                let _place = place;
                // A connection that ends in another way than by itself concerns its follower alone.
                let _ = timeout(CONNECTION_MAX, relay.converse(stream)).await;
            });
        }
    }

    /// The most followers. It is more than the share of a relay, since addresses do not spread evenly, and
    /// since followers of a relay that has ended have to go somewhere.
    fn followers_max(&self) -> usize {
        self.0.per_watch.saturating_mul(2).max(8)
    }

    async fn converse(self, stream: TcpStream) {
        // Without it, small events would wait for acknowledgements; where it fails they do.
        let _ = stream.set_nodelay(true);
        let service = service_fn(|request| {
            let relay = self.clone();
            async move { Ok::<_, Infallible>(relay.answer(&request).await) }
        });
        let mut server = http1::Builder::new();
        // Each watch has a connection of its own, so that its life has a bound.
        server.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(REQUEST_WITHIN);
        // A follower that breaks off is no error of this replica.
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        let greeting = request.headers().get(GREETING).and_then(|greeting| greeting.to_str().ok());
        let key = &self.0.key;
        let greeted = greeting.and_then(|text| key.read_greeting(text, self.0.own, target, now()));
        let Some(greeted) = greeted.filter(|_| request.method() == Method::GET) else {
            return refusal(StatusCode::FORBIDDEN, "this is for replicas with the secret");
        };
        let asked = Asked::of(request.uri());
        if asked.value(RELEASE_NAME) != Some(RELEASE) {
            return refusal(StatusCode::CONFLICT, "this replica is of another release");
        }
        let Ok((text, sealer)) = key.answer(greeted) else {
            return refusal(StatusCode::INTERNAL_SERVER_ERROR, "the system has no random numbers");
        };
        let body = match asked.watch_from() {
            Some(from) => self.watch(request.uri().path(), &asked, from, sealer),
            None => self.list(request.uri().path(), &asked, sealer).await,
        };
        match body {
            Ok(body) => {
                let mut response = Response::new(body);
                if let Ok(text) = HeaderValue::try_from(text) {
                    response.headers_mut().insert(GREETING, text);
                }
                response
            }
            Err(why) => refusal(StatusCode::SERVICE_UNAVAILABLE, why.as_str()),
        }
    }

    fn watch(&self, path: &str, asked: &Asked, from: u64, mut sealer: Sealer) -> Result<Body, Refusal> {
        let seen = asked.number(VERSION_SEEN).unwrap_or_default();
        let place = self.0.hub.follow(path, from, seen, self.followers_max())?;
        let seconds = asked.number("timeoutSeconds").map_or(WATCH_MAX, Duration::from_secs);
        let end = Instant::now() + seconds.min(WATCH_MAX);
        let news = self.0.hub.subscribe();
        // The first frame proves that this is a replica.
        let first = sealer.seal(&wire::bookmark(from));
        let follower = Follower { shared: Arc::clone(&self.0), place, sealer, news, end: Some(end) };
        let rest = stream::unfold(follower, Follower::next);
        let frames = stream::iter([first]).chain(rest).map(|frame| Ok(Frame::data(frame)));
        Ok(StreamBody::new(frames).boxed_unsync())
    }

    async fn list(&self, path: &str, asked: &Asked, mut sealer: Sealer) -> Result<Body, Refusal> {
        let hub = &self.0.hub;
        let most = asked.number("limit").and_then(|limit| usize::try_from(limit).ok());
        let most = most.map_or(PAGE_MAX, |limit| limit.min(PAGE_MAX));
        let (list, begin) = if let Some(page) = asked.page() {
            (hub.pages(page.list).ok_or(Refusal::TooOld)?, page.begin)
        } else {
            let mut news = hub.subscribe();
            let settled = news.wait_for(|()| !hub.is_starting());
            // A follower that has waited for so long lists by itself.
            let _ = timeout(self.0.pace.list / 2, settled).await;
            (hub.begin_pages(path, asked.number(VERSION_SEEN).unwrap_or_default())?, 0)
        };
        let page = list.page(begin, most, |begin| asked::token(self.0.own, list.number, begin));
        hub.note_sent(page.len());
        let frames = [sealer.seal(&page), sealer.seal(b"")];
        Ok(Full::from(frames.concat()).boxed_unsync())
    }
}

/// A follower while it watches.
struct Follower {
    shared: Arc<Shared>,
    place: Place,
    sealer: Sealer,
    news: watch::Receiver<()>,
    /// The regular end; none after it.
    end: Option<Instant>,
}

impl Follower {
    /// The next frame; none after the end.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        let end = self.end?;
        let quiet = Instant::now() + self.shared.pace.bookmark;
        loop {
            // An event after this is news, also if it comes before it is awaited.
            self.news.mark_unchanged();
            let version = match self.shared.hub.read(self.place) {
                Read::Cut => return None,
                Read::Lines(lines, place) => {
                    self.place = place;
                    return Some((self.seal(&lines), self));
                }
                Read::Nothing(version) => version,
            };
            tokio::select! {
                _ = self.news.changed() => {}
                () = sleep_until(end) => {
                    self.end = None;
                    return Some((self.seal(b""), self));
                }
                () = sleep_until(quiet) => return Some((self.seal(&wire::bookmark(version)), self)),
            }
        }
    }

    fn seal(&mut self, text: &[u8]) -> Bytes {
        self.shared.hub.note_sent(text.len());
        self.sealer.seal(text)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.hub.leave();
    }
}

impl Refusal {
    fn as_str(self) -> &'static str {
        match self {
            Self::NotWatching => "this replica does not watch the API server",
            Self::OtherPath => "this replica watches another path",
            Self::Full => "this replica has as many followers as it may",
            Self::Behind => "the follower has seen a later version",
            Self::TooOld => "the events after this version are not there any more",
        }
    }
}

fn refusal(status: StatusCode, why: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::from(why).boxed_unsync());
    *response.status_mut() = status;
    response
}
