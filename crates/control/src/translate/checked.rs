//! The Services whose endpoints have active health checks: Events about endpoints regard them.

use std::collections::BTreeMap;

use model::Clusters;

use crate::index::Index;
use crate::names::NsName;

/// The uids of these Services. Those that the API server does not know have none, and no Events.
pub(super) fn services(clusters: &Clusters, index: &Index) -> BTreeMap<NsName, String> {
    let checked = clusters.checked().map(|id| clusters.get(id));
    let uid = |identity: &str| {
        let (service, _) = identity.rsplit_once(':')?;
        let (namespace, name) = service.split_once('/')?;
        let name = NsName::new(namespace, name);
        let uid = index.services.get(&name)?.metadata.uid()?.to_owned();
        Some((name, uid))
    };
    checked.filter_map(|cluster| uid(&cluster.identity)).collect()
}
