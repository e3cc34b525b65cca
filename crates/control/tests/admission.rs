//! Reviews in, verdicts out: the refused Ingresses, with the message and the warnings for their authors.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::admission::{self, REVIEW_BYTES_MAX};
use control::index::Index;
use control::source::files::Files;
use control::{NsName, Options};
use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// The stored objects: an old Ingress has `taken.test/`, a young one has `young.test/`.
const STATE: &str = r#"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: old, namespace: shop, creationTimestamp: "2024-01-01T00:00:00Z"}
spec:
  ingressClassName: nginx
  rules:
  - host: taken.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: young, namespace: other, creationTimestamp: "2025-01-01T00:00:00Z"}
spec:
  ingressClassName: nginx
  rules:
  - host: young.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
# Has what `old` has, since before there was a webhook.
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: twin, namespace: shop, creationTimestamp: "2024-06-01T00:00:00Z"}
spec:
  ingressClassName: nginx
  rules:
  - host: taken.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: foreign, namespace: shop, creationTimestamp: "2024-01-01T00:00:00Z"}
spec:
  ingressClassName: someone-else
  rules:
  - host: foreign.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{port: 80}]}
"#;

struct Court {
    index: Index,
    options: Options,
    _folder: tempfile::TempDir,
}

impl Court {
    fn new() -> Self {
        Self::over(STATE)
    }

    fn over(state: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file: PathBuf = folder.path().join("state.yaml");
        std::fs::write(&file, state).unwrap();
        let files = Files::open(std::slice::from_ref(&file)).unwrap();
        let index = Index::build(files.objects()).0;
        Self { index, options: Options::default(), _folder: folder }
    }

    fn review(&self, review: &Value) -> Result<Value, String> {
        self.answer(review.to_string().as_bytes())
    }

    fn answer(&self, body: &[u8]) -> Result<Value, String> {
        let now = UNIX_EPOCH + Duration::from_secs(1_782_864_000);
        let answer = admission::answer(body, &self.index, &self.options, now);
        answer.map(|body| serde_json::from_slice(&body).unwrap()).map_err(|error| error.to_string())
    }

    /// The message of the refusal, if the object is refused, and the warnings.
    fn judge(&self, operation: &str, object: &Value) -> (Option<String>, Vec<String>) {
        let answer = self.review(&review(operation, object)).unwrap();
        assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(answer["kind"], "AdmissionReview");
        let response = &answer["response"];
        assert_eq!(response["uid"], "u-1");
        let refusal = response.get("status").map(|status| {
            assert_eq!((&status["code"], &status["reason"]), (&json!(400), &json!("BadRequest")));
            status["message"].as_str().unwrap().to_owned()
        });
        assert_eq!(response["allowed"], json!(refusal.is_none()));
        let warnings = response.get("warnings").cloned().unwrap_or_else(|| json!([]));
        (refusal, serde_json::from_value(warnings).unwrap())
    }

    /// The message of the refusal, without the beginning that all of them share.
    fn refusal(&self, operation: &str, object: &Value) -> String {
        let message = self.judge(operation, object).0.expect("it is refused");
        message.strip_prefix("it would not be served as it says:").unwrap().trim_start().to_owned()
    }
}

fn review(operation: &str, object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": "networking.k8s.io", "version": "v1", "kind": "Ingress"},
            "resource": {"group": "networking.k8s.io", "version": "v1", "resource": "ingresses"},
            "name": object["metadata"]["name"],
            "namespace": "shop",
            "operation": operation,
            "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters"]},
            "object": object,
            "oldObject": null,
            "dryRun": false,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    })
}

/// An Ingress with a host and a path, without a creation time and so the youngest.
fn ingress(name: &str, host: &str, path: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": "7e4a",
            "creationTimestamp": "2026-07-01T00:00:00Z",
            "annotations": {},
        },
        "spec": {
            "ingressClassName": "nginx",
            "rules": [{"host": host, "http": {"paths": [{
                "path": path,
                "pathType": "Prefix",
                "backend": {"service": {"name": "web", "port": {"number": 80}}},
            }]}}],
        },
        "status": {"loadBalancer": {}},
    })
}

fn annotated(annotations: Value) -> Value {
    let mut object = ingress("new", "new.test", "/");
    object["metadata"]["annotations"] = annotations;
    object
}

/// The same object with a creation time, the first of January of a year.
fn since(year: u16, mut object: Value) -> Value {
    object["metadata"]["creationTimestamp"] = format!("{year}-01-01T00:00:00Z").into();
    object
}

fn rules(object: &mut Value) -> &mut Vec<Value> {
    object["spec"]["rules"].as_array_mut().unwrap()
}

const SEIZED: &str =
    "host young.test belongs to Ingress other/young, which is of another namespace and has had it before";

const FINE: (Option<String>, Vec<String>) = (None, Vec::new());

#[test]
fn what_is_well_passes_without_a_word() {
    let court = Court::new();
    assert_eq!(court.judge("CREATE", &ingress("new", "new.test", "/")), FINE);
    assert_eq!(court.judge("UPDATE", &since(2024, ingress("old", "taken.test", "/"))), FINE);
    assert_eq!(court.judge("CREATE", &ingress("new", "taken.test", "/elsewhere")), FINE);
    let fine = annotated(json!({
        "nginx.ingress.kubernetes.io/proxy-read-timeout": "120",
        "example.org/owner": "someone",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }));
    assert_eq!(court.judge("CREATE", &fine), FINE);
}

#[test]
fn annotations_that_mean_nothing_are_refused() {
    let court = Court::new();
    let object = annotated(json!({"nginx.ingress.kubernetes.io/proxy-read-timeout": "soon"}));
    assert_eq!(
        court.judge("CREATE", &object).0.unwrap(),
        "it would not be served as it says: annotation nginx.ingress.kubernetes.io/proxy-read-timeout: \"soon\" is not a \
         whole number of seconds; the default is used"
    );
    assert_eq!(court.judge("UPDATE", &object).0, court.judge("CREATE", &object).0);
}

#[test]
fn every_reason_is_in_one_message() {
    let court = Court::new();
    let mut object = ingress("new", "taken.test", "/");
    object["metadata"]["annotations"] = json!({
        "nginx.ingress.kubernetes.io/proxy-body-size": "large",
        "nginx.ingress.kubernetes.io/denylist-source-range": "x",
    });
    rules(&mut object).push(json!({"host": "a..b", "http": {"paths": []}}));
    let expected = "\
        - annotation nginx.ingress.kubernetes.io/denylist-source-range: \"x\" is not a network such as 10.0.0.0/8: the \
        locations of this Ingress return 503\n\
        - annotation nginx.ingress.kubernetes.io/proxy-body-size: \"large\" is not a size such as 8k, 1m or 1g; the default \
        is used\n\
        - \"a..b\" is not a host name: labels of letters, digits, '-' and '_', optionally with '*' as the first; the rule is \
        ignored\n\
        - path / (Prefix) of host taken.test is declared by Ingress shop/old already; this one is ignored";
    assert_eq!(court.refusal("CREATE", &object), expected);
}

#[test]
fn what_settings_forbid_is_refused() {
    let mut court = Court::new();
    let elsewhere = annotated(json!({"nginx.ingress.kubernetes.io/auth-tls-secret": "other/ca"}));
    let message = court.refusal("CREATE", &elsewhere);
    assert!(message.contains("which allow-cross-namespace-resources has to allow"), "{message}");
    let mut catch_all = ingress("new", "new.test", "/");
    catch_all["spec"]["defaultBackend"] = json!({"service": {"name": "web", "port": {"number": 80}}});
    assert_eq!(court.judge("CREATE", &catch_all), FINE);
    court.options.disable_catch_all = true;
    assert_eq!(
        court.refusal("CREATE", &catch_all),
        "has a spec.defaultBackend, which --disable-catch-all forbids; ignored"
    );
}

/// Manifests may be applied in any order, and features that Forebay lacks are no reason to refuse.
#[test]
fn what_may_come_later_is_no_reason_to_refuse() {
    let court = Court::new();
    let mut object = ingress("new", "new.test", "/");
    object["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"] = "later".into();
    let (refusal, warnings) = court.judge("CREATE", &object);
    assert_eq!(refusal, None);
    assert_eq!(warnings, ["Service shop/later is missing: requests are answered 503"]);

    let mut object = ingress("new", "new.test", "/");
    object["spec"]["tls"] = json!([{"hosts": ["new.test"], "secretName": "made-by-cert-manager"}]);
    assert_eq!(court.judge("CREATE", &object), FINE);

    let (refusal, warnings) = court.judge(
        "CREATE",
        &annotated(json!({
            "nginx.ingress.kubernetes.io/enable-modsecurity": "true",
            "nginx.ingress.kubernetes.io/enable-owasp-core-rules": "true",
            "nginx.ingress.kubernetes.io/proxy-busy-buffers-size": "8k",
            "nginx.ingress.kubernetes.io/proxy-raed-timeout": "3",
        })),
    );
    assert_eq!(refusal, None);
    assert_eq!(
        warnings,
        [
            "annotation nginx.ingress.kubernetes.io/proxy-busy-buffers-size has no effect: all that is read ahead of a client may be on its way to it",
            "annotation nginx.ingress.kubernetes.io/proxy-raed-timeout is unknown, and has no effect; did you mean \
             \"proxy-read-timeout\"?",
            "annotation nginx.ingress.kubernetes.io/enable-owasp-core-rules: the OWASP core rules are not installed: install \
             the package modsecurity-crs, or name their folder by --waf-rules: the locations of this Ingress return 503",
        ]
    );
}

#[test]
fn a_path_of_another_ingress_is_refused_however_old_the_object_is() {
    let court = Court::new();
    let declared = |by: &str, host: &str| {
        format!("path / (Prefix) of host {host} is declared by Ingress {by} already; this one is ignored")
    };
    let new = ingress("new", "taken.test", "/");
    assert_eq!(court.refusal("CREATE", &new), declared("shop/old", "taken.test"));
    // The older Ingress `old` would take the path away from the younger one.
    let greedy = since(2024, ingress("old", "young.test", "/"));
    let taken = declared("other/young", "young.test");
    assert_eq!(court.refusal("UPDATE", &greedy), format!("- {taken}\n- {SEIZED}"));
    // An Ingress does not conflict with its own stored version, and not with an Ingress of another class.
    assert_eq!(court.judge("CREATE", &ingress("new", "foreign.test", "/")), FINE);
    let mut twice = ingress("new", "new.test", "/");
    let rule = twice["spec"]["rules"][0].clone();
    rules(&mut twice).push(rule);
    assert_eq!(court.judge("CREATE", &twice), (None, vec![declared("shop/new", "new.test")]));
}

#[test]
fn an_old_conflict_does_not_keep_an_ingress_from_being_changed() {
    let court = Court::new();
    let mut twin = ingress("twin", "taken.test", "/");
    twin["metadata"]["creationTimestamp"] = "2024-06-01T00:00:00Z".into();
    twin["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/proxy-read-timeout": "120"});
    let (refusal, warnings) = court.judge("UPDATE", &twin);
    assert_eq!(refusal, None);
    let declared =
        "path / (Prefix) of host taken.test is declared by Ingress shop/old already; this one is ignored";
    assert_eq!(warnings, [declared]);
    assert_eq!(court.judge("UPDATE", &since(2024, ingress("old", "taken.test", "/"))), FINE);
    let mut more = twin.clone();
    rules(&mut more).push(ingress("", "young.test", "/")["spec"]["rules"][0].clone());
    let message = court.refusal("UPDATE", &more);
    let taken =
        "path / (Prefix) of host young.test is declared by Ingress other/young already; this one is ignored";
    assert_eq!(message, format!("- {taken}\n- {SEIZED}"));
}

/// A guest may not set settings of the whole host. The owner may, even if the other Ingresses at the host are
/// younger.
#[test]
fn what_only_an_owner_may_ask_for_is_refused_to_others() {
    let options = || Options { ssl_passthrough: true, ..Options::default() };
    let court = Court { options: options(), ..Court::new() };
    let passthrough = |mut object: Value| {
        object["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/ssl-passthrough": "true"});
        object
    };
    let guest = ingress("new", "young.test", "/x");
    assert_eq!(court.judge("CREATE", &guest), FINE);
    let refusal = court.refusal("CREATE", &passthrough(guest.clone()));
    assert!(refusal.contains("host young.test belongs to Ingress other/young"), "{refusal}");
    assert!(refusal.contains("ssl-passthrough of this one has no effect there"), "{refusal}");
    // The owner may, although a younger Ingress of another namespace exists.
    let mut state = STATE.to_owned();
    state += "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: guest, namespace: other}\n\
              spec: {ingressClassName: nginx, rules: [{host: taken.test, http: {paths: [{path: /x, pathType: Prefix, \
              backend: {service: {name: web, port: {number: 80}}}}]}}]}\n";
    let court = Court { options: options(), ..Court::over(&state) };
    let (refusal, _) = court.judge("UPDATE", &passthrough(since(2024, ingress("old", "taken.test", "/"))));
    assert_eq!(refusal, None);
}

/// The age of an Ingress gives no right to a host that another namespace had first.
#[test]
fn an_old_ingress_does_not_come_to_own_a_host_of_another_namespace() {
    let court = Court::new();
    let greedy = since(2024, ingress("old", "young.test", "/beside"));
    assert_eq!(court.refusal("UPDATE", &greedy), SEIZED);
    // A younger Ingress is a guest.
    assert_eq!(court.judge("CREATE", &ingress("new", "young.test", "/beside")), FINE);
    // Within a namespace the age makes no difference.
    let sibling = since(2023, ingress("young-sibling", "taken.test", "/beside"));
    assert_eq!(court.judge("UPDATE", &sibling), FINE);
}

#[test]
fn canaries_share_a_path() {
    let court = Court::new();
    let mut canary = ingress("canary", "taken.test", "/");
    canary["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/canary": "true"});
    assert_eq!(court.judge("CREATE", &canary).0, None);
}

#[test]
fn only_ingresses_of_ours_are_judged() {
    let court = Court::new();
    let mut bad = annotated(json!({"nginx.ingress.kubernetes.io/proxy-read-timeout": "soon"}));
    assert!(court.judge("CREATE", &bad).0.is_some());
    for operation in ["DELETE", "CONNECT"] {
        assert_eq!(court.judge(operation, &bad), FINE, "{operation}");
    }
    let mut status = review("UPDATE", &bad);
    status["request"]["subResource"] = "status".into();
    assert_eq!(court.review(&status).unwrap()["response"]["allowed"], true);
    let mut service = review("CREATE", &bad);
    service["request"]["kind"] = json!({"group": "", "version": "v1", "kind": "Service"});
    assert_eq!(court.review(&service).unwrap()["response"]["allowed"], true);
    let mut going = bad.clone();
    going["metadata"]["deletionTimestamp"] = "2026-07-01T00:00:00Z".into();
    assert_eq!(court.judge("UPDATE", &going), FINE);
    bad["spec"]["ingressClassName"] = "someone-else".into();
    assert_eq!(court.judge("CREATE", &bad), FINE);
}

#[test]
fn the_legacy_groups_are_judged_too() {
    let court = Court::new();
    for (group, version) in [("extensions", "v1beta1"), ("networking.k8s.io", "v1beta1")] {
        let object = json!({
            "metadata": {"name": "new", "annotations": {"kubernetes.io/ingress.class": "nginx"}},
            "spec": {"rules": [{"host": "taken.test", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": {"serviceName": "web", "servicePort": 80}},
            ]}}]},
        });
        let mut review = review("CREATE", &object);
        review["request"]["kind"] = json!({"group": group, "version": version, "kind": "Ingress"});
        let message = court.review(&review).unwrap()["response"]["status"]["message"].clone();
        assert!(message.as_str().unwrap().contains("is declared by Ingress shop/old already"), "{message}");
    }
}

#[test]
fn an_object_that_cannot_be_read_is_refused() {
    let court = Court::new();
    let mut object = ingress("new", "new.test", "/");
    object["spec"]["rules"] = "all".into();
    let message = court.refusal("CREATE", &object);
    assert!(
        message.starts_with("it cannot be read: invalid type: string \"all\", expected a sequence"),
        "{message}"
    );
    object["spec"]["ingressClassName"] = "someone-else".into();
    assert_eq!(court.judge("CREATE", &object), FINE);
    let mut nothing = review("CREATE", &object);
    nothing["request"]["object"] = Value::Null;
    assert_eq!(court.review(&nothing).unwrap()["response"]["allowed"], false);
}

#[test]
fn what_is_no_review_is_told_so() {
    let court = Court::new();
    let told = |body: &[u8]| court.answer(body).unwrap_err();
    assert!(told(b"").starts_with("not an AdmissionReview of admission.k8s.io/v1: EOF while parsing"));
    assert!(told(b"{}").contains("missing field"));
    assert!(told("[".repeat(100_000).as_bytes()).contains("invalid type"));
    let deep = format!("{{\"request\": {}", "[".repeat(100_000));
    assert!(court.answer(deep.as_bytes()).is_err());
    let mut old = review("CREATE", &ingress("new", "new.test", "/"));
    old["apiVersion"] = "admission.k8s.io/v1beta1".into();
    assert!(court.review(&old).unwrap_err().contains("AdmissionReview of admission.k8s.io/v1beta1"));
    assert!(told(&vec![b' '; REVIEW_BYTES_MAX + 1]).contains("longer than 4194304 bytes"));
}

/// The CPU time of this thread, which judges: other work of the machine is none of it.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("it is past its beginning")
}

/// The API server waits at most ten seconds, and reviews are judged one after the other.
#[test]
fn the_largest_object_is_judged_in_time() {
    let court = Court::new();
    let mut object = since(2024, ingress("old", "taken.test", "/"));
    let path = |number: usize| {
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        json!({"path": format!("/{number}"), "pathType": "Prefix", "backend": backend})
    };
    object["spec"]["rules"][0]["http"]["paths"] = (0..12_000).map(path).collect();
    let body = review("UPDATE", &object).to_string();
    assert!(body.len() > 1 << 20 && body.len() < REVIEW_BYTES_MAX);
    let before = cpu_time();
    let answer = court.answer(body.as_bytes()).unwrap();
    let took = cpu_time().saturating_sub(before);
    assert_eq!(answer["response"]["allowed"], true);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// Kubernetes allows 256 KiB of annotations.
#[test]
fn many_unknown_annotations_are_judged_in_time() {
    let court = Court::new();
    let name =
        |number: usize| format!("nginx.ingress.kubernetes.io/proxy-{number:05}-{}", "timeout".repeat(7));
    let annotations: serde_json::Map<_, _> =
        (0..2_900).map(|number| (name(number), Value::from("1"))).collect();
    let before = cpu_time();
    let (refusal, warnings) = court.judge("UPDATE", &annotated(annotations.into()));
    let took = cpu_time().saturating_sub(before);
    assert_eq!(refusal, None);
    assert!(warnings.last().unwrap().ends_with(" more"), "{warnings:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn the_settings_are_those_of_the_configmap() {
    let settings = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: ns}\ndata: \
                    {allow-cross-namespace-resources: \"true\"}\n";
    let mut court = Court::over(&format!("{STATE}{settings}"));
    let elsewhere = annotated(json!({"nginx.ingress.kubernetes.io/auth-tls-secret": "other/ca"}));
    assert!(court.judge("CREATE", &elsewhere).0.is_some());
    court.options.configmap = Some(NsName::new("ns", "settings"));
    assert_eq!(court.judge("CREATE", &elsewhere), FINE);
}

proptest! {
    #[test]
    fn no_bytes_panic(body in proptest::collection::vec(any::<u8>(), 0..256)) {
        let court = Index::default();
        let _ = admission::answer(&body, &court, &Options::default(), SystemTime::UNIX_EPOCH);
    }

    /// A review with one changed byte is refused, an error or fine; it never causes a panic.
    #[test]
    fn no_review_panics(at in 0usize..1400, byte in any::<u8>()) {
        let mut body = review("CREATE", &annotated(json!({"a/b": "c"}))).to_string().into_bytes();
        let at = at % body.len();
        body[at] = byte;
        let answer = admission::answer(&body, &Index::default(), &Options::default(), SystemTime::UNIX_EPOCH);
        if let Ok(answer) = answer {
            prop_assert!(serde_json::from_slice::<Value>(&answer).is_ok());
        }
    }
}
