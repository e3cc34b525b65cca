//! The load of clusters as JSON: limits, requests in flight, queues, and the results of waiting.

use observe::{ClusterOverload, EndpointOverload, Registry, Wait};
use serde_json::{Map, Value, json};

/// All clusters that have been asked lately.
pub(super) fn describe(registry: &Registry) -> String {
    let clusters: Map<String, Value> =
        registry.overloads().iter().map(|(name, overload)| (name.clone(), of_cluster(overload))).collect();
    format!("{:#}\n", json!({ "clusters": clusters }))
}

fn of_cluster(overload: &ClusterOverload) -> Value {
    let endpoints: Vec<_> = overload.endpoints.iter().map(of_endpoint).collect();
    let waits: Map<String, Value> = Wait::ALL
        .iter()
        .zip(overload.totals.waits)
        .map(|(wait, count)| (wait.name().to_owned(), count.iter().sum::<u64>().into()))
        .collect();
    json!({ "queued": overload.queued, "waits": waits, "endpoints": endpoints })
}

fn of_endpoint(endpoint: &EndpointOverload) -> Value {
    let EndpointOverload { address, limit, in_flight } = endpoint;
    json!({ "address": address.to_string(), "limit": limit, "in_flight": in_flight })
}

#[cfg(test)]
mod tests {
    use model::overload::Priority;
    use observe::MetricsOptions;

    use super::*;

    #[test]
    fn a_cluster_is_shown_with_its_endpoints() {
        let registry = Registry::new(MetricsOptions::default());
        let cells = registry.overload("default-web-80");
        let address = ([192, 0, 2, 1], 80).into();
        cells.show(2, [EndpointOverload { address, limit: Some(12), in_flight: 12 }].into_iter());
        cells.count(Wait::Served, Priority::Normal);
        let shown: Value = serde_json::from_str(&describe(&registry)).unwrap();
        let cluster = &shown["clusters"]["default-web-80"];
        assert_eq!((&cluster["queued"], &cluster["waits"]["served"]), (&json!(2), &json!(1)));
        assert_eq!(
            cluster["endpoints"],
            json!([{ "address": "192.0.2.1:80", "limit": 12, "in_flight": 12 }])
        );
    }
}
