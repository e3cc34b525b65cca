//! The API server asks Forebay before it stores an Ingress.

use std::fs;

use base64::prelude::{BASE64_STANDARD, Engine};
use cluster::Answer;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Authority, Forebay};

use crate::space::{Space, await_answer, await_that, saying};

/// Forebay with its webhook.
struct Judge {
    forebay: Forebay,
    url: String,
    authority: Authority,
    _folder: TempDir,
}

impl Judge {
    fn start(space: &Space) -> Self {
        let authority = Authority::new("webhook");
        let certificate = authority.server(&["127.0.0.1"]);
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        let forebay = space
            .forebay()
            .arguments([
                "--validating-webhook=127.0.0.1:0".to_owned(),
                format!("--validating-webhook-certificate={}", file("tls.crt", certificate.chain_pem())),
                format!("--validating-webhook-key={}", file("tls.key", certificate.key_pem())),
            ])
            .start();
        let line = forebay.await_log("judging Ingresses");
        let address = line.split("webhook=").nth(1).expect("it tells where").trim().to_owned();
        let url = format!("https://{address}/networking/v1/ingresses");
        Self { forebay, url, authority, _folder: folder }
    }

    /// Has the API server ask it about the Ingresses of a test's namespace, and waits until it does.
    fn install(&self, space: &Space, failure_policy: &str) {
        space.apply("ValidatingWebhookConfiguration", &space.name, self.configuration(space, failure_policy));
        await_that("the webhook to be asked", || {
            let answer = try_apply(space, "probe", bad(space));
            if answer.status == 201 {
                space.delete("Ingress", "probe");
            }
            answer.status == 400
        });
    }

    fn configuration(&self, space: &Space, failure_policy: &str) -> Value {
        json!({"webhooks": [{
            "name": "validate.forebay.test",
            "rules": [{
                "apiGroups": ["networking.k8s.io"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["ingresses"],
            }],
            "namespaceSelector": {"matchLabels": {"test": space.name}},
            "failurePolicy": failure_policy,
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": self.url, "caBundle": BASE64_STANDARD.encode(self.authority.pem())},
        }]})
    }
}

fn forget(space: &Space) {
    space.delete("ValidatingWebhookConfiguration", &space.name);
}

fn try_apply(space: &Space, name: &str, content: Value) -> Answer {
    space.client.try_apply(&space.object("Ingress", name, content)).expect("the API answers")
}

fn bad(space: &Space) -> Value {
    let mut ingress = space.ingress("bad.test", "web");
    ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-read-timeout"] = "soon".into();
    ingress
}

#[test]
fn an_ingress_is_refused_with_its_reasons() {
    let space = Space::new("webhook");
    let one = saying("one");
    space.serve("web", one.address());
    space.route("web", "a.test", "web");
    let judge = Judge::start(&space);
    judge.install(&space, "Fail");

    let refused = try_apply(&space, "bad", bad(&space));
    assert_eq!((refused.status, &refused.body["reason"]), (400, &json!("BadRequest")));
    let expected = "admission webhook \"validate.forebay.test\" denied the request: it would not be served as it says: \
                    annotation nginx.ingress.kubernetes.io/proxy-read-timeout: \"soon\" is not a whole number of \
                    seconds; the default is used";
    assert_eq!(refused.body["message"], expected);
    assert_eq!(space.find("Ingress", "bad"), None);

    let taken = try_apply(&space, "second", space.ingress("a.test", "web"));
    let message = taken.body["message"].as_str().unwrap_or_default().to_owned();
    let by = format!("path / (Prefix) of host a.test is declared by Ingress {}/web already", space.name);
    assert!(taken.status == 400 && message.contains(&by), "{message}");

    // A valid object is stored and served, and can be changed.
    space.route("good", "good.test", "web");
    await_answer(&judge.forebay, "good.test", 200, "one");
    space.route("good", "better.test", "web");
    await_answer(&judge.forebay, "better.test", 200, "one");
    let warned = try_apply(&space, "early", space.ingress("early.test", "late"));
    let warning = format!("299 - \"service {}/late is missing: requests are answered 503\"", space.name);
    assert_eq!((warned.status, warned.warnings), (201, vec![warning]));
    forget(&space);
}

#[test]
fn without_an_answer_the_failure_policy_decides() {
    let space = Space::new("unanswered");
    let judge = Judge::start(&space);
    judge.install(&space, "Fail");
    let ignoring = judge.configuration(&space, "Ignore");
    drop(judge);
    let refused = try_apply(&space, "good", space.ingress("a.test", "web"));
    let message = refused.body["message"].as_str().unwrap_or_default().to_owned();
    assert!(refused.status == 500 && message.contains("failed calling webhook"), "{}", refused.body);
    space.apply("ValidatingWebhookConfiguration", &space.name, ignoring);
    await_that("the Ingress to be stored unjudged", || {
        matches!(try_apply(&space, "bad", bad(&space)).status, 200 | 201)
    });
    forget(&space);
}
