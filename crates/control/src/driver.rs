//! Runs the stages of the control plane: once, or again after each change of a source for as long as the
//! process lives.

mod cluster_source;

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;

use cluster_source::ClusterSource;

use crate::absent;
use crate::acme;
use crate::classes;
use crate::client::Connection;
use crate::convert::{self, Conversion, Target};
use crate::debounce::{Debounce, Pace};
use crate::geoip::{self, Loaded, Loader};
use crate::index::Index;
use crate::interfaces;
use crate::migration;
use crate::old_version::Assumed;
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity};
use crate::resolve::{Names, Resolved, Resolver, SystemResolver};
use crate::reviews::Review;
use crate::source::Skipped;
use crate::source::cluster::{Cluster, ClusterOptions, Condition, DiskCache, Scope, old_controller};
use crate::source::file_source::FileSource;
use crate::source::files::{BuiltIn, Files, LoadError, Reading};
use crate::translate::{Translation, Translator, translate};
use crate::unlisted::Unlisted;

/// Longest sleep until a certificate becomes valid or expires. The sleep has a bound because the machine's
/// clock may be set meanwhile.
const SLEEP_MAX: Duration = Duration::from_hours(1);

/// Time that the API server has to list all objects, for commands that list them once.
const LISTING_MAX: Duration = Duration::from_mins(1);

/// Time between two reads of the addresses of this machine's interfaces.
const LOOK_AROUND_INTERVAL: Duration = Duration::from_secs(10);

/// Loads the manifests and translates them. Names outside the cluster are not looked up.
///
/// # Errors
///
/// When a path of the options does not exist or cannot be read. A file that cannot be parsed is a problem of
/// the translation instead.
pub fn load_at(options: &Options, now: SystemTime) -> Result<Translation, LoadError> {
    load_text_at(options, None, now)
}

/// Loads and translates the manifests as [`load_at`] does, with an additional text that is in no file.
///
/// # Errors
///
/// The same as those of [`load_at`].
pub fn load_text_at(
    options: &Options,
    stdin: Option<String>,
    now: SystemTime,
) -> Result<Translation, LoadError> {
    read(options, stdin, Reading::Whole, now).map(|(_, translation, _)| translation)
}

/// Reads each document of the manifests, and of a text that is in no file, by itself; translates them, and
/// adds a report for users who migrate from ingress-nginx. Problems of the translation include fields that
/// the API server would refuse or drop, and documents that cannot be read. Missing Services are summed up in
/// one problem.
///
/// # Errors
///
/// The same as those of [`load_at`].
pub fn check_at(
    options: &Options,
    stdin: Option<String>,
    now: SystemTime,
) -> Result<(Translation, migration::Report), LoadError> {
    let (index, mut translation, old) = read(options, stdin, Reading::Strict, now)?;
    absent::sum_up(&mut translation, &index);
    translation.problems.extend(classes::slips(&index, options));
    let report = migration::Report::new(&index, options, &translation, old, now);
    Ok((translation, report))
}

/// Converts the Ingresses of the manifests, and of a text that is in no file. Problems with the files are
/// among the findings.
///
/// # Errors
///
/// The same as those of [`load_at`].
pub fn convert_at(
    options: &Options,
    stdin: Option<String>,
    target: &Target,
    now: SystemTime,
) -> Result<Conversion, LoadError> {
    let (index, translation, _) = read(options, stdin, Reading::Strict, now)?;
    Ok(convert::ingresses(&index, options, target, &translation))
}

type Read = (Index, Translation, Option<Assumed>);

fn read(
    options: &Options,
    stdin: Option<String>,
    reading: Reading,
    now: SystemTime,
) -> Result<Read, LoadError> {
    let mut files = Files::open_as(&options.manifests, reading)?;
    files.add(stdin.map(|text| BuiltIn { name: "stdin", text }).as_slice());
    let (index, duplicates) = Index::build(files.objects());
    let mut translation = translate(&index, options, &Resolved::new(), now);
    if translation.geoip.is_on {
        let loaded = geoip::load_once(&options.geoip, &translation.geoip);
        translation.model.settings.databases = loaded.databases;
    }
    add_findings(&mut translation, files.problems().cloned().chain(duplicates), files.skipped());
    Ok((index, translation, files.old_version()))
}

/// Lists the objects of a cluster once, and checks them as [`check_at`] checks files. Nothing is written to
/// the cluster.
///
/// # Errors
///
/// When the API server refuses to list the objects, or does not list all of them in time.
pub async fn check_cluster(
    connection: &Connection,
    scope: Scope,
    options: Options,
    now: SystemTime,
) -> Result<(Translation, migration::Report), Unlisted> {
    let namespace = options.configmap.as_ref().map(|name| name.namespace.clone());
    let old = match options.from {
        Some(_) => None,
        None => old_controller::find(connection, namespace.as_deref()).await,
    };
    list(connection, scope, options, now, |index, options, translation| {
        let report = migration::Report::new(index, options, &translation, old, now);
        (translation, report)
    })
    .await
}

/// Converts the Ingresses of a cluster. Nothing is written to the cluster.
///
/// # Errors
///
/// The same as those of [`check_cluster`].
pub async fn convert_cluster(
    connection: &Connection,
    scope: Scope,
    options: Options,
    target: &Target,
    now: SystemTime,
) -> Result<Conversion, Unlisted> {
    let convert = |index: &Index, options: &Options, translation: Translation| {
        convert::ingresses(index, options, target, &translation)
    };
    list(connection, scope, options, now, convert).await
}

/// Lists the objects of a cluster once, and calls `make` with them and their translation.
async fn list<T>(
    connection: &Connection,
    scope: Scope,
    mut options: Options,
    now: SystemTime,
    make: impl FnOnce(&Index, &Options, Translation) -> T,
) -> Result<T, Unlisted> {
    options.judges_endpoints = true;
    let mut cluster = Cluster::new(connection, scope, &options);
    let listed = async {
        while !cluster.is_settled() {
            cluster.changed(&options).await;
            if cluster.condition().is_hopeless() {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(LISTING_MAX, listed).await;
    options.class_may_be_missing |= cluster.lacks_classes();
    let Some(index) = cluster.index().filter(|_| in_time.is_ok()) else {
        return Err(Unlisted::new(connection.url.clone(), cluster.condition()));
    };
    let mut translation = translate(index, &options, &Resolved::new(), now);
    add_findings(&mut translation, cluster.problems(), Skipped::new());
    Ok(make(index, &options, translation))
}

/// Receives the results while a source is followed.
pub trait Publisher {
    /// Publishes a new translation, which differs from the previous one.
    fn publish(&mut self, translation: Arc<Translation>);

    /// Reports that the condition of the watches on a cluster has changed.
    fn note(&mut self, condition: &Condition);

    /// The queue of Ingresses to review; none if no webhook is served. The driver calls this once.
    fn reviews(&mut self) -> Option<mpsc::Receiver<Review>> {
        None
    }
}

impl<F: FnMut(Arc<Translation>)> Publisher for F {
    fn publish(&mut self, translation: Arc<Translation>) {
        self(translation);
    }

    fn note(&mut self, _: &Condition) {}
}

/// Follows the manifests: translates them at the start, and again whenever the manifests or the addresses of
/// external names change. Publishes the first translation, and then each that differs from the previous one.
/// Returns only if it cannot begin.
///
/// The future runs on the control thread, and reads and parses files on that thread.
///
/// # Errors
///
/// When, at the start, a path of the options does not exist or cannot be read, or changes cannot be watched.
/// Later failures are problems of a translation, and the objects that were read last stay in force.
pub async fn run(options: Options, publisher: impl Publisher) -> Result<Infallible, LoadError> {
    run_with(options, SystemResolver::new(), publisher).await
}

/// Follows the manifests as [`run`] does, with a resolver given by the caller.
///
/// # Errors
///
/// The same as those of [`run`].
pub async fn run_with<R: Resolver>(
    options: Options,
    resolver: R,
    publisher: impl Publisher,
) -> Result<Infallible, LoadError> {
    let mut built_in = Vec::new();
    built_in.extend(options.serve_files.as_deref().map(|path| served_files(path, &options.ingress_class)));
    let files = FileSource::start(&options.manifests, &built_in)?;
    match Driver::new(options, Source::Files(Box::new(files)), Pace::FILES, resolver, publisher).run().await {}
}

/// Follows a cluster. The first translation is published when all objects have been listed. It is published
/// earlier if they cannot be listed and a copy on disk exists.
pub async fn run_cluster(
    connection: &Connection,
    cluster: ClusterOptions,
    mut options: Options,
    publisher: impl Publisher,
) -> Infallible {
    options.judges_endpoints = true;
    let kept = cluster.state_dir.as_deref().map(DiskCache::new);
    let source = Cluster::sharing(connection, cluster.scope, &options, cluster.relay.as_ref());
    let source = Source::Cluster(Box::new(ClusterSource::new(source, kept)));
    Driver::new(options, source, Pace::CLUSTER, SystemResolver::new(), publisher).run().await
}

/// The built-in Ingress that implements `--serve-files`.
fn served_files(path: &str, class: &str) -> BuiltIn {
    let (path, class) = (format!("{path:?}"), format!("{class:?}"));
    let text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: serve-files\n  namespace: default\n  annotations:\n    \
         kubernetes.io/ingress.class: {class}\n    forebay.io/files: \".\"\nspec:\n  rules:\n  - http:\n      paths:\n      \
         - path: {path}\n        pathType: Prefix\n        backend: {{}}\n"
    );
    BuiltIn { name: "--serve-files", text }
}

/// Puts databases into the model of a translation, and reports those that cannot be used.
fn add_databases(translation: &mut Translation, loaded: &Loaded) {
    if !translation.geoip.is_on {
        return;
    }
    translation.model.settings.databases.clone_from(&loaded.databases);
    let configmap = translation.configmap.as_deref();
    let place = configmap.and_then(|configmap| Some((configmap, configmap.data.get("use-geoip2")?)));
    for fault in &loaded.faults {
        let problem = match place {
            Some((configmap, key)) => Problem::at(Severity::Warning, configmap, key, fault.clone()),
            None => Problem::new(Severity::Warning, fault.clone()),
        };
        translation.problems.push(problem.because(Reason::Missing));
    }
}

fn add_findings(
    translation: &mut Translation,
    problems: impl IntoIterator<Item = Problem>,
    skipped: Skipped,
) {
    translation.problems.splice(0..0, problems);
    for (kind, count) in skipped {
        *translation.skipped.entry(kind).or_default() += count;
    }
}

struct Driver<R, O> {
    options: Options,
    /// Classes may be missing, even if the API server can list them.
    allows_missing_classes: bool,
    source: Source,
    names: Names<R>,
    translator: Translator,
    debounce: Debounce,
    /// The certificates that are obtained.
    acme: acme::Manager,
    /// The databases of addresses.
    geoip: Loader,
    /// The time at which the published translation is made again because a certificate becomes valid or
    /// expires.
    review: Option<Instant>,
    /// The time at which the addresses of this machine are read next.
    look_around: Instant,
    published: Option<Arc<Translation>>,
    condition: Condition,
    reviews: Option<mpsc::Receiver<Review>>,
    publisher: O,
}

enum Source {
    Files(Box<FileSource>),
    Cluster(Box<ClusterSource>),
}

impl<R: Resolver, O: Publisher> Driver<R, O> {
    fn new(options: Options, source: Source, pace: Pace, resolver: R, mut publisher: O) -> Self {
        Self {
            allows_missing_classes: options.class_may_be_missing,
            acme: acme::Manager::new(options.acme.clone()),
            geoip: Loader::new(options.geoip.clone()),
            options,
            source,
            names: Names::new(resolver),
            translator: Translator::default(),
            debounce: Debounce::new(pace),
            review: None,
            look_around: Instant::now(),
            published: None,
            condition: Condition::default(),
            reviews: publisher.reviews(),
            publisher,
        }
    }

    async fn run(mut self) -> Infallible {
        self.note_condition();
        self.build_and_publish();
        loop {
            self.step().await;
        }
    }

    async fn step(&mut self) {
        let due = [self.debounce.due(), self.source.due(), self.review].into_iter().flatten().min();
        let due = due.map_or(self.look_around, |due| due.min(self.look_around));
        tokio::select! {
            () = self.source.changed(&self.options) => self.note_change(Instant::now()),
            () = self.names.changed() => self.build_and_publish(),
            () = self.geoip.changed() => self.build_and_publish(),
            () = self.acme.changed() => self.build_and_publish(),
            review = next(&mut self.reviews), if self.published.is_some() => self.answer(review),
            () = tokio::time::sleep_until(due.into()) => self.act(Instant::now()),
        }
    }

    fn note_change(&mut self, now: Instant) {
        if self.source.note_change(now) {
            self.debounce.touch(now);
        }
        self.note_condition();
    }

    fn answer(&mut self, review: Review) {
        if let Some((index, ..)) = self.source.objects() {
            review.answer(index, &self.options);
        }
    }

    fn note_condition(&mut self) {
        let condition = self.source.condition();
        if condition != self.condition {
            self.condition = condition;
            self.publisher.note(&self.condition);
        }
    }

    fn act(&mut self, now: Instant) {
        if self.source.act(now) {
            self.debounce.touch(now);
        }
        self.note_condition();
        let is_elsewhere = self.look_around <= now && self.look_around();
        if is_elsewhere || self.review.is_some_and(|review| review <= now) {
            self.build_and_publish();
        }
        self.geoip.sweep();
        if self.debounce.take(now) && self.source.refresh() {
            self.build_and_publish();
        }
    }

    /// Reads the addresses of this machine. Returns whether they have changed.
    fn look_around(&mut self) -> bool {
        self.look_around = Instant::now() + LOOK_AROUND_INTERVAL;
        match interfaces::addresses() {
            Ok(addresses) if addresses == self.options.own_addresses => false,
            Ok(addresses) => {
                self.options.own_addresses = addresses;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot tell the addresses of this machine");
                false
            }
        }
    }

    fn build_and_publish(&mut self) {
        let (begun, now) = (Instant::now(), SystemTime::now());
        self.look_around();
        self.options.class_may_be_missing = self.allows_missing_classes || self.source.lacks_classes();
        self.options.geoip_coverage = self.geoip.loaded().coverage();
        let Some((index, problems, skipped)) = self.source.objects() else { return };
        let mut translation = self.translator.translate(index, &self.options, self.names.resolved(), now);
        self.geoip.want(&translation.geoip);
        self.acme.want(&translation.acme);
        self.names.need(&translation.names);
        if self.published.is_none() && self.names.is_pending(begun) {
            return;
        }
        if self.geoip.is_pending() || self.acme.is_pending() && self.published.is_none() {
            // Databases and certificates are loaded beside this thread, and a configuration without them
            // would close routes, and hosts would be served with the default certificate.
            return;
        }
        add_databases(&mut translation, self.geoip.loaded());
        add_findings(&mut translation, problems, skipped);
        self.options.providers.start(&self.options);
        self.review = translation.valid_until.map(|end| Instant::now() + until(end, now));
        if self.published.as_deref() != Some(&translation) {
            let translation = Arc::new(translation);
            self.published = Some(Arc::clone(&translation));
            self.publisher.publish(translation);
            self.source.note_published();
        }
        let end = Instant::now();
        self.debounce.rest(end, end - begun);
    }
}

/// The next review; pending for ever once no review can arrive.
async fn next(reviews: &mut Option<mpsc::Receiver<Review>>) -> Review {
    let review = match reviews {
        Some(reviews) => reviews.recv().await,
        None => None,
    };
    match review {
        Some(review) => review,
        None => pending().await,
    }
}

impl Source {
    /// Waits for an event of the source. The future is cancel-safe.
    async fn changed(&mut self, options: &Options) {
        match self {
            Self::Files(files) => files.changed().await,
            Self::Cluster(source) => source.changed(options).await,
        }
    }

    /// Processes an event of the source. Returns whether the objects may have changed.
    fn note_change(&mut self, now: Instant) -> bool {
        match self {
            Self::Files(files) => {
                files.note_change(now);
                true
            }
            Self::Cluster(source) => source.note_change(now),
        }
    }

    /// The time of the source's next task.
    fn due(&self) -> Option<Instant> {
        match self {
            Self::Files(files) => files.due(),
            Self::Cluster(source) => source.due(),
        }
    }

    /// Runs the tasks that are due. Returns whether the objects may have changed.
    fn act(&mut self, now: Instant) -> bool {
        match self {
            Self::Files(files) => files.act(now),
            Self::Cluster(source) => source.act(now),
        }
    }

    /// Updates the objects. Returns whether they changed.
    fn refresh(&mut self) -> bool {
        match self {
            Self::Files(files) => files.look(),
            Self::Cluster(_) => true,
        }
    }

    /// The objects and the problems of reading them; none while the objects are not complete.
    fn objects(&mut self) -> Option<(&Index, Vec<Problem>, Skipped)> {
        match self {
            Self::Files(files) => Some(files.objects()),
            Self::Cluster(source) => source.objects(),
        }
    }

    fn lacks_classes(&self) -> bool {
        matches!(self, Self::Cluster(source) if source.lacks_classes())
    }

    fn condition(&self) -> Condition {
        match self {
            Self::Files(_) => Condition::default(),
            Self::Cluster(source) => source.condition(),
        }
    }

    fn note_published(&mut self) {
        if let Self::Cluster(source) = self {
            source.note_published();
        }
    }
}

/// The time from now until a second since 1970: at least one second, at most [`SLEEP_MAX`].
fn until(second: i64, now: SystemTime) -> Duration {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let end = Duration::from_secs(u64::try_from(second).unwrap_or_default());
    end.saturating_sub(now).clamp(Duration::from_secs(1), SLEEP_MAX)
}

#[cfg(test)]
mod tests;
