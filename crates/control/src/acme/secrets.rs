//! Accounts and certificates in Secrets, which the leader writes and all replicas watch.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::entry::{Files, Kind, Stored};
use crate::client::Connection;
use crate::names::NsName;

/// The label of all Secrets; its value is the kind of the entry.
const LABEL: &str = "forebay.io/acme";
/// The annotation with the name of the entry, which may be longer than a label.
const NAME: &str = "forebay.io/acme-name";
/// The names of Secrets begin with this.
const PREFIX: &str = "forebay-acme";

/// Longest name of a Secret.
const NAME_BYTES_MAX: usize = 253;

/// Longest wait for the API server.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Longest pause between two attempts to watch.
const PAUSE_MAX: Duration = Duration::from_secs(30);

type Events = BoxStream<'static, Result<Event<Secret>, watcher::Error>>;

/// The Secrets of a namespace.
pub(super) struct Secrets {
    api: Api<Secret>,
    namespace: String,
    watch: Mutex<Watch>,
}

/// The watch on the Secrets, and the entries that it has reported.
struct Watch {
    events: Events,
    seen: Stored,
    /// Entries of a list that is not complete.
    listing: Stored,
}

impl Secrets {
    pub(super) fn new(connection: &Connection, namespace: &str) -> Self {
        let api: Api<Secret> = Api::namespaced(connection.client.clone(), namespace);
        let config = watcher::Config::default().labels(LABEL);
        let events = watcher::watcher(api.clone(), config).boxed();
        let watch = Watch { events, seen: Stored::new(), listing: Stored::new() };
        Self { api, namespace: namespace.to_owned(), watch: Mutex::new(watch) }
    }

    /// The Secret of an entry.
    pub(super) fn name(&self, kind: Kind, name: &str) -> NsName {
        NsName::new(&*self.namespace, secret_name(kind, name))
    }

    /// Lists all entries.
    pub(super) async fn load(&self) -> Option<Stored> {
        let parameters = ListParams::default().labels(LABEL);
        let list = match timeout(REQUEST_MAX, self.api.list(&parameters)).await {
            Ok(Ok(list)) => list,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the Secrets of ACME cannot be listed; it is tried again");
                return None;
            }
            Err(_) => {
                tracing::warn!("the API server does not list the Secrets of ACME; it is tried again");
                return None;
            }
        };
        Some(list.items.iter().filter_map(entry).collect())
    }

    /// Waits for another content. The future is cancel-safe: an event that was taken has been applied.
    pub(super) async fn changed(&self) -> Stored {
        let mut watch = self.watch.lock().await;
        let mut pause = Duration::from_secs(1);
        loop {
            let Some(event) = watch.events.next().await else { std::future::pending().await };
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    tracing::debug!(%error, "the watch of ACME's Secrets has ended; it begins again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    continue;
                }
            };
            pause = Duration::from_secs(1);
            if watch.take(event) {
                return watch.seen.clone();
            }
        }
    }

    /// Writes an entry, whoever has written it before.
    pub(super) async fn save(&self, kind: Kind, name: &str, files: &Files) -> Result<(), String> {
        let secret = secret(kind, name, files);
        let parameters = PatchParams::apply("forebay-acme").force();
        let key = secret_name(kind, name);
        let patch = Patch::Apply(&secret);
        let written = timeout(REQUEST_MAX, self.api.patch(&key, &parameters, &patch)).await;
        answered(written.map(|written| written.map(drop)), &self.namespace, &key)
    }

    /// Deletes an entry.
    pub(super) async fn remove(&self, kind: Kind, name: &str) -> Result<(), String> {
        let key = secret_name(kind, name);
        let deleted = timeout(REQUEST_MAX, self.api.delete(&key, &DeleteParams::default())).await;
        let deleted = deleted.map(|deleted| match deleted {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop),
        });
        answered(deleted, &self.namespace, &key)
    }
}

fn answered(
    answer: Result<kube::Result<()>, tokio::time::error::Elapsed>,
    namespace: &str,
    name: &str,
) -> Result<(), String> {
    match answer {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("Secret {namespace}/{name}: {error}")),
        Err(_) => Err(format!("Secret {namespace}/{name}: the API server does not answer")),
    }
}

impl Watch {
    /// Applies an event. Returns whether the content may have changed.
    fn take(&mut self, event: Event<Secret>) -> bool {
        match event {
            Event::Init => {
                self.listing.clear();
                false
            }
            Event::InitApply(secret) => {
                self.listing.extend(entry(&secret));
                false
            }
            Event::InitDone => {
                self.seen = std::mem::take(&mut self.listing);
                true
            }
            Event::Apply(secret) => {
                let known = entry(&secret);
                known.is_some_and(|(key, files)| self.seen.insert(key, files.clone()) != Some(files))
            }
            Event::Delete(secret) => {
                let known = entry(&secret);
                known.is_some_and(|(key, _)| self.seen.remove(&key).is_some())
            }
        }
    }
}

fn secret_name(kind: Kind, name: &str) -> String {
    let kind = match kind {
        Kind::Account => "account",
        Kind::Certificate => "cert",
    };
    let full = format!("{PREFIX}-{kind}-{name}");
    if full.len() <= NAME_BYTES_MAX {
        return full;
    }
    let end = full.floor_char_boundary(NAME_BYTES_MAX - 17);
    format!("{}-{}", full[..end].trim_end_matches(['.', '-']), super::book::short_digest(name))
}

fn secret(kind: Kind, name: &str, files: &Files) -> Secret {
    let data = files.iter().map(|(name, content)| (name.clone(), ByteString(content.clone()))).collect();
    Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(kind, name)),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), kind.as_str().to_owned())])),
            annotations: Some(BTreeMap::from([(NAME.to_owned(), name.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..Secret::default()
    }
}

/// The entry in a Secret; none if another program has made the Secret.
fn entry(secret: &Secret) -> Option<((Kind, String), Files)> {
    let label = secret.metadata.labels.as_ref()?.get(LABEL)?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == label)?;
    let name = secret.metadata.annotations.as_ref()?.get(NAME)?;
    let data = secret.data.iter().flatten().map(|(name, content)| (name.clone(), content.0.clone()));
    Some(((kind, name.clone()), data.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_back_from_its_secret() {
        let files = Files::from([("state.json".to_owned(), b"{}".to_vec())]);
        let made = secret(Kind::Certificate, "a.test", &files);
        assert_eq!(made.metadata.name.as_deref(), Some("forebay-acme-cert-a.test"));
        assert_eq!(entry(&made), Some(((Kind::Certificate, "a.test".to_owned()), files)));
        assert_eq!(entry(&Secret::default()), None);
        let long = secret_name(Kind::Certificate, &"a.".repeat(126));
        assert!(long.len() <= NAME_BYTES_MAX && long != secret_name(Kind::Certificate, &"a.".repeat(125)));
    }

    #[test]
    fn a_list_replaces_what_was_seen_and_what_is_the_same_is_no_change() {
        let files = |text: &str| Files::from([("state.json".to_owned(), text.as_bytes().to_vec())]);
        let made = |name: &str, text: &str| secret(Kind::Certificate, name, &files(text));
        let events = futures::stream::empty().boxed();
        let mut watch = Watch { events, seen: Stored::new(), listing: Stored::new() };
        assert!(!watch.take(Event::Init));
        assert!(!watch.take(Event::InitApply(made("a", "1"))));
        assert!(watch.take(Event::InitDone));
        assert!(!watch.take(Event::Apply(made("a", "1"))));
        assert!(watch.take(Event::Apply(made("a", "2"))));
        assert!(watch.take(Event::Delete(made("a", "2"))) && watch.seen.is_empty());
        assert!(!watch.take(Event::Apply(Secret::default())));
    }
}
