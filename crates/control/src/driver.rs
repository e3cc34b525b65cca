//! Drives the stages: loads once, or follows the sources for as long as the process lives.

use std::convert::Infallible;
use std::future::pending;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::index::Index;
use crate::options::Options;
use crate::resolve::{Names, Resolved, Resolver, SystemResolver};
use crate::settle::Settle;
use crate::source::files::{Files, LoadError};
use crate::source::watch::Watch;
use crate::translate::{Translation, translate};

/// Time for which a file that was written to and not closed is waited for.
const WRITER_PATIENCE: Duration = Duration::from_secs(1);

/// Longest sleep until a certificate begins or ends: the machine's clock may be set meanwhile.
const SLEEP_MAX: Duration = Duration::from_hours(1);

/// Loads the manifests and translates them. Names outside the cluster are not looked up.
pub fn load_once(options: &Options) -> Result<Translation, LoadError> {
    load_at(options, SystemTime::now())
}

/// [`load_once`], as it would be at a time.
pub fn load_at(options: &Options, now: SystemTime) -> Result<Translation, LoadError> {
    Ok(build(&Files::open(&options.manifests)?, options, &Resolved::new(), now))
}

/// Loads the manifests, and again whenever they or the addresses of outside names change. Each whole translation that
/// differs from the one before it is published, the first in any case. Returns only if it cannot begin.
///
/// Runs on the control thread: files are read and parsed in place.
pub async fn run(options: Options, publish: impl FnMut(Translation)) -> Result<Infallible, LoadError> {
    run_with(options, SystemResolver::new(), publish).await
}

/// [`run`], with a resolver of one's own.
pub async fn run_with<R: Resolver>(
    options: Options,
    resolver: R,
    publish: impl FnMut(Translation),
) -> Result<Infallible, LoadError> {
    let mut driver = Driver::start(options, resolver, publish)?;
    driver.build_and_publish();
    loop {
        driver.step().await;
    }
}

fn build(files: &Files, options: &Options, resolved: &Resolved, now: SystemTime) -> Translation {
    let (index, duplicates) = Index::build(files.objects());
    let mut translation = translate(&index, options, resolved, now);
    let of_source = files.problems().cloned().chain(duplicates);
    translation.problems.splice(0..0, of_source);
    for (kind, count) in files.passed_over() {
        *translation.passed_over.entry(kind).or_default() += count;
    }
    translation
}

struct Driver<R, P> {
    options: Options,
    files: Files,
    watch: Watch,
    names: Names<R>,
    settle: Settle,
    /// When to stop waiting for files to be closed.
    writers_end: Option<Instant>,
    /// When to look whether what was published still holds.
    review: Option<Instant>,
    published: Option<Translation>,
    publish: P,
}

impl<R: Resolver, P: FnMut(Translation)> Driver<R, P> {
    /// Nothing that happens after this is missed: files are read once more when their folders are watched.
    fn start(options: Options, resolver: R, publish: P) -> Result<Self, LoadError> {
        let path = || options.manifests.first().cloned().unwrap_or_default();
        let watch = Watch::new().map_err(|source| LoadError::Watch { path: path(), source })?;
        let files = Files::open(&options.manifests)?;
        let names = Names::new(resolver);
        let settle = Settle::default();
        let mut driver = Self {
            options,
            files,
            watch,
            names,
            settle,
            writers_end: None,
            review: None,
            published: None,
            publish,
        };
        driver.look()?;
        Ok(driver)
    }

    async fn step(&mut self) {
        let due = self.settle.due().into_iter().chain(self.writers_end).chain(self.review).min();
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = self.watch.changed() => self.note_change(Instant::now()),
            () = self.names.changed() => self.build_and_publish(),
            () = timer => self.act(Instant::now()),
        }
    }

    fn note_change(&mut self, now: Instant) {
        self.settle.touch(now);
        self.writers_end = (!self.watch.being_written().is_empty()).then(|| now + WRITER_PATIENCE);
    }

    fn act(&mut self, now: Instant) {
        if self.writers_end.take_if(|end| *end <= now).is_some() {
            self.watch.give_up_on_writers();
            self.settle.touch(now);
        }
        if self.review.is_some_and(|review| review <= now) {
            self.build_and_publish();
        }
        if self.settle.take(now) {
            match self.look() {
                Ok(true) => self.build_and_publish(),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "changes there go unnoticed"),
            }
        }
    }

    /// Looks at the files, until all their folders are watched that there are. Tells whether anything changed.
    fn look(&mut self) -> Result<bool, LoadError> {
        let mut changed = self.files.refresh(self.watch.being_written());
        loop {
            let followed = self.watch.follow(self.files.extent());
            let is_new = followed.map_err(|(path, source)| LoadError::Watch { path, source })?;
            if !is_new {
                return Ok(changed);
            }
            changed |= self.files.refresh(self.watch.being_written());
        }
    }

    fn build_and_publish(&mut self) {
        let now = SystemTime::now();
        let translation = build(&self.files, &self.options, self.names.resolved(), now);
        self.names.need(&translation.names);
        self.review = translation.valid_until.map(|end| Instant::now() + until(end, now));
        if self.published.as_ref() != Some(&translation) {
            self.published = Some(translation.clone());
            (self.publish)(translation);
        }
    }
}

/// Time until a second since 1970: at least one, at most [`SLEEP_MAX`].
fn until(second: i64, now: SystemTime) -> Duration {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let end = Duration::from_secs(u64::try_from(second).unwrap_or_default());
    end.saturating_sub(now).clamp(Duration::from_secs(1), SLEEP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sleep_is_too_short_or_too_long() {
        let now = UNIX_EPOCH + Duration::from_millis(100_500);
        assert_eq!(until(103, now), Duration::from_millis(2500));
        assert_eq!(until(-1, now), Duration::from_secs(1));
        assert_eq!(until(i64::MAX, now), SLEEP_MAX);
    }
}
