//! A test's place in the cluster, and what it waits for.

use std::env;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use cluster::Client;
use serde_json::{Value, json};
use testkit::PATIENCE;

/// How often the API is asked for what is awaited.
const LOOK: Duration = Duration::from_millis(10);

/// A namespace and an `IngressClass` of a test's own, both of the same name. They go when this is dropped.
pub(crate) struct Space {
    pub(crate) client: Client,
    pub(crate) name: String,
}

impl Space {
    /// One in the cluster that is around the tests.
    pub(crate) fn new(name: &str) -> Self {
        Self::within(Client::new(&kubeconfig()).expect("a kubeconfig"), name)
    }

    /// One in a cluster of the test's own.
    pub(crate) fn within(client: Client, name: &str) -> Self {
        let space = Self { client, name: format!("{name}-{}", std::process::id()) };
        space.client.apply(&space.namespace()).expect("a namespace");
        space.client.apply(&space.class()).expect("a class");
        space
    }

    /// Applies an object of `kind`, in this namespace if it is of one. `content` is all but its name.
    pub(crate) fn apply(&self, kind: &str, name: &str, content: Value) -> Value {
        self.client.apply(&self.object(kind, name, content)).expect("it is applied")
    }

    pub(crate) fn delete(&self, kind: &str, name: &str) {
        self.client.delete(&self.object(kind, name, json!({}))).expect("it is deleted");
    }

    pub(crate) fn find(&self, kind: &str, name: &str) -> Option<Value> {
        self.client.find(kind, &self.name, name).expect("the API answers")
    }

    /// Waits until as many Pods of a Deployment as it wants are ready, and all of them are of its present form.
    pub(crate) fn await_rollout(&self, deployment: &str) {
        await_that(&format!("deployment {deployment} to be rolled out"), || {
            let Some(now) = self.find("Deployment", deployment) else { return false };
            let (wanted, status) = (&now["spec"]["replicas"], &now["status"]);
            let counts = ["replicas", "updatedReplicas", "availableReplicas"].map(|name| &status[name]);
            status["observedGeneration"] == now["metadata"]["generation"]
                && counts.iter().all(|count| *count == wanted)
        });
    }

    /// The endpoints of a Service, of all its slices.
    pub(crate) fn endpoints(&self, service: &str) -> Vec<Value> {
        let slices = self.client.list("EndpointSlice", &self.name).expect("the API answers");
        let of_service = slices
            .iter()
            .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
        of_service.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default()).collect()
    }

    fn object(&self, kind: &str, name: &str, mut content: Value) -> Value {
        let versions = [
            ("Ingress", "networking.k8s.io/v1"),
            ("EndpointSlice", "discovery.k8s.io/v1"),
            ("Deployment", "apps/v1"),
            ("Role", "rbac.authorization.k8s.io/v1"),
            ("RoleBinding", "rbac.authorization.k8s.io/v1"),
            ("ClusterRole", "rbac.authorization.k8s.io/v1"),
            ("ClusterRoleBinding", "rbac.authorization.k8s.io/v1"),
        ];
        let version = versions.iter().find(|(of, _)| *of == kind).map_or("v1", |(_, version)| version);
        content["apiVersion"] = version.into();
        content["kind"] = kind.into();
        content["metadata"]["name"] = name.into();
        content["metadata"]["namespace"] = (*self.name).into();
        content
    }

    fn namespace(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": {"test": self.name}}})
    }

    fn class(&self) -> Value {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "IngressClass",
            "metadata": {"name": self.name},
            "spec": {"controller": self.controller()},
        })
    }

    /// The controller of the class.
    pub(crate) fn controller(&self) -> String {
        format!("forebay.test/{}", self.name)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // What else is in it goes with the namespace. Where the API is away, there is nobody to clean up for.
        for object in [self.namespace(), self.class()] {
            if let Err(error) = self.client.delete(&object) {
                eprintln!("{error:#}");
            }
        }
    }
}

/// How to reach the cluster that is around the tests.
pub(crate) fn kubeconfig() -> PathBuf {
    environment("FOREBAY_TEST_CLUSTER");
    environment("KUBECONFIG").into()
}

/// The program under test.
pub(crate) fn forebay() -> PathBuf {
    environment("FOREBAY_BINARY").into()
}

fn environment(name: &str) -> String {
    env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run these tests with `cargo xtask cluster test`"))
}

/// Asks over and over until something holds.
pub(crate) fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        thread::sleep(LOOK);
    }
}
