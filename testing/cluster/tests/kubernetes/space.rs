//! A test's namespace in the cluster, and its waits.

use std::env;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use cluster::{Client, NODE_ADDRESS};
use serde_json::{Value, json};
use testkit::{Canned, Forebay, PATIENCE, Setup, Upstream};

/// Interval of polls of the API.
const LOOK: Duration = Duration::from_millis(10);

/// A namespace and an `IngressClass` of a test's own, both of the same name. They go when this is dropped.
pub(crate) struct Space {
    pub(crate) client: Client,
    pub(crate) name: String,
    kubeconfig: PathBuf,
}

impl Space {
    /// One in the cluster that is around the tests.
    pub(crate) fn new(name: &str) -> Self {
        environment("FOREBAY_TEST_CLUSTER");
        Self::within(Path::new(&environment("KUBECONFIG")), name)
    }

    /// One in a cluster of the test's own.
    pub(crate) fn within(kubeconfig: &Path, name: &str) -> Self {
        let client = Client::new(kubeconfig).expect("a kubeconfig");
        let name = format!("{name}-{}", std::process::id());
        let space = Self { client, name, kubeconfig: kubeconfig.into() };
        space.client.apply(&space.namespace()).expect("a namespace");
        space.client.apply(&space.class()).expect("a class");
        space
    }

    /// Forebay, which serves this class.
    pub(crate) fn forebay(&self) -> Setup {
        self.forebay_as(&self.kubeconfig)
    }

    /// Forebay, which serves this class, as another user.
    pub(crate) fn forebay_as(&self, kubeconfig: &Path) -> Setup {
        Setup::following(forebay(), kubeconfig).arguments([
            format!("--controller-class={}", self.controller()),
            "--healthz-host=127.0.0.1".into(),
        ])
    }

    /// An Ingress of this class that takes a host to port 80 of a Service.
    pub(crate) fn route(&self, name: &str, host: &str, service: &str) {
        self.apply("Ingress", name, self.ingress(host, service));
    }

    /// The Ingress that [`route`](Self::route) applies.
    pub(crate) fn ingress(&self, host: &str, service: &str) -> Value {
        let backend = json!({"service": {"name": service, "port": {"number": 80}}});
        let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
        json!({"spec": {"ingressClassName": self.name, "rules": [{"host": host, "http": {"paths": [path]}}]}})
    }

    /// A Service with port 80 and one slice, named as it is, with one endpoint.
    pub(crate) fn serve(&self, service: &str, address: SocketAddr) {
        self.apply("Service", service, json!({"spec": {"ports": [{"port": 80}]}}));
        self.slice(service, service, address, &json!({"ready": true}));
    }

    /// A slice of a Service with one endpoint.
    pub(crate) fn slice(&self, name: &str, service: &str, address: SocketAddr, conditions: &Value) {
        let slice = json!({
            "metadata": {"labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address.ip()], "conditions": conditions}],
            "ports": [{"port": address.port()}],
        });
        self.apply("EndpointSlice", name, slice);
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

    /// Waits until as many Pods of a Deployment as it wants are ready, and all of them are of its present
    /// form.
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

    /// The object that [`apply`](Self::apply) applies.
    pub(crate) fn object(&self, kind: &str, name: &str, mut content: Value) -> Value {
        content["apiVersion"] = cluster::api_version(kind).expect("a known kind").into();
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

    /// How to reach the cluster that it is in.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The controller of the class.
    pub(crate) fn controller(&self) -> String {
        format!("forebay.test/{}", self.name)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // Other objects are deleted with the namespace. Without an API server there is nothing to clean up.
        for object in [self.namespace(), self.class()] {
            if let Err(error) = self.client.delete(&object) {
                eprintln!("{error:#}");
            }
        }
    }
}

/// The program under test.
pub(crate) fn forebay() -> PathBuf {
    environment("FOREBAY_BINARY").into()
}

/// An upstream that says this, at an address that the API takes for a Pod's: it refuses loopback.
pub(crate) fn saying(text: &str) -> Canned {
    Canned::saying_at(IpAddr::V4(NODE_ADDRESS), text)
}

/// An upstream that the test plays itself, at such an address.
pub(crate) fn upstream() -> Upstream {
    Upstream::at(IpAddr::V4(NODE_ADDRESS), 1024)
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

/// Asks over and over until a host answers so.
pub(crate) fn await_answer(forebay: &Forebay, host: &str, status: u16, text: &str) {
    await_that(&format!("{host} to answer {status} {text:?}"), || {
        let response = forebay.client().get(host, "/");
        response.status == status && response.body.starts_with(text.as_bytes())
    });
}
