//! Translations in a form for comparisons, without the numbers of clusters.

use control::Translation;
use model::{Model, to_json};

/// The translation with clusters in place of their ids.
pub(crate) fn canonical(translation: &Translation) -> impl PartialEq + use<> {
    let mut rest = translation.clone();
    let Model { listeners, clusters, settings } = std::mem::take(&mut rest.model);
    let no_ids = |_| unreachable!("clusters refer to none");
    let json = to_json(&(listeners, settings), &|id| to_json(clusters.get(id), &no_ids));
    // Clusters have keys, which JSON leaves out.
    let mut clusters: Vec<_> = clusters.iter().map(|(_, cluster)| cluster.clone()).collect();
    clusters.sort_by_key(|cluster| format!("{cluster:?}"));
    (rest, json, clusters)
}
