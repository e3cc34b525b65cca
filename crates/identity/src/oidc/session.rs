//! A session: what is known of a client that has signed in, and how long.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value};

use super::Seconds;
use super::tokens::Granted;

/// Most bytes of the claims as JSON. Of an ID token with more, only those are kept that are asked for.
pub const CLAIMS_BYTES_MAX: usize = 3000;

/// Most bytes of a session that still takes the ID token in: what one cookie holds.
const WITH_ID_TOKEN_BYTES_MAX: usize = 2750;

/// How long before their end tokens are renewed, and the part of their time that this is at most.
const RENEWED_BEFORE: Seconds = 60;
const RENEWED_BEFORE_PART: Seconds = 4;

const VERSION: u8 = 1;

/// Claims that are about the token and not about the user.
const OF_TOKEN: &[&str] = &[
    "acr",
    "amr",
    "at_hash",
    "aud",
    "auth_time",
    "azp",
    "c_hash",
    "exp",
    "iat",
    "jti",
    "nbf",
    "nonce",
    "typ",
];

/// Claims that are kept of every ID token, whether anybody asks for them or not.
const USUAL: &[&str] = &["sub", "iss", "sid", "email", "preferred_username", "name", "groups"];

/// A client that has signed in.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Chosen at random when the client signs in, and the same until its session ends.
    pub id: [u8; 16],
    /// When the client has signed in.
    pub begun: Seconds,
    /// When the provider has confirmed the session last.
    pub renewed: Seconds,
    /// When the tokens end; none if they cannot be renewed.
    pub ends: Option<Seconds>,
    /// The claims of the ID token about the user.
    pub claims: Map<String, Value>,
    /// Claims that nobody asked for at the sign-in are missing, because there were too many.
    pub is_partial: bool,
    /// The token by which the session is renewed.
    pub refresh_token: Option<String>,
    /// The ID token, as a hint for the provider when the client signs out.
    pub id_token: Option<String>,
}

/// How long sessions last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lifetime {
    /// The time after which a client signs in again, whatever happens.
    pub max: Seconds,
    /// The time for which a session lasts beyond the end of its tokens while the provider cannot be asked.
    pub grace: Seconds,
}

/// Whether a session counts at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The session counts, and its tokens do not end soon.
    Good,
    /// It counts, and its tokens end soon.
    EndsSoon,
    /// The tokens have ended: it counts if they are renewed, or if the provider cannot be asked.
    Grace,
    /// The tokens have ended: it counts if they are renewed.
    Due,
    /// It is over.
    Over,
}

impl Session {
    /// The session of a client that has just signed in. `wanted` are the claims that rules and headers need.
    ///
    /// # Panics
    ///
    /// If the system has no randomness.
    pub fn begin(granted: &Granted, wanted: &[String]) -> Self {
        let mut id = [0; 16];
        SystemRandom::new().fill(&mut id).expect("the system has randomness");
        let empty = Self {
            id,
            begun: granted.at,
            renewed: granted.at,
            ends: None,
            claims: Map::new(),
            is_partial: false,
            refresh_token: None,
            id_token: None,
        };
        empty.renew(granted, wanted)
    }

    /// The same session with new tokens. What the provider does not give again stays.
    #[must_use]
    pub fn renew(&self, granted: &Granted, wanted: &[String]) -> Self {
        let refresh_token = granted.refresh_token.as_ref().or(self.refresh_token.as_ref()).cloned();
        let mut session = Self { renewed: granted.at, id_token: None, ..self.clone() };
        session.ends = refresh_token.as_ref().map(|_| granted.at.saturating_add(granted.seconds));
        session.refresh_token = refresh_token;
        if let Some(claims) = &granted.claims {
            (session.claims, session.is_partial) = kept(claims, wanted);
        }
        let bytes = session.encode().len();
        let id_token = granted.id_token.as_ref().or(self.id_token.as_ref());
        session.id_token = id_token.filter(|token| bytes + token.len() <= WITH_ID_TOKEN_BYTES_MAX).cloned();
        session
    }

    /// Whether the session counts at a moment.
    pub fn standing(&self, now: Seconds, lifetime: Lifetime) -> Standing {
        if now >= self.begun.saturating_add(lifetime.max) {
            return Standing::Over;
        }
        let Some(ends) = self.ends else { return Standing::Good };
        let time = ends.saturating_sub(self.renewed);
        let before = RENEWED_BEFORE.min(time / RENEWED_BEFORE_PART);
        if now < ends.saturating_sub(before) {
            Standing::Good
        } else if now < ends {
            Standing::EndsSoon
        } else if now < ends.saturating_add(lifetime.grace) {
            Standing::Grace
        } else {
            Standing::Due
        }
    }

    /// Seconds until the client has to sign in again.
    pub fn seconds_left(&self, now: Seconds, lifetime: Lifetime) -> Seconds {
        self.begun.saturating_add(lifetime.max).saturating_sub(now)
    }

    /// Whether a claim is known to be there or not to be there.
    pub fn knows(&self, claim: &str) -> bool {
        !self.is_partial || self.claims.contains_key(claim)
    }

    /// The text of a claim at the top, if it is a text.
    pub fn text(&self, claim: &str) -> Option<&str> {
        self.claims.get(claim)?.as_str()
    }

    /// The form that is sealed.
    pub fn encode(&self) -> Vec<u8> {
        let claims = Value::Object(self.claims.clone()).to_string();
        let mut out = vec![VERSION, u8::from(self.is_partial)];
        out.extend_from_slice(&self.id);
        for time in [self.begun, self.renewed, self.ends.unwrap_or(0)] {
            out.extend_from_slice(&time.to_be_bytes());
        }
        let token = |token: &Option<String>| token.clone().unwrap_or_default();
        for text in [claims, token(&self.refresh_token), token(&self.id_token)] {
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }

    /// Reads what [`encode`](Self::encode) has written; none for anything else, such as the form of another
    /// release.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION, is_partial], rest) = bytes.split_first_chunk()? else { return None };
        let (id, mut rest) = rest.split_first_chunk::<16>()?;
        let mut times = [0; 3];
        for time in &mut times {
            let (bytes, after) = rest.split_first_chunk()?;
            (*time, rest) = (u64::from_be_bytes(*bytes), after);
        }
        let mut texts = [""; 3];
        for text in &mut texts {
            let (length, after) = rest.split_first_chunk()?;
            let (bytes, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            (*text, rest) = (std::str::from_utf8(bytes).ok()?, after);
        }
        let [claims, refresh_token, id_token] = texts;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let Value::Object(claims) = serde_json::from_str(claims).ok()? else { return None };
        rest.is_empty().then(|| Self {
            id: *id,
            begun: times[0],
            renewed: times[1],
            ends: Some(times[2]).filter(|&ends| ends > 0),
            claims,
            is_partial: is_partial != 0,
            refresh_token: some(refresh_token),
            id_token: some(id_token),
        })
    }
}

/// The claims that a session keeps of a token, and whether others have been left out. A claim that is wanted
/// and that the token does not have is `null`.
fn kept(claims: &Map<String, Value>, wanted: &[String]) -> (Map<String, Value>, bool) {
    let of_user = |name: &String| !OF_TOKEN.contains(&name.as_str()) || wanted.contains(name);
    let all: Map<String, Value> = claims
        .iter()
        .filter(|(name, _)| of_user(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if Value::Object(all.clone()).to_string().len() <= CLAIMS_BYTES_MAX {
        return (all, false);
    }
    let names = USUAL.iter().copied().chain(wanted.iter().map(String::as_str));
    let value = |name: &str| claims.get(name).cloned().unwrap_or(Value::Null);
    (names.map(|name| (name.to_owned(), value(name))).collect(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(claims: Value, refresh_token: Option<&str>) -> Granted {
        let Value::Object(claims) = claims else { panic!("no object") };
        Granted {
            claims: Some(claims),
            refresh_token: refresh_token.map(str::to_owned),
            id_token: Some("header.payload.signature".to_owned()),
            at: 1000,
            seconds: 300,
        }
    }

    const LIFETIME: Lifetime = Lifetime { max: 36_000, grace: 300 };

    #[test]
    fn a_session_comes_back_as_it_was() {
        let claims = serde_json::json!({"sub": "u", "groups": ["a", "ü"], "aud": "client", "exp": 5});
        let session = Session::begin(&granted(claims, Some("refresh")), &[]);
        assert_eq!(session.claims.len(), 2, "{:?}", session.claims);
        let bytes = session.encode();
        assert_eq!(Session::decode(&bytes), Some(session));
        for end in 0..bytes.len() {
            assert_eq!(Session::decode(&bytes[..end]), None, "{end}");
        }
        assert_eq!(Session::decode(&[&bytes[..], b"x"].concat()), None);
    }

    #[test]
    fn a_session_ends_with_its_tokens_unless_they_are_renewed() {
        let session = Session::begin(&granted(serde_json::json!({"sub": "u"}), Some("refresh")), &[]);
        for (now, expected) in [
            (1000, Standing::Good),
            (1239, Standing::Good),
            (1240, Standing::EndsSoon),
            (1299, Standing::EndsSoon),
            (1300, Standing::Grace),
            (1599, Standing::Grace),
            (1600, Standing::Due),
            (36_999, Standing::Due),
            (37_000, Standing::Over),
        ] {
            assert_eq!(session.standing(now, LIFETIME), expected, "{now}");
        }
        let short = Lifetime { max: 100, ..LIFETIME };
        assert_eq!(session.standing(1100, short), Standing::Over, "the maximum holds before the tokens end");
        let next = Granted { claims: None, refresh_token: None, id_token: None, at: 1290, seconds: 300 };
        let renewed = session.renew(&next, &[]);
        assert_eq!((renewed.id, renewed.begun, renewed.ends), (session.id, 1000, Some(1590)));
        assert_eq!((&renewed.refresh_token, &renewed.id_token), (&session.refresh_token, &session.id_token));
        assert_eq!(renewed.claims, session.claims);
    }

    #[test]
    fn without_a_refresh_token_the_maximum_is_the_end() {
        let session = Session::begin(&granted(serde_json::json!({"sub": "u"}), None), &[]);
        assert_eq!(session.standing(36_999, LIFETIME), Standing::Good);
        assert_eq!(session.standing(37_000, LIFETIME), Standing::Over);
        assert_eq!(session.seconds_left(1010, LIFETIME), 35_990);
    }

    #[test]
    fn each_sign_in_has_an_identifier_of_its_own() {
        let granted = granted(serde_json::json!({"sub": "u"}), None);
        assert_ne!(Session::begin(&granted, &[]).id, Session::begin(&granted, &[]).id);
    }

    #[test]
    fn of_many_claims_those_are_kept_that_are_needed() {
        let mut claims = serde_json::json!({"sub": "u", "team": "t", "email": "e"});
        for number in 0..500 {
            claims[format!("other{number}")] = Value::from("x");
        }
        let wanted = ["team".to_owned(), "absent".to_owned()];
        let session = Session::begin(&granted(claims, None), &wanted);
        assert!(session.is_partial && session.encode().len() < CLAIMS_BYTES_MAX);
        assert_eq!((session.text("team"), session.text("email")), (Some("t"), Some("e")));
        assert!(session.knows("absent") && !session.knows("other1"));
    }

    #[test]
    fn a_long_id_token_is_left_out() {
        let long = Granted {
            id_token: Some("x".repeat(WITH_ID_TOKEN_BYTES_MAX)),
            ..granted(serde_json::json!({"sub": "u"}), None)
        };
        assert_eq!(Session::begin(&long, &[]).id_token, None);
    }
}
