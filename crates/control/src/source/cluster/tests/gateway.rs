//! Kinds of the Gateway API that appear and disappear.

use super::*;
use crate::objects::gateway_api::{Gateway, GatewayClass, XBackendTrafficPolicy};
use crate::translate::gateway::report::CONTROLLER;

fn served(kinds: &[(&str, &'static str)]) -> discovery::Served {
    let kinds = kinds.iter().map(|(plural, version)| ((*plural).to_owned(), *version)).collect();
    discovery::Served { kinds, bundle: Some("v1.6.3".to_owned()) }
}

fn class() -> (&'static str, Value) {
    ("GatewayClass", json!({"metadata": {"name": "edge"}, "spec": {"controllerName": CONTROLLER}}))
}

fn gateway(secret: &str) -> (&'static str, Value) {
    let tls = json!({"certificateRefs": [{"name": secret}]});
    let listener = json!({"name": "https", "port": 443, "protocol": "HTTPS", "tls": tls});
    let spec = json!({"gatewayClassName": "edge", "listeners": [listener]});
    ("Gateway", json!({"metadata": {"namespace": "a", "name": "web"}, "spec": spec}))
}

fn versions(told: &FakeCluster) -> Vec<(&'static str, &'static str)> {
    let known = ["Gateway", "GatewayClass", "HTTPRoute", "TLSRoute"];
    let version = |kind: &'static str| Some((kind, told.cluster.connection.versions.get(kind)?));
    known.into_iter().filter_map(version).collect()
}

#[tokio::test]
async fn kinds_that_are_there_are_waited_for_and_later_ones_are_not() {
    let mut told = FakeCluster::unanswered(Scope::All, Options::default());
    for kind in [Ingress::KIND, IngressClass::KIND, Service::KIND, EndpointSlice::KIND] {
        told.list(kind, &[]);
    }
    assert_eq!(told.cluster.condition().waiting, ["kinds of the Gateway API"]);
    told.cluster.take_served(Ok(served(&[("gatewayclasses", "v1beta1"), ("others", "v1")])), &told.options);
    assert_eq!(told.cluster.condition().waiting, ["gatewayclasses"]);
    told.list(GatewayClass::KIND, &[class()]);
    assert!(told.cluster.index().is_some());
    assert_eq!(versions(&told), [("GatewayClass", "v1beta1")]);
    assert_eq!(told.cluster.connection.versions.bundle().as_deref(), Some("v1.6.3"));

    let all = served(&[("gatewayclasses", "v1"), ("gateways", "v1"), ("tlsroutes", "v1alpha3")]);
    told.cluster.take_served(Ok(all), &told.options);
    assert!(told.cluster.index().is_some(), "what is served goes on");
    assert_eq!(versions(&told), [("Gateway", "v1"), ("GatewayClass", "v1"), ("TLSRoute", "v1alpha3")]);
    assert_eq!(
        told.cluster.index.gateway.keys(GatewayClass::KIND).len(),
        1,
        "until it is listed in the other version"
    );
    told.list(GatewayClass::KIND, &[]);
    assert_eq!(told.cluster.index.gateway.keys(GatewayClass::KIND).len(), 0);
    told.list(Gateway::KIND, &[gateway("s")]);
    told.cluster.take_changed();
    told.cluster.take_served(Ok(served(&[])), &told.options);
    assert!(told.cluster.take_changed() && told.cluster.index.gateway.gateways.is_empty());
    assert_eq!(versions(&told), []);
}

#[tokio::test]
async fn what_gateways_of_ours_name_is_followed() {
    let mut told = FakeCluster::listed(&[]);
    told.cluster.take_served(Ok(served(&[("gatewayclasses", "v1"), ("gateways", "v1")])), &told.options);
    told.list(Gateway::KIND, &[gateway("s")]);
    assert_eq!(told.cluster.named.references.groups().count(), 0, "nobody knows its class");
    told.list(GatewayClass::KIND, &[class()]);
    let namespaces: Vec<_> = told.cluster.named.references.groups().map(|group| group.namespace).collect();
    assert_eq!(namespaces, ["a"]);
    told.list(Secret::KIND, &[secret("s"), secret("t")]);
    assert_eq!(told.secrets(), ["a/s"]);
    told.happens(Gateway::KIND, Happening::Gone(NsName::new("a", "web")));
    assert_eq!(told.secrets(), [""; 0]);
}

#[tokio::test]
async fn labels_of_namespaces_are_watched_where_there_are_gateways() {
    let mut told = FakeCluster::listed(&[]);
    let is_watched =
        |told: &FakeCluster| told.cluster.states.iter().any(|state| state.watch.kind == Namespace::KIND);
    assert!(!is_watched(&told));
    told.cluster.take_served(Ok(served(&[("gateways", "v1")])), &told.options);
    assert!(is_watched(&told));
    told.finds(Namespace::KIND, &json!({"metadata": {"name": "a", "labels": {"team": "blue"}}}));
    let namespace = told.cluster.index.gateway.namespaces.get(&NsName::new("", "a")).unwrap();
    assert_eq!(namespace.object.metadata.label("team"), Some("blue"));
    assert_eq!(told.cluster.index.namespaces, None, "Ingresses of all namespaces count");
}

#[tokio::test]
async fn without_the_right_to_them_the_rest_is_served() {
    let mut told = FakeCluster::unanswered(Scope::All, Options::default());
    for kind in [Ingress::KIND, IngressClass::KIND, Service::KIND, EndpointSlice::KIND] {
        told.list(kind, &[]);
    }
    told.cluster.take_served(Ok(served(&[("gateways", "v1")])), &told.options);
    assert_eq!(told.cluster.condition().waiting, ["gateways", "namespaces"]);
    told.fails(Gateway::KIND, "gateways is forbidden", true);
    told.fails(Namespace::KIND, "namespaces is forbidden", true);
    assert!(told.cluster.index().is_some());
    assert_eq!(told.cluster.condition(), Condition::default());
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_is_a_trouble() {
    let mut told = FakeCluster::unanswered(Scope::All, Options::default());
    let trouble = Trouble { why: "connection refused".to_owned(), is_forbidden: false };
    told.cluster.take_served(Err(trouble), &told.options);
    assert_eq!(told.cluster.condition().troubles, ["kinds of the Gateway API: connection refused"]);
    told.cluster.take_served(Ok(served(&[])), &told.options);
    assert_eq!(told.cluster.condition().troubles, [""; 0]);
}

#[tokio::test]
async fn what_policies_name_is_followed() {
    let mut told = FakeCluster::listed(&[]);
    told.cluster
        .take_served(Ok(served(&[("gatewayclasses", "v1"), ("forebaypolicies", "v1alpha1")])), &told.options);
    told.list(GatewayClass::KIND, &[class()]);
    let spec = json!({"targetRefs": [], "auth": {"type": "basic", "secret": "users", "proxySetHeaders": "b/headers"}});
    let policy = json!({"metadata": {"namespace": "a", "name": "web"}, "spec": spec});
    told.list(ForebayPolicy::KIND, &[("ForebayPolicy", policy)]);
    let references = &told.cluster.named.references;
    assert!(references.has(Secret::KIND, &NsName::new("a", "users")));
    assert!(references.has(ConfigMap::KIND, &NsName::new("b", "headers")));
    told.happens(ForebayPolicy::KIND, Happening::Gone(NsName::new("a", "web")));
    assert_eq!(told.cluster.named.references.groups().count(), 0);
}

/// Other kinds of the group of experiments, and later fields of this one, are no matter.
#[tokio::test]
async fn policies_for_services_are_read_while_the_api_server_has_them() {
    let mut told = FakeCluster::listed(&[]);
    let classes = ("gatewayclasses", "v1");
    let all = [classes, ("xbackendtrafficpolicies", "v1alpha1"), ("xbackends", "v1alpha1")];
    told.cluster.take_served(Ok(served(&all)), &told.options);
    told.list(GatewayClass::KIND, &[class()]);
    let target = json!({"group": "", "kind": "Service", "name": "web"});
    let constraint = json!({"budget": {"percent": 5, "interval": "1m"}, "later": true});
    let spec = json!({"targetRefs": [target], "retryConstraint": constraint, "sessionPersistence": null});
    let policy = json!({"metadata": {"namespace": "a", "name": "web"}, "spec": spec});
    told.list(XBackendTrafficPolicy::KIND, &[("XBackendTrafficPolicy", policy)]);
    let known = told.cluster.index.gateway.traffic_policies.get(&NsName::new("a", "web")).unwrap();
    let constraint = &known.spec.retry_constraint.as_ref().unwrap().value;
    assert_eq!(constraint.budget.as_ref().unwrap().percent, Some(5));
    assert!(constraint.min_retry_rate.is_none() && known.spec.session_persistence.is_none());
    told.cluster.take_served(Ok(served(&[classes])), &told.options);
    assert!(told.cluster.index.gateway.traffic_policies.is_empty());
}
