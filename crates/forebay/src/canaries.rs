//! Canaries with steps: their states in the Lease or in a file, what is told of them, and their figures.
//!
//! Must not be in here: the judgement on a canary, which is `balance::rollout`'s.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use anyhow::Context;
use control::NsName;
use control::status::{About, KeptState, Notice};
use observe::CanaryFigures;
use proxy::{KeptRun, RolloutNews, RolloutState, RolloutStatus, Rollouts, Stopped};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

/// Time between two looks for news where there are canaries with steps.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Time until a file that could not be written is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Notices that wait for the leader's Events.
pub(crate) const NOTICES_MAX: usize = 100;

/// A run, as it is kept.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct Entry {
    canary: String,
    run: String,
    began: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<StopEntry>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct StopEntry {
    at: f64,
    step: usize,
    why: String,
}

/// The states of canaries, as the Lease keeps them.
#[derive(Debug)]
pub(crate) struct InLease(pub(crate) Arc<Rollouts>);

/// A canary with steps, at `/status` and in the console.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CanaryStatus {
    /// Namespace and name of the canary Ingress.
    pub(crate) ingress: String,
    /// `running`, `complete` or `stopped`.
    pub(crate) state: String,
    /// The step, counted from 1; that of the stop where it was stopped.
    pub(crate) step: usize,
    pub(crate) steps: usize,
    /// The share of requests at this moment, from 0 to 1.
    pub(crate) share_ratio: f64,
    /// When the first step began, in seconds since 1970.
    pub(crate) began_seconds: f64,
    /// When the next step begins; null where there is none.
    pub(crate) next_step_seconds: Option<f64>,
    /// When it was stopped; null where it was not.
    pub(crate) stopped_seconds: Option<f64>,
    /// The state in a sentence.
    pub(crate) message: String,
    /// Requests to the mainline that this replica has counted.
    pub(crate) mainline_requests: u64,
    pub(crate) mainline_errors: u64,
    pub(crate) canary_requests: u64,
    pub(crate) canary_errors: u64,
}

/// The time since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The canaries of a process. Where their states are kept, they begin when these have been read.
pub(crate) fn begin(is_kept: bool) -> Arc<Rollouts> {
    Arc::new(if is_kept { Rollouts::held() } else { Rollouts::default() })
}

/// The states of all canaries with steps.
pub(crate) fn status(rollouts: &Rollouts) -> Vec<CanaryStatus> {
    rollouts.status(now()).iter().map(CanaryStatus::of).collect()
}

/// The figures of all canaries with steps, for metrics.
pub(crate) fn figures(rollouts: &Rollouts) -> Vec<CanaryFigures> {
    let figures = |status: RolloutStatus| {
        let (namespace, ingress) = status.plan.name.split_once('/').unwrap_or_default();
        CanaryFigures {
            namespace: namespace.to_owned(),
            ingress: ingress.to_owned(),
            share: status.share.ratio(),
            step: status.step as u64 + 1,
            is_stopped: status.state == RolloutState::Stopped,
        }
    };
    rollouts.status(now()).into_iter().map(figures).collect()
}

/// Tells what happens with canaries, in the log and to the leader, and keeps their states in a file, if
/// there is one. Runs for ever. Where there is no canary, it waits for another configuration.
pub(crate) async fn follow<T>(
    rollouts: &Rollouts,
    notices: mpsc::Sender<Notice>,
    file: Option<&StateFile>,
    mut applied: watch::Receiver<T>,
) {
    loop {
        applied.mark_unchanged();
        let news = rollouts.take_news();
        // Before it is told: a stop that the log has outlives the process.
        let is_kept = file.is_none_or(|file| file.keep(rollouts));
        for (news, status) in news {
            tell(news, &status);
            // Only a leader publishes: at others the queue is full, and nobody waits for it.
            let _ = notices.try_send(notice(news, &status));
        }
        if is_kept && rollouts.is_empty() && applied.changed().await.is_ok() {
            continue;
        }
        tokio::time::sleep(if is_kept { LOOK_INTERVAL } else { RETRY_INTERVAL }).await;
    }
}

fn tell(news: RolloutNews, status: &RolloutStatus) {
    let (canary, message) = (&*status.plan.name, status.in_words());
    match news {
        RolloutNews::Step => tracing::info!(canary, "{message}"),
        RolloutNews::Stopped => tracing::warn!(canary, "{message}"),
    }
}

fn notice(news: RolloutNews, status: &RolloutStatus) -> Notice {
    let (namespace, name) = status.plan.name.split_once('/').unwrap_or_default();
    Notice {
        about: About::Ingress(NsName::new(namespace, name)),
        reason: news.reason(),
        note: status.in_words(),
        is_warning: news == RolloutNews::Stopped,
    }
}

// === The Lease ===

impl KeptState for InLease {
    fn merge(&self, kept: Option<&str>) {
        let entries = kept.map(read).unwrap_or_default();
        self.0.merge(entries.iter().filter_map(Entry::kept), now());
    }

    fn to_keep(&self) -> Option<String> {
        let entries: Vec<_> = self.0.kept().iter().map(Entry::of).collect();
        (!entries.is_empty()).then(|| write(&entries))
    }

    fn to_add(&self, kept: Option<&str>) -> Option<String> {
        let mut entries = kept.map(read).unwrap_or_default();
        let mut has_added = false;
        for own in self.0.kept().iter().filter(|own| own.stopped.is_some()).map(Entry::of) {
            match entries.iter_mut().find(|entry| entry.canary == own.canary) {
                Some(entry) if entry.run == own.run && entry.stopped.is_none() => {
                    entry.stopped = own.stopped;
                    has_added = true;
                }
                // The leader follows another version of the Ingress, or has found the fault itself.
                Some(_) => {}
                None => {
                    entries.push(own);
                    has_added = true;
                }
            }
        }
        has_added.then(|| write(&entries))
    }

    fn version(&self) -> u64 {
        self.0.version()
    }
}

fn write(entries: &[Entry]) -> String {
    serde_json::json!(entries).to_string()
}

/// The entries of a text; none where it is not ours, as after a change by hand.
fn read(text: &str) -> Vec<Entry> {
    serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::warn!(%error, "the states of canaries cannot be read: they begin anew");
        Vec::new()
    })
}

impl Entry {
    fn of(kept: &KeptRun) -> Self {
        let stopped = kept.stopped.as_ref().map(|stopped| StopEntry {
            at: stopped.at.as_secs_f64(),
            step: stopped.step,
            why: stopped.why.to_string(),
        });
        Self {
            canary: kept.name.to_string(),
            run: kept.run.to_string(),
            began: kept.began.as_secs_f64(),
            stopped,
        }
    }

    /// The run; none where its times are none.
    fn kept(&self) -> Option<KeptRun> {
        let time = |seconds| Duration::try_from_secs_f64(seconds).ok();
        let stopped = match &self.stopped {
            Some(StopEntry { at, step, why }) => {
                Some(Stopped { at: time(*at)?, step: *step, why: why.as_str().into() })
            }
            None => None,
        };
        let (name, run) = (self.canary.as_str().into(), self.run.as_str().into());
        Some(KeptRun { name, run, began: time(self.began)?, stopped })
    }
}

// === The file ===

/// The file with the states of canaries, of a process without a cluster.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// The version of the states that the file holds; none before the first write.
    written: Cell<Option<u64>>,
}

impl StateFile {
    /// Opens the file that the options name, if they do.
    pub(crate) fn of(path: Option<&Path>, rollouts: &Rollouts) -> anyhow::Result<Option<Self>> {
        path.map(|path| Self::open(path, rollouts)).transpose()
    }

    /// Reads the file into the canaries, and makes it where it does not exist.
    pub(crate) fn open(path: &Path, rollouts: &Rollouts) -> anyhow::Result<Self> {
        let what = || format!("--canary-state {}", path.display());
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(what),
        };
        let entries: Vec<Entry> = match text.trim() {
            "" => Vec::new(),
            text => serde_json::from_str(text).with_context(what)?,
        };
        let file = Self { path: path.to_owned(), written: Cell::default() };
        file.replace(&write(&entries)).with_context(what)?;
        rollouts.merge(entries.iter().filter_map(Entry::kept), now());
        Ok(file)
    }

    /// Writes the states where they have changed. Returns whether the file holds them.
    pub(crate) fn keep(&self, rollouts: &Rollouts) -> bool {
        let version = Some(rollouts.version());
        if self.written.get() == version {
            return true;
        }
        let entries: Vec<_> = rollouts.kept().iter().map(Entry::of).collect();
        match self.replace(&write(&entries)) {
            Ok(()) => self.written.set(version),
            Err(error) => {
                let file = self.path.display();
                tracing::warn!(%file, %error, "the states of canaries cannot be written");
            }
        }
        self.written.get() == version
    }

    /// Puts another content in place of the present one, so that a reader finds one of the two.
    fn replace(&self, text: &str) -> io::Result<()> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let next = self.path.with_file_name(name);
        fs::write(&next, format!("{text}\n"))?;
        fs::rename(next, &self.path)
    }
}

impl CanaryStatus {
    fn of(status: &RolloutStatus) -> Self {
        let [mainline_requests, canary_requests] = status.requests;
        let [mainline_errors, canary_errors] = status.errors;
        Self {
            ingress: status.plan.name.to_string(),
            state: status.state.as_str().to_owned(),
            step: status.step + 1,
            steps: status.plan.steps.len(),
            share_ratio: status.share.ratio(),
            began_seconds: status.began.as_secs_f64(),
            next_step_seconds: status.next_step_at.map(|at| at.as_secs_f64()),
            stopped_seconds: status.stopped.as_ref().map(|stopped| stopped.at.as_secs_f64()),
            message: status.in_words(),
            mainline_requests,
            mainline_errors,
            canary_requests,
            canary_errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOPPED: &str = r#"[{"began":1800000000.5,"canary":"a/web","run":"5%,100% 1","stopped":{"at":1800000060.0,"step":1,"why":"it fails"}}]"#;

    #[test]
    fn states_are_read_as_they_were_written() {
        let entries = read(STOPPED);
        assert_eq!(write(&entries), STOPPED);
        let again: Vec<_> = entries.iter().filter_map(Entry::kept).map(|kept| Entry::of(&kept)).collect();
        assert_eq!(again, entries);
        assert!(read("by hand").is_empty());
        let impossible = r#"[{"canary":"a/web","run":"1","began":-1}]"#;
        assert!(read(impossible).iter().find_map(Entry::kept).is_none());
    }

    #[test]
    fn a_state_file_is_made_and_a_broken_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("canaries.json");
        StateFile::open(&path, &Rollouts::held()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[]\n");
        fs::write(&path, "{").unwrap();
        let error = StateFile::open(&path, &Rollouts::held()).unwrap_err();
        assert!(format!("{error:#}").starts_with(&format!("--canary-state {}", path.display())), "{error:#}");
        let nowhere = folder.path().join("none").join("canaries.json");
        assert!(StateFile::open(&nowhere, &Rollouts::held()).is_err());
    }
}
