//! Requests to the API server: bounded in time, and trouble is logged when it begins and when it is over.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::runtime::watcher;
use tokio::time::{Instant, timeout};

/// Time for which an answer is waited for.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Time without failure after which something that fails for some objects and works for others counts as working.
const QUIET: Duration = Duration::from_secs(90);

/// What is wrong when no request gets an answer.
const AWAY: &str = "asking the API server";

/// The API server, and what is wrong with it.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) client: Client,
    /// What fails, by what was tried, and when it did so last.
    troubles: Arc<Mutex<BTreeMap<&'static str, Instant>>>,
}

/// Why a request did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is no such object.
    NotFound,
    /// Somebody else was faster.
    Conflict,
    /// This request makes no sense to the server; another one may.
    Refused(String),
    /// It is not allowed, for this object at least. It is logged already.
    Denied,
    /// The server is away or busy: any request would fail now. It is logged already.
    Unserved,
}

impl Server {
    pub(super) fn new(client: Client) -> Self {
        Self { client, troubles: Arc::default() }
    }

    /// Waits for the answer to a request. `what` says what it does, for the log: "writing status".
    pub(super) async fn ask<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        match timeout(REQUEST_MAX, request).await {
            Ok(Ok(answer)) => {
                self.works(what);
                Ok(answer)
            }
            Ok(Err(error)) => Err(self.note(what, &error)),
            Err(_) => {
                self.unanswered(REQUEST_MAX);
                Err(Failure::Unserved)
            }
        }
    }

    /// Takes note of what a watch tells of itself.
    pub(super) fn watched<T>(&self, what: &'static str, event: Result<T, watcher::Error>) -> Option<T> {
        match event {
            Ok(event) => {
                self.works(what);
                return Some(event);
            }
            Err(
                watcher::Error::InitialListFailed(error)
                | watcher::Error::WatchStartFailed(error)
                | watcher::Error::WatchFailed(error),
            ) => {
                self.note(what, &error);
            }
            // The watch begins anew: what it was told has been forgotten by the server.
            Err(watcher::Error::WatchError(status)) if status.code == 410 => {}
            Err(error) => self.begins(what, &error),
        }
        None
    }

    /// Takes note of a request that was given up after a time.
    pub(super) fn unanswered(&self, after: Duration) {
        self.begins(AWAY, &format_args!("no answer within {} ms", after.as_millis()));
    }

    fn note(&self, what: &'static str, error: &kube::Error) -> Failure {
        let kube::Error::Api(status) = error else {
            self.begins(AWAY, &error);
            return Failure::Unserved;
        };
        self.ends(AWAY);
        match status.code {
            404 => Failure::NotFound,
            409 => Failure::Conflict,
            400 | 405 | 413 | 415 | 422 => Failure::Refused(status.message.clone()),
            code => {
                self.begins(what, &format_args!("{code} {}", status.message));
                if matches!(code, 401 | 403) { Failure::Denied } else { Failure::Unserved }
            }
        }
    }

    fn works(&self, what: &'static str) {
        self.ends(AWAY);
        if self.troubles().get(what).is_some_and(|last| last.elapsed() > QUIET) {
            self.ends(what);
        }
    }

    fn begins(&self, what: &'static str, error: &dyn Display) {
        if self.troubles().insert(what, Instant::now()).is_none() {
            tracing::warn!(%error, "{what} fails; it is tried again");
        }
    }

    fn ends(&self, what: &'static str) {
        if self.troubles().remove(what).is_some() {
            tracing::info!("{what} works again");
        }
    }

    fn troubles(&self) -> MutexGuard<'_, BTreeMap<&'static str, Instant>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait before the next attempt, after attempts that failed: from a second, doubling, to half a minute.
#[derive(Debug, Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    /// One more attempt failed.
    pub(super) fn next(&mut self) -> Duration {
        let wait = Duration::from_secs(1 << self.0.min(5)).min(Duration::from_secs(30));
        self.0 += 1;
        wait
    }

    /// An attempt came through.
    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }
}
