//! Messages between replicas about sessions: the renewal of one, which the replica makes that is its home,
//! and the end of some. They are sealed, since connections between replicas are not encrypted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Seconds;
use super::logout::LogoutToken;
use super::seal::{Keys, Place};
use super::session::Session;
use super::tokens::{Failure, Granted};

/// The place of messages: they are for all replicas.
const PLACE: Place<'static> = Place { purpose: "replicas", provider: b"", host: b"", name: "" };

/// The oldest message that counts, in seconds.
const AGE_MAX: Seconds = 60;

/// A message to another replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Sessions have ended.
    Ended {
        /// Identifies the provider and its client.
        provider: [u8; 32],
        /// The sessions that have ended.
        ending: Ending,
        /// When they have ended.
        at: Seconds,
    },
    /// A session is to be renewed.
    Renew {
        /// Identifies the provider and its client.
        provider: [u8; 32],
        /// The part of the session that its renewal depends on.
        session: Renewed,
        /// The claims that are needed.
        wanted: Vec<String>,
    },
}

/// Sessions that have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The session of a client that has signed out.
    Session([u8; 16]),
    /// The sessions of a logout token.
    Token(LogoutToken),
}

/// The part of a session that its renewal depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    id: [u8; 16],
    begun: Seconds,
    /// When the provider has confirmed the session last.
    confirmed: Seconds,
    subject: Option<String>,
    refresh_token: Option<String>,
}

/// The answer to a renewal.
#[derive(Serialize, Deserialize)]
enum Answer {
    Granted {
        claims: Option<Map<String, Value>>,
        refresh_token: Option<String>,
        id_token: Option<String>,
        at: Seconds,
        seconds: Seconds,
    },
    Refused(String),
    Wrong(String),
    Away(String),
}

impl Renewed {
    /// The part of a session.
    pub fn of(session: &Session) -> Self {
        Self {
            id: session.id,
            begun: session.begun,
            confirmed: session.renewed,
            subject: session.text("sub").map(str::to_owned),
            refresh_token: session.refresh_token.clone(),
        }
    }

    /// A session with this part alone, to be renewed.
    pub fn session(self) -> Session {
        let subject = self.subject.map(|subject| ("sub".to_owned(), Value::String(subject)));
        Session {
            id: self.id,
            begun: self.begun,
            renewed: self.confirmed,
            ends: None,
            claims: subject.into_iter().collect(),
            is_partial: true,
            refresh_token: self.refresh_token,
            id_token: None,
        }
    }
}

impl Message {
    /// The text of the message, which only replicas can make and read.
    pub fn seal(&self, keys: &Keys, now: Seconds) -> String {
        keys.seal(PLACE, now, &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads what [`seal`](Self::seal) has written a moment ago.
    pub fn open(keys: &Keys, now: Seconds, text: &[u8]) -> Option<Self> {
        open(keys, now, text)
    }
}

/// The text of the answer to a renewal.
pub fn seal_answer(keys: &Keys, now: Seconds, answer: &Result<Arc<Granted>, Failure>) -> String {
    let answer = match answer {
        Ok(granted) => {
            let Granted { claims, refresh_token, id_token, at, seconds } = (**granted).clone();
            Answer::Granted { claims, refresh_token, id_token, at, seconds }
        }
        Err(Failure::Refused(why)) => Answer::Refused(why.clone()),
        Err(Failure::Wrong(why)) => Answer::Wrong(why.clone()),
        Err(Failure::Away(why)) => Answer::Away(why.clone()),
    };
    keys.seal(PLACE, now, &serde_json::to_vec(&answer).unwrap_or_default())
}

/// Reads what [`seal_answer`] has written a moment ago.
pub fn open_answer(keys: &Keys, now: Seconds, text: &[u8]) -> Option<Result<Arc<Granted>, Failure>> {
    Some(match open(keys, now, text)? {
        Answer::Granted { claims, refresh_token, id_token, at, seconds } => {
            Ok(Arc::new(Granted { claims, refresh_token, id_token, at, seconds }))
        }
        Answer::Refused(why) => Err(Failure::Refused(why)),
        Answer::Wrong(why) => Err(Failure::Wrong(why)),
        Answer::Away(why) => Err(Failure::Away(why)),
    })
}

fn open<T: for<'de> Deserialize<'de>>(keys: &Keys, now: Seconds, text: &[u8]) -> Option<T> {
    let (sealed_at, content) = keys.open(PLACE, now, text)?;
    if now.saturating_sub(sealed_at) > AGE_MAX {
        return None;
    }
    serde_json::from_slice(&content).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Seconds = 1_000_000;

    #[test]
    fn messages_are_read_by_replicas_alone_and_for_a_while() {
        let (keys, other) = (Keys::random(), Keys::random());
        let token = LogoutToken { subject: None, sid: Some("s".to_owned()), id: "1".to_owned(), issued: NOW };
        let granted = Granted { refresh_token: Some("r".to_owned()), at: NOW, ..Granted::default() };
        let session = Session::begin(&granted, &[]);
        let renewed = Renewed::of(&session);
        for message in [
            Message::Ended { provider: [1; 32], ending: Ending::Session([7; 16]), at: NOW },
            Message::Ended { provider: [1; 32], ending: Ending::Token(token), at: NOW },
            Message::Renew { provider: [2; 32], session: renewed.clone(), wanted: vec!["a".to_owned()] },
        ] {
            let text = message.seal(&keys, NOW);
            assert_eq!(Message::open(&keys, NOW, text.as_bytes()), Some(message.clone()));
            assert_eq!(Message::open(&other, NOW, text.as_bytes()), None);
            assert_eq!(Message::open(&keys, NOW + AGE_MAX + 1, text.as_bytes()), None);
            assert!(open_answer(&keys, NOW, text.as_bytes()).is_none(), "a message is no answer");
        }
        let again = renewed.session();
        assert_eq!((again.id, &again.refresh_token), (session.id, &session.refresh_token));
    }

    #[test]
    fn answers_come_back() {
        let keys = Keys::random();
        let claims = serde_json::json!({"sub": "u", "groups": ["a"]}).as_object().cloned();
        let granted = Granted {
            claims,
            refresh_token: Some("r".to_owned()),
            id_token: Some("i".to_owned()),
            at: NOW,
            seconds: 300,
        };
        for answer in [
            Ok(Arc::new(granted)),
            Err(Failure::Refused("a".to_owned())),
            Err(Failure::Wrong("b".to_owned())),
            Err(Failure::Away("c".to_owned())),
        ] {
            let text = seal_answer(&keys, NOW, &answer);
            assert_eq!(open_answer(&keys, NOW, text.as_bytes()), Some(answer));
        }
    }
}
