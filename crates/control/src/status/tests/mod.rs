//! The whole module against a test API server, with a paused clock that advances only when all tasks wait.

mod api;
mod gateway;
mod kept;

use std::slice::from_ref;

use http::Method;
use model::List;
use observe::MetricsOptions;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::*;
use crate::objects::{Ingress, Origin, Sourced};
use crate::problem::{Problem, Reason, Severity};
use crate::translate::Translation;
use api::Api;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ingress/leases/ingress-controller-leader";
const PUBLISHED: &str = "/api/v1/namespaces/ingress/services/edge";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/apps/events";

/// Replicas of a controller with an API server.
struct Lab {
    api: Api,
    programmed: watch::Sender<Option<Arc<Translation>>>,
    metrics: Arc<Registry>,
}

impl Lab {
    fn new() -> Self {
        let metrics = Registry::new(MetricsOptions::default());
        Self { api: Api::new(), programmed: watch::Sender::new(None), metrics }
    }

    /// Starts a replica in its own Pod.
    fn spawn(&self, pod: &str, options: StatusOptions) -> Keeper {
        self.spawn_beside(pod, options, Beside::default())
    }

    /// The same, with states to keep and Events of others.
    fn spawn_beside(&self, pod: &str, options: StatusOptions, beside: Beside) -> Keeper {
        let options = StatusOptions { pod: Some(NsName::new("ingress", pod)), ..options };
        let (connection, metrics) = (self.api.connection(), Arc::clone(&self.metrics));
        spawn(&connection, options, self.programmed.subscribe(), metrics, beside)
    }

    fn run_pod(&self, name: &str, node: &str) {
        self.api.put(&pod_path(name), pod(node));
    }

    /// Stores Ingresses with these names at the server, and serves them.
    fn serve(&self, names: &[&str]) {
        for name in names {
            if self.api.get(&ingress_path(name)).is_none() {
                self.api.put(
                    &ingress_path(name),
                    json!({"metadata": {"namespace": "apps", "uid": format!("uid-{name}")}}),
                );
            }
        }
        self.program(names, vec![]);
    }

    /// Reports that all workers serve these Ingresses, in the versions that the server has.
    fn program(&self, names: &[&str], problems: Vec<Problem>) {
        let ingresses: Vec<_> = names.iter().map(|name| self.served(name)).collect();
        self.programmed.send_replace(Some(Arc::new(Translation {
            problems,
            ingresses: Arc::new(ingresses.into()),
            ..Translation::default()
        })));
    }

    fn served(&self, name: &str) -> Arc<Sourced<Ingress>> {
        let object: Ingress = serde_json::from_value(self.api.get(&ingress_path(name)).unwrap()).unwrap();
        Arc::new(Sourced { origin: Origin::default(), object })
    }

    fn status(&self, name: &str) -> Value {
        self.api.get(&ingress_path(name)).unwrap()["status"]["loadBalancer"]["ingress"].clone()
    }

    fn patches(&self) -> usize {
        self.api.count(&Method::PATCH, "/ingresses/")
    }

    fn holder(&self) -> String {
        let lease = self.api.get(LEASE).unwrap_or_default();
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    /// Type, reason, object and note of each Event.
    fn events(&self) -> Vec<[String; 4]> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = self.api.list(EVENTS);
        let row = |event: &Value| {
            [&event["type"], &event["reason"], &event["regarding"]["name"], &event["note"]].map(text)
        };
        let mut rows: Vec<_> = events.iter().map(row).collect();
        rows.sort();
        rows
    }
}

fn given(address: &str) -> StatusOptions {
    StatusOptions { publish_address: vec![address.to_owned()], ..StatusOptions::default() }
}

fn ingress_path(name: &str) -> String {
    format!("/apis/networking.k8s.io/v1/namespaces/apps/ingresses/{name}")
}

fn pod_path(name: &str) -> String {
    format!("/api/v1/namespaces/ingress/pods/{name}")
}

fn pod(node: &str) -> Value {
    json!({
        "metadata": {"namespace": "ingress", "labels": {"app": "forebay", "pod-template-hash": node}},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn node(addresses: &[(&str, &str)]) -> Value {
    let addresses: Vec<_> =
        addresses.iter().map(|(kind, address)| json!({"type": kind, "address": address})).collect();
    json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "east"}}, "status": {"addresses": addresses}})
}

fn problem(ingress: &Sourced<Ingress>, message: &str) -> Problem {
    Problem::of(Severity::Error, ingress, message).because(Reason::Missing)
}

/// Waits until `holds` returns true. Returns how long that took.
async fn until(limit: Duration, holds: impl Fn() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < limit, "it does not hold after {limit:?}");
        sleep(Duration::from_millis(5)).await;
    }
    begin.elapsed()
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_status_is_written_where_it_differs() {
    let lab = Lab::new();
    lab.api.put(
        &ingress_path("b"),
        json!({
            "metadata": {"namespace": "apps", "uid": "uid-b"},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}, {"ip": "192.0.2.1"}]}},
        }),
    );
    let keeper = lab.spawn("a", given("192.0.2.1,192.0.2.2"));
    sleep(SECOND).await;
    assert_eq!(lab.holder(), "", "nothing is served yet");
    lab.serve(&["a", "b"]);
    until(SECOND, || lab.patches() == 1).await;
    assert_eq!(lab.status("a"), json!([{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]));
    sleep(150 * SECOND).await;
    assert_eq!(lab.patches(), 1, "b says it already, in another order");

    // Another client removes the status, and the next translation contains that change.
    lab.api.put(&ingress_path("a"), json!({"metadata": {"namespace": "apps", "uid": "uid-a"}}));
    lab.program(&["a", "b"], vec![]);
    until(SECOND, || lab.patches() == 2).await;
    assert_eq!(lab.status("a"), json!([{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]));
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_ingress_that_fails_does_not_stop_the_others() {
    let lab = Lab::new();
    lab.serve(&["denied", "busy", "gone", "fine"]);
    lab.api.delete(&ingress_path("gone"));
    lab.api.fail(Method::PATCH, "/busy/", 409);
    lab.api.fail(Method::PATCH, "/fine/", 503);
    for code in [403, 422] {
        lab.api.fail(Method::PATCH, "/denied/", code);
    }
    let keeper = lab.spawn("a", given("lb.example"));
    until(5 * SECOND, || lab.status("fine") == json!([{"hostname": "lb.example"}])).await;
    until(5 * SECOND, || lab.status("busy") == json!([{"hostname": "lb.example"}])).await;
    let tries = lab.patches();
    sleep(30 * SECOND).await;
    assert_eq!(lab.patches(), tries, "that one is gone is known, and that one is denied");
    until(120 * SECOND, || lab.status("denied") == json!([{"hostname": "lb.example"}])).await;
    assert_eq!(lab.patches(), tries + 2);
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_many_ingresses_the_changed_one_is_written() {
    let lab = Lab::new();
    let names: Vec<_> = (0..600).map(|n| format!("i{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let keeper = lab.spawn("a", StatusOptions { leader_election: false, ..given("192.0.2.1") });
    lab.serve(&names);
    until(120 * SECOND, || lab.patches() == 600).await;
    let program = |list: &List<_>| {
        let ingresses = Arc::new(list.clone());
        lab.programmed.send_replace(Some(Arc::new(Translation { ingresses, ..Translation::default() })));
    };
    let mut list: List<_> = names.iter().map(|name| lab.served(name)).collect();
    program(&list);
    sleep(SECOND).await;
    assert_eq!(lab.patches(), 600, "the watch has told of all writes");
    lab.api.put(&ingress_path("i7"), json!({"metadata": {"namespace": "apps", "uid": "uid-i7"}}));
    list.replace(7, lab.served("i7"));
    program(&list);
    until(SECOND, || lab.patches() == 601).await;
    assert_eq!(lab.status("i7"), json!([{"ip": "192.0.2.1"}]));
    sleep(150 * SECOND).await;
    assert_eq!(lab.patches(), 601, "a pass over all Ingresses finds nothing to write");
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_ingresses_do_not_flood_the_server() {
    let lab = Lab::new();
    let names: Vec<_> = (0..300).map(|n| format!("i{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let keeper = lab.spawn("a", StatusOptions { leader_election: false, ..given("192.0.2.1") });
    lab.api.mute(true);
    lab.serve(&names);
    sleep(5 * SECOND).await;
    assert_eq!(lab.patches(), 10);
    lab.api.mute(false);
    let is_written = |name: &&str| lab.status(name) == json!([{"ip": "192.0.2.1"}]);
    until(60 * SECOND, || names.iter().all(is_written)).await;
    let writes = lab.patches();
    assert!((300..=310).contains(&writes), "{writes}");
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_of_the_same_name_is_let_alone() {
    let lab = Lab::new();
    lab.serve(&["a"]);
    lab.api.put(&ingress_path("a"), json!({"metadata": {"namespace": "apps", "uid": "later"}}));
    let keeper = lab.spawn("a", given("192.0.2.1"));
    until(SECOND, || lab.patches() >= 3).await;
    assert_eq!(lab.status("a"), Value::Null);
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_replica_leads_and_another_takes_over() {
    let lab = Lab::new();
    lab.run_pod("a", "n1");
    lab.run_pod("b", "n2");
    lab.serve(&["web"]);
    let a = lab.spawn("a", given("192.0.2.1"));
    until(SECOND, || lab.status("web") == json!([{"ip": "192.0.2.1"}])).await;
    let b = lab.spawn("b", given("192.0.2.2"));
    sleep(100 * SECOND).await;
    assert_eq!(lab.holder(), "a");
    assert_eq!(lab.patches(), 1);

    a.stop().await;
    lab.api.delete(&pod_path("a"));
    assert_eq!(lab.status("web"), json!([{"ip": "192.0.2.1"}]), "it is not the last");
    assert_eq!(lab.holder(), "");
    lab.program(&["web"], vec![]);
    let wait = until(15 * SECOND, || lab.status("web") == json!([{"ip": "192.0.2.2"}])).await;
    assert!(wait <= 10 * SECOND, "{wait:?}");
    assert_eq!(lab.holder(), "b");
    assert_eq!(lab.api.get(LEASE).unwrap()["spec"]["leaseTransitions"], json!(1));

    b.stop().await;
    assert_eq!(lab.status("web"), json!([]), "it was the last");
}

#[tokio::test(start_paused = true)]
async fn what_was_written_without_an_answer_is_cleared_and_given_up() {
    let lab = Lab::new();
    lab.run_pod("a", "n1");
    let keeper = lab.spawn("a", given("192.0.2.1"));
    lab.serve(&[]);
    until(SECOND, || lab.holder() == "a").await;
    // The next renewal and the next status get no response.
    lab.api.mute(true);
    let renewed = || lab.api.get(LEASE).unwrap()["spec"]["renewTime"].clone();
    let before = renewed();
    lab.serve(&["web"]);
    until(10 * SECOND, || renewed() != before).await;
    assert_eq!(lab.status("web"), json!([{"ip": "192.0.2.1"}]));
    lab.api.mute(false);
    keeper.stop().await;
    assert_eq!(lab.status("web"), json!([]));
    assert_eq!(lab.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn who_follows_leaves_the_status_alone_when_it_stops() {
    let lab = Lab::new();
    lab.run_pod("a", "n1");
    lab.serve(&["web"]);
    let a = lab.spawn("a", StatusOptions { update_on_shutdown: false, ..given("192.0.2.1") });
    until(SECOND, || lab.patches() == 1).await;
    let b = lab.spawn("b", given("192.0.2.1"));
    sleep(60 * SECOND).await;
    b.stop().await;
    assert_eq!(lab.holder(), "a");
    a.stop().await;
    assert_eq!(lab.status("web"), json!([{"ip": "192.0.2.1"}]), "it was told to leave it");
}

#[tokio::test(start_paused = true)]
async fn without_the_api_server_nobody_leads_and_stopping_is_quick() {
    let lab = Lab::new();
    lab.serve(&["web"]);
    let keeper = lab.spawn("a", given("192.0.2.1"));
    until(SECOND, || lab.patches() == 1).await;
    let leads = |leads: u8| {
        let mut page = String::new();
        lab.metrics.encode(&observe::Process::default(), &mut page);
        page.contains(&format!("leader_election_status{{controller_class=\"\",controller_namespace=\"\",controller_pod=\"\",name=\"ingress-controller-leader\"}} {leads}\n"))
    };
    assert!(leads(1));
    lab.api.go_away(true);
    let wait = until(60 * SECOND, || leads(0)).await;
    assert!((7 * SECOND..=16 * SECOND).contains(&wait), "{wait:?}");
    lab.api.go_away(false);
    until(60 * SECOND, || leads(1)).await;
    lab.serve(&["web", "later"]);
    until(SECOND, || lab.patches() == 2).await;
    lab.api.go_away(true);
    let begin = Instant::now();
    keeper.stop().await;
    assert!(begin.elapsed() <= STOP_MAX);
}

#[tokio::test(start_paused = true)]
async fn an_address_of_the_service_that_comes_later_is_written_at_once() {
    let lab = Lab::new();
    lab.serve(&["web"]);
    let service = NsName::new("ingress", "edge");
    let options = StatusOptions { publish_service: Some(service), ..StatusOptions::default() };
    let keeper = lab.spawn("a", options);
    sleep(10 * SECOND).await;
    let service = |points: Value| {
        json!({
            "metadata": {"namespace": "ingress"},
            "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1"},
            "status": {"loadBalancer": {"ingress": points}},
        })
    };
    assert_eq!(lab.patches(), 0, "there is no Service");
    lab.api.put(PUBLISHED, service(json!([])));
    sleep(10 * SECOND).await;
    lab.api.put(PUBLISHED, service(json!([{"ip": "192.0.2.7"}])));
    until(SECOND, || lab.status("web") == json!([{"ip": "192.0.2.7"}])).await;
    lab.api.put(PUBLISHED, service(json!([{"hostname": "lb.example"}])));
    until(SECOND, || lab.status("web") == json!([{"hostname": "lb.example"}])).await;
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_nodes_of_pods_like_this_one_are_written() {
    let lab = Lab::new();
    lab.serve(&["web"]);
    lab.api.put("/api/v1/nodes/n1", node(&[("InternalIP", "10.0.0.1"), ("ExternalIP", "192.0.2.1")]));
    lab.api.put("/api/v1/nodes/n2", node(&[("InternalIP", "10.0.0.2")]));
    lab.run_pod("a", "n1");
    let keeper = lab.spawn("a", StatusOptions::default());
    until(SECOND, || lab.status("web") == json!([{"ip": "192.0.2.1"}])).await;
    lab.run_pod("b", "n2");
    until(SECOND, || lab.status("web") == json!([{"ip": "10.0.0.2"}, {"ip": "192.0.2.1"}])).await;
    let mut unready = pod("n2");
    unready["status"]["conditions"][0]["status"] = json!("False");
    lab.api.put(&pod_path("b"), unready);
    until(SECOND, || lab.status("web") == json!([{"ip": "192.0.2.1"}])).await;
    let mut terminating = pod("n1");
    terminating["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
    lab.api.put(&pod_path("a"), terminating);
    sleep(SECOND).await;
    assert_eq!(lab.status("web"), json!([{"ip": "192.0.2.1"}]), "an old address is better than none");
    // The other Pod is not ready, but it is not terminating either.
    keeper.stop().await;
    assert_eq!(lab.status("web"), json!([{"ip": "192.0.2.1"}]));
}

#[tokio::test(start_paused = true)]
async fn internal_addresses_of_nodes_are_written_where_those_are_wanted() {
    let lab = Lab::new();
    lab.serve(&["web"]);
    lab.api.put("/api/v1/nodes/n1", node(&[("InternalIP", "10.0.0.1"), ("ExternalIP", "192.0.2.1")]));
    lab.run_pod("a", "n1");
    let options =
        StatusOptions { report_node_internal_ip: true, leader_election: false, ..StatusOptions::default() };
    let keeper = lab.spawn("a", options);
    until(SECOND, || lab.status("web") == json!([{"ip": "10.0.0.1"}])).await;
    keeper.stop().await;
    assert_eq!(lab.status("web"), json!([]));
    assert_eq!(lab.api.get(LEASE), None);
}

#[tokio::test(start_paused = true)]
async fn addresses_of_nodes_are_asked_for_again_at_each_interval() {
    let lab = Lab::new();
    lab.serve(&["web"]);
    lab.api.put("/api/v1/nodes/n1", node(&[("ExternalIP", "192.0.2.1")]));
    lab.run_pod("a", "n1");
    let keeper = lab.spawn("a", StatusOptions { interval: 20 * SECOND, ..StatusOptions::default() });
    until(SECOND, || lab.status("web") == json!([{"ip": "192.0.2.1"}])).await;
    lab.api.put("/api/v1/nodes/n1", node(&[("ExternalIP", "192.0.2.2")]));
    sleep(15 * SECOND).await;
    assert_eq!(lab.status("web"), json!([{"ip": "192.0.2.1"}]), "nothing tells of it before");
    until(6 * SECOND, || lab.status("web") == json!([{"ip": "192.0.2.2"}])).await;
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn events_tell_of_what_is_new() {
    let lab = Lab::new();
    lab.serve(&["old", "broken"]);
    let broken = problem(&lab.served("broken"), "no Service apps/x");
    lab.program(&["old", "broken"], vec![broken.clone()]);
    let keeper = lab.spawn("a", given("192.0.2.1"));
    let row = |row: [&str; 4]| row.map(str::to_owned);
    let warning = row(["Warning", "ReferenceNotUsable", "broken", "no Service apps/x"]);
    until(5 * SECOND, || !lab.events().is_empty()).await;
    assert_eq!(lab.events(), *from_ref(&warning), "what was there before is no news");

    // A problem that stays is published once, and so is one that disappears and reappears.
    lab.serve(&["old", "broken"]);
    sleep(SECOND).await;
    lab.program(&["old", "broken"], vec![broken.clone(), Problem::new(Severity::Error, "of no object")]);
    sleep(SECOND).await;
    assert_eq!(lab.events(), *from_ref(&warning));

    lab.serve(&["old", "broken", "new"]);
    let sync = |name| row(["Normal", "Sync", name, "Programmed: every worker serves it"]);
    until(SECOND, || lab.events().len() == 2).await;
    assert_eq!(lab.events(), [sync("new"), warning.clone()]);

    let mut changed = lab.api.get(&ingress_path("old")).unwrap();
    changed["metadata"]["annotations"] = json!({"a": "b"});
    lab.api.put(&ingress_path("old"), changed);
    lab.serve(&["old", "broken", "new"]);
    until(SECOND, || lab.events().len() == 3).await;
    assert_eq!(lab.events(), [sync("new"), sync("old"), warning]);
    let event = &lab.api.list(EVENTS)[0];
    assert_eq!(event["regarding"]["uid"], json!("uid-broken"));
    assert_eq!(event["regarding"]["apiVersion"], json!("networking.k8s.io/v1"));
    assert_eq!(event["reportingInstance"], json!("a"));
    keeper.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_trial_changes_nothing_of_anybody() {
    let lab = Lab::new();
    lab.serve(&["web"]);
    let options = StatusOptions { update: false, sync_events: false, ..given("192.0.2.1") };
    let keeper = lab.spawn("a", options);
    sleep(SECOND).await;
    let of_web = problem(&lab.served("web"), "not done");
    lab.program(&["web"], vec![of_web]);
    until(SECOND, || lab.events().len() == 1).await;
    sleep(100 * SECOND).await;
    keeper.stop().await;
    assert_eq!(lab.api.get(LEASE), None);
    assert_eq!(lab.status("web"), Value::Null);
    assert_eq!(lab.api.count(&Method::POST, ""), 1);
    assert_eq!(lab.api.count(&Method::PATCH, "") + lab.api.count(&Method::PUT, ""), 0);
}

#[tokio::test(start_paused = true)]
async fn the_zone_is_that_of_the_node() {
    let lab = Lab::new();
    lab.api.put("/api/v1/nodes/n1", node(&[]));
    lab.run_pod("a", "n1");
    let connection = lab.api.connection();
    let pod = async |name: &str| this_pod(&connection, &NsName::new("ingress", name)).await;
    let expected = ThisPod { node: Some("n1".to_owned()), host_network: false };
    assert_eq!(pod("a").await, Some(expected));
    assert_eq!(pod("no").await, None);
    assert_eq!(zone_of_node(&connection, "n1").await.as_deref(), Some("east"));
    assert_eq!(zone_of_node(&connection, "n2").await, None);
}
