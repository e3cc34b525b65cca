//! Loads databases on a task of its own, and hands each new state to the driver.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use geo::{Databases, Edition};
use rustix::process::setpriority_process;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::download::{self, Fetched};
use super::folder::Reader;
use super::sources::{Download, Sources};
use super::{Loaded, Wanted, archive};

/// Longest time for which the first configuration waits for downloads of databases that no file has.
const FIRST_DOWNLOADS_MAX: Duration = Duration::from_secs(30);

/// The nice value of the thread that reads databases while requests are served.
const LOW_PRIORITY: i32 = 10;

/// Time until files are looked at again while one of them is missing or broken.
const FAULTS_INTERVAL: Duration = Duration::from_mins(1);

/// Loads the databases that the settings ask for, again and again.
pub(crate) struct Loader {
    sources: Sources,
    /// The number of the last databases, whoever read them.
    serial: Arc<AtomicU64>,
    reader: Arc<Mutex<Reader>>,
    wanted: Wanted,
    task: Option<(JoinHandle<()>, mpsc::Receiver<Loaded>)>,
    /// The task has not handed anything over yet.
    is_pending: bool,
    loaded: Loaded,
    /// Former databases, which requests may still use. They are freed here and never on a worker, which would
    /// have to return many megabytes to the system between two requests.
    retired: Vec<Databases>,
}

impl Loader {
    pub(crate) fn new(sources: Sources) -> Self {
        let serial = Arc::default();
        Self {
            reader: Reader::shared(&sources, &serial),
            sources,
            serial,
            wanted: Wanted::default(),
            task: None,
            is_pending: false,
            loaded: Loaded::default(),
            retired: Vec::new(),
        }
    }

    /// Loads the databases that new settings ask for.
    pub(crate) fn want(&mut self, wanted: &Wanted) {
        if self.wanted == *wanted {
            return;
        }
        self.wanted = wanted.clone();
        self.stop();
        if !wanted.is_on {
            self.is_pending = false;
            self.reader = Reader::shared(&self.sources, &self.serial);
            self.take(Loaded::default());
            return;
        }
        // Databases in use stay until those by the new settings are there, and nothing waits for them.
        self.is_pending = self.loaded.databases.is_none();
        let (results, receiver) = mpsc::channel(1);
        let task = Task {
            sources: self.sources.clone(),
            reader: Arc::clone(&self.reader),
            wanted: wanted.clone(),
            modified: BTreeMap::new(),
            faults: BTreeMap::new(),
            yields: false,
            results,
        };
        self.task = Some((tokio::spawn(async move { _ = task.run().await }), receiver));
    }

    /// Whether the settings ask for databases of which none has been looked for yet, so that a configuration
    /// has to wait.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Waits for other databases or faults. The future is cancel-safe.
    pub(crate) async fn changed(&mut self) {
        let loaded = match &mut self.task {
            Some((_, results)) => results.recv().await,
            None => pending().await,
        };
        self.is_pending = false;
        if let Some(loaded) = loaded {
            self.take(loaded);
        } else {
            self.stop();
            self.loaded.faults = vec!["reading them has failed, and is not tried again".to_owned()];
        }
    }

    /// The databases in use, and the faults of others.
    pub(crate) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Frees former databases that nobody uses any more.
    pub(crate) fn sweep(&mut self) {
        self.retired.retain(|databases| !databases.is_unshared());
    }

    /// Number of former databases that somebody may still use.
    #[cfg(test)]
    pub(super) fn retired(&self) -> usize {
        self.retired.len()
    }

    fn take(&mut self, loaded: Loaded) {
        let before = std::mem::replace(&mut self.loaded, loaded).databases;
        self.retired.extend(before.filter(|before| Some(before) != self.loaded.databases.as_ref()));
        self.sweep();
    }

    fn stop(&mut self) {
        if let Some((task, _)) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Task {
    sources: Sources,
    reader: Arc<Mutex<Reader>>,
    wanted: Wanted,
    /// The value of `Last-Modified` of each download.
    modified: BTreeMap<Edition, String>,
    /// Why the last downloads failed.
    faults: BTreeMap<Edition, String>,
    /// Requests are served meanwhile, so that reading has time.
    yields: bool,
    results: mpsc::Sender<Loaded>,
}

impl Task {
    /// Ends when nobody takes the results any more, or when reading has failed.
    async fn run(mut self) -> Option<()> {
        let download = self.sources.download.clone();
        let mut told = None;
        let mut loaded = self.read().await?;
        let mut next_download = None;
        if let Some(download) = &download {
            if loaded.is_complete {
                next_download = Some(Instant::now());
            } else {
                let first = tokio::time::timeout(FIRST_DOWNLOADS_MAX, self.download(download));
                let is_over = first.await.map(Option::unwrap_or_default).is_ok();
                next_download = if is_over { after(download.interval) } else { Some(Instant::now()) };
                loaded = self.read().await?;
            }
        }
        loop {
            let is_told = |told: &Loaded| told.databases == loaded.databases && told.faults == loaded.faults;
            if !told.as_ref().is_some_and(is_told) {
                self.results.send(loaded.clone()).await.ok()?;
                told = Some(loaded);
                self.yields = true;
            }
            let is_faulty = told.as_ref().is_some_and(|told| !told.faults.is_empty());
            let reload =
                [self.wanted.reload(), is_faulty.then_some(FAULTS_INTERVAL)].into_iter().flatten().min();
            let reload = reload.map(|reload| Instant::now() + reload);
            let Some(due) = [reload, next_download].into_iter().flatten().min() else {
                return pending().await;
            };
            tokio::time::sleep_until(due).await;
            if let Some(download) =
                download.as_ref().filter(|_| next_download.is_some_and(|next| next <= due))
            {
                self.download(download).await?;
                next_download = after(download.interval);
            }
            loaded = self.read().await?;
        }
    }

    /// Reads the files beside the control thread: a database of cities has a hundred megabytes.
    async fn read(&self) -> Option<Loaded> {
        let secret = self.wanted.secret.clone();
        let mut loaded = self.with_reader(move |reader| reader.read(secret.as_deref())).await?;
        loaded.faults.extend(self.faults.values().cloned());
        Some(loaded)
    }

    /// Downloads all editions. A failure stays a fault until the next download.
    async fn download(&mut self, download: &Download) -> Option<()> {
        for edition in self.sources.editions() {
            let modified = self.modified.get(&edition).map(String::as_str);
            let result = match download::fetch(download, edition, modified).await {
                Ok(Fetched::Unchanged) => Ok(()),
                Ok(Fetched::Archive { bytes, modified }) => {
                    let taken = self.with_reader(move |reader| {
                        let database = archive::unpack(edition, &bytes)?;
                        reader.accept(edition, database)
                    });
                    let taken = taken.await?;
                    if taken.is_ok() {
                        tracing::info!(%edition, "downloaded a database of addresses");
                        self.modified.extend(modified.map(|modified| (edition, modified)));
                    }
                    taken.map_err(|why| format!("download of {}: {why}", download.origin.public_url(edition)))
                }
                Err(why) => Err(why),
            };
            match result {
                Ok(()) => self.faults.remove(&edition),
                Err(why) => self.faults.insert(edition, why),
            };
        }
        Some(())
    }

    /// Runs work on the reader on a thread of its own. While requests are served its priority is low: a
    /// database of cities is verified for a second, and workers must not wait for it. None if the work has
    /// failed.
    async fn with_reader<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Reader) -> T + Send + 'static,
    ) -> Option<T> {
        let reader = Arc::clone(&self.reader);
        let (done, result) = oneshot::channel();
        let yields = self.yields;
        let work = move || {
            if yields && let Err(error) = setpriority_process(None, LOW_PRIORITY) {
                tracing::debug!(%error, "databases of addresses are read at the usual priority");
            }
            let _ = done.send(work(&mut reader.lock().unwrap_or_else(PoisonError::into_inner)));
        };
        if let Err(error) = thread::Builder::new().name("geoip".to_owned()).spawn(work) {
            tracing::error!(%error, "no thread can be started to read databases of addresses");
        }
        result.await.ok()
    }
}

/// The point in time after an interval; none for an interval of zero.
fn after(interval: Duration) -> Option<Instant> {
    (!interval.is_zero()).then(|| Instant::now() + interval)
}
