//! Certificates from authorities that speak ACME (RFC 8555), for hosts of the configuration.
//!
//! A translation lists the hosts that need a certificate ([`Wanted`]). A task beside it obtains and renews
//! them, stores accounts, orders, keys and certificates in a folder or in Secrets, and hands the driver what
//! hosts have (`Held`): their certificates, the answers to challenges, and why an order fails. `schedule`
//! decides when something is due, `order` talks to an authority, `store` keeps what must survive a restart.
//!
//! Never in here: requests of clients, and which hosts exist.

mod answer;
mod book;
mod desk;
mod entry;
mod failed;
mod folder;
mod http;
mod manager;
mod order;
mod report;
mod schedule;
mod secrets;
mod settings;
mod state;
mod store;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::client::Connection;

pub use answer::Answer;
pub(crate) use manager::Manager;
pub use report::{CertificateReport, CertificateState, Report};
pub(crate) use settings::directory_url;
pub use settings::{Binding, ChallengeKind, Directory, Settings};
pub use state::Wanted;
pub(crate) use state::{Held, HostState};

/// Where accounts, keys and certificates are kept.
#[derive(Clone, Default)]
pub(crate) enum Keep {
    /// Not known: nothing is obtained, as in a check.
    #[default]
    Unknown,
    /// Nowhere, so that no certificate can be obtained.
    Nowhere,
    /// A folder of this machine.
    Folder(PathBuf),
    /// Secrets in a namespace.
    Secrets { connection: Connection, namespace: String },
}

/// The certificates that this process obtains, as its parts share them.
#[derive(Clone, Default)]
pub struct Acme {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
    /// The revision of [`Held`] that all workers serve; none if nobody reports it.
    served: watch::Sender<Option<u64>>,
}

#[derive(Default)]
struct State {
    keep: Keep,
    /// Whether this process writes; none if it is the only one.
    leading: Option<watch::Receiver<bool>>,
    held: Arc<Held>,
    report: Report,
}

impl Acme {
    /// Keeps everything in a folder; without one, no certificate can be obtained.
    pub fn keep_in_folder(&self, folder: Option<PathBuf>) {
        self.lock().keep = folder.map_or(Keep::Nowhere, Keep::Folder);
    }

    /// Keeps everything in Secrets of a namespace. Only the replica that leads obtains certificates.
    pub fn keep_in_secrets(&self, connection: &Connection, namespace: &str, leading: watch::Receiver<bool>) {
        let mut state = self.lock();
        state.keep = Keep::Secrets { connection: connection.clone(), namespace: namespace.to_owned() };
        state.leading = Some(leading);
    }

    /// Announces that [`note_served`](Self::note_served) will be called for each configuration.
    pub fn await_notes(&self) {
        self.shared.served.send_replace(Some(0));
    }

    /// Notes that all workers serve the configuration of a revision, so that an authority may ask for the
    /// answer to its challenge.
    pub fn note_served(&self, wanted: &Wanted) {
        self.shared.served.send_replace(Some(wanted.revision));
    }

    /// The certificates, and when something will be done about them.
    pub fn report(&self) -> Report {
        self.lock().report.clone()
    }

    /// Whether certificates can be kept. A process that only examines objects does not know.
    pub(crate) fn has_place(&self) -> bool {
        !matches!(self.lock().keep, Keep::Nowhere)
    }

    /// Has hosts have these states, in place of stored ones.
    #[cfg(test)]
    pub(crate) fn hold(&self, hosts: std::collections::BTreeMap<String, Arc<HostState>>) {
        let mut state = self.lock();
        state.held = Arc::new(Held { revision: state.held.revision + 1, hosts });
    }

    pub(crate) fn held(&self) -> Arc<Held> {
        Arc::clone(&self.lock().held)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Acme {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl fmt::Debug for Acme {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Acme").finish_non_exhaustive()
    }
}
