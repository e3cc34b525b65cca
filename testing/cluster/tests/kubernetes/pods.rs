//! The cluster itself: what Forebay's tests rely on.

use serde_json::{Value, json};
use testkit::Connection;

use crate::space::{Space, await_that};

/// A Deployment of payload servers, and their Service.
pub(crate) fn deploy_payload(space: &Space, name: &str, replicas: u32, pod: &Value) {
    let mut template = json!({
        "containers": [{
            "name": "payload",
            "image": "forebay",
            "args": ["payload", "--host", "0.0.0.0", "--port", "8080"],
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1},
        }],
    });
    for (key, value) in pod.as_object().into_iter().flatten() {
        template["containers"][0][key] = value.clone();
    }
    let labels = json!({"app": name});
    let deployment = json!({"spec": {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template},
    }});
    space.apply("Deployment", name, deployment);
    space.apply(
        "Service",
        name,
        json!({"spec": {"selector": labels, "ports": [{"port": 80, "targetPort": "http"}]}}),
    );
}

fn address(endpoint: &Value) -> &str {
    endpoint["addresses"][0].as_str().expect("an endpoint has an address")
}

fn get(address: &str, target: &str) -> u16 {
    let address = format!("{address}:8080").parse().expect("an address");
    Connection::to(address).get("payload.test", target).status
}

#[test]
fn a_deployment_becomes_endpoints_that_answer() {
    let space = Space::new("deployment");
    deploy_payload(&space, "web", 3, &json!({}));
    space.await_rollout("web");
    let is_ready = |endpoint: &Value| endpoint["conditions"]["ready"] == true;
    await_that("three endpoints", || space.endpoints("web").iter().filter(|one| is_ready(one)).count() == 3);
    for endpoint in space.endpoints("web") {
        assert_eq!(get(address(&endpoint), "/1k"), 200);
    }
}

#[test]
fn a_pod_that_terminates_serves_until_it_ends() {
    let space = Space::new("terminating");
    deploy_payload(&space, "web", 1, &json!({"lifecycle": {"preStop": {"sleep": {"seconds": 2}}}}));
    space.await_rollout("web");
    await_that("the endpoint", || !space.endpoints("web").is_empty());
    let pod = address(&space.endpoints("web")[0]).to_owned();
    space
        .client
        .merge(&json!({
            "kind": "Deployment",
            "metadata": {"namespace": space.name, "name": "web"},
            "spec": {"replicas": 0},
        }))
        .expect("it is scaled");
    let conditions = json!({"ready": false, "serving": true, "terminating": true});
    await_that("it to terminate", || {
        space.endpoints("web").iter().any(|one| one["conditions"] == conditions)
    });
    assert_eq!(get(&pod, "/1k"), 200);
    await_that("its end", || space.endpoints("web").is_empty());
}

#[test]
fn a_container_that_fails_its_liveness_probe_is_started_again() {
    let space = Space::new("liveness");
    let probe = json!({"httpGet": {"path": "/status/500", "port": "http"}, "periodSeconds": 1, "failureThreshold": 1});
    deploy_payload(&space, "web", 1, &json!({"livenessProbe": probe}));
    await_that("a restart", || {
        let pods = space.client.list("Pod", &space.name).expect("the API answers");
        pods.iter().any(|pod| pod["status"]["containerStatuses"][0]["restartCount"].as_u64() >= Some(1))
    });
}

/// The port that the chart asks for.
#[test]
fn a_restricted_container_listens_at_a_low_port() {
    let space = Space::new("restricted");
    let container = json!({
        "args": ["payload", "--host", "0.0.0.0", "--port", "80"],
        "ports": [{"name": "http", "containerPort": 80}],
        "securityContext": {
            "runAsUser": 65532,
            "runAsNonRoot": true,
            "readOnlyRootFilesystem": true,
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        },
    });
    deploy_payload(&space, "web", 1, &container);
    space.await_rollout("web");
}

#[test]
fn an_image_without_program_is_told() {
    let space = Space::new("image");
    deploy_payload(&space, "web", 1, &json!({"image": "registry.test/unknown:v1"}));
    await_that("the reason", || {
        let pods = space.client.list("Pod", &space.name).expect("the API answers");
        pods.iter()
            .any(|pod| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ErrImagePull")
    });
}

/// Tests of an API server that goes away have one of their own.
#[test]
fn an_api_of_ones_own_survives_its_server() {
    let mut api =
        cluster::Cluster::start(&cluster::Options { api_only: true, ..Default::default() }).expect("an API");
    let space = Space::within(&api.kubeconfig(), "api");
    space.apply("ConfigMap", "kept", json!({"data": {"key": "value"}}));
    api.compact().expect("etcd compacts");
    api.kill_api_server();
    assert!(space.client.get("/readyz").is_err());
    api.start_api_server().expect("it starts again");
    assert_eq!(space.find("ConfigMap", "kept").expect("it is still there")["data"]["key"], "value");
}
