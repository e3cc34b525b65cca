//! Configurations of users who migrate from ingress-nginx: lines of snippets and Ingresses in the habits of
//! public charts. The tests count how many are served unchanged, and check that each other one is reported
//! with the setting or replacement that it needs.

#[path = "migrant/charts.rs"]
mod charts;
#[path = "migrant/lines.rs"]
mod lines;

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::migration::Report;
use control::{Options, Severity, Translation, check_at};

use charts::{CHARTS, Chart};
use lines::{Becomes, LINES, Line};

/// The first of July 2026.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_782_864_000)
}

const SERVICE: &str = "---
apiVersion: v1
kind: Secret
metadata: {name: users}
data: {auth: dTp7U0hBfVc2cGg1TW01UHo4R2dpVUxiUGd6RzM3bWo5Zz0=}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [192.0.2.1]}]
";

/// The `ConfigMap` of an operator who allows snippets, with more keys.
fn settings(more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{allow-snippet-annotations: 'true'{more}}}\n"
    )
}

const CRITICAL: &str = ", annotations-risk-level: Critical";

fn check(manifests: &str, options: Options) -> (Translation, Report) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, manifests).unwrap();
    let configmap = Some("default/settings".parse().unwrap());
    check_at(&Options { manifests: vec![file], configmap, ..options }, None, now()).unwrap()
}

/// An Ingress with annotations. Each value is written as JSON, which is YAML too.
fn ingress(name: &str, annotations: &[(String, String)], spec: &str) -> String {
    let mut text = format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  annotations:\n    chart: {name}\n"
    );
    for (key, value) in annotations {
        writeln!(text, "    {key}: {value:?}").unwrap();
    }
    text + &format!("spec: {spec}\n")
}

fn annotation(name: &str, value: &str) -> (String, String) {
    let prefix = if name.contains('/') || name == "kubernetes.io/ingress.class" {
        ""
    } else {
        "nginx.ingress.kubernetes.io/"
    };
    (format!("{prefix}{name}"), value.to_owned())
}

const SPEC: &str = "{rules: [{host: a.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}";

// === lines of snippets ===

/// A line with an effect changes the model, an ignored line does not, and any other line closes the Ingress
/// with a message that names it.
#[test]
fn snippet_lines_that_people_write() {
    assert_eq!(LINES.len(), 59);
    let (mut obeyed, mut passed) = (0, 0);
    for line in LINES {
        let (translation, without) = (translated(line, line.text), translated(line, ""));
        let errors: Vec<_> =
            translation.problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
        let is_other = translation.model != without.model;
        let text = line.text;
        match line.becomes {
            Becomes::Obeyed => {
                assert!(errors.is_empty() && is_other, "{text}: {errors:?}");
                obeyed += 1;
            }
            Becomes::PassedOver => {
                assert!(errors.is_empty() && !is_other, "{text}: {errors:?}");
                let is_said = |problem: &control::Problem| problem.message.contains("has no effect");
                assert!(translation.problems.iter().any(is_said), "{text}: {:?}", translation.problems);
                passed += 1;
            }
            Becomes::Closes(instead) => {
                let is_named = |problem: &&control::Problem| {
                    problem.message.contains(instead) && problem.message.contains("return 503")
                };
                assert!(errors.iter().any(is_named), "{text}: {errors:?}");
            }
        }
    }
    println!("{obeyed} obeyed, {passed} passed over, {} close", LINES.len() - obeyed - passed);
    assert!(obeyed + passed >= 45, "{obeyed} obeyed, {passed} passed over");
}

fn translated(line: &Line, text: &str) -> Translation {
    let mut annotations: Vec<_> = line.beside.iter().map(|(name, value)| annotation(name, value)).collect();
    let text = if line.is_in_location && !text.is_empty() {
        format!("location /x {{ {text} return 200; }}")
    } else if line.is_in_location {
        "location /x { return 200; }".to_owned()
    } else {
        text.to_owned()
    };
    annotations.push(annotation(line.annotation, &text));
    let manifests = settings(CRITICAL) + &ingress("people", &annotations, SPEC) + SERVICE;
    check(&manifests, Options::default()).0
}

// === Ingresses ===

/// The variants of a chart's values.
const VARIANTS: &[&str] = &["plain", "tls", "legacy", "two", "long"];

fn documents() -> Vec<String> {
    let all = CHARTS.iter().flat_map(|chart| VARIANTS.iter().map(move |variant| document(chart, variant)));
    all.collect()
}

fn document(chart: &Chart, variant: &str) -> String {
    let name = format!("{}-{variant}", chart.name);
    let mut annotations: Vec<_> =
        chart.annotations.iter().map(|(name, value)| annotation(name, value)).collect();
    let has =
        |annotations: &[(String, String)], name: &str| annotations.iter().any(|(key, _)| key.ends_with(name));
    let backend = "backend: {service: {name: web, port: {number: 80}}}";
    let host = format!("{name}.example.com");
    let path = chart.path;
    let mut spec = format!(
        "ingressClassName: nginx, rules: [{{host: {host}, http: {{paths: [{{path: '{path}', pathType: {}, {backend}}}]}}}}]",
        chart.path_type
    );
    match variant {
        "tls" => {
            annotations.push(annotation("cert-manager.io/cluster-issuer", "letsencrypt"));
            annotations.push(annotation("kubernetes.io/tls-acme", "true"));
            write!(spec, ", tls: [{{hosts: [{host}], secretName: {name}-tls}}]").unwrap();
        }
        "legacy" => {
            annotations.push(annotation("kubernetes.io/ingress.class", "nginx"));
            if !has(&annotations, "ssl-redirect") {
                annotations.push(annotation("ssl-redirect", "false"));
            }
            spec = spec.replacen("ingressClassName: nginx, ", "", 1);
        }
        "two" => {
            write!(spec, ", defaultBackend: {{service: {{name: web, port: {{name: http}}}}}}").unwrap();
            annotations.push(annotation("external-dns.alpha.kubernetes.io/hostname", &host));
        }
        "long" => {
            for (name, value) in [("proxy-read-timeout", "3600"), ("proxy-send-timeout", "3600")] {
                if !has(&annotations, name) {
                    annotations.push(annotation(name, value));
                }
            }
        }
        _ => {}
    }
    ingress(&name, &annotations, &format!("{{{spec}}}"))
}

/// With the settings that the check names, Ingresses of public charts are served unchanged.
#[test]
fn ingresses_of_public_charts_are_served_as_they_stand() {
    let documents = documents();
    assert!(documents.len() >= 200, "{}", documents.len());
    let manifests = |more: &str| settings(more) + &documents.concat() + SERVICE;
    let options = || Options { from: Some("1.11".parse().unwrap()), ..Options::default() };

    // A user of 1.11: unserved Ingresses are named, and so are the settings to change.
    let (_, report) = check(&manifests(""), options());
    let with_snippet = documents.iter().filter(|one| one.contains("-snippet: ")).count();
    let to_set: Vec<_> = report.to_set.iter().map(|it| (it.setting, it.ingresses)).collect();
    assert_eq!(to_set, [("annotations-risk-level: Critical in the ConfigMap", with_snippet)]);
    assert_eq!((report.ingresses, report.not_served.len()), (documents.len(), 0));
    assert_eq!(report.need_a_look.len(), with_snippet, "{:#?}", report.need_a_look);

    let (_, report) = check(&manifests(CRITICAL), options());
    assert_eq!((report.to_set.len(), report.not_served.len()), (0, 0), "{:#?}", report.not_served);
    let others: Vec<_> =
        report.need_a_look.iter().map(|look| (look.ingress.clone(), look.why.join("; "))).collect();
    let served = documents.len() - others.len();
    println!("{served} of {}: {others:#?}", documents.len());
    assert!(served * 100 >= documents.len() * 97, "{served} of {}: {others:#?}", documents.len());
    for (ingress, why) in &others {
        assert!(why.contains("use the annotation") || why.contains("the requests"), "{ingress}: {why}");
    }

    // Lines that restrict no client may be ignored.
    let unenforced = control::Unenforced::Serve;
    let (_, report) = check(&manifests(CRITICAL), Options { snippets_unenforced: unenforced, ..options() });
    let closed =
        report.need_a_look.iter().filter(|look| look.why.iter().any(|why| why.contains("return 503")));
    assert_eq!(closed.count(), 0, "{:#?}", report.need_a_look);
}

/// An Ingress without a route never counts as served, whatever the old version did.
#[test]
fn an_ingress_without_a_route_is_not_served() {
    let snippet = [annotation("configuration-snippet", "more_set_headers 'X: y';")];
    let bad = [annotation("permanent-redirect-code", "x")];
    let manifests =
        settings("") + &ingress("snippet", &snippet, SPEC) + &ingress("bad", &bad, SPEC) + SERVICE;
    let of_version = |version: &str| {
        let options = Options { from: Some(version.parse().unwrap()), ..Options::default() };
        check(&manifests, options).1.verdict()
    };
    assert_eq!(
        of_version("1.11"),
        "0 of 2 Ingresses behave as before; 1 serves nothing, as before; 1 needs a look"
    );
    assert_eq!(of_version("1.12"), "0 of 2 Ingresses behave as before; 2 serve nothing, as before");
}

/// A report names both the missing setting and the unknown directives of the snippet that the setting would
/// allow.
#[test]
fn what_a_missing_setting_hides_is_named_too() {
    let snippet = [annotation("configuration-snippet", "ssi on;")];
    let manifests = settings("") + &ingress("snippet", &snippet, SPEC) + SERVICE;
    let options = Options { from: Some("1.11".parse().unwrap()), ..Options::default() };
    let report = check(&manifests, options).1;
    let why = report.need_a_look[0].why.join("; ");
    assert!(why.contains("annotations-risk-level") && why.contains("\"ssi\" is not understood"), "{why}");
}

/// The two other defaults that ingress-nginx 1.12 changed.
#[test]
fn each_default_that_changed_is_named() {
    let secret = [annotation("auth-type", "basic"), annotation("auth-secret", "elsewhere/users")];
    let redirect = [annotation("permanent-redirect", "https://b.test$request_uri")];
    let spec = SPEC.replace("a.test", "b.test");
    let users = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: users, namespace: elsewhere}\ndata: {auth: dTp7U0hBfVc2cGg1TW01UHo4R2dpVUxiUGd6RzM3bWo5Zz0=}\n";
    let manifests = settings("")
        + &ingress("secret", &secret, SPEC)
        + &ingress("redirect", &redirect, &spec)
        + users
        + SERVICE;
    let options = Options { from: Some("1.9".parse().unwrap()), ..Options::default() };
    let report = check(&manifests, options.clone()).1;
    let to_set: Vec<_> = report.to_set.iter().map(|it| (it.setting, it.ingresses)).collect();
    assert_eq!(
        to_set,
        [
            ("allow-cross-namespace-resources: \"true\" in the ConfigMap", 1),
            ("--enable-annotation-validation=false", 1)
        ]
    );
    assert_eq!(report.need_a_look.len(), 2);
    let manifests = manifests.replace("'true'", "'true', allow-cross-namespace-resources: 'true'");
    let report = check(&manifests, Options { validates_annotations: false, ..options }).1;
    assert_eq!((report.to_set.len(), report.need_a_look.len()), (0, 0), "{:#?}", report.need_a_look);
}
