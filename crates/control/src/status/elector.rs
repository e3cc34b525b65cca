//! Runs the leader election: reads and writes the Lease as `lease` decides, and reports whether this process
//! leads.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use observe::Registry;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::kept::Kept;
use super::lease::{Election, Move};
use super::server::{Failure, Server};
use crate::names::NsName;

const ELECTING: &str = "taking part in the election of a leader";

/// Time between two looks whether there are other states to keep.
const STATES_INTERVAL: Duration = Duration::from_millis(500);

/// Longest time that releasing the Lease may take.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// A participant of the election.
pub(super) struct Elector {
    server: Server,
    leases: Api<Lease>,
    name: String,
    election: Election,
    leading: watch::Sender<bool>,
    metrics: Arc<Registry>,
    kept: Kept,
    /// The version of the states that were last kept.
    kept_version: u64,
}

impl Elector {
    pub(super) fn new(
        server: Server,
        lease: NsName,
        me: String,
        ttl: Duration,
        metrics: Arc<Registry>,
        kept: Kept,
    ) -> Self {
        let leases = Api::namespaced(server.client.clone(), &lease.namespace);
        let leading = watch::Sender::new(false);
        metrics.set_leader(&lease.name, false);
        Self {
            server,
            leases,
            name: lease.name.clone(),
            election: Election::new(lease, me, ttl),
            leading,
            metrics,
            kept,
            kept_version: 0,
        }
    }

    /// Whether this process leads; the receiver sees each change.
    pub(super) fn leading(&self) -> watch::Receiver<bool> {
        self.leading.subscribe()
    }

    /// Participates in the election for ever.
    pub(super) async fn run(&mut self) {
        loop {
            let began = Instant::now();
            let retry = self.election.retry();
            self.kept_version = self.kept.version();
            if !self.until_deadline(began + retry, Self::attempt).await {
                self.server.unanswered(retry);
            }
            self.announce();
            let pause = if self.election.leads(began) { retry } else { jittered(retry) };
            let is_early = self.until_deadline(began + pause, Self::until_other_states).await;
            self.announce();
            // If the deadline ended the step, this waits for the rest of the pause.
            if !is_early {
                sleep_until(began + pause).await;
            }
        }
    }

    /// Releases the Lease, if this process holds it.
    pub(super) async fn release(&mut self) {
        if timeout(RELEASE_MAX, self.try_release()).await != Ok(true) {
            tracing::warn!("the Lease could not be given up; it runs out by itself");
        }
        self.announce();
    }

    async fn try_release(&mut self) -> bool {
        let parameters = PostParams::default();
        while let Some(lease) = self.election.release(Timestamp::now()) {
            let replaced = self.leases.replace(&self.name, &parameters, &lease);
            match self.server.ask(ELECTING, replaced).await {
                Ok(lease) => self.election.wrote(lease, Instant::now()),
                // An earlier renewal may have succeeded although its response did not arrive in time.
                Err(Failure::Conflict) if self.read().await => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Runs a step until `end`, or until this process may no longer assume that it leads, in which case it
    /// has to stop at once. Returns whether the step was completed.
    async fn until_deadline<'a, F: Future<Output = ()>>(
        &'a mut self,
        end: Instant,
        what: impl FnOnce(&'a mut Self) -> F,
    ) -> bool {
        let end =
            self.election.deadline().filter(|deadline| *deadline > Instant::now()).unwrap_or(end).min(end);
        timeout_at(end, what(self)).await.is_ok()
    }

    /// Ends when there are other states to keep than those of the last write.
    async fn until_other_states(&mut self) {
        loop {
            sleep(STATES_INTERVAL).await;
            if self.kept.version() != self.kept_version {
                return;
            }
        }
    }

    async fn attempt(&mut self) {
        // A leader knows its last write and need not read the Lease. If writing fails, another process has
        // written.
        let is_known = self.election.leads(Instant::now());
        if (is_known || self.read().await)
            && self.write().await == Err(Failure::Conflict)
            && self.read().await
        {
            let _ = self.write().await;
        }
    }

    async fn read(&mut self) -> bool {
        match self.server.ask(ELECTING, self.leases.get_opt(&self.name)).await {
            Ok(lease) => {
                self.kept.merge(lease.as_ref());
                self.election.read(lease, Instant::now());
                true
            }
            Err(_) => false,
        }
    }

    async fn write(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        let parameters = PostParams::default();
        let lease = match self.election.next(began, Timestamp::now()) {
            Move::Wait => return self.add_states().await,
            Move::Create(mut lease) => {
                self.kept.put(&mut lease);
                self.server.ask(ELECTING, self.leases.create(&parameters, &lease)).await
            }
            Move::Replace(mut lease) => {
                self.kept.put(&mut lease);
                self.server.ask(ELECTING, self.leases.replace(&self.name, &parameters, &lease)).await
            }
        };
        let lease = lease.inspect_err(|failure| {
            if let Failure::Refused(why) = failure {
                tracing::warn!(lease = self.name, why, "the Lease is refused");
            }
        })?;
        self.election.wrote(lease, began);
        Ok(())
    }

    /// Adds states to the Lease of another process, whose holder and times stay as they are.
    async fn add_states(&mut self) -> Result<(), Failure> {
        let Some(lease) = self.election.seen().and_then(|lease| self.kept.added(lease)) else {
            return Ok(());
        };
        let parameters = PostParams::default();
        let replaced = self.leases.replace(&self.name, &parameters, &lease);
        let lease = self.server.ask(ELECTING, replaced).await?;
        self.election.read(Some(lease), Instant::now());
        Ok(())
    }

    fn announce(&self) {
        let leads = self.election.leads(Instant::now());
        let changed = self.leading.send_if_modified(|leading| std::mem::replace(leading, leads) != leads);
        if changed {
            self.metrics.set_leader(&self.name, leads);
            let holder = self.election.holder().unwrap_or_default();
            let word = if leads { "leads" } else { "does not lead any longer" };
            tracing::info!(lease = self.name, holder, "this process {word}");
        }
    }
}

/// The time, longer by up to a fifth, so that processes which wait for the same event do not all try at once.
fn jittered(time: Duration) -> Duration {
    // Each `RandomState` has its own random keys.
    let share = RandomState::new().hash_one(()) as u32;
    time + time.mul_f64(f64::from(share) / f64::from(u32::MAX) / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_at_most_a_fifth() {
        let times: Vec<_> = (0..100).map(|_| jittered(Duration::from_secs(10))).collect();
        assert!(times.iter().all(|time| (Duration::from_secs(10)..=Duration::from_secs(12)).contains(time)));
        assert!(times.iter().any(|time| *time != times[0]));
    }
}
