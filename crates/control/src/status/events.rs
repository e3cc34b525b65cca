//! Publishes Events: one for each problem of an object (Warning, with the problem's reason), and one when the
//! current version of an Ingress is being served (Normal, `Sync`).
//!
//! A problem is published when it appears, and not again while it stays. When a process begins to publish,
//! Ingresses that are already served get no Event, but problems do: each new leader publishes them once, as
//! other controllers do after a restart. A large number of Events is spread over time, and each is published
//! only if it is still true; Events beyond the queue's bound are dropped and counted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use model::List;
use observe::Registry;
use tokio::time::{Instant, sleep, sleep_until};

use super::notice::{About, Notice, Notices, Published};
use super::server::{Backoff, Failure, Server};
use super::writer::{Programmed, changed};
use crate::names::ObjectRef;
use crate::objects::{Ingress, Resource, Service, Sourced};
use crate::problem::{Problem, Severity};
use crate::translate::Translation;

const TELLING: &str = "publishing Events";

/// The reporting component, which `kubectl describe` shows.
const REPORTER: &str = "forebay";

/// The number of Events that may be published at once after a quiet time.
const BURST_MAX: u32 = 50;

/// Time between Events beyond the burst.
const PACE: Duration = Duration::from_millis(200);

/// The most Events that wait to be published.
const WAITING_MAX: usize = 1000;

/// The most waiting Events that report no problem.
const WAITING_NORMAL_MAX: usize = 500;

/// Time after which a problem that disappeared is published again if it reappears.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Least time between two comparisons with what was published, however often translations change.
const SPACING: Duration = Duration::from_millis(100);

/// The API's bound of a note: "This must be at most 1kB in size."
const NOTE_BYTES_MAX: usize = 1024;

/// Longest name of an object, in bytes, that leaves room for the suffix of an Event's name.
const NAME_BYTES_MAX: usize = 230;

/// The API's bound of an instance name: "can be up to 128 characters".
const INSTANCE_BYTES_MAX: usize = 128;

/// Publishes the Events of one process.
pub(super) struct Teller {
    server: Server,
    instance: String,
    sync: bool,
    metrics: Arc<Registry>,
    news: News,
    notices: Notices,
    published: Option<Arc<dyn Published>>,
    bucket: Bucket,
    /// The last reason for which the API server refused an Event.
    refusal: Option<String>,
}

impl Teller {
    /// Creates a publisher. `instance` identifies this process. Without `sync`, only problems are published.
    pub(super) fn new(
        server: Server,
        instance: String,
        sync: bool,
        metrics: Arc<Registry>,
        notices: Notices,
    ) -> Self {
        let instance = cut(instance, INSTANCE_BYTES_MAX);
        let bucket = Bucket::new(Instant::now());
        let (news, published) = (News::default(), None);
        Self { server, instance, sync, metrics, news, notices, published, bucket, refusal: None }
    }

    /// Also tells of each Event that was published.
    pub(super) fn telling(self, published: Option<Arc<dyn Published>>) -> Self {
        Self { published, ..self }
    }

    /// Publishes Events about newly served Ingresses, and about all problems that have not been published.
    pub(super) async fn run(&mut self, mut programmed: Programmed) {
        self.news.skip_served();
        self.notices.skip();
        let mut backoff = Backoff::default();
        programmed.mark_changed();
        loop {
            if self.news.waiting.is_empty() {
                tokio::select! {
                    () = changed(&mut programmed) => {
                        sleep(SPACING).await;
                        self.listen(&mut programmed);
                    }
                    notice = self.notices.next() => self.take(notice, &programmed),
                }
                continue;
            }
            while let Some(notice) = self.notices.waiting() {
                self.take(notice, &programmed);
            }
            sleep_until(self.bucket.ready_at()).await;
            if programmed.has_changed().unwrap_or(false) {
                self.listen(&mut programmed);
            }
            let Some(told) = self.news.waiting.pop_front() else { continue };
            self.bucket.take(Instant::now());
            if self.publish(&told).await == Err(Failure::Unserved) {
                self.news.waiting.push_front(told);
                sleep(backoff.next()).await;
            } else {
                backoff.reset();
            }
        }
    }

    fn listen(&mut self, programmed: &mut Programmed) {
        let translation = programmed.borrow_and_update().clone();
        let Some(translation) = translation else { return };
        let dropped = self.news.take(&translation, self.sync, Instant::now());
        self.metrics.events_dropped(dropped);
    }

    /// Queues the Event of a notice.
    fn take(&mut self, notice: Notice, programmed: &Programmed) {
        let event = programmed.borrow().as_ref().and_then(|served| EventContent::of_notice(notice, served));
        if self.news.waiting.len() < WAITING_MAX {
            self.news.waiting.extend(event);
        } else {
            self.metrics.events_dropped(1);
        }
    }

    async fn publish(&mut self, told: &EventContent) -> Result<(), Failure> {
        let event = told.event(&self.instance, Timestamp::now());
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(self.server.client.clone(), namespace);
        let outcome = self.server.ask(TELLING, events.create(&PostParams::default(), &event)).await;
        if let Err(Failure::Refused(why)) = &outcome
            && self.refusal.as_ref() != Some(why)
        {
            tracing::warn!(object = %told.object, reason = told.reason, why, "an Event is refused");
            self.refusal = Some(why.clone());
        }
        if let (Ok(_), Some(published)) = (&outcome, &self.published) {
            published.published(&told.object.to_string(), told.reason, told.is_warning);
        }
        outcome.map(drop)
    }
}

/// The state from which Events follow.
#[derive(Debug, Default)]
struct News {
    waiting: VecDeque<EventContent>,
    /// The Ingresses that the last comparison found served; none before the first comparison.
    served: Option<Arc<List<Arc<Sourced<Ingress>>>>>,
    /// The time at which each problem last existed, by its hash.
    problems: HashMap<u64, Instant>,
}

/// The content of an Event.
#[derive(Clone, Debug, PartialEq)]
struct EventContent {
    object: ObjectRef,
    uid: String,
    reason: &'static str,
    note: String,
    /// The problem's hash; none if the Event does not report a problem.
    problem: Option<u64>,
    /// Whether somebody should look.
    is_warning: bool,
}

impl News {
    /// Suppresses `Sync` for the Ingresses that the next comparison finds.
    fn skip_served(&mut self) {
        self.served = None;
    }

    /// Compares with the served translation, and queues Events. Returns the number of Events that were
    /// dropped because the queue was full.
    fn take(&mut self, translation: &Translation, sync: bool, now: Instant) -> u64 {
        let problems = self.take_problems(translation, now);
        let served = self.take_served(translation);
        let room = |waiting: &VecDeque<EventContent>, max: usize| max.saturating_sub(waiting.len());
        let mut dropped = 0;
        for (told, max) in [(problems, WAITING_MAX), (if sync { served } else { vec![] }, WAITING_NORMAL_MAX)]
        {
            let room = room(&self.waiting, max).min(told.len());
            dropped += (told.len() - room) as u64;
            self.waiting.extend(told.into_iter().take(room));
        }
        dropped
    }

    fn take_problems(&mut self, translation: &Translation, now: Instant) -> Vec<EventContent> {
        let problems = translation.problems.iter().filter(|problem| is_told(problem));
        let problems: Vec<_> = problems.map(|problem| (hash(problem), problem)).collect();
        let mut fresh = Vec::new();
        for (hash, problem) in &problems {
            if self.problems.insert(*hash, now).is_none() {
                fresh.extend(EventContent::of_problem(problem, *hash, translation));
            }
        }
        self.problems.retain(|_, last| now.duration_since(*last) < FORGET_AFTER);
        let present: HashSet<_> = problems.iter().map(|(hash, _)| *hash).collect();
        self.waiting.retain(|told| told.problem.is_none_or(|problem| present.contains(&problem)));
        fresh
    }

    /// Most Ingresses are in parts of the list that the last comparison has seen: these are not visited.
    fn take_served(&mut self, translation: &Translation) -> Vec<EventContent> {
        let served = Arc::clone(&translation.ingresses);
        let Some(before) = self.served.replace(Arc::clone(&served)) else { return Vec::new() };
        if Arc::ptr_eq(&before, &served) {
            return Vec::new();
        }
        let known: HashMap<&str, &Sourced<Ingress>> = before
            .new_items(&served)
            .filter_map(|ingress| Some((ingress.metadata.uid()?, &**ingress)))
            .collect();
        let is_new = |uid: &str, ingress: &Sourced<Ingress>| {
            known.get(uid).is_none_or(|known| !known.asks_for_the_same(ingress))
        };
        let fresh = served.new_items(&before).filter_map(|ingress| {
            let uid = ingress.metadata.uid()?;
            is_new(uid, ingress).then(|| EventContent::of_served(ingress, uid))
        });
        fresh.collect()
    }
}

impl EventContent {
    /// The Event of a problem; none for an object that the API server does not know.
    fn of_problem(problem: &Problem, hash: u64, translation: &Translation) -> Option<Self> {
        let object = problem.object.clone()?;
        let uid = problem.uid.clone().or_else(|| uid_of(&object, translation))?;
        let note = cut(problem.message.clone(), NOTE_BYTES_MAX);
        Some(Self {
            object,
            uid,
            reason: problem.reason.as_str(),
            note,
            problem: Some(hash),
            is_warning: true,
        })
    }

    fn of_served(ingress: &Sourced<Ingress>, uid: &str) -> Self {
        let note = "Programmed: every worker serves it".to_owned();
        Self {
            object: ingress.reference(),
            uid: uid.to_owned(),
            reason: "Sync",
            note,
            problem: None,
            is_warning: false,
        }
    }

    /// The Event of a notice; none for an Ingress that is not served, and for a Service that is not checked.
    fn of_notice(notice: Notice, served: &Translation) -> Option<Self> {
        let Notice { about, reason, note, is_warning } = notice;
        let (kind, name) = match &about {
            About::Ingress(name) => (Ingress::KIND, name),
            About::Service(name) => (Service::KIND, name),
        };
        let object = ObjectRef { kind, namespace: name.namespace.clone(), name: name.name.clone() };
        let uid = match &about {
            About::Ingress(_) => uid_of(&object, served)?,
            About::Service(name) => served.checked_services.get(name)?.clone(),
        };
        Some(Self { object, uid, reason, note: cut(note, NOTE_BYTES_MAX), problem: None, is_warning })
    }

    fn event(&self, instance: &str, now: Timestamp) -> Event {
        let ObjectRef { kind, namespace, name } = &self.object;
        let namespace = Some(namespace.clone()).filter(|namespace| !namespace.is_empty());
        // The API's rule: "Cluster scoped objects will publish events in the "default" namespace."
        let of_event = namespace.clone().unwrap_or_else(|| "default".to_owned());
        let type_ = if self.is_warning { "Warning" } else { "Normal" };
        let action = if self.problem.is_some() { "Translate" } else { "Program" };
        Event {
            metadata: ObjectMeta {
                namespace: Some(of_event),
                name: Some(format!("{}.{:x}", cut(name.clone(), NAME_BYTES_MAX), now.as_nanosecond())),
                ..ObjectMeta::default()
            },
            regarding: Some(ObjectReference {
                api_version: Some(api_version(kind).to_owned()),
                kind: Some((*kind).to_owned()),
                namespace,
                name: Some(name.clone()),
                uid: Some(self.uid.clone()),
                ..ObjectReference::default()
            }),
            event_time: Some(MicroTime(now)),
            type_: Some(type_.to_owned()),
            reason: Some(self.reason.to_owned()),
            action: Some(action.to_owned()),
            note: Some(self.note.clone()),
            reporting_controller: Some(REPORTER.to_owned()),
            reporting_instance: Some(instance.to_owned()),
            ..Event::default()
        }
    }
}

/// A token bucket: a burst, then one token in each period.
#[derive(Debug)]
struct Bucket {
    /// The time at which the bucket would be full again.
    full_at: Instant,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// The time at which a token is available.
    fn ready_at(&self) -> Instant {
        self.full_at.checked_sub(PACE * (BURST_MAX - 1)).unwrap_or(self.full_at)
    }

    fn take(&mut self, now: Instant) {
        self.full_at = self.full_at.max(now) + PACE;
    }
}

/// Whether a problem gets an Event. Notices do not, because they are for `forebay check`; problems of files
/// do not either, because they are in the log.
fn is_told(problem: &Problem) -> bool {
    problem.severity != Severity::Notice && problem.file.is_none() && problem.object.is_some()
}

fn uid_of(object: &ObjectRef, translation: &Translation) -> Option<String> {
    if object.kind != Ingress::KIND {
        return None;
    }
    let is_it = |ingress: &&Arc<Sourced<Ingress>>| {
        ingress.name() == object.name && ingress.namespace() == object.namespace
    };
    translation.ingresses.iter().find(is_it)?.metadata.uid().map(str::to_owned)
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "Ingress" | "IngressClass" => "networking.k8s.io/v1",
        "EndpointSlice" => "discovery.k8s.io/v1",
        "GatewayClass" | "Gateway" | "ListenerSet" | "HTTPRoute" | "GRPCRoute" | "TLSRoute" | "TCPRoute"
        | "UDPRoute" | "ReferenceGrant" | "BackendTLSPolicy" => "gateway.networking.k8s.io/v1",
        "XBackendTrafficPolicy" => "gateway.networking.x-k8s.io/v1alpha1",
        "ForebayPolicy" => "forebay.io/v1alpha1",
        _ => "v1",
    }
}

fn hash(problem: &Problem) -> u64 {
    let mut hasher = DefaultHasher::new();
    problem.hash(&mut hasher);
    hasher.finish()
}

/// The beginning of a text, at most `bytes_max` bytes, cut between characters.
fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::Origin;
    use crate::problem::Reason;

    fn ingress(name: &str) -> Arc<Sourced<Ingress>> {
        let object = json!({"metadata": {"name": name, "namespace": "apps", "uid": name}});
        let object = serde_json::from_value(object).unwrap();
        Arc::new(Sourced { origin: Origin::default(), object })
    }

    fn translation(broken: usize, more: usize) -> Translation {
        let ingresses: Vec<_> = (0..broken + more).map(|n| ingress(&format!("i{n}"))).collect();
        let of = |ingress: &Arc<Sourced<Ingress>>| {
            Problem::of(Severity::Warning, ingress, "does not do").because(Reason::Unsupported)
        };
        let problems = ingresses[..broken].iter().map(of).collect();
        Translation { problems, ingresses: Arc::new(ingresses.into()), ..Translation::default() }
    }

    #[test]
    fn too_many_events_are_dropped_and_those_of_problems_come_first() {
        let (now, mut news) = (Instant::now(), News::default());
        assert_eq!(news.take(&translation(0, 1), true, now), 0);
        assert_eq!(news.take(&translation(400, 200), true, now), 599 - 100);
        assert_eq!(news.waiting.len(), 500);
        assert_eq!(news.waiting.iter().filter(|told| told.problem.is_some()).count(), 400);
        assert_eq!(news.take(&translation(2000, 0), true, now), 1600 - 500 + 1400);
        assert_eq!(news.waiting.len(), 1000);
    }

    #[test]
    fn what_is_not_true_any_more_is_not_told() {
        let (now, mut news) = (Instant::now(), News::default());
        news.take(&translation(2, 1), true, now);
        assert_eq!(news.waiting.len(), 2);
        news.take(&translation(1, 2), true, now);
        assert_eq!(news.waiting.len(), 1);
        news.waiting.clear();
        news.take(&translation(2, 1), true, now + FORGET_AFTER / 2);
        assert!(news.waiting.is_empty(), "it went away for a moment");
        news.take(&translation(0, 3), true, now + FORGET_AFTER * 2);
        news.take(&translation(1, 2), true, now + FORGET_AFTER * 2);
        assert_eq!(news.waiting.len(), 1, "it went away for long");
    }

    #[test]
    fn a_bucket_lets_some_through_at_once_and_then_at_its_pace() {
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        for _ in 0..BURST_MAX {
            assert!(bucket.ready_at() <= start);
            bucket.take(start);
        }
        assert_eq!(bucket.ready_at(), start + PACE);
        bucket.take(start + PACE);
        assert_eq!(bucket.ready_at(), start + 2 * PACE);
    }

    #[test]
    fn an_event_keeps_within_what_the_server_takes() {
        let long = "\u{e9}".repeat(1000);
        let mut problem = Problem::of(Severity::Error, &ingress(&"i".repeat(253)), long);
        let told = EventContent::of_problem(&problem, 0, &Translation::default()).unwrap();
        let event = told.event("pod", Timestamp::UNIX_EPOCH);
        assert_eq!(event.note.unwrap().len(), NOTE_BYTES_MAX);
        assert!(event.metadata.name.unwrap().len() <= 253);

        // The problem of a cluster-scoped object, and that of an object the server does not have.
        problem.object =
            Some(ObjectRef { kind: "IngressClass", namespace: String::new(), name: "c".to_owned() });
        let told = EventContent::of_problem(&problem, 0, &Translation::default()).unwrap();
        let event = told.event("pod", Timestamp::UNIX_EPOCH);
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(event.regarding.unwrap().namespace, None);
        problem.uid = None;
        assert_eq!(EventContent::of_problem(&problem, 0, &Translation::default()), None);
    }
}
