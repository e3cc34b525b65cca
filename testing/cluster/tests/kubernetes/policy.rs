//! Policies of Forebay's own: the API server takes the definition of their kind and refuses what is wrong at
//! once; what is created takes effect, and its status says so.

use std::path::Path;

use cluster::Cluster;
use serde_json::{Value, json};

use crate::gateway::{api, condition, install, install_kinds, route, start};
use crate::space::{Space, await_answer, await_that, saying};

/// The definition that the chart brings.
fn install_policies(api: &Cluster) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/forebay/crds");
    install(api, &folder);
}

fn target(kind: &str, name: &str, section: Option<&str>) -> Value {
    let mut target = json!({"group": "gateway.networking.k8s.io", "kind": kind, "name": name});
    if let Some(section) = section {
        target["sectionName"] = section.into();
    }
    target
}

/// A policy with these targets and sections.
fn policy(targets: &[Value], sections: &Value) -> Value {
    let mut spec = json!({ "targetRefs": targets });
    for (name, fields) in sections.as_object().expect("sections") {
        spec[name] = fields.clone();
    }
    json!({ "spec": spec })
}

/// The API server's refusal of a policy: none if it is accepted.
fn refusal(space: &Space, content: Value) -> Option<String> {
    let object = space.object("ForebayPolicy", "tried", content);
    let answer = space.client.try_apply(&object).expect("the API answers");
    (answer.status >= 400).then(|| answer.body["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn the_api_server_refuses_what_is_wrong_at_once() {
    let api = api();
    let space = Space::within(&api.kubeconfig(), "definition");
    install_policies(&api);
    let gateway = || target("Gateway", "web", None);
    let route = |section: Option<&str>| target("HTTPRoute", "web", section);
    let cache = json!({"cache": {"enabled": true}});
    let good = [
        policy(&[gateway()], &json!({"timeouts": {"read": 30}, "limits": {"requests": ["5/1m"], "rps": 5}})),
        policy(&[target("Gateway", "web", Some("http")), route(Some("a")), route(Some("b"))], &cache),
        policy(&[target("GRPCRoute", "web", None)], &json!({"auth": {"type": "basic", "secret": "users"}})),
        policy(&[gateway()], &json!({"cache": {"defaultTtl": "1h30m"}, "bodies": {"bodySize": "8k"}})),
    ];
    for content in good {
        assert_eq!(refusal(&space, content.clone()), None, "{content}");
    }
    let bad = [
        (policy(&[], &cache), "spec.targetRefs"),
        (policy(&[gateway()], &json!({})), "at least one section"),
        (policy(&[target("TCPRoute", "web", None)], &cache), "for Gateways, HTTPRoutes and GRPCRoutes"),
        (
            policy(&[json!({"group": "", "kind": "Gateway", "name": "web"})], &cache),
            "for Gateways, HTTPRoutes",
        ),
        (policy(&[route(Some(""))], &cache), "sectionName"),
        (policy(&[gateway(), gateway()], &cache), "distinct"),
        (policy(&[route(None), route(Some("a"))], &cache), "as a whole, or by its sections"),
        (policy(&[gateway()], &json!({"cache": {}})), "spec.cache"),
        (policy(&[gateway()], &json!({"cache": {"enabled": "yes"}})), "spec.cache.enabled"),
        (policy(&[gateway()], &json!({"cache": {"defaultTtl": "soon"}})), "spec.cache.defaultTtl"),
        (policy(&[gateway()], &json!({"access": {"satisfy": "some"}})), "spec.access.satisfy"),
        (policy(&[gateway()], &json!({"access": {"allowlistSourceRange": []}})), "allowlistSourceRange"),
        (policy(&[gateway()], &json!({"timeouts": {"read": -1}})), "spec.timeouts.read"),
        (policy(&[gateway()], &json!({"auth": {"type": "basic"}})), "type and secret belong together"),
        (policy(&[gateway()], &json!({"responses": {"redirectFrom": "http://a/"}})), "belong together"),
        (policy(&[gateway()], &json!({"limits": {"burstMultiplier": 2}})), "needs rps or rpm"),
        (policy(&[gateway()], &json!({"limit": {"rps": 2}})), "limit"),
    ];
    for (content, why) in bad {
        let refused = refusal(&space, content.clone());
        assert!(refused.as_ref().is_some_and(|refused| refused.contains(why)), "{content}: {refused:?}");
    }
}

/// Waits until the status of a policy has a condition for its first target.
fn await_policy(space: &Space, name: &str, status: &str, reason: &str) {
    await_that(&format!("policy {name} to be {status} ({reason})"), || {
        let policy = space.find("ForebayPolicy", name).expect("it is there");
        let told = condition(&policy, &policy["status"]["ancestors"][0], "Accepted");
        told.is_some_and(|told| told == (status.to_owned(), reason.to_owned()))
    });
}

#[test]
fn a_policy_takes_effect_and_its_status_says_so() {
    let api = api();
    let space = Space::within(&api.kubeconfig(), "policy");
    install_kinds(&api);
    let one = saying("one");
    space.serve("web", one.address());
    route(&space, &json!({"name": "web", "port": 80}));
    let forebay = start(&space);
    await_answer(&forebay, "a.test", 200, "one");
    // The kind may come later.
    install_policies(&api);
    let closing = json!({"access": {"denylistSourceRange": ["0.0.0.0/0", "::/0"]}});
    space.apply("ForebayPolicy", "closing", policy(&[target("HTTPRoute", "web", None)], &closing));
    await_that("the policy to take effect", || forebay.client().get("a.test", "/").status == 403);
    await_policy(&space, "closing", "True", "Accepted");
    let status = space.find("ForebayPolicy", "closing").expect("it is there")["status"].take();
    let ancestor = &status["ancestors"][0];
    assert_eq!(ancestor["controllerName"], "forebay.io/gateway-controller");
    assert_eq!(ancestor["ancestorRef"]["kind"], "HTTPRoute");

    let nowhere = policy(&[target("HTTPRoute", "none", None)], &closing);
    space.apply("ForebayPolicy", "nowhere", nowhere);
    await_policy(&space, "nowhere", "False", "TargetNotFound");
    space.delete("ForebayPolicy", "closing");
    await_answer(&forebay, "a.test", 200, "one");
    let unreadable = json!({"access": {"denylistSourceRange": ["here"]}});
    space.apply("ForebayPolicy", "unreadable", policy(&[target("Gateway", "web", None)], &unreadable));
    await_policy(&space, "unreadable", "False", "Invalid");
    await_that("the routes to be closed", || forebay.client().get("a.test", "/").status == 503);
    space.delete("ForebayPolicy", "unreadable");
    await_answer(&forebay, "a.test", 200, "one");
}
