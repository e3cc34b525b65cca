//! Ingresses whose backends lack something, for metrics (ingress-nginx: `orphan_ingress`).
//!
//! Never in here: problems for people to read, which are told where the routes are made.

use std::collections::HashMap;

use observe::Orphan;

use super::Translation;
use super::ingress::backends;

impl Translation {
    /// What each Ingress that is served lacks, if it does. This looks at all of them, which is what a scrape has time for, and a change of
    /// the configuration has not.
    pub fn orphans(&self) -> Vec<Orphan> {
        // Clusters of one name differ in what is spoken, and not in where their endpoints are from.
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
                // Where nothing is sent, because an older Ingress has the path, nothing is known.
                lacks_endpoint |= has_endpoints.get(&*name).is_some_and(|has_some| !has_some);
            }
            Orphan {
                namespace: ingress.namespace().to_owned(),
                ingress: ingress.metadata.name.clone(),
                lacks_service,
                lacks_endpoint,
            }
        };
        self.ingresses.iter().map(|ingress| orphan(ingress)).collect()
    }
}
