//! Where accounts and certificates are kept: a folder, or Secrets.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::entry::{Files, Kind, Stored};
use super::folder::Folder;
use super::secrets::Secrets;
use super::{Keep, Shared};
use crate::names::NsName;

/// Time between two attempts to become the process that writes to a folder.
const LOCK_INTERVAL: Duration = Duration::from_secs(5);

/// A store, and the way in which one process at a time becomes its writer.
pub(super) enum Store {
    Folder(Arc<Folder>),
    Secrets { secrets: Box<Secrets>, leading: watch::Receiver<bool> },
}

/// The right to write, until it is dropped or ends.
pub(super) struct Turn {
    _lock: Option<File>,
    leading: Option<watch::Receiver<bool>>,
}

impl Store {
    /// The store that the process has been given; none if it has been given none.
    pub(super) fn of(shared: &Shared) -> Option<Self> {
        let state = shared.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &state.keep {
            Keep::Unknown | Keep::Nowhere => None,
            Keep::Folder(path) => Some(Self::Folder(Arc::new(Folder::new(path.clone())))),
            Keep::Secrets { connection, namespace } => {
                let leading = state.leading.clone()?;
                let secrets = Box::new(Secrets::new(connection, namespace));
                Some(Self::Secrets { secrets, leading })
            }
        }
    }

    /// Whether other replicas have to see an answer before an authority may ask for it.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Secrets { .. })
    }

    /// The name by which metrics know a certificate: namespace and Secret, or the folder's entry.
    pub(super) fn name_of(&self, host: &str) -> NsName {
        match self {
            Self::Folder(_) => NsName::new("acme", host),
            Self::Secrets { secrets, .. } => secrets.name(Kind::Certificate, host),
        }
    }

    /// Reads everything. None if it cannot be read, which has been logged.
    pub(super) async fn load(&self) -> Option<Stored> {
        match self {
            Self::Folder(folder) => Some(folder.load()),
            Self::Secrets { secrets, .. } => secrets.load().await,
        }
    }

    /// Waits until something was written by another process, and returns everything.
    pub(super) async fn changed(&self) -> Stored {
        match self {
            Self::Folder(_) => std::future::pending().await,
            Self::Secrets { secrets, .. } => secrets.changed().await,
        }
    }

    /// Waits until this process may write.
    pub(super) async fn turn(&self) -> Turn {
        match self {
            Self::Folder(folder) => {
                let mut is_first = true;
                loop {
                    match folder.lock() {
                        Ok(Some(lock)) => return Turn { _lock: Some(lock), leading: None },
                        Ok(None) if is_first => {
                            let path = folder.path().display();
                            tracing::info!(%path, "another process obtains the certificates of this folder");
                        }
                        Err(error) if is_first => {
                            tracing::error!(%error, "no certificates can be obtained without this folder");
                        }
                        Ok(None) | Err(_) => {}
                    }
                    is_first = false;
                    tokio::time::sleep(LOCK_INTERVAL).await;
                }
            }
            Self::Secrets { leading, .. } => {
                let mut leading = leading.clone();
                if leading.wait_for(|leads| *leads).await.is_err() {
                    std::future::pending::<()>().await;
                }
                Turn { _lock: None, leading: Some(leading) }
            }
        }
    }

    pub(super) async fn save(&self, kind: Kind, name: &str, files: &Files) -> Result<(), String> {
        match self {
            Self::Folder(folder) => {
                let folder = Arc::clone(folder);
                let name = name.to_owned();
                let files = files.clone();
                // A slow disk must not delay a change of the configuration.
                let saved = tokio::task::spawn_blocking(move || folder.save(kind, &name, &files)).await;
                saved.unwrap_or_else(|error| Err(error.to_string()))
            }
            Self::Secrets { secrets, .. } => secrets.save(kind, name, files).await,
        }
    }

    pub(super) async fn remove(&self, kind: Kind, name: &str) -> Result<(), String> {
        match self {
            Self::Folder(folder) => folder.remove(kind, name),
            Self::Secrets { secrets, .. } => secrets.remove(kind, name).await,
        }
    }
}

impl Turn {
    /// Waits until this process may not write any longer.
    pub(super) async fn end(&mut self) {
        match &mut self.leading {
            Some(leading) => {
                // A leader whose election has ended does not lead.
                let _ = leading.wait_for(|leads| !*leads).await;
            }
            None => std::future::pending().await,
        }
    }
}
