//! The end of sessions: at the provider (`OpenID Connect` RP-Initiated Logout 1.0), and by the provider
//! (`OpenID Connect` Back-Channel Logout 1.0).

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::form;
use super::session::Session;
use super::tokens::Expected;
use super::{Seconds, seconds};

/// Most ended sessions that are remembered of a provider. Beyond it, the oldest are forgotten.
pub const ENDED_MAX: usize = 20_000;

/// The event that a logout token has.
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// The URL at the provider where a user signs out.
pub fn url(endpoint: &str, client_id: &str, session: Option<&Session>, back_to: Option<&str>) -> String {
    let mut pairs = Vec::new();
    if let Some(hint) = session.and_then(|session| session.id_token.as_deref()) {
        pairs.push(("id_token_hint", hint));
    }
    pairs.push(("client_id", client_id));
    if let Some(back_to) = back_to {
        pairs.push(("post_logout_redirect_uri", back_to));
    }
    form::with_query(endpoint, &pairs)
}

/// The sessions that a logout token ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogoutToken {
    /// The user all of whose sessions end, unless there is a session.
    pub subject: Option<String>,
    /// The session of the provider that ends.
    pub sid: Option<String>,
    /// Identifies the token.
    pub id: String,
    /// When it was made.
    pub issued: Seconds,
}

impl LogoutToken {
    /// Checks the claims of a logout token whose signature is good.
    ///
    /// # Errors
    ///
    /// When it is no logout token, or is for somebody else, or old.
    pub fn read(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<Self, String> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        let time = |name: &str| claims.get(name).and_then(seconds);
        if text("iss").as_deref() != Some(expected.issuer) {
            return Err("iss is not the issuer".to_owned());
        }
        let is_for_client = match claims.get("aud") {
            Some(Value::String(one)) => one == expected.client_id,
            Some(Value::Array(all)) => all.iter().any(|one| one == expected.client_id),
            _ => false,
        };
        if !is_for_client {
            return Err("aud does not have the client".to_owned());
        }
        let event = claims.get("events").and_then(Value::as_object).and_then(|events| events.get(EVENT));
        if !event.is_some_and(Value::is_object) {
            return Err("events does not have the one of a back-channel logout".to_owned());
        }
        if claims.contains_key("nonce") {
            return Err("it has a nonce, as an ID token has".to_owned());
        }
        let issued = time("iat").ok_or("iat is missing")?;
        let (now, leeway) = (expected.now, expected.leeway);
        if issued > now.saturating_add(leeway) {
            return Err("iat is in the future".to_owned());
        }
        // "within 2 minutes": a token that is replayed later ends nothing.
        let ends = time("exp").unwrap_or(issued.saturating_add(120));
        if now >= ends.saturating_add(leeway) {
            return Err("it has ended".to_owned());
        }
        let (subject, sid) = (text("sub"), text("sid"));
        if subject.is_none() && sid.is_none() {
            return Err("it has neither sub nor sid".to_owned());
        }
        Ok(Self { subject, sid, id: text("jti").ok_or("jti is missing")?, issued })
    }
}

/// The sessions that have been ended and whose cookies may come again.
#[derive(Debug, Default)]
pub struct Ended {
    sessions: Recent<[u8; 16]>,
    /// By the provider's own sessions, and by users.
    sids: Recent<String>,
    subjects: Recent<String>,
    /// Identifiers of logout tokens that have been used.
    tokens: Recent<String>,
}

impl Ended {
    /// Notes that a client has signed out.
    pub fn end(&mut self, session: [u8; 16], now: Seconds) {
        self.sessions.note(session, now);
    }

    /// Notes a logout token. False if it has been used before.
    pub fn note(&mut self, token: &LogoutToken, now: Seconds) -> bool {
        if self.tokens.get(&token.id).is_some() {
            return false;
        }
        self.tokens.note(token.id.clone(), now);
        match (&token.sid, &token.subject) {
            (Some(sid), _) => self.sids.note(sid.clone(), now),
            (None, Some(subject)) => self.subjects.note(subject.clone(), now),
            (None, None) => {}
        }
        true
    }

    /// Whether nothing has ended, so that no session has to be looked up.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.sids.is_empty() && self.subjects.is_empty()
    }

    /// Whether a session has been ended. A session of the same user that has begun later has not.
    pub fn has(&self, session: &Session) -> bool {
        let since = |time: Option<Seconds>| time.is_some_and(|time| session.begun <= time);
        self.sessions.get(&session.id).is_some()
            || since(session.text("sid").and_then(|sid| self.sids.get(sid)))
            || since(session.text("sub").and_then(|subject| self.subjects.get(subject)))
    }
}

/// A bounded table of the times at which something was noted.
#[derive(Debug)]
struct Recent<K> {
    times: HashMap<K, Seconds>,
    order: VecDeque<K>,
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self { times: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash> Recent<K> {
    fn note(&mut self, key: K, now: Seconds) {
        if self.times.insert(key.clone(), now).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > ENDED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.times.remove(&oldest);
        }
    }

    fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<Seconds>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.times.get(key).copied()
    }

    fn is_empty(&self) -> bool {
        self.times.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oidc::tokens::Granted;

    const NOW: Seconds = 1_000_000;

    fn expected() -> Expected<'static> {
        Expected {
            issuer: "https://issuer.test",
            client_id: "client",
            nonce: None,
            subject: None,
            access_token: None,
            algorithm: "RS256",
            now: NOW,
            leeway: 60,
        }
    }

    fn read(change: impl FnOnce(&mut Value)) -> Result<LogoutToken, String> {
        let mut claims = serde_json::json!({
            "iss": "https://issuer.test", "aud": ["client"], "sub": "u", "iat": NOW, "jti": "1", "sid": "s",
            "events": {EVENT: {}},
        });
        change(&mut claims);
        LogoutToken::read(claims.as_object().unwrap(), &expected())
    }

    fn session(sid: &str, subject: &str, begun: Seconds) -> Session {
        let claims = serde_json::json!({"sub": subject, "sid": sid}).as_object().cloned();
        let granted = Granted {
            claims,
            refresh_token: None,
            id_token: Some("a.b.c".to_owned()),
            at: begun,
            seconds: 60,
        };
        Session::begin(&granted, &[])
    }

    #[test]
    fn an_id_token_or_an_old_token_ends_nothing() {
        read(|_| ()).unwrap();
        read(|it| it["sid"] = Value::Null).unwrap();
        for (name, value) in [
            ("iss", Value::from("https://other.test")),
            ("aud", "other".into()),
            ("events", serde_json::json!({})),
            ("events", serde_json::json!({EVENT: 1})),
            ("nonce", "n".into()),
            ("iat", (NOW - 200).into()),
            ("iat", (NOW + 200).into()),
            ("exp", (NOW - 61).into()),
            ("jti", Value::Null),
        ] {
            assert!(read(|it| it[name] = value.clone()).is_err(), "{name} {value}");
        }
        assert!(
            read(|it| it.as_object_mut().unwrap().retain(|name, _| !["sub", "sid"].contains(&name.as_str())))
                .is_err()
        );
    }

    #[test]
    fn sessions_end_by_sid_by_user_and_by_themselves() {
        let mut ended = Ended::default();
        assert!(ended.is_empty());
        let (one, other) = (session("s", "u", NOW), session("t", "u", NOW));
        assert!(ended.note(&read(|_| ()).unwrap(), NOW));
        assert!(!ended.note(&read(|_| ()).unwrap(), NOW), "a token counts once");
        assert!(ended.has(&one) && !ended.has(&other));
        assert!(!ended.has(&session("s", "u", NOW + 1)), "a new session");
        let of_user = read(|it| {
            it["sid"] = Value::Null;
            it["jti"] = "2".into();
        });
        assert!(ended.note(&of_user.unwrap(), NOW));
        assert!(ended.has(&other) && !ended.has(&session("t", "v", NOW)));
        let third = session("x", "w", NOW);
        ended.end(third.id, NOW);
        assert!(ended.has(&third));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut recent = Recent::default();
        (0..ENDED_MAX + 5).for_each(|number| recent.note(number, 1));
        assert_eq!((recent.times.len(), recent.order.len()), (ENDED_MAX, ENDED_MAX));
        assert!(recent.get(&4).is_none() && recent.get(&5).is_some());
    }

    #[test]
    fn the_provider_is_told_who_signs_out() {
        let session = session("s", "u", NOW);
        let whole = url("https://i.test/end?a=b", "c d", Some(&session), Some("https://a.test/bye"));
        assert_eq!(
            whole,
            "https://i.test/end?a=b&id_token_hint=a.b.c&client_id=c%20d&post_logout_redirect_uri=https%3A%2F%2Fa.test%2Fbye"
        );
        assert_eq!(url("https://i.test/end", "c", None, None), "https://i.test/end?client_id=c");
    }
}
