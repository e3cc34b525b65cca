//! Requests to the API server. Each has a timeout; failures are logged when they begin and when they end.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::runtime::watcher;
use tokio::time::{Instant, timeout};

/// Longest wait for a response.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Time without failure after which a request counts as working, if it fails for some objects and succeeds
/// for others.
const QUIET: Duration = Duration::from_secs(90);

/// The failure that is logged if no request gets a response.
const AWAY: &str = "asking the API server";

/// The API server, and the failures that have been logged.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) client: Client,
    /// The time of the last failure, by the description of the request.
    troubles: Arc<Mutex<BTreeMap<&'static str, Instant>>>,
}

/// The reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The object does not exist.
    NotFound,
    /// The object was changed by another client meanwhile.
    Conflict,
    /// The server refuses this request; another one may succeed.
    Refused(String),
    /// The process lacks the right, at least for this object. This has been logged.
    Denied,
    /// The server is unavailable or busy, so that any request would fail now. This has been logged.
    Unserved,
}

impl Server {
    pub(super) fn new(client: Client) -> Self {
        Self { client, troubles: Arc::default() }
    }

    /// Waits for the response to a request. `what` describes it in the log: "writing status".
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

    /// Handles the result of a watch.
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
            // The server has dropped the version of the watch, which starts again. This is no failure.
            Err(watcher::Error::WatchError(status)) if status.code == 410 => {}
            Err(error) => self.begins(what, &error),
        }
        None
    }

    /// Logs that a request was abandoned after this time.
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

/// The wait before the next attempt: one second, doubled at each failure, up to half a minute.
#[derive(Debug, Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    /// Records a failed attempt. Returns the wait before the next one.
    pub(super) fn next(&mut self) -> Duration {
        let wait = Duration::from_secs(1 << self.0.min(5)).min(Duration::from_secs(30));
        self.0 += 1;
        wait
    }

    /// Records a successful attempt.
    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }
}
