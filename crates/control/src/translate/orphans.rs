//! Ingresses whose backends lack something, for metrics (ingress-nginx: `orphan_ingress`).
//!
//! Never in here: problems for users, which are reported where the routes are made.

use std::collections::HashMap;

use observe::Orphan;

use super::Translation;
use super::ingress::backends;

impl Translation {
    /// The missing Service or endpoints of each served Ingress. This visits all Ingresses: a scrape of
    /// metrics has time for it, a change of the configuration has not.
    pub fn orphans(&self) -> Vec<Orphan> {
        // Clusters with the same name differ in protocol, not in the source of their endpoints.
        let mut has_endpoints: HashMap<&str, bool> = HashMap::new();
        for (_, cluster) in self.model.clusters.iter() {
            *has_endpoints.entry(&cluster.name).or_default() |= !cluster.endpoints.is_empty();
        }
        let orphan = |ingress| {
            let (mut lacks_service, mut lacks_endpoint) = (false, false);
            for (service, port) in backends(ingress) {
                if self.missing_services.contains(&service) {
                    lacks_service = true;
                    continue;
                }
                let name = format!("{}-{}-{port}", service.namespace, service.name);
                // Nothing is known of a path that an older Ingress owns, because no request is sent to this
                // backend.
                lacks_endpoint |= has_endpoints.get(&*name).is_some_and(|has_some| !has_some);
            }
            Orphan {
                namespace: ingress.namespace().to_owned(),
                ingress: ingress.name().to_owned(),
                lacks_service,
                lacks_endpoint,
            }
        };
        self.ingresses.iter().map(|ingress| orphan(ingress)).collect()
    }
}
