//! The sign-in in front of the console and the admin pages (`--console-oidc-issuer-url`): the session of a
//! request, its renewal, and the answers to those without one.
//!
//! The admin server speaks plain HTTP, and its cookies are only for connections that are encrypted: people
//! come through a proxy that ends TLS, such as a route of Forebay itself.

mod endpoints;
mod options;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::Providers;
use http::request::Parts as Head;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, COOKIE, HOST, HeaderMap, HeaderValue, LOCATION, SET_COOKIE, WWW_AUTHENTICATE,
};
use hyper::{Method, Response, StatusCode};
use identity::Rules;
use identity::oidc::cookies::{LOGINS_MAX, Names, Parts, removed, set_login};
use identity::oidc::form;
use identity::oidc::login::{Asked, Login, TIME_MAX};
use identity::oidc::metadata::Metadata;
use identity::oidc::provider::{Answer, Ask, Provider};
use identity::oidc::seal::{Keys, Place};
use identity::oidc::session::{Lifetime, Session, Standing};
use identity::oidc::tokens::{Failure, Granted};

use super::reply::{Reply as Body, TEXT, response};

/// The path to which the provider sends people back.
pub(super) const CALLBACK: &str = "/console/oauth2/callback";

/// The path at which people sign out.
pub(super) const SIGN_OUT: &str = "/console/oauth2/sign_out";

/// The path to which the provider sends logout tokens.
pub(super) const BACK_CHANNEL: &str = "/console/oauth2/backchannel_logout";

/// The page to which people come once they have signed in.
const PAGE: &str = "/console/";

/// The longest body of a back-channel logout.
pub(super) const LOGOUT_BYTES_MAX: usize = 64 << 10;

/// The longest time of a session, and the time for which it lasts while the provider is away, in seconds.
const LIFETIME: Lifetime = Lifetime { max: 12 * 3600, grace: 300 };

/// Longest time for which a request waits for the provider.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// The same where the session still counts.
const RENEWAL_TIME_MAX_WHILE_GOOD: Duration = Duration::from_secs(1);

/// Longest time of a stream of events: its client asks again, and its session is examined again.
const STREAM_TIME_MAX: Duration = Duration::from_mins(5);

/// Headers with which a proxy says for whom it asks.
const OF_PROXIES: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

/// The header with the name of the user for the page.
const USER: &str = "forebay-user";

/// The purposes of the cookies.
const SESSION: &str = "session";
const LOGIN: &str = "login";

type Reply = Response<Full<Bytes>>;

/// The sign-in, with the client of its provider.
pub(crate) struct SignIn {
    providers: Providers,
    provider: Arc<Provider>,
    names: Names,
    keys: Keys,
    rules: Rules,
    /// The claims that the rules need.
    wanted: Vec<String>,
    scopes: String,
    redirect_url: Option<String>,
}

/// Somebody who is let in, with the headers of the response.
#[derive(Default)]
pub(super) struct Visitor {
    headers: HeaderMap,
    /// By a session, which may end while a stream goes on.
    has_session: bool,
}

impl Visitor {
    /// Adds the headers for this visitor to an answer. The stream of a session has an end.
    pub(super) fn adapt(self, mut answer: Response<Body>) -> Response<Body> {
        for (name, value) in &self.headers {
            answer.headers_mut().append(name, value.clone());
        }
        if self.has_session { answer.map(|body| body.within(STREAM_TIME_MAX)) } else { answer }
    }
}

/// Whether a path is one of the sign-in's own.
pub(super) fn is_endpoint(path: &str) -> bool {
    matches!(path, CALLBACK | SIGN_OUT | BACK_CHANNEL)
}

/// Whether a proxy has passed a request on. The address of its connection says nothing about who asks.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    OF_PROXIES.iter().any(|name| headers.contains_key(*name))
}

impl SignIn {
    /// Begins to ask the provider.
    pub(super) fn start(&self) {
        self.providers.start_for_operator();
    }

    /// The provider, for metrics.
    pub(super) fn provider(&self) -> &Provider {
        &self.provider
    }

    /// The visitor of a page, by the session in the cookies. All others are sent to the provider, or refused.
    pub(super) async fn visitor(&self, head: &Head) -> Result<Visitor, Reply> {
        let parts = self.parts(&head.headers);
        let session = self.find(head, &parts);
        let standing = session.as_ref().map_or(Standing::Over, |session| session.standing(now(), LIFETIME));
        let Some(session) = session.filter(|_| standing != Standing::Over) else {
            return Err(self.require(head).await);
        };
        let mut visitor = Visitor { has_session: true, ..Visitor::default() };
        let session = match self.renewed(&session, standing).await {
            Ok(None) => session,
            Ok(Some(renewed)) => {
                cookies(&mut visitor.headers, self.set_session(head, &renewed, parts.sent()));
                renewed
            }
            Err(Failure::Refused(_)) => return Err(self.require(head).await),
            Err(Failure::Away(_) | Failure::Wrong(_)) => return Err(away()),
        };
        if !self.rules.allow(head.method.as_str().as_bytes(), head.uri.path().as_bytes(), &session.claims) {
            let hint = "no --console-oidc-rule lets you see this\n";
            return Err(unstored(response(StatusCode::FORBIDDEN, TEXT, hint.to_owned())));
        }
        let mut user = String::new();
        form::escape(&mut user, session.text("email").or(session.text("sub")).unwrap_or_default());
        if let Ok(user) = HeaderValue::try_from(user) {
            visitor.headers.insert(USER, user);
        }
        Ok(visitor)
    }

    /// Renews a session whose tokens have ended or end soon. None if it counts as it is.
    async fn renewed(&self, session: &Session, standing: Standing) -> Result<Option<Session>, Failure> {
        let time = match standing {
            Standing::Good => return Ok(None),
            Standing::EndsSoon => RENEWAL_TIME_MAX_WHILE_GOOD,
            _ => ANSWER_TIME_MAX,
        };
        let question = Ask::Renew { session: Box::new(session.clone()), wanted: self.wanted.clone() };
        match self.ask(question, time).await {
            Ok(granted) => Ok(Some(session.renew(&granted, &self.wanted))),
            Err(_) if standing == Standing::EndsSoon => Ok(None),
            Err(Failure::Away(_) | Failure::Wrong(_)) if standing == Standing::Grace => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Sends a browser that opens the console to the provider. All others are refused.
    async fn require(&self, head: &Head) -> Reply {
        if !is_page(head) {
            let hint = "sign in with a browser, at /console/\n";
            let mut refused = unstored(response(StatusCode::UNAUTHORIZED, TEXT, hint.to_owned()));
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("OpenIDConnect"));
            return refused;
        }
        let Some(metadata) = self.metadata().await else { return away() };
        let login = Login::begin(PAGE.as_bytes());
        let redirect_uri = self.redirect_uri(head);
        let asked = Asked {
            client_id: &self.provider.settings().client_id,
            redirect_uri: &redirect_uri,
            scopes: &self.scopes,
            parameters: &[],
        };
        let url = login.url(&metadata.authorization_endpoint, &asked);
        let (name, host) = (self.names.of_login(&login.state), host(head));
        let sealed = self.keys.seal(self.place(LOGIN, &host, &name), now(), &login.encode());
        let mut set = self.surplus(&head.headers);
        set.push(set_login(&name, &sealed, TIME_MAX));
        redirect(&url, set)
    }

    /// Removes the oldest sign-ins of a browser that has too many in progress.
    fn surplus(&self, headers: &HeaderMap) -> Vec<String> {
        let names = pairs(headers).map(|(name, _)| name).filter(|name| name.starts_with(&self.names.login));
        let names: Vec<_> = names.collect();
        let surplus = (names.len() + 1).saturating_sub(LOGINS_MAX);
        names[..surplus].iter().map(|name| removed(name)).collect()
    }

    /// The document of the provider; none if it cannot be fetched. The first visitor may have to wait for it.
    async fn metadata(&self) -> Option<Arc<Metadata>> {
        if let Some(metadata) = self.provider.metadata() {
            return Some(metadata);
        }
        self.ask(Ask::Discover, ANSWER_TIME_MAX).await.ok()?;
        self.provider.metadata()
    }

    async fn ask(&self, question: Ask, time: Duration) -> Result<Arc<Granted>, Failure> {
        let away = |why: &str| Failure::Away(why.to_owned());
        let answered = tokio::time::timeout(time, self.provider.ask(question)?).await;
        let answer = answered.map_err(|_| away("there was no answer in time"))?;
        match answer.map_err(|_| away("the process ends"))?? {
            Answer::Granted(granted) => Ok(granted),
            Answer::Done | Answer::Ended(_) => Ok(Arc::default()),
        }
    }

    /// The URL to which the provider sends people back.
    fn redirect_uri(&self, head: &Head) -> String {
        let of_request = || {
            let scheme = head.headers.get("x-forwarded-proto").map(HeaderValue::as_bytes);
            let is_encrypted = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https"));
            let scheme = if is_encrypted { "https" } else { "http" };
            format!("{scheme}://{}{CALLBACK}", String::from_utf8_lossy(&host(head)))
        };
        self.redirect_url.clone().unwrap_or_else(of_request)
    }

    fn parts<'h>(&self, headers: &'h HeaderMap) -> Parts<'h> {
        let mut parts = Parts::default();
        for (name, value) in pairs(headers) {
            if let Some(number) = self.names.part(name.as_bytes()) {
                parts.note(number, value.as_bytes());
            }
        }
        parts
    }

    /// The session in the cookies, unless it has ended.
    fn find(&self, head: &Head, parts: &Parts<'_>) -> Option<Session> {
        let mut sealed = Vec::new();
        if !parts.join(&mut sealed) {
            return None;
        }
        let host = host(head);
        let place = self.place(SESSION, &host, &self.names.session);
        let session = Session::decode(&self.keys.open(place, now(), &sealed)?.1)?;
        (!self.provider.has_ended(&session)).then_some(session)
    }

    /// The values of `Set-Cookie` for a session; none if it is too long for cookies.
    fn set_session(&self, head: &Head, session: &Session, sent: usize) -> Vec<String> {
        let host = host(head);
        let place = self.place(SESSION, &host, &self.names.session);
        let sealed = self.keys.seal(place, now(), &session.encode());
        let seconds = session.seconds_left(now(), LIFETIME);
        self.names.set_session(&sealed, seconds, sent).unwrap_or_default()
    }

    fn place<'p>(&'p self, purpose: &'static str, host: &'p [u8], name: &'p str) -> Place<'p> {
        Place { purpose, provider: self.provider.digest(), host, name }
    }
}

/// Whether a browser opens the page of the console.
fn is_page(head: &Head) -> bool {
    let value = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let navigates = match value("sec-fetch-mode") {
        Some(mode) => mode == "navigate",
        None => value(ACCEPT.as_str()).is_some_and(|accept| accept.contains("text/html")),
    };
    head.method == Method::GET && matches!(head.uri.path(), "/console" | PAGE) && navigates
}

/// The host that was asked for, with its port, in lower case.
fn host(head: &Head) -> Vec<u8> {
    head.headers.get(HOST).map(|host| host.as_bytes().to_ascii_lowercase()).unwrap_or_default()
}

/// Names and values of cookies.
fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

fn cookies(headers: &mut HeaderMap, set: Vec<String>) {
    for value in set {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.append(SET_COOKIE, value);
        }
    }
}

fn redirect(url: &str, set: Vec<String>) -> Reply {
    let Ok(location) = HeaderValue::try_from(url) else { return away() };
    let mut reply = unstored(response(StatusCode::FOUND, TEXT, String::new()));
    reply.headers_mut().insert(LOCATION, location);
    cookies(reply.headers_mut(), set);
    reply
}

/// The answer while the provider cannot be asked.
fn away() -> Reply {
    let text = "the sign-in service cannot be reached at the moment\n";
    unstored(response(StatusCode::SERVICE_UNAVAILABLE, TEXT, text.to_owned()))
}

/// An answer that nobody keeps.
fn unstored(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
