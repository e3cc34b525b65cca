//! The status of the Gateway API's objects.

use super::*;
use crate::names::ObjectRef;
use crate::objects::gateway_api::{AddressType, ParentReference, RouteGroupKind};
use crate::translate::gateway::report::{
    AncestorStatus, CONTROLLER, ClassReport, Condition, GatewayReport, GatewayStatus, GatewayStatusAddress,
    ListenerStatus, ParentStatus, PolicyStatus, RouteStatus, Subject,
};

const ROOT: &str = "/apis/gateway.networking.k8s.io/v1";

impl Lab {
    /// A lab whose API server has the kinds of the Gateway API.
    fn with_gateways() -> Self {
        let lab = Self::new();
        for kind in ["GatewayClass", "Gateway", "HTTPRoute"] {
            lab.api.versions.set(kind, Some("v1"));
        }
        lab
    }

    fn report(&self, report: GatewayReport) {
        let translation = Translation { gateway: report, ..Translation::default() };
        self.programmed.send_replace(Some(Arc::new(translation)));
    }

    fn put_route(&self, name: &str, status: &Value) {
        let metadata = json!({"namespace": "apps", "uid": format!("uid-{name}")});
        self.api.put(&route_path(name), json!({"metadata": metadata, "status": status}));
    }

    fn parents(&self, name: &str) -> Value {
        self.api.get(&route_path(name)).unwrap()["status"]["parents"].clone()
    }

    fn route_patches(&self) -> usize {
        self.api.count(&Method::PATCH, "/httproutes/")
    }
}

fn route_path(name: &str) -> String {
    format!("{ROOT}/namespaces/apps/httproutes/{name}")
}

fn subject(kind: &'static str, namespace: &str, name: &str, generation: i64) -> Subject {
    let object = ObjectRef { kind, namespace: namespace.into(), name: name.into() };
    Subject { object, uid: Some(format!("uid-{name}")), generation }
}

fn parent(name: &str, condition: Condition) -> ParentStatus {
    let parent_ref = ParentReference { name: name.into(), ..ParentReference::default() };
    ParentStatus { parent_ref, conditions: vec![condition] }
}

fn route(name: &str, generation: i64, parents: Vec<ParentStatus>) -> Arc<RouteStatus> {
    Arc::new(RouteStatus { subject: subject("HTTPRoute", "apps", name, generation), parents })
}

fn routes(routes: Vec<Arc<RouteStatus>>) -> GatewayReport {
    GatewayReport { routes, ..GatewayReport::default() }
}

fn accepted() -> Condition {
    Condition::yes("Accepted", "Accepted", "")
}

fn foreign() -> Value {
    json!({"parentRef": {"name": "theirs"}, "controllerName": "example.com/other", "conditions": []})
}

#[tokio::test(start_paused = true)]
async fn a_condition_keeps_its_time_and_others_keep_their_parents() {
    let lab = Lab::with_gateways();
    let old = json!({
        "type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    });
    let ours = json!({"parentRef": {"name": "edge"}, "controllerName": CONTROLLER, "conditions": [old]});
    lab.put_route("web", &json!({"parents": [ours, foreign()]}));
    let keeper = lab.spawn("a", given("192.0.2.1"));
    lab.report(routes(vec![route("web", 2, vec![parent("edge", accepted())])]));
    until(SECOND, || lab.route_patches() == 1).await;
    let parents = lab.parents("web");
    assert_eq!(parents[0], foreign());
    assert_eq!(parents[1]["parentRef"], json!({"name": "edge"}));
    assert_eq!(parents[1]["conditions"][0]["observedGeneration"], 2);
    assert_eq!(parents[1]["conditions"][0]["lastTransitionTime"], "2020-01-01T00:00:00Z");

    let refused = Condition::no("Accepted", "NotAllowedByListeners", "no");
    lab.report(routes(vec![route("web", 3, vec![parent("edge", refused)])]));
    until(SECOND, || lab.route_patches() == 2).await;
    let condition = lab.parents("web")[1]["conditions"][0].clone();
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("NotAllowedByListeners"))
    );
    assert_ne!(condition["lastTransitionTime"], "2020-01-01T00:00:00Z");

    // The route moves to another controller.
    lab.report(routes(vec![]));
    until(SECOND, || lab.route_patches() == 3).await;
    assert_eq!(lab.parents("web"), json!([foreign()]));
    sleep(150 * SECOND).await;
    assert_eq!(lab.route_patches(), 3);
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_class_and_a_gateway_say_what_they_are() {
    let lab = Lab::with_gateways();
    lab.api.put(&format!("{ROOT}/gatewayclasses/edge"), json!({"metadata": {"uid": "uid-edge"}}));
    let path = format!("{ROOT}/namespaces/apps/gateways/web");
    lab.api.put(&path, json!({"metadata": {"namespace": "apps", "uid": "uid-web"}}));
    let gateway = |addresses: Option<&str>| {
        let kinds = vec![RouteGroupKind { group: None, kind: "HTTPRoute".into() }];
        let listener = ListenerStatus {
            name: "http".into(),
            supported_kinds: kinds,
            attached_routes: 2,
            conditions: vec![accepted()],
            places: Vec::new(),
        };
        let address =
            |value: &str| GatewayStatusAddress { kind: AddressType::IPAddress, value: value.into() };
        Arc::new(GatewayStatus {
            subject: subject("Gateway", "apps", "web", 1),
            conditions: vec![accepted(), Condition::yes("Programmed", "Programmed", "")],
            addresses: addresses.map(|value| vec![address(value)]),
            listeners: vec![listener],
            attached_listener_sets: 0,
        })
    };
    let class = Arc::new(ClassReport {
        subject: subject("GatewayClass", "", "edge", 1),
        conditions: vec![accepted()],
    });
    let report = |addresses| GatewayReport {
        classes: vec![Arc::clone(&class)],
        gateways: vec![gateway(addresses)],
        ..GatewayReport::default()
    };
    lab.api.versions.set_bundle(Some("v1.9.0"));
    let keeper = lab.spawn("a", given("192.0.2.1"));
    lab.report(report(None));
    let status = || lab.api.get(&path).unwrap()["status"].clone();
    until(SECOND, || status()["addresses"] == json!([{"type": "IPAddress", "value": "192.0.2.1"}])).await;
    let listener = status()["listeners"][0].clone();
    assert_eq!(listener["attachedRoutes"], 2);
    assert_eq!(
        listener["supportedKinds"],
        json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}])
    );
    let class = lab.api.get(&format!("{ROOT}/gatewayclasses/edge")).unwrap()["status"].clone();
    assert_eq!(class["conditions"][0]["type"], "Accepted");
    assert_eq!(class["conditions"][1]["type"], "SupportedVersion");
    assert_eq!(class["conditions"][1]["reason"], "UnsupportedVersion");
    let has = |class: &serde_json::Value, feature: &str| {
        class["supportedFeatures"].as_array().unwrap().contains(&json!({"name": feature}))
    };
    assert!(has(&class, "HTTPRouteRetryCodes") && !has(&class, "HTTPRouteRetry"));
    lab.report(report(Some("192.0.2.9")));
    until(SECOND, || status()["addresses"] == json!([{"type": "IPAddress", "value": "192.0.2.9"}])).await;
    // CRDs of an older release, which users have for long, get the names of their own features.
    lab.api.versions.set_bundle(Some("v1.6.3"));
    lab.report(report(None));
    let class = || lab.api.get(&format!("{ROOT}/gatewayclasses/edge")).unwrap()["status"].clone();
    until(SECOND, || class()["conditions"][1]["status"] == "True").await;
    assert!(has(&class(), "HTTPRouteRetry") && !has(&class(), "HTTPRouteRetryCodes"));
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_an_address_nothing_is_programmed() {
    let lab = Lab::with_gateways();
    let path = format!("{ROOT}/namespaces/apps/gateways/web");
    lab.api.put(&path, json!({"metadata": {"namespace": "apps", "uid": "uid-web"}}));
    let service = NsName::new("ingress", "edge");
    let keeper = lab.spawn("a", StatusOptions { publish_service: Some(service), ..StatusOptions::default() });
    let gateway = GatewayStatus {
        subject: subject("Gateway", "apps", "web", 1),
        conditions: vec![Condition::yes("Programmed", "Programmed", "")],
        addresses: None,
        listeners: Vec::new(),
        attached_listener_sets: 0,
    };
    lab.report(GatewayReport { gateways: vec![Arc::new(gateway)], ..GatewayReport::default() });
    let programmed = || lab.api.get(&path).unwrap()["status"]["conditions"][0].clone();
    until(SECOND, || programmed()["reason"] == "AddressNotAssigned").await;
    assert_eq!(programmed()["status"], "False");
    let balancer = json!({"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}});
    let spec = json!({"type": "LoadBalancer"});
    lab.api.put(PUBLISHED, json!({"metadata": {"namespace": "ingress"}, "spec": spec, "status": balancer}));
    until(SECOND, || programmed()["status"] == "True").await;
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_routes_are_listed_and_written_in_batches() {
    let lab = Lab::with_gateways();
    let names: Vec<_> = (0..300).map(|n| format!("r{n}")).collect();
    for name in &names {
        lab.put_route(name, &json!({}));
    }
    let keeper = lab.spawn("a", StatusOptions { leader_election: false, ..given("192.0.2.1") });
    let report =
        || routes(names.iter().map(|name| route(name, 1, vec![parent("edge", accepted())])).collect());
    lab.api.fail(Method::PATCH, "/r7/", 409);
    lab.api.fail(Method::PATCH, "/r8/", 422);
    lab.report(report());
    until(10 * SECOND, || lab.route_patches() == 301).await;
    let is_written = |name: &String| lab.parents(name)[0]["parentRef"]["name"] == "edge";
    assert!(names.iter().filter(|name| *name != "r8").all(is_written));
    assert!(lab.api.count(&Method::GET, "/httproutes") <= 2, "one list, and one that was changed meanwhile");
    // The pass over all objects writes refused statuses and removed ones again.
    lab.put_route("r9", &json!({}));
    until(120 * SECOND, || names.iter().all(is_written)).await;
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn few_of_many_routes_are_read_one_by_one() {
    let lab = Lab::with_gateways();
    let names: Vec<_> = (0..300).map(|n| format!("r{n}")).collect();
    for name in &names {
        lab.put_route(name, &json!({}));
    }
    let keeper = lab.spawn("a", StatusOptions { leader_election: false, ..given("192.0.2.1") });
    let report = |changed: usize| {
        let of_one = |(at, name): (usize, &String)| {
            route(name, if at < changed { 2 } else { 1 }, vec![parent("edge", accepted())])
        };
        routes(names.iter().enumerate().map(of_one).collect())
    };
    lab.report(report(0));
    until(10 * SECOND, || lab.route_patches() == 300).await;
    let by_name = || lab.api.count(&Method::GET, "/httproutes/");
    let before = by_name();
    lab.report(report(40));
    until(10 * SECOND, || lab.route_patches() == 340).await;
    assert_eq!(by_name() - before, 40, "a list would have had 260 others");
    assert_eq!(lab.parents("r39")[0]["conditions"][0]["observedGeneration"], 2);
    assert_eq!(lab.parents("r40")[0]["conditions"][0]["observedGeneration"], 1);
    // A route that is gone is forgotten, and no other is written for it.
    lab.report(routes(
        names[..299].iter().map(|name| route(name, 2, vec![parent("edge", accepted())])).collect(),
    ));
    until(10 * SECOND, || lab.route_patches() == 340 + 259 + 1).await;
    assert!(lab.parents("r299").as_array().is_none_or(Vec::is_empty), "{}", lab.parents("r299"));
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_server_has_no_more_is_left_alone() {
    let lab = Lab::with_gateways();
    lab.put_route("web", &json!({}));
    lab.api.versions.set("HTTPRoute", None);
    let keeper = lab.spawn("a", given("192.0.2.1"));
    lab.report(routes(vec![route("web", 1, vec![parent("edge", accepted())])]));
    until(SECOND, || lab.holder() == "a").await;
    sleep(5 * SECOND).await;
    assert_eq!(lab.api.count(&Method::GET, "/httproutes"), 0);
    lab.api.versions.set("HTTPRoute", Some("v1"));
    until(90 * SECOND, || lab.route_patches() == 1).await;
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_what_becomes_of_its_targets() {
    says_what_becomes_of_it("ForebayPolicy", "forebay.io", "forebaypolicies").await;
    let group = "gateway.networking.x-k8s.io";
    says_what_becomes_of_it("XBackendTrafficPolicy", group, "xbackendtrafficpolicies").await;
}

async fn says_what_becomes_of_it(kind: &'static str, group: &str, plural: &str) {
    let lab = Lab::with_gateways();
    lab.api.versions.set(kind, Some("v1alpha1"));
    let path = &*format!("/apis/{group}/v1alpha1/namespaces/apps/{plural}/web");
    lab.api.put(path, json!({"metadata": {"namespace": "apps", "uid": "uid-web"}}));
    let keeper = lab.spawn("a", given("192.0.2.1"));
    let ancestor_ref =
        ParentReference { kind: Some("HTTPRoute".into()), name: "web".into(), ..ParentReference::default() };
    let conflicted = Condition::no("Accepted", "Conflicted", "an older one says so");
    let policy = PolicyStatus {
        subject: subject(kind, "apps", "web", 3),
        ancestors: vec![AncestorStatus { ancestor_ref, conditions: vec![conflicted] }],
    };
    lab.report(GatewayReport { policies: vec![Arc::new(policy)], ..GatewayReport::default() });
    until(SECOND, || lab.api.count(&Method::PATCH, &format!("/{plural}/")) == 1).await;
    let ancestor = lab.api.get(path).unwrap()["status"]["ancestors"][0].clone();
    assert_eq!(ancestor["ancestorRef"], json!({"kind": "HTTPRoute", "name": "web"}));
    assert_eq!(ancestor["controllerName"], CONTROLLER);
    let condition = &ancestor["conditions"][0];
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("Conflicted")));
    assert_eq!(condition["observedGeneration"], 3);
    keeper.stop().await;
}
