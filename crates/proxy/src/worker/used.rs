//! The clusters that a worker has used, by id, in the parts of [`Clusters`]: a configuration shares the parts
//! in which nothing has changed with the one before it, so that a change of one cluster among 100,000 costs a
//! part.
//!
//! Never in here: which configuration is in force.

use std::array;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use model::{ClusterId, ClusterPart, Clusters};

use crate::upstream::{Cluster, ClusterState};

const PART: usize = Clusters::PART;

/// Clusters by their place in a part.
type Part = [OnceCell<Rc<Upstream>>; PART];

/// The clusters of a configuration that a worker has used.
#[derive(Clone)]
pub(super) struct Used {
    /// As many as the configuration's clusters have.
    parts: Vec<Rc<Part>>,
}

/// A cluster of a configuration, prepared on first use: most workers of a large installation never use most
/// of the clusters.
pub(super) struct Upstream {
    pub(super) model: Arc<model::Cluster>,
    /// State that outlives changes of the cluster; created when the cluster is first prepared.
    pub(super) state: OnceCell<Rc<ClusterState>>,
    pub(super) ready: OnceCell<Cluster>,
    /// Whether it is part of the configuration that new requests get.
    pub(super) is_in_force: Cell<bool>,
}

impl Used {
    /// The clusters of `all` that were used before. `previous` has the clusters of the previous
    /// configuration, and the used ones among them.
    pub(super) fn new(all: &Clusters, previous: Option<(&Clusters, &Self)>) -> Self {
        let part = |(at, now): (usize, &Arc<ClusterPart>)| {
            let before = previous.and_then(|(all, used)| Some((all.part(at)?, used.parts.get(at)?)));
            match before {
                Some((old, used)) if Arc::ptr_eq(old, now) => Rc::clone(used),
                Some((_, used)) => Rc::new(followed(now, used)),
                None => Rc::new(array::from_fn(|_| OnceCell::new())),
            }
        };
        Self { parts: all.parts().enumerate().map(part).collect() }
    }

    /// The place of a cluster.
    ///
    /// # Panics
    ///
    /// When the id is beyond those of the configuration.
    #[inline]
    pub(super) fn cell(&self, id: ClusterId) -> &OnceCell<Rc<Upstream>> {
        &self.parts[id.0 as usize / PART][id.0 as usize % PART]
    }

    /// A used cluster; none for another.
    pub(super) fn get(&self, id: ClusterId) -> Option<&Rc<Upstream>> {
        self.parts.get(id.0 as usize / PART)?[id.0 as usize % PART].get()
    }

    /// Puts a cluster in the place of another form of it.
    pub(super) fn replace(&mut self, id: ClusterId, upstream: Rc<Upstream>) {
        let part = Rc::make_mut(&mut self.parts[id.0 as usize / PART]);
        part[id.0 as usize % PART] = OnceCell::from(upstream);
    }

    /// The used clusters that others do not have, or have in another form.
    pub(super) fn unlike<'u>(&'u self, others: &'u Self) -> impl Iterator<Item = (ClusterId, &'u Upstream)> {
        let is_same =
            |at: usize, part: &Rc<Part>| others.parts.get(at).is_some_and(|one| Rc::ptr_eq(part, one));
        let changed = self.parts.iter().enumerate().filter(move |(at, part)| !is_same(*at, part));
        let used = changed.flat_map(|(at, part)| {
            let ids = (0..PART).map(move |place| ClusterId((at * PART + place) as u32));
            ids.zip(&**part).filter_map(|(id, cell)| Some((id, cell.get()?)))
        });
        used.filter(|(id, old)| !others.get(*id).is_some_and(|new| Rc::ptr_eq(new, old)))
            .map(|(id, old)| (id, &**old))
    }
}

impl Upstream {
    pub(super) fn new(cluster: &Arc<model::Cluster>, state: Option<Rc<ClusterState>>) -> Rc<Self> {
        let (ready, is_in_force) = (OnceCell::new(), Cell::new(true));
        let state = state.map_or_else(OnceCell::new, OnceCell::from);
        Rc::new(Self { model: Arc::clone(cluster), state, ready, is_in_force })
    }

    /// The state for the next form of the cluster, if it is the same cluster: an id may be reused for
    /// another.
    pub(super) fn state_for(&self, next: &model::Cluster) -> Option<Rc<ClusterState>> {
        self.state.get().filter(|_| self.model.name == next.name).cloned()
    }
}

/// A part with changed clusters: those that were used before are used from the beginning.
fn followed(now: &[Option<Arc<model::Cluster>>], used: &Part) -> Part {
    array::from_fn(|place| {
        let kept = used[place].get().zip(now.get(place).and_then(Option::as_ref));
        kept.map_or_else(OnceCell::new, |(old, cluster)| {
            OnceCell::from(if Arc::ptr_eq(&old.model, cluster) {
                Rc::clone(old)
            } else {
                Upstream::new(cluster, old.state_for(cluster))
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> Arc<model::Cluster> {
        Arc::new(model::Cluster { name: name.to_owned(), ..model::Cluster::default() })
    }

    fn used(all: &Clusters, of: &Used, id: u32) -> Rc<Upstream> {
        let id = ClusterId(id);
        Rc::clone(of.cell(id).get_or_init(|| Upstream::new(all.get(id), None)))
    }

    #[test]
    fn a_change_makes_the_part_of_its_cluster_and_shares_all_others() {
        let mut all = Clusters::default();
        (0..1000).for_each(|id| all.insert(ClusterId(id), cluster(&id.to_string())));
        let before = Used::new(&all, None);
        let [first, second, far] = [1, 2, 999].map(|id| used(&all, &before, id));
        let mut changed = all.clone();
        changed.insert(ClusterId(1), cluster("1"));
        let after = Used::new(&changed, Some((&all, &before)));
        let shared: Vec<_> = before.parts.iter().zip(&after.parts).map(|(a, b)| Rc::ptr_eq(a, b)).collect();
        assert_eq!(shared, [false, true, true, true]);
        assert!(
            Rc::ptr_eq(&used(&changed, &after, 2), &second) && Rc::ptr_eq(&used(&changed, &after, 999), &far)
        );
        assert!(!Rc::ptr_eq(&used(&changed, &after, 1), &first));
        let gone: Vec<_> = before.unlike(&after).map(|(id, _)| id.0).collect();
        assert_eq!(gone, [1]);
        // A cluster of a shared part that is used later is used in both.
        let late = used(&all, &before, 500);
        assert!(Rc::ptr_eq(after.get(ClusterId(500)).unwrap(), &late));
    }

    #[test]
    fn removed_and_replaced_clusters_are_unlike_and_only_these() {
        let mut all = Clusters::default();
        (0..300).for_each(|id| all.insert(ClusterId(id), cluster(&id.to_string())));
        let before = Used::new(&all, None);
        for id in [0, 7, 299] {
            used(&all, &before, id);
        }
        let mut fewer = all.clone();
        (256..300).for_each(|id| fewer.remove(ClusterId(id)));
        let mut after = Used::new(&fewer, Some((&all, &before)));
        let ids = |one: &Used, other: &Used| one.unlike(other).map(|(id, _)| id.0).collect::<Vec<_>>();
        assert_eq!((ids(&before, &after), ids(&after, &before)), (vec![299], vec![]));
        assert!(after.get(ClusterId(299)).is_none());
        after.replace(ClusterId(7), Upstream::new(all.get(ClusterId(7)), None));
        assert_eq!((ids(&before, &after), ids(&after, &before)), (vec![7, 299], vec![7]));
    }
}
