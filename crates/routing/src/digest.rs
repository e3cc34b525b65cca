//! A hash that tells configurations apart.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use model::{ClusterId, to_json};
use serde::Serialize;

use crate::host::Hosts;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// A number that is equal for equal configurations, and most likely different for others. The ids of
    /// clusters and the number of earlier changes do not count. It costs a walk over the whole configuration.
    pub fn digest(&self) -> u64 {
        let digest = Digest::new(self);
        let mut hasher = DefaultHasher::new();
        digest.of(&*self.settings).hash(&mut hasher);
        let mut of_hosts = Vec::new();
        for (at, listener) in self.listeners().iter().enumerate() {
            // Hosts that listeners share are hashed once; whether they are shared does not change the number.
            let known = of_hosts.get(self.first_with_hosts_of(at)).copied();
            of_hosts.push(known.unwrap_or_else(|| digest.of_hosts(listener.hosts())));
            (listener.id, of_hosts[at], digest.of(&listener.stream())).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Hashes parts of a configuration, in which the hash of a cluster replaces its id.
#[derive(Default)]
struct Digest(HashMap<ClusterId, u64>);

impl Digest {
    fn new(snapshot: &Snapshot) -> Self {
        let no_ids = Self::default();
        Self(snapshot.clusters().map(|(id, cluster)| (id, no_ids.of(cluster))).collect())
    }

    fn of(&self, part: &impl Serialize) -> u64 {
        let mut hasher = DefaultHasher::new();
        to_json(part, &|id| self.0[&id].into()).hash(&mut hasher);
        hasher.finish()
    }

    /// Hashes one host after the other, so that only one is held as JSON.
    fn of_hosts(&self, hosts: Option<&Arc<Hosts>>) -> u64 {
        let mut hasher = DefaultHasher::new();
        for table in hosts.into_iter().flat_map(|hosts| hosts.iter()) {
            self.of(table.host()).hash(&mut hasher);
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use model::{
        Alias, Cluster, Clusters, Host, HostName, HostTls, Listener, Model, Pattern, Protocol, Rare,
        Replicas, Settings,
    };

    use super::*;
    use crate::compile;

    fn passing_on(id: u32, cluster: &str) -> Model {
        let mut clusters = Clusters::default();
        clusters.insert(ClusterId(id), Arc::new(Cluster { name: cluster.to_owned(), ..Cluster::default() }));
        let tls = HostTls { passthrough: Some(ClusterId(id)), ..HostTls::default() };
        let host = Host {
            name: HostName::Any,
            aliases: Rare::default(),
            tls: Arc::new(tls),
            routes: Vec::new(),
            wider: None,
        };
        let hosts: model::HostList = Arc::new(vec![Arc::new(host)].into());
        let listeners = vec![
            Listener { address: None, port: 80, protocol: Protocol::Http(Arc::clone(&hosts)) },
            Listener { address: None, port: 443, protocol: Protocol::Https(hosts) },
        ];
        Model { listeners, clusters, ..Model::default() }
    }

    #[test]
    fn ids_and_generations_make_no_difference_and_all_else_does() {
        let digest = |model: &Model, generation| compile(model, None, generation).digest();
        assert_eq!(digest(&passing_on(0, "a"), 1), digest(&passing_on(7, "a"), 2));
        assert_ne!(digest(&passing_on(0, "a"), 1), digest(&passing_on(0, "b"), 1));
        let mut settings = Settings::default();
        settings.client.keep_alive_requests += 1;
        assert_ne!(digest(&Model { settings, ..passing_on(0, "a") }, 1), digest(&passing_on(0, "a"), 1));
        let mut other = passing_on(0, "a");
        let hosts = other.hosts().cloned().collect();
        other.listeners[1].protocol = Protocol::Https(Arc::new(hosts));
        assert_eq!(digest(&other, 1), digest(&passing_on(0, "a"), 1), "whether hosts are shared");
        other.listeners[1].protocol = Protocol::Https(Arc::default());
        assert_ne!(digest(&other, 1), digest(&passing_on(0, "a"), 1));
        other.listeners[0].port = 81;
        assert_ne!(digest(&other, 1), digest(&passing_on(0, "a"), 1));
    }

    #[test]
    fn further_names_of_a_host_make_a_difference() {
        let named = |pattern: &str| {
            let mut model = passing_on(0, "a");
            let mut host = Host::clone(model.hosts().next().unwrap());
            host.aliases = vec![Alias::Pattern(Pattern::parse(pattern).unwrap())].into();
            model.listeners[0].protocol = Protocol::Http(Arc::new(vec![Arc::new(host)].into()));
            compile(&model, None, 1).digest()
        };
        assert_ne!(named("^a"), named("^b"));
    }

    #[test]
    fn the_replicas_count_by_their_cluster() {
        let shared = |id, name| {
            let replicas =
                Replicas { cluster: ClusterId(id), own: [127, 0, 0, 1].into(), unready: Vec::new() };
            let settings = Settings { replicas: Some(replicas), ..Settings::default() };
            compile(&Model { settings, ..passing_on(id, name) }, None, 1).digest()
        };
        assert_eq!(shared(0, "a"), shared(7, "a"));
        assert_ne!(shared(0, "a"), shared(0, "b"));
    }
}
