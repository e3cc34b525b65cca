//! Where the clusters of a Snapshot are kept.
//!
//! The index of a cluster in its model shifts when another comes or goes. Here each has a slot that it keeps for as long
//! as its name is in the model, so that a host table which outlives a generation still refers to the right cluster.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Cluster, ClusterId};

/// Clusters by slot; a slot is empty until the next new cluster takes it.
#[derive(Debug, Default)]
pub(crate) struct Clusters(Vec<Option<Arc<Cluster>>>);

/// The slot of each cluster of a model, by its [`ClusterId`] there.
pub(crate) struct Slots(Vec<ClusterId>);

impl Clusters {
    /// Gives each cluster of a model its slot, the one that it had before where it had one.
    pub(crate) fn place(clusters: &[Cluster], previous: &Self) -> (Self, Slots) {
        let mut slots = vec![None; previous.0.len()];
        let mut leftover = previous.by_name();
        let kept: Vec<Option<usize>> = clusters
            .iter()
            .map(|cluster| {
                let (slot, old) = leftover.remove(cluster.name.as_str())?;
                slots[slot] = Some(reuse(cluster, old));
                Some(slot)
            })
            .collect();
        let mut vacant = 0;
        let ids = clusters.iter().zip(kept).map(|(cluster, kept)| {
            ClusterId(kept.unwrap_or_else(|| fill_vacancy(&mut slots, &mut vacant, cluster)) as u32)
        });
        let ids = Slots(ids.collect());
        (Self(slots), ids)
    }

    pub(crate) fn get(&self, id: ClusterId) -> &Arc<Cluster> {
        self.0[id.0 as usize].as_ref().expect("a compiled route's cluster is in its Snapshot")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClusterId, &Arc<Cluster>)> {
        (0..).map(ClusterId).zip(&self.0).filter_map(|(id, slot)| Some((id, slot.as_ref()?)))
    }

    fn by_name(&self) -> HashMap<&str, (usize, &Arc<Cluster>)> {
        self.iter().map(|(id, cluster)| (cluster.name.as_str(), (id.0 as usize, cluster))).collect()
    }
}

impl Slots {
    pub(crate) fn of(&self, id: ClusterId) -> ClusterId {
        self.0[id.0 as usize]
    }
}

fn reuse(cluster: &Cluster, old: &Arc<Cluster>) -> Arc<Cluster> {
    if **old == *cluster { Arc::clone(old) } else { Arc::new(cluster.clone()) }
}

/// Puts a new cluster into the first empty slot from `vacant` on, which it moves past it.
fn fill_vacancy(slots: &mut Vec<Option<Arc<Cluster>>>, vacant: &mut usize, cluster: &Cluster) -> usize {
    while slots.get(*vacant).is_some_and(Option::is_some) {
        *vacant += 1;
    }
    if *vacant == slots.len() {
        slots.push(None);
    }
    slots[*vacant] = Some(Arc::new(cluster.clone()));
    *vacant
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Cluster {
        Cluster { name: name.to_owned(), ..Cluster::default() }
    }

    fn names(clusters: &Clusters) -> Vec<(u32, &str)> {
        clusters.iter().map(|(id, cluster)| (id.0, cluster.name.as_str())).collect()
    }

    #[test]
    fn a_cluster_keeps_its_slot_and_a_new_one_fills_the_first_empty_one() {
        let (first, _) = Clusters::place(&[named("a"), named("b"), named("c")], &Clusters::default());
        let (second, _) = Clusters::place(&[named("c"), named("b")], &first);
        assert_eq!(names(&second), [(1, "b"), (2, "c")]);
        let (third, slots) = Clusters::place(&[named("d"), named("c"), named("e"), named("b")], &second);
        assert_eq!(names(&third), [(0, "d"), (1, "b"), (2, "c"), (3, "e")]);
        assert_eq!((0..4).map(|id| slots.of(ClusterId(id)).0).collect::<Vec<_>>(), [0, 2, 3, 1]);
        assert!(Arc::ptr_eq(first.get(ClusterId(1)), third.get(ClusterId(1))));
    }

    #[test]
    fn two_clusters_of_one_name_stay_two() {
        let (first, _) = Clusters::place(&[named("a"), named("a")], &Clusters::default());
        let (second, slots) = Clusters::place(&[named("a"), named("a")], &first);
        assert_eq!(second.iter().count(), 2);
        assert_ne!(slots.of(ClusterId(0)), slots.of(ClusterId(1)));
    }
}
