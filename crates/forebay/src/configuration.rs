//! `/configuration`: the Snapshot in force, as JSON. Keys and passwords are not in it.

use model::{ListenerId, Stream, to_json};
use routing::Snapshot;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The page. Its lists are made while they are written, one host at a time: there may be a hundred thousand.
#[derive(Serialize)]
struct Page<'s> {
    generation: u64,
    acknowledged: u64,
    settings: Value,
    #[serde(serialize_with = "hosts")]
    hosts: &'s Snapshot,
    #[serde(serialize_with = "clusters")]
    clusters: &'s Snapshot,
    #[serde(serialize_with = "streams")]
    streams: &'s Snapshot,
}

/// A listener whose bytes or datagrams are passed on.
#[derive(Serialize)]
struct ListeningStream<'s> {
    listener: ListenerId,
    #[serde(flatten)]
    stream: &'s Stream,
}

/// Describes a Snapshot. `acknowledged` is the generation that every worker serves.
pub(crate) fn describe(snapshot: &Snapshot, acknowledged: u64) -> String {
    let page = Page {
        generation: snapshot.generation,
        acknowledged,
        settings: described(&*snapshot.settings, snapshot),
        hosts: snapshot,
        clusters: snapshot,
        streams: snapshot,
    };
    serde_json::to_string_pretty(&page).expect("all keys are text")
}

fn hosts<S: Serializer>(snapshot: &Snapshot, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(snapshot.hosts().map(|table| described(table.host(), snapshot)))
}

fn clusters<S: Serializer>(snapshot: &Snapshot, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(snapshot.clusters().map(|(_, cluster)| described(cluster, snapshot)))
}

fn streams<S: Serializer>(snapshot: &Snapshot, serializer: S) -> Result<S::Ok, S::Error> {
    let streams = snapshot
        .listeners()
        .iter()
        .filter_map(|one| Some(ListeningStream { listener: one.id, stream: one.stream()? }));
    serializer.collect_seq(streams.map(|stream| described(&stream, snapshot)))
}

/// A part of the Snapshot, with the names of clusters.
fn described(part: &impl Serialize, snapshot: &Snapshot) -> Value {
    to_json(part, &|id| snapshot.cluster(id).name.as_str().into())
}
