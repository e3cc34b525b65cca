//! A provider as workers know it: what it says about itself, questions to it, and the sessions that it or
//! their clients have ended.
//!
//! A worker never asks the provider itself. It puts a question and waits; the control plane, which has the
//! other end of the queue, asks over HTTP and answers. Questions to renew the same session are asked once,
//! however many requests and workers put them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, oneshot};

use super::Seconds;
use super::cookies::Names;
use super::logout::{Ended, LogoutToken};
use super::metadata::Metadata;
use super::relay::Ending;
use super::session::Session;
use super::tokens::{Failure, Granted};

/// Most questions of one provider that wait.
pub const QUESTIONS_MAX: usize = 2_000;

/// The settings that identify a provider, and how it is asked. Two routes with the same settings have the
/// same provider.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The issuer, as its tokens say it.
    pub issuer: String,
    /// The client's identifier.
    pub client_id: String,
    /// The client's secret; empty for a public client.
    pub client_secret: String,
    /// Authorities in PEM that may vouch for the provider's certificate; none for those of the system.
    pub authorities: Option<Arc<[u8]>>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = if self.client_secret.is_empty() { "" } else { " with a secret" };
        let authorities = if self.authorities.is_some() { " by authorities of its own" } else { "" };
        write!(f, "{} as {}{secret}{authorities}", self.issuer, self.client_id)
    }
}

/// A provider with its client, for all workers.
pub struct Provider {
    settings: Settings,
    names: Names,
    digest: [u8; 32],
    known: RwLock<Known>,
    questions: mpsc::UnboundedSender<Question>,
    waiting: Arc<AtomicUsize>,
    /// The questions until the control plane takes them.
    queue: Mutex<Option<mpsc::UnboundedReceiver<Question>>>,
    has_ended: AtomicBool,
    ended: RwLock<Ended>,
    counts: Counts,
}

/// The present knowledge of the provider.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its document; the last good one while it cannot be had.
    pub metadata: Option<Arc<Metadata>>,
    /// When the provider has last answered as it should.
    pub answered: Option<Seconds>,
    /// Why it has not since.
    pub error: Option<String>,
}

/// Counts of events, for metrics.
#[derive(Debug, Default)]
pub struct Counts {
    /// Clients that have signed in.
    pub signed_in: AtomicUsize,
    /// Clients that have come back from the provider without being signed in.
    pub failed: AtomicUsize,
    /// Sessions that have been renewed.
    pub renewed: AtomicUsize,
    /// Sessions that the provider has refused to renew.
    pub refused: AtomicUsize,
    /// Sessions that could not be renewed because the provider was away or wrong.
    pub unrenewed: AtomicUsize,
    /// Sessions that clients, and logout tokens of the provider, have ended.
    pub signed_out: AtomicUsize,
}

/// A question with the way for its answer.
pub struct Question {
    /// The question itself, without the way for the answer.
    pub ask: Ask,
    /// Takes the answer.
    pub reply: Reply,
}

/// A question for a provider.
#[derive(Debug)]
pub enum Ask {
    /// Read the document, if it is not known yet.
    Discover,
    /// Redeem the code of a sign-in.
    Redeem {
        /// The code that the client came back with.
        code: String,
        /// The secret behind the code challenge.
        verifier: String,
        /// The nonce that the ID token has to have.
        nonce: String,
        /// The URL to which the provider has sent the user back.
        redirect_uri: String,
        /// The claims that are needed.
        wanted: Vec<String>,
    },
    /// Renew the tokens of a session.
    Renew {
        /// The session whose tokens are renewed.
        session: Box<Session>,
        /// The claims that are needed.
        wanted: Vec<String>,
    },
    /// Check the logout token of a back-channel logout, and end its sessions.
    Logout(String),
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The document is known.
    Done,
    /// There are tokens, which have been checked.
    Granted(Arc<Granted>),
    /// The sessions of this logout token have ended.
    Ended(LogoutToken),
}

/// Takes an answer. The question does not count among those that wait from then on.
pub struct Reply {
    sender: oneshot::Sender<Result<Answer, Failure>>,
    _place: Place,
}

struct Place(Arc<AtomicUsize>);

impl Reply {
    /// Sends the answer to the worker, if it still waits.
    pub fn send(self, answer: Result<Answer, Failure>) {
        // A client that has gone away takes no answer.
        let _ = self.sender.send(answer);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Provider {
    /// A provider of which nothing is known yet.
    pub fn new(settings: Settings) -> Arc<Self> {
        let (questions, queue) = mpsc::unbounded_channel();
        let mut identity = settings.issuer.as_bytes().to_vec();
        identity.push(0);
        identity.extend_from_slice(settings.client_id.as_bytes());
        let mut own = [0; 32];
        own.copy_from_slice(digest(&SHA256, &identity).as_ref());
        Arc::new(Self {
            names: Names::new(&settings.issuer, &settings.client_id),
            settings,
            digest: own,
            known: RwLock::default(),
            questions,
            waiting: Arc::default(),
            queue: Mutex::new(Some(queue)),
            has_ended: AtomicBool::new(false),
            ended: RwLock::default(),
            counts: Counts::default(),
        })
    }

    /// Returns the settings that identify the provider.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Identifies issuer and client.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The names of the client's cookies.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the counts of events.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the present knowledge of the provider.
    pub fn known(&self) -> Known {
        self.known.read().clone()
    }

    /// Returns the document of the provider, if it is known.
    pub fn metadata(&self) -> Option<Arc<Metadata>> {
        self.known.read().metadata.clone()
    }

    /// Notes the document of the provider. The last good one stays where there is none.
    pub fn note_metadata(&self, read: Result<Metadata, String>, now: Seconds) {
        let mut known = self.known.write();
        match read {
            Ok(metadata) => {
                if known.metadata.as_deref() != Some(&metadata) {
                    known.metadata = Some(Arc::new(metadata));
                }
                (known.answered, known.error) = (Some(now), None);
            }
            Err(why) => known.error = Some(why),
        }
    }

    /// Notes whether the provider has answered as it should.
    pub fn note_answer(&self, fault: Option<&str>, now: Seconds) {
        let mut known = self.known.write();
        match fault {
            None => (known.answered, known.error) = (Some(now), None),
            Some(why) => known.error = Some(why.to_owned()),
        }
    }

    /// Puts a question. The receiver gets the answer, on whatever thread it waits.
    ///
    /// # Errors
    ///
    /// When too many questions wait.
    pub fn ask(&self, ask: Ask) -> Result<oneshot::Receiver<Result<Answer, Failure>>, Failure> {
        let busy = || Failure::Away("too many questions to the provider wait".to_owned());
        let place = Place(Arc::clone(&self.waiting));
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= QUESTIONS_MAX {
            return Err(busy());
        }
        let (sender, receiver) = oneshot::channel();
        let question = Question { ask, reply: Reply { sender, _place: place } };
        self.questions.send(question).map_err(|_| busy())?;
        Ok(receiver)
    }

    /// The questions, for the control plane; none if somebody has taken them.
    pub fn take_questions(&self) -> Option<mpsc::UnboundedReceiver<Question>> {
        self.queue.lock().take()
    }

    /// Whether a session has been ended by its client or by the provider.
    pub fn has_ended(&self, session: &Session) -> bool {
        self.has_ended.load(Ordering::Acquire) && self.ended.read().has(session)
    }

    /// Ends the session of a client that signs out.
    pub fn end(&self, session: &Session, now: Seconds) {
        self.ended.write().end(session.id, now);
        self.has_ended.store(true, Ordering::Release);
        self.counts.signed_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that sessions have ended at another replica.
    pub fn note_ended(&self, ending: &Ending, at: Seconds) {
        match ending {
            Ending::Session(id) => self.ended.write().end(*id, at),
            Ending::Token(token) => {
                self.ended.write().note(token, at);
            }
        }
        self.has_ended.store(true, Ordering::Release);
    }

    /// Ends the sessions of a logout token. False if the token has been used before.
    pub fn end_by(&self, token: &LogoutToken, now: Seconds) -> bool {
        let is_new = self.ended.write().note(token, now);
        self.has_ended.store(true, Ordering::Release);
        if is_new {
            self.counts.signed_out.fetch_add(1, Ordering::Relaxed);
        }
        is_new
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl Eq for Provider {}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(client_secret: &str) -> Settings {
        Settings {
            issuer: "https://issuer.test".to_owned(),
            client_id: "client".to_owned(),
            client_secret: client_secret.to_owned(),
            authorities: None,
        }
    }

    #[test]
    fn questions_are_bounded_and_count_until_they_are_answered() {
        let provider = Provider::new(settings("s"));
        let mut queue = provider.take_questions().unwrap();
        assert!(provider.take_questions().is_none());
        let waiting: Vec<_> = (0..QUESTIONS_MAX).map(|_| provider.ask(Ask::Discover).unwrap()).collect();
        assert!(matches!(provider.ask(Ask::Discover), Err(Failure::Away(_))));
        let question = queue.try_recv().unwrap();
        question.reply.send(Ok(Answer::Done));
        assert!(provider.ask(Ask::Discover).is_ok(), "there is room again");
        drop(waiting);
        while let Ok(question) = queue.try_recv() {
            question.reply.send(Ok(Answer::Done));
        }
        assert_eq!(provider.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_last_good_document_stays_and_no_secret_is_shown() {
        let provider = Provider::new(settings("hidden"));
        let document = r#"{"issuer":"https://issuer.test","authorization_endpoint":"https://a/",
            "token_endpoint":"https://b/","jwks_uri":"https://c/"}"#;
        let metadata = Metadata::parse("https://issuer.test", document.as_bytes());
        provider.note_metadata(metadata, 5);
        provider.note_metadata(Err("away".to_owned()), 6);
        let known = provider.known();
        assert!(known.metadata.is_some() && known.answered == Some(5));
        assert_eq!(known.error.as_deref(), Some("away"));
        assert!(!format!("{provider:?}").contains("hidden"));
    }
}
