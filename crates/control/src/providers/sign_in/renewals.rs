//! Sessions that are being renewed, and those that were: a session is renewed once, however many requests ask
//! for it, and also those whose client has not got the new cookie yet.
//!
//! A provider that gives a new refresh token each time takes the old one for stolen when it comes again, and
//! ends the session. So the answer to the first request that used it is the answer to all others.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use identity::oidc::provider::{Answer, Reply};
use identity::oidc::session::Session;
use identity::oidc::tokens::{Failure, Granted};

/// Most sessions whose renewal is remembered. The oldest are forgotten.
const REMEMBERED_MAX: usize = 20_000;

/// Seconds for which the provider is not asked again about a session that it has refused.
const REFUSED_TIME: u64 = 10;

#[derive(Default)]
pub(super) struct Renewals {
    sessions: HashMap<[u8; 16], Renewal>,
    /// The sessions, the one that was renewed first before the others.
    order: VecDeque<[u8; 16]>,
}

enum Renewal {
    Running {
        waiting: Vec<Reply>,
        /// The last good answer before.
        before: Option<Done>,
    },
    Done(Done),
    Refused {
        until: u64,
        why: String,
    },
}

/// An answer of the provider, and the refresh token that counts since.
#[derive(Clone)]
struct Done {
    granted: Arc<Granted>,
    refresh_token: String,
}

/// The next step for a request.
pub(super) enum Next {
    /// Ask the provider with this refresh token, and then call [`finish`](Renewals::finish).
    Ask(String),
    /// Nothing: the reply has its answer, or gets it with the others.
    Nothing,
}

impl Renewals {
    /// Takes the reply of a request whose session has to be renewed.
    pub(super) fn next(&mut self, session: &Session, reply: Reply, now: u64) -> Next {
        let Some(own_token) = session.refresh_token.clone() else {
            reply.send(Err(Failure::Refused("the session has no refresh token".to_owned())));
            return Next::Nothing;
        };
        let (token, before) = match self.sessions.get_mut(&session.id) {
            Some(Renewal::Running { waiting, .. }) => {
                waiting.push(reply);
                return Next::Nothing;
            }
            Some(Renewal::Refused { until, why }) if now < *until => {
                reply.send(Err(Failure::Refused(why.clone())));
                return Next::Nothing;
            }
            Some(Renewal::Done(done)) if session.renewed < done.granted.at && counts(&done.granted, now) => {
                reply.send(Ok(Answer::Granted(Arc::new(done.told()))));
                return Next::Nothing;
            }
            // The cookie is older than the last renewal: its own refresh token has been used.
            Some(Renewal::Done(done)) if session.renewed <= done.granted.at => {
                (done.refresh_token.clone(), Some(done.clone()))
            }
            Some(Renewal::Done(_) | Renewal::Refused { .. }) | None => (own_token, None),
        };
        if self.sessions.insert(session.id, Renewal::Running { waiting: vec![reply], before }).is_none() {
            self.order.push_back(session.id);
            self.forget();
        }
        Next::Ask(token)
    }

    /// Notes the provider's answer. Returns those who wait for it.
    pub(super) fn finish(
        &mut self,
        id: [u8; 16],
        refresh_token: &str,
        answer: &Result<Granted, Failure>,
        now: u64,
    ) -> Vec<Reply> {
        let Some(Renewal::Running { waiting, before }) = self.sessions.remove(&id) else { return Vec::new() };
        let next = match answer {
            Ok(granted) => {
                let refresh_token = granted.refresh_token.as_deref().unwrap_or(refresh_token).to_owned();
                Some(Renewal::Done(Done { granted: Arc::new(granted.clone()), refresh_token }))
            }
            Err(Failure::Refused(why)) => {
                Some(Renewal::Refused { until: now + REFUSED_TIME, why: why.clone() })
            }
            Err(_) => before.map(Renewal::Done),
        };
        match next {
            Some(next) => {
                self.sessions.insert(id, next);
            }
            None => self.order.retain(|known| *known != id),
        }
        waiting
    }

    /// Forgets the oldest renewals, but none that is being made.
    fn forget(&mut self) {
        while self.order.len() > REMEMBERED_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            if matches!(self.sessions.get(&oldest), Some(Renewal::Running { .. })) {
                self.order.push_back(oldest);
                return;
            }
            self.sessions.remove(&oldest);
        }
    }
}

impl Done {
    /// The answer for a session with an older refresh token.
    fn told(&self) -> Granted {
        Granted { refresh_token: Some(self.refresh_token.clone()), ..(*self.granted).clone() }
    }
}

/// Whether the tokens of an answer have not ended.
fn counts(granted: &Granted, now: u64) -> bool {
    now < granted.at.saturating_add(granted.seconds)
}

#[cfg(test)]
mod tests {
    use identity::oidc::provider::{Ask, Provider, Settings};
    use tokio::sync::oneshot;

    use super::*;

    type Told = oneshot::Receiver<Result<Answer, Failure>>;

    /// A reply, and the end at which its answer comes.
    fn reply() -> (Reply, Told) {
        let settings = Settings {
            issuer: "https://issuer.test".to_owned(),
            client_id: "client".to_owned(),
            client_secret: String::new(),
            authorities: None,
        };
        let provider = Provider::new(settings);
        let told = provider.ask(Ask::Discover).unwrap();
        (provider.take_questions().unwrap().try_recv().unwrap().reply, told)
    }

    fn granted(at: u64, refresh_token: Option<&str>) -> Granted {
        Granted { refresh_token: refresh_token.map(str::to_owned), at, seconds: 100, ..Granted::default() }
    }

    fn token(told: &mut Told) -> Option<String> {
        match told.try_recv() {
            Ok(Ok(Answer::Granted(granted))) => granted.refresh_token.clone(),
            _ => None,
        }
    }

    fn asked(next: &Next) -> Option<&str> {
        if let Next::Ask(token) = next { Some(token) } else { None }
    }

    #[test]
    fn a_session_is_renewed_once_for_all() {
        let session = Session::begin(&granted(1000, Some("one")), &[]);
        let mut renewals = Renewals::default();
        let (first, _told) = reply();
        assert_eq!(asked(&renewals.next(&session, first, 1100)), Some("one"));
        let (second, _other) = reply();
        assert_eq!(asked(&renewals.next(&session, second, 1100)), None);
        let answer = Ok(granted(1100, Some("two")));
        assert_eq!(renewals.finish(session.id, "one", &answer, 1100).len(), 2);
        // A request that comes later with the old cookie.
        let (late, mut told) = reply();
        assert_eq!(asked(&renewals.next(&session, late, 1150)), None);
        assert_eq!(token(&mut told).as_deref(), Some("two"));
        // The old cookie, when the new tokens have ended too.
        let (later, _told) = reply();
        assert_eq!(asked(&renewals.next(&session, later, 1201)), Some("two"));
    }

    #[test]
    fn the_new_cookie_is_renewed_with_its_own_token() {
        let session = Session::begin(&granted(1000, Some("one")), &[]);
        let mut renewals = Renewals::default();
        let (first, _told) = reply();
        let _ = renewals.next(&session, first, 1100);
        let answer = granted(1100, None);
        renewals.finish(session.id, "one", &Ok(answer.clone()), 1100);
        let renewed = session.renew(&answer, &[]);
        let (next, _told) = reply();
        assert_eq!(asked(&renewals.next(&renewed, next, 1190)), Some("one"), "it was not replaced");
    }

    #[test]
    fn a_provider_that_is_away_is_asked_again_and_one_that_refuses_is_not() {
        let session = Session::begin(&granted(1000, Some("one")), &[]);
        let mut renewals = Renewals::default();
        let ask = |renewals: &mut Renewals, now| {
            let (reply, _told) = reply();
            asked(&renewals.next(&session, reply, now)).map(str::to_owned)
        };
        assert!(ask(&mut renewals, 1100).is_some());
        renewals.finish(session.id, "one", &Err(Failure::Away(String::new())), 1100);
        assert!(ask(&mut renewals, 1100).is_some());
        renewals.finish(session.id, "one", &Err(Failure::Refused(String::new())), 1100);
        assert!(ask(&mut renewals, 1101).is_none());
        assert!(ask(&mut renewals, 1101 + REFUSED_TIME).is_some());
        let _ = renewals.finish(session.id, "one", &Err(Failure::Away(String::new())), 1200);
        assert!(renewals.sessions.is_empty() && renewals.order.is_empty());
    }
}
