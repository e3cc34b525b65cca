//! One watch: the objects that it follows, and the events about them, whatever their kind.

use std::fmt;
use std::time::Duration;

use futures::StreamExt;
use futures::future::AbortHandle;
use futures::stream::{self, BoxStream, abortable};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client};
use tokio::time::timeout;

use super::item::{Item, Thing, Watched};
use super::references::Group;
use crate::client::causes;
use crate::names::NsName;
use crate::objects::{
    ConfigMap, EndpointSlice, Ingress, IngressClass, Namespace, Object, Resource, Secret, Service,
};
use crate::relay::{News, Relay, Slice};

/// Seconds after which the server ends a watch, which is then resumed. A connection that breaks silently is
/// abandoned shortly after this time.
const WATCH_S: u32 = 90;

/// Least and most time between two attempts.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The quiet time after a failure from which a watch counts as working: a failing attempt would have failed
/// sooner. No other sign exists while no object changes.
const QUIET: Duration = Duration::from_secs(40);

/// A field selector that excludes types of Secrets which hold no certificate and can be large, such as Helm's
/// releases.
const SECRETS_OF_INTEREST: &str =
    "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,type!=kubernetes.io/dockerconfigjson";

/// The events of all watches, each with the index of its watch.
pub(super) type Stream = BoxStream<'static, (usize, Happening)>;

/// A kind of objects, and the filters that select the watched ones.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// The name in messages.
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) namespace: Option<String>,
    /// The name of a single watched object; none for all objects of the kind.
    pub(super) object: Option<String>,
    labels: Option<String>,
    /// Version of the kind.
    pub(super) version: &'static str,
    /// Whether the watch follows named objects: serving does not wait for objects that may not be read.
    pub(super) is_of_named: bool,
    /// The relay through which objects come, and to which they are reported; none for the API server alone.
    relay: Option<Relay>,
    start: fn(&Watch, Client) -> BoxStream<'static, Happening>,
}

/// An event of a watch.
pub(super) enum Happening {
    /// A list begins.
    Began,
    /// An object exists; it may be new, changed or the same.
    Found(NsName, Thing),
    /// An object was deleted.
    Gone(NsName),
    /// A list is complete.
    Complete,
    /// The watch failed, and will be repeated.
    Failed(Trouble),
    /// The watch works again, and nothing has changed.
    Quiet,
}

/// The reason why a watch fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) why: String,
    /// Whether the right to list or watch is missing.
    pub(super) is_forbidden: bool,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Watch {
    /// Watches on the objects that decide where requests go.
    pub(super) fn of_routing(namespace: Option<&str>, relay: Option<&Relay>) -> [Self; 4] {
        [
            Self::new::<Ingress>(namespace),
            Self::new::<IngressClass>(None),
            Self::new::<Service>(namespace),
            Self::new::<EndpointSlice>(namespace).shared(relay.cloned()),
        ]
    }

    /// A watch on the namespaces that a label selector matches.
    pub(super) fn namespaces(labels: &str) -> Self {
        Self { labels: Some(labels.to_owned()), ..Self::new::<Namespace>(None) }
    }

    /// A watch on all namespaces.
    pub(super) fn all_namespaces() -> Self {
        Self::new::<Namespace>(None)
    }

    /// A watch on objects of a kind of the Gateway API, of a version that the API server has.
    pub(super) fn of_gateway_api<T: Watched>(namespace: Option<&str>, version: &'static str) -> Self {
        Self { version, ..Self::new::<T>(namespace) }
    }

    /// A watch on one `ConfigMap`.
    pub(super) fn configmap(name: &NsName) -> Self {
        Self {
            name: format!("configmap {name}"),
            object: Some(name.name.clone()),
            ..Self::new::<ConfigMap>(Some(&name.namespace))
        }
    }

    /// A watch on a group of named objects.
    pub(super) fn of_named(group: &Group) -> Self {
        let namespace = Some(group.namespace.as_str());
        let watch = match (group.kind, &group.object) {
            (ConfigMap::KIND, Some(name)) => {
                Self::configmap(&NsName::new(group.namespace.as_str(), name.as_str()))
            }
            (ConfigMap::KIND, None) => Self::new::<ConfigMap>(namespace),
            _ => Self::new::<Secret>(namespace),
        };
        Self { is_of_named: true, ..watch }
    }

    fn new<T: Watched>(namespace: Option<&str>) -> Self {
        let name = match namespace {
            Some(namespace) => format!("{} of namespace {namespace}", T::PLURAL),
            None => T::PLURAL.to_owned(),
        };
        let namespace = namespace.map(str::to_owned);
        Self {
            name,
            kind: T::KIND,
            namespace,
            object: None,
            labels: None,
            version: "v1",
            is_of_named: false,
            relay: None,
            start: start::<T>,
        }
    }

    /// The same watch, of slices, shared with other replicas.
    pub(super) fn shared(self, relay: Option<Relay>) -> Self {
        Self { relay, ..self }
    }

    /// Whether the watch follows the object with this name.
    pub(super) fn covers(&self, key: &NsName) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.object.as_ref().is_none_or(|object| *object == key.name)
    }

    /// Starts the watch. Its events carry `place`; the handle ends the watch.
    pub(super) fn start(&self, client: Client, place: usize) -> (Stream, AbortHandle) {
        let (stream, handle) = abortable((self.start)(self, client));
        (stream.map(move |happening| (place, happening)).boxed(), handle)
    }

    fn config(&self) -> Config {
        let mut config = Config::default().timeout(WATCH_S);
        config.label_selector.clone_from(&self.labels);
        let fields = self.object.as_ref().map(|name| format!("metadata.name={name}"));
        config.field_selector =
            fields.or((self.kind == Secret::KIND).then(|| SECRETS_OF_INTEREST.to_owned()));
        config
    }
}

fn start<T: Watched>(watch: &Watch, client: Client) -> BoxStream<'static, Happening> {
    let relay = watch.relay.clone();
    let client = match &relay {
        Some(relay) => relay.client(client),
        None => client,
    };
    let api: Api<Item<T>> = match &watch.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &watch.version),
        None => Api::all_with(client, &watch.version),
    };
    let events = watcher(api, watch.config());
    match relay {
        Some(relay) => {
            let ending = Ending(relay.clone());
            let events = events.inspect(move |event| ending.0.note(news(event)));
            telling_quiet(events.backoff(Waits::default()).map(happening).boxed())
        }
        None => telling_quiet(events.backoff(Waits::default()).map(happening).boxed()),
    }
}

/// Ends the watches of followers with the watch of this replica.
struct Ending(Relay);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// An event for the other replicas.
fn news<T: Watched>(event: &watcher::Result<Event<Item<T>>>) -> News {
    let slice = |item: &Item<T>| {
        let version = item.meta.resource_version.as_deref()?.parse().ok()?;
        let read = match item.clone().thing() {
            Thing::Object(Object::EndpointSlice(slice)) => Some(slice),
            Thing::Object(_) | Thing::Undecodable { .. } => None,
        };
        Some(Slice { key: item.key(), version, read })
    };
    let of = |item, news: fn(Slice) -> News| slice(item).map_or(News::Unversioned, news);
    match event {
        Ok(Event::Init) => News::Began,
        Ok(Event::InitApply(item)) => of(item, News::Listed),
        Ok(Event::InitDone) => News::Complete,
        Ok(Event::Apply(item)) => of(item, News::Changed),
        Ok(Event::Delete(item)) => of(item, News::Gone),
        Err(_) => News::Failed,
    }
}

/// Adds [`Happening::Quiet`] when the watch has reported nothing for [`QUIET`] after a failure.
fn telling_quiet(happenings: BoxStream<'static, Happening>) -> BoxStream<'static, Happening> {
    let next = async |(mut happenings, failed): (BoxStream<'static, Happening>, bool)| {
        let happening = if failed {
            timeout(QUIET, happenings.next()).await.unwrap_or(Some(Happening::Quiet))?
        } else {
            happenings.next().await?
        };
        let failed = matches!(happening, Happening::Failed(_));
        Some((happening, (happenings, failed)))
    };
    stream::unfold((happenings, false), next).boxed()
}

fn happening<T: Watched>(event: watcher::Result<Event<Item<T>>>) -> Happening {
    match event {
        Ok(Event::Init) => Happening::Began,
        Ok(Event::InitDone) => Happening::Complete,
        Ok(Event::Apply(item) | Event::InitApply(item)) => Happening::Found(item.key(), item.thing()),
        Ok(Event::Delete(item)) => Happening::Gone(item.key()),
        Err(error) => Happening::Failed(trouble(&error)),
    }
}

fn trouble(error: &watcher::Error) -> Trouble {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status)) | WatchStartFailed(kube::Error::Api(status)) => {
            Trouble { why: status.message.clone(), is_forbidden: status.code == 403 }
        }
        WatchError(status) => Trouble { why: status.message.clone(), is_forbidden: status.code == 403 },
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => {
            Trouble { why: causes(error), is_forbidden: false }
        }
        NoResourceVersion => Trouble { why: error.to_string(), is_forbidden: false },
    }
}

/// The waits between attempts: each is twice the previous one, within bounds.
#[derive(Default)]
struct Waits {
    failures: u32,
}

impl Iterator for Waits {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = WAIT_MIN.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        Some(wait.min(WAIT_MAX))
    }
}

impl Backoff for Waits {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_stays_quiet_after_a_failure_works_again() {
        let failed = || Happening::Failed(Trouble { why: "refused".to_owned(), is_forbidden: false });
        let quiet = stream::iter([failed(), failed()]).chain(stream::pending());
        let mut told = telling_quiet(quiet.boxed());
        for _ in 0..2 {
            assert!(matches!(told.next().await, Some(Happening::Failed(_))));
        }
        assert!(told.next().now_or_never().is_none());
        assert!(matches!(told.next().await, Some(Happening::Quiet)));
        // Quiet is reported only once.
        assert!(timeout(QUIET * 2, told.next()).await.is_err());
    }
}
