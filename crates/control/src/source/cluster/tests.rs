//! Watch events, and their effect on the index and on the set of watched objects.

mod gateway;
mod relay;

use std::future::pending;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::client::Versions;
use crate::objects::gateway_api::{Gateway, GatewayClass, XBackendTrafficPolicy};
use crate::objects::{EndpointSlice, ForebayPolicy, Service};

/// A cluster whose watch events the test makes: its API server never answers.
pub(crate) struct FakeCluster {
    pub(crate) cluster: Cluster,
    options: Options,
}

impl FakeCluster {
    /// A cluster whose API server has no kinds of the Gateway API.
    pub(crate) fn new(scope: Scope, options: Options) -> Self {
        let mut told = Self::unanswered(scope, options);
        told.cluster.take_served(Ok(discovery::Served::default()), &told.options);
        told
    }

    fn unanswered(scope: Scope, options: Options) -> Self {
        let silent = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, kube::Error>>());
        let client = Client::new(silent, "default");
        let connection = Connection {
            client,
            namespace: "default".to_owned(),
            url: String::new(),
            versions: Versions::default(),
        };
        Self { cluster: Cluster::new(&connection, scope, &options), options }
    }

    /// A cluster whose first lists contain these objects.
    fn listed(objects: &[(&str, Value)]) -> Self {
        let options = Options { watch_ingress_without_class: true, ..Options::default() };
        let mut told = Self::new(Scope::All, options);
        for kind in [Ingress::KIND, IngressClass::KIND, Service::KIND, EndpointSlice::KIND] {
            told.list(kind, objects);
        }
        told
    }

    pub(crate) fn list(&mut self, kind: &str, objects: &[(&str, Value)]) {
        self.happens(kind, Happening::Began);
        for (_, object) in objects.iter().filter(|(of, _)| *of == kind) {
            self.finds(kind, object);
        }
        self.happens(kind, Happening::Complete);
    }

    fn finds(&mut self, kind: &str, object: &Value) {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let key = NsName::new(text("namespace"), text("name"));
        let thing = match kind {
            Ingress::KIND => serde_json::from_value::<Item<Ingress>>(object.clone()).unwrap().thing(),
            Secret::KIND => serde_json::from_value::<Item<Secret>>(object.clone()).unwrap().thing(),
            ConfigMap::KIND => serde_json::from_value::<Item<ConfigMap>>(object.clone()).unwrap().thing(),
            ForebayPolicy::KIND => {
                serde_json::from_value::<Item<ForebayPolicy>>(object.clone()).unwrap().thing()
            }
            XBackendTrafficPolicy::KIND => {
                serde_json::from_value::<Item<XBackendTrafficPolicy>>(object.clone()).unwrap().thing()
            }
            Namespace::KIND => serde_json::from_value::<Item<Namespace>>(object.clone()).unwrap().thing(),
            "GatewayClass" => serde_json::from_value::<Item<GatewayClass>>(object.clone()).unwrap().thing(),
            "Gateway" => serde_json::from_value::<Item<Gateway>>(object.clone()).unwrap().thing(),
            _ => panic!("no {kind} is told of here"),
        };
        self.happens(kind, Happening::Found(key, thing));
    }

    fn happens(&mut self, kind: &str, happening: Happening) {
        let states = &self.cluster.states;
        let place = states.iter().rposition(|state| state.watch.kind == kind).expect("it is watched");
        self.cluster.take(place, happening, &self.options);
        if self.cluster.are_routes_listed() {
            self.cluster.follow_named();
        }
    }

    pub(crate) fn fails(&mut self, kind: &str, why: &str, is_forbidden: bool) {
        self.happens(kind, Happening::Failed(Trouble { why: why.to_owned(), is_forbidden }));
    }

    fn ingresses(&self) -> Vec<String> {
        self.cluster.index.ingresses.iter().map(|ingress| ingress.key().to_string()).collect()
    }

    fn secrets(&self) -> Vec<String> {
        self.cluster.index.secrets.iter().map(|secret| secret.key().to_string()).collect()
    }

    fn configmaps(&self) -> Vec<String> {
        self.cluster.index.configmaps.iter().map(|configmap| configmap.key().to_string()).collect()
    }
}

fn ingress(name: &str, secrets: &[&str]) -> (&'static str, Value) {
    let tls: Vec<_> = secrets.iter().map(|secret| json!({ "secretName": secret })).collect();
    ("Ingress", json!({"metadata": {"namespace": "a", "name": name, "uid": "u"}, "spec": {"tls": tls}}))
}

fn secret(name: &str) -> (&'static str, Value) {
    ("Secret", json!({"metadata": {"namespace": "a", "name": name}}))
}

#[tokio::test]
async fn nothing_is_served_before_everything_has_been_listed() {
    let mut told = FakeCluster::new(Scope::All, Options::default());
    assert_eq!(
        told.cluster.condition().waiting,
        ["ingresses", "ingressclasses", "services", "endpointslices"]
    );
    for kind in [Ingress::KIND, IngressClass::KIND, Service::KIND] {
        told.list(kind, &[]);
        assert!(told.cluster.index().is_none());
    }
    assert!(told.cluster.take_changed());
    told.list(EndpointSlice::KIND, &[]);
    assert!(told.cluster.index().is_some() && told.cluster.take_changed());
}

#[tokio::test]
async fn what_a_later_list_does_not_bring_is_gone() {
    let mut told = FakeCluster::listed(&[ingress("x", &[]), ingress("y", &[])]);
    told.cluster.take_changed();
    told.list(Ingress::KIND, &[ingress("y", &[]), ingress("z", &[])]);
    assert_eq!(told.ingresses(), ["a/z", "a/y"]);
    assert!(told.cluster.take_changed());
    told.list(Ingress::KIND, &[ingress("y", &[]), ingress("z", &[])]);
    assert!(!told.cluster.take_changed(), "the same again");
}

#[tokio::test]
async fn during_a_list_what_was_there_stays() {
    let mut told = FakeCluster::listed(&[ingress("x", &[])]);
    told.happens(Ingress::KIND, Happening::Began);
    told.fails(Ingress::KIND, "connection reset", false);
    assert_eq!(told.ingresses(), ["a/x"]);
    assert!(told.cluster.index().is_some());
    assert_eq!(told.cluster.condition().troubles, ["ingresses: connection reset"]);
    told.list(Ingress::KIND, &[ingress("x", &[])]);
    assert_eq!(told.cluster.condition(), Condition::default());
}

#[tokio::test]
async fn an_object_that_cannot_be_read_stays_as_it_last_was() {
    let mut told = FakeCluster::listed(&[ingress("x", &[])]);
    let broken = json!({"metadata": {"namespace": "a", "name": "x", "uid": "u"}, "spec": {"rules": 7}});
    told.finds(Ingress::KIND, &broken);
    assert_eq!(told.ingresses(), ["a/x"]);
    let problems: Vec<_> = told.cluster.problems().collect();
    assert_eq!((problems[0].reason, problems[0].uid.as_deref()), (Reason::Undecodable, Some("u")));
    assert!(
        problems[0].to_string().starts_with("Ingress a/x: cannot be read: spec.rules: "),
        "{}",
        problems[0]
    );
    told.finds(Ingress::KIND, &ingress("x", &[]).1);
    assert_eq!(told.cluster.problems().count(), 0);
    told.finds(Ingress::KIND, &broken);
    told.list(Ingress::KIND, &[]);
    assert_eq!((told.ingresses().len(), told.cluster.problems().count()), (0, 0), "gone");
}

#[tokio::test]
async fn a_status_is_seen_and_changes_nothing() {
    let mut told = FakeCluster::listed(&[ingress("x", &[])]);
    told.cluster.take_changed();
    let mut object = ingress("x", &[]).1;
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    told.finds(Ingress::KIND, &object);
    assert!(!told.cluster.take_changed() && told.cluster.take_touched());
    let ingress = told.cluster.index.ingresses.get(&NsName::new("a", "x")).unwrap();
    assert_eq!(ingress.status.points()[0].ip.as_deref(), Some("192.0.2.1"));
}

#[tokio::test]
async fn of_secrets_only_those_that_are_named_are_kept() {
    let mut told = FakeCluster::listed(&[ingress("x", &["s"])]);
    assert_eq!(told.cluster.condition().waiting, ["secrets of namespace a"]);
    told.list(Secret::KIND, &[secret("s"), secret("t")]);
    assert_eq!(told.secrets(), ["a/s"]);
    assert!(told.cluster.index().is_some());
    told.happens(Ingress::KIND, Happening::Gone(NsName::new("a", "x")));
    assert_eq!(told.secrets(), [""; 0]);
    assert!(told.cluster.named.watches.is_empty(), "nobody names a Secret of this namespace");
}

#[tokio::test]
async fn a_secret_that_is_named_later_is_fetched_unless_the_watch_tells_of_it_first() {
    let mut told = FakeCluster::listed(&[ingress("x", &["s"])]);
    told.list(Secret::KIND, &[secret("s"), secret("t"), secret("u")]);
    told.finds(Ingress::KIND, &ingress("y", &["t", "u"]).1);
    let (t, u) = (NsName::new("a", "t"), NsName::new("a", "u"));
    let (t, gone) = (Named::secret(t), u.clone());
    let u = Named::secret(u);
    assert!(told.cluster.named.fetching.contains_key(&t));
    let fetched = |(_, object): (&str, Value)| {
        Ok(Some(serde_json::from_value::<Item<Secret>>(object).unwrap().thing()))
    };
    told.cluster.take_fetched(&t, fetched(secret("t")), &told.options);
    assert_eq!(told.secrets(), ["a/s", "a/t"]);
    told.happens(Secret::KIND, Happening::Gone(gone));
    told.cluster.take_fetched(&u, fetched(secret("u")), &told.options);
    assert_eq!(told.secrets(), ["a/s", "a/t"], "it went while it was fetched");
}

#[tokio::test]
async fn secrets_that_must_not_be_read_are_a_problem_and_keep_nobody_waiting() {
    let mut told = FakeCluster::listed(&[ingress("x", &["s"])]);
    told.fails(Secret::KIND, "secrets is forbidden", true);
    assert!(told.cluster.index().is_some());
    let condition = told.cluster.condition();
    assert_eq!((condition.waiting.len(), condition.troubles.len()), (0, 1));
    let problem = told.cluster.problems().next().unwrap().to_string();
    assert_eq!(
        problem,
        "secrets of namespace a cannot be read, which objects of ours name: secrets is forbidden"
    );
}

#[tokio::test]
async fn of_configmaps_only_those_that_are_named_are_kept_beside_our_own() {
    let own = NsName::new("ours", "settings");
    let options =
        Options { watch_ingress_without_class: true, configmap: Some(own.clone()), ..Options::default() };
    let configmap = |namespace: &str, name: &str, data: Value| {
        ("ConfigMap", json!({"metadata": {"namespace": namespace, "name": name}, "data": data}))
    };
    let naming = |name: &str| {
        let annotations = json!({"nginx.ingress.kubernetes.io/custom-headers": name});
        let metadata = json!({"namespace": "a", "name": "x", "annotations": annotations});
        ("Ingress", json!({ "metadata": metadata }))
    };
    let mut told = FakeCluster::new(Scope::All, options);
    // The settings name one object by name; the lists before it decide which objects are named.
    told.list(ConfigMap::KIND, &[configmap("ours", "settings", json!({"add-headers": "ours/add"}))]);
    for kind in [Ingress::KIND, IngressClass::KIND, Service::KIND, EndpointSlice::KIND] {
        told.list(kind, &[]);
    }
    assert_eq!(told.cluster.condition().waiting, ["configmap ours/add"]);
    told.list(ConfigMap::KIND, &[configmap("ours", "add", json!({}))]);
    assert!(told.cluster.index().is_some());

    told.finds(Ingress::KIND, &naming("a/h").1);
    assert_eq!(told.cluster.condition().waiting, ["configmaps of namespace a"]);
    told.list(ConfigMap::KIND, &[configmap("a", "h", json!({"X": "1"})), configmap("a", "large", json!({}))]);
    assert_eq!(told.configmaps(), ["ours/settings", "ours/add", "a/h"]);
    told.cluster.take_changed();
    told.finds(ConfigMap::KIND, &configmap("a", "h", json!({"X": "2"})).1);
    assert!(told.cluster.take_changed(), "a change counts at once");
    told.finds(ConfigMap::KIND, &configmap("a", "large", json!({"Y": "1"})).1);
    assert!(!told.cluster.take_changed(), "nobody names it");

    told.fails(ConfigMap::KIND, "configmaps is forbidden", true);
    assert!(told.cluster.index().is_some(), "it keeps nobody waiting");
    let problem = told.cluster.problems().next().unwrap().to_string();
    assert!(
        problem.starts_with("configmaps of namespace a cannot be read, which objects of ours name"),
        "{problem}"
    );
    told.happens(Ingress::KIND, Happening::Gone(NsName::new("a", "x")));
    let mut left = told.configmaps();
    left.sort();
    assert_eq!(left, ["ours/add", "ours/settings"]);
}

#[tokio::test]
async fn a_resource_that_must_not_be_read_is_waited_for_by_name() {
    let mut told = FakeCluster::new(Scope::All, Options::default());
    told.fails(IngressClass::KIND, "ingressclasses is forbidden", true);
    let condition = told.cluster.condition();
    assert!(condition.waiting.contains(&"ingressclasses".to_owned()));
    assert_eq!(condition.troubles, ["ingressclasses: ingressclasses is forbidden"]);
}

#[tokio::test]
async fn with_one_namespace_classes_are_done_without() {
    let mut told = FakeCluster::new(Scope::Namespace("a".to_owned()), Options::default());
    assert!(!told.cluster.lacks_classes());
    told.fails(IngressClass::KIND, "ingressclasses is forbidden", true);
    assert!(told.cluster.lacks_classes());
    assert_eq!(told.cluster.condition().troubles, [""; 0]);
    let waiting = told.cluster.condition().waiting;
    assert_eq!(
        waiting,
        ["ingresses of namespace a", "services of namespace a", "endpointslices of namespace a"]
    );
}

#[tokio::test]
async fn ingresses_count_while_their_namespace_is_selected() {
    let options = Options { watch_ingress_without_class: true, ..Options::default() };
    let mut told = FakeCluster::new(Scope::Selector("team=blue".to_owned()), options);
    told.finds(Ingress::KIND, &ingress("x", &["s"]).1);
    assert_eq!(told.cluster.named.references.groups().count(), 0);
    told.finds(Namespace::KIND, &json!({"metadata": {"name": "a"}}));
    assert_eq!(told.cluster.index.namespaces.as_ref().map(|it| it.contains("a")), Some(true));
    let namespaces: Vec<_> = told.cluster.named.references.groups().map(|group| group.namespace).collect();
    assert_eq!(namespaces, ["a"]);
    told.happens(Namespace::KIND, Happening::Gone(NsName::new("", "a")));
    assert_eq!(told.cluster.index.namespaces.as_ref().map(|it| it.contains("a")), Some(false));
    assert_eq!(told.cluster.named.references.groups().count(), 0);
}

#[test]
fn what_is_kept_on_disk_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let kept = DiskCache::new(&folder.path().join("state"));
    assert!(kept.load().unwrap().is_none());
    let text = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: x, namespace: a, uid: u, annotations: {b: \"1\"}}\n\
                spec: {rules: [{host: h, http: {paths: [{path: /, pathType: Exact, backend: {service: {name: s, port: {number: 80}}}}]}}]}\n\
                ---\napiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {ports: [{port: 80, targetPort: web}]}\n\
                ---\napiVersion: v1\nkind: Secret\nmetadata: {name: t, namespace: a}\nstringData: {tls.crt: \"a\\nb\"}\n";
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, text).unwrap();
    let read = |path: &std::path::Path| {
        let files = crate::source::files::Files::open(&[path.to_owned()]).unwrap();
        assert_eq!(files.problems().count(), 0);
        Index::build(files.objects()).0
    };
    let objects: Vec<_> = read(&file).objects().collect();
    kept.save(&objects).unwrap();
    let index = kept.load().unwrap().unwrap();
    let (old, new) = (read(&file), &index);
    for (old, new) in old.ingresses.iter().zip(new.ingresses.iter()) {
        // The objects are compared without their lines, which differ between a file and the API server.
        assert_eq!(serde_json::to_value(&old.object).unwrap(), serde_json::to_value(&new.object).unwrap());
    }
    assert_eq!(old.services.iter().next().unwrap().object, new.services.iter().next().unwrap().object);
    assert_eq!(old.secrets.iter().next().unwrap().object, new.secrets.iter().next().unwrap().object);
    assert_eq!(new.ingresses.iter().count(), 1);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(kept.path()).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}
