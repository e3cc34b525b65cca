//! A provider at which people sign in: its document is kept, and the questions of workers are asked.
//!
//! Never in here: who is let in.

mod renewals;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::body::Bytes;
use identity::json::Object;
use identity::oidc::form;
use identity::oidc::logout::LogoutToken;
use identity::oidc::metadata::{self, Authentication, Metadata};
use identity::oidc::provider::{Answer, Ask, Provider, Question, Settings};
use identity::oidc::session::Session;
use identity::oidc::tokens::{Expected, Failure, Granted, Tokens, check_claims};
use identity::{Algorithms, KeySource, Token};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::address::{Place, Url};
use super::client;
use super::keys::{fetched, spread};
use super::shared::Shared;
use renewals::{Next, Renewals};

/// Time after which the document is read again.
const KEPT: Duration = Duration::from_hours(1);

/// Time before the document is read again after the first failure. It doubles with each failure.
const RETRY: Duration = Duration::from_secs(1);

/// Most time before the document is read again after failures.
const RETRY_MAX: Duration = Duration::from_mins(1);

/// Difference between our clock and the provider's that is tolerated, in seconds.
const LEEWAY: u64 = 120;

/// Time for which no session is renewed after the provider could not be asked: their requests would wait for
/// it one after another.
const AWAY_TIME: Duration = Duration::from_secs(3);

/// Most requests to the provider at a time; others wait for them.
const REQUESTS_MAX: usize = 64;

/// Most logout tokens whose signature is checked within a second. Anybody may send some.
const LOGOUTS_MAX: u32 = 50;

/// Longest wait for a key that is not known yet.
const KEY_TIME_MAX: Duration = Duration::from_secs(5);

/// A provider, as its task sees it.
struct Task {
    shared: Arc<Shared>,
    provider: Weak<Provider>,
    settings: Settings,
    /// The number of attempts to read the document.
    attempts: watch::Sender<u64>,
    /// Somebody waits for the document.
    is_wanted: Notify,
    keys: Mutex<Option<Arc<KeySource>>>,
    renewals: Mutex<Renewals>,
    away_until: Mutex<Option<Instant>>,
    requests: Semaphore,
    /// The present second, and the logout tokens in it.
    logouts: Mutex<(u64, u32)>,
}

/// Answers the questions of workers to a provider, until nobody has it any more.
pub(super) async fn follow(shared: Arc<Shared>, provider: Weak<Provider>) {
    let known = provider.upgrade();
    let Some((mut questions, settings)) =
        known.and_then(|known| Some((known.take_questions()?, known.settings().clone())))
    else {
        return;
    };
    let task = Task {
        shared,
        provider,
        settings,
        attempts: watch::Sender::new(0),
        is_wanted: Notify::new(),
        keys: Mutex::default(),
        renewals: Mutex::default(),
        away_until: Mutex::default(),
        requests: Semaphore::new(REQUESTS_MAX),
        logouts: Mutex::default(),
    };
    let answers = async {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                question = questions.recv() => match question {
                    Some(question) => running.push(task.answer(question)),
                    None => return,
                },
                Some(()) = running.next() => {}
            }
        }
    };
    tokio::select! {
        () = answers => {}
        never = task.discover() => match never {},
    }
}

impl Task {
    /// Keeps the document of the provider.
    async fn discover(&self) -> Infallible {
        let mut failures = 0;
        loop {
            let read = self.document().await;
            let pause = match &read {
                Ok(_) => {
                    failures = 0;
                    spread(KEPT)
                }
                Err(why) => {
                    if failures == 0 {
                        tracing::warn!(issuer = self.settings.issuer, "the provider cannot be read: {why}");
                    }
                    failures += 1;
                    spread(RETRY.saturating_mul(1 << (failures - 1).min(10)).min(RETRY_MAX))
                }
            };
            if let Some(provider) = self.provider.upgrade() {
                provider.note_metadata(read, now());
            }
            self.attempts.send_modify(|attempts| *attempts += 1);
            let due = Instant::now() + pause;
            sleep(RETRY).await;
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.is_wanted.notified() => {}
            }
        }
    }

    async fn document(&self) -> Result<Metadata, String> {
        let answer = self.shared.client.get(&self.place(&metadata::url(&self.settings.issuer))?).await?;
        if answer.status != http::StatusCode::OK {
            return Err(format!("HTTP {}", answer.status.as_u16()));
        }
        let metadata = Metadata::parse(&self.settings.issuer, &answer.body)?;
        let place = self.place(&metadata.jwks_uri)?;
        *lock(&self.keys) = Some(fetched(&self.shared, place));
        Ok(metadata)
    }

    fn place(&self, url: &str) -> Result<Place, String> {
        Ok(Place { url: Url::parse(url)?, authority: self.settings.authorities.clone() })
    }

    async fn answer(&self, Question { ask, reply }: Question) {
        match ask {
            Ask::Discover => reply.send(self.metadata().await.map(|_| Answer::Done)),
            Ask::Redeem { code, verifier, nonce, redirect_uri, wanted } => {
                let form = [
                    ("grant_type", "authorization_code"),
                    ("code", &code),
                    ("redirect_uri", &redirect_uri),
                    ("code_verifier", &verifier),
                ];
                let granted = self.grant(&form, Some(&nonce), None, &wanted).await;
                reply.send(self.told(granted).map(|granted| Answer::Granted(Arc::new(granted))));
            }
            Ask::Renew { session, wanted } => {
                if self.is_away() {
                    return reply
                        .send(Err(Failure::Away("the provider could not be asked just now".to_owned())));
                }
                let next = lock(&self.renewals).next(&session, reply, now());
                if let Next::Ask(refresh_token) = next {
                    self.renew(&session, &refresh_token, &wanted).await;
                }
            }
            Ask::Logout(token) => reply.send(self.end(&token).await.map(Answer::Ended)),
        }
    }

    /// Renews a session, for all who wait for it.
    async fn renew(&self, session: &Session, refresh_token: &str, wanted: &[String]) {
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
        let granted = self.grant(&form, None, session.text("sub"), wanted).await;
        let granted = self.told(granted);
        let is_away = matches!(granted, Err(Failure::Away(_) | Failure::Wrong(_)));
        *lock(&self.away_until) = is_away.then(|| Instant::now() + AWAY_TIME);
        if let Some(provider) = self.provider.upgrade() {
            let counts = provider.counts();
            let counter = match &granted {
                Ok(_) => &counts.renewed,
                Err(Failure::Refused(_)) => &counts.refused,
                Err(_) => &counts.unrenewed,
            };
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        let waiting = lock(&self.renewals).finish(session.id, refresh_token, &granted, now());
        let granted = granted.map(Arc::new);
        for reply in waiting {
            reply.send(granted.clone().map(Answer::Granted));
        }
    }

    /// Whether the provider could not be asked a moment ago.
    fn is_away(&self) -> bool {
        lock(&self.away_until).is_some_and(|until| Instant::now() < until)
    }

    /// Notes how the provider has answered, and logs what an operator has to know.
    fn told<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        let fault = match &result {
            Ok(_) | Err(Failure::Refused(_)) => None,
            Err(Failure::Away(why) | Failure::Wrong(why)) => Some(why.as_str()),
        };
        if let Some(why) = fault {
            tracing::warn!(issuer = self.settings.issuer, "the provider has not done as asked: {why}");
        }
        if let Some(provider) = self.provider.upgrade() {
            provider.note_answer(fault, now());
        }
        result
    }

    /// The document of the provider. Waits for one attempt to read it, if it is not known.
    async fn metadata(&self) -> Result<Arc<Metadata>, Failure> {
        let known = || self.provider.upgrade().and_then(|provider| provider.metadata());
        if let Some(metadata) = known() {
            return Ok(metadata);
        }
        let mut attempts = self.attempts.subscribe();
        self.is_wanted.notify_one();
        // The sender lives as long as this task.
        let _ = attempts.changed().await;
        known().ok_or_else(|| Failure::Away("the provider's document is not known".to_owned()))
    }

    async fn send(
        &self,
        place: &Place,
        request: Result<Request<Bytes>, http::Error>,
    ) -> Result<client::Answer, Failure> {
        // The semaphore is never closed.
        let _turn = self.requests.acquire().await;
        self.shared.client.send(place, request).await.map_err(Failure::Away)
    }

    /// Asks the token endpoint, and checks what it gives.
    async fn grant(
        &self,
        form: &[(&str, &str)],
        nonce: Option<&str>,
        subject: Option<&str>,
        wanted: &[String],
    ) -> Result<Granted, Failure> {
        let metadata = self.metadata().await?;
        let place = self.place(&metadata.token_endpoint).map_err(Failure::Wrong)?;
        let request = self.request(&place, form, metadata.authentication);
        let answer = self.send(&place, request).await?;
        let tokens = Tokens::parse(answer.status.as_u16(), &answer.body)?;
        let mut claims = match &tokens.id_token {
            Some(token) => Some(self.check(token, &tokens, nonce, subject).await?),
            None if nonce.is_none() => None,
            None => return Err(Failure::Wrong("the token endpoint gave no id_token".to_owned())),
        };
        if let (Some(claims), Some(access_token)) = (&mut claims, &tokens.access_token) {
            self.complete(claims, access_token, &metadata, wanted).await?;
        }
        let Tokens { id_token, refresh_token, seconds, .. } = tokens;
        Ok(Granted { claims, refresh_token, id_token, at: now(), seconds })
    }

    /// Adds the claims that are needed and that the ID token does not have, if the provider gives them
    /// elsewhere (`OpenID` Connect Core section 5.3).
    async fn complete(
        &self,
        claims: &mut Object,
        access_token: &str,
        metadata: &Metadata,
        wanted: &[String],
    ) -> Result<(), Failure> {
        let Some(endpoint) = &metadata.userinfo_endpoint else { return Ok(()) };
        if wanted.iter().all(|name| claims.contains_key(name)) {
            return Ok(());
        }
        let place = self.place(endpoint).map_err(Failure::Wrong)?;
        let request = Request::get(place.url.target.as_str())
            .header(AUTHORIZATION, format!("Bearer {access_token}"))
            .body(Bytes::new());
        let answer = self.send(&place, request).await?;
        let wrong = |why: String| Failure::Wrong(format!("the userinfo endpoint: {why}"));
        match answer.status.as_u16() {
            200 => {}
            status @ (429 | 500..) => {
                return Err(Failure::Away(format!("the userinfo endpoint answered {status}")));
            }
            status => return Err(wrong(format!("HTTP {status}"))),
        }
        let told = identity::json::object(&answer.body).map_err(wrong)?;
        if told.get("sub") != claims.get("sub") {
            return Err(wrong("it tells of another user".to_owned()));
        }
        for (name, value) in told {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    fn request(
        &self,
        place: &Place,
        pairs: &[(&str, &str)],
        authentication: Authentication,
    ) -> Result<Request<Bytes>, http::Error> {
        let Settings { client_id, client_secret, .. } = &self.settings;
        let mut body = form::of(pairs);
        let mut request = Request::post(place.url.target.as_str())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        match authentication {
            Authentication::Basic if !client_secret.is_empty() => {
                let mut credentials = String::new();
                form::escape(&mut credentials, client_id);
                credentials.push(':');
                form::escape(&mut credentials, client_secret);
                request = request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(credentials)));
            }
            Authentication::Basic | Authentication::Post => {
                form::add(&mut body, "client_id", client_id);
                if !client_secret.is_empty() {
                    form::add(&mut body, "client_secret", client_secret);
                }
            }
        }
        request.body(Bytes::from(body))
    }

    /// Checks an ID token.
    async fn check(
        &self,
        token: &str,
        tokens: &Tokens,
        nonce: Option<&str>,
        subject: Option<&str>,
    ) -> Result<Object, Failure> {
        let (claims, algorithm) = self.verify(token).await?;
        let access_token = tokens.access_token.as_deref();
        let expected = Expected { nonce, subject, access_token, ..self.expected(algorithm) };
        check_claims(&claims, &expected).map_err(|why| Failure::Wrong(format!("the ID token: {why}")))?;
        Ok(claims)
    }

    fn expected<'e>(&'e self, algorithm: &'e str) -> Expected<'e> {
        Expected {
            issuer: &self.settings.issuer,
            client_id: &self.settings.client_id,
            nonce: None,
            subject: None,
            access_token: None,
            algorithm,
            now: now(),
            leeway: LEEWAY,
        }
    }

    /// Verifies the signature of a token by the provider's keys. Returns its claims and its algorithm.
    async fn verify(&self, token: &str) -> Result<(Object, &'static str), Failure> {
        let wrong = |refusal: identity::Refusal| Failure::Wrong(refusal.description().to_owned());
        let parsed = Token::parse(token.as_bytes()).map_err(wrong)?;
        let algorithm = parsed.algorithm();
        if !Algorithms::default().contains(algorithm) {
            return Err(wrong(identity::Refusal::Algorithm));
        }
        self.metadata().await?;
        let away = || Failure::Away("the provider's keys are not known".to_owned());
        let source = lock(&self.keys).clone().ok_or_else(away)?;
        let has_key = source.current().is_some_and(|(keys, _)| parsed.has_key_in(&keys));
        if !has_key && let Some(refresh) = source.refresh(Duration::from_secs(now())) {
            // Without the key the token is refused below.
            let _ = timeout(KEY_TIME_MAX, refresh).await;
        }
        let (keys, _) = source.current().ok_or_else(away)?;
        Ok((parsed.verify(&keys).map_err(wrong)?, algorithm.name()))
    }

    /// Whether another logout token may be looked at within this second.
    fn may_end(&self) -> bool {
        let mut logouts = lock(&self.logouts);
        let now = now();
        if logouts.0 != now {
            *logouts = (now, 0);
        }
        logouts.1 += 1;
        logouts.1 <= LOGOUTS_MAX
    }

    /// Ends the sessions of a logout token, and returns it.
    async fn end(&self, token: &str) -> Result<LogoutToken, Failure> {
        if !self.may_end() {
            return Err(Failure::Away("there are too many logout tokens".to_owned()));
        }
        let (claims, algorithm) = self.verify(token).await?;
        let token = LogoutToken::read(&claims, &self.expected(algorithm)).map_err(Failure::Refused)?;
        let provider =
            self.provider.upgrade().ok_or_else(|| Failure::Away("it is not used any more".to_owned()))?;
        if provider.end_by(&token, now()) {
            Ok(token)
        } else {
            Err(Failure::Refused("the token has been used before".to_owned()))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
