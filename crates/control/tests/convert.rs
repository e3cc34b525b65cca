//! Ingresses in, objects of the Gateway API out: each file in `convert-cases`, with its result in
//! `snapshots`. The result is translated too, and may have no problems other than those that its remarks
//! name.

mod each;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::convert::{Conversion, Target};
use control::{Options, convert_at, load_at};

/// The first of July 2026, in seconds since 1970.
const NOW_S: u64 = 1_782_864_000;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW_S)
}

fn target() -> Target {
    Target { name: "web".to_owned(), namespace: "gateways".to_owned(), class: "forebay".to_owned() }
}

fn options(manifests: Vec<PathBuf>) -> Options {
    Options {
        manifests,
        watch_ingress_without_class: true,
        class_may_be_missing: true,
        configmap: Some("default/settings".parse().unwrap()),
        ..Options::default()
    }
}

#[test]
fn cases() {
    each::case("convert-cases", |path| {
        let conversion = convert_at(&options(vec![path.to_owned()]), None, &target(), now()).unwrap();
        assert_names_are_unique(&conversion);
        let mut text = conversion.yaml();
        for problem in &conversion.findings {
            writeln!(text, "# {} {}: {problem}", problem.severity, problem.reason.as_str()).unwrap();
        }
        writeln!(text, "# {} converted, {} left out", conversion.ingresses, conversion.left_out).unwrap();
        for problem in problems_of(path, &conversion.yaml()) {
            writeln!(text, "# then {problem}").unwrap();
        }
        insta::assert_snapshot!(text.replace(&format!("{}/", path.parent().unwrap().display()), ""));
    });
}

/// If two objects had the same name, the second would replace the first.
fn assert_names_are_unique(conversion: &Conversion) {
    let list: serde_json::Value = serde_json::from_str(&conversion.json()).unwrap();
    let mut known = BTreeSet::new();
    for item in list["items"].as_array().unwrap() {
        let text = |of: &str| item["metadata"][of].as_str().unwrap_or_default().to_owned();
        let name = (item["kind"].to_string(), text("namespace"), text("name"));
        assert!(known.insert(name.clone()), "{name:?} is there twice");
    }
}

#[test]
fn names_that_are_made_of_others_meet_none() {
    let ingress = |name: &str, annotation: &str| {
        format!(
            "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: {name}, annotations: {{nginx.ingress.kubernetes.io/{annotation}}}}}\n\
             spec:\n  tls: [{{hosts: [{name}.test], secretName: tls}}]\n  rules: [{{host: {name}.test, http: {{paths: [{{path: /, pathType: Prefix, \
             backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}}}]\n"
        )
    };
    let text = ["web", "web-http", "web-www", "web-2"].map(|name| {
        ingress(
            name,
            "from-to-www-redirect: 'true', nginx.ingress.kubernetes.io/whitelist-source-range: 192.0.2.0/24",
        )
    });
    let target = Target { namespace: "default".to_owned(), ..target() };
    let conversion = convert_at(&options(Vec::new()), Some(text.concat()), &target, now()).unwrap();
    assert_names_are_unique(&conversion);
    assert_eq!(conversion.counts()["HTTPRoute"], 12, "{:?}", conversion.counts());
    assert_eq!(conversion.counts()["ForebayPolicy"], 5, "one for the Gateway: {:?}", conversion.counts());
}

/// The problems of the created objects, beside those of the existing ones.
fn problems_of(case: &Path, made: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.yaml");
    std::fs::write(&file, made).unwrap();
    let options = Options {
        ingress_class: "none".to_owned(),
        watch_ingress_without_class: false,
        ..options(vec![case.to_owned(), file])
    };
    let translation = load_at(&options, now()).unwrap();
    let problems = translation.problems.iter().map(std::string::ToString::to_string);
    problems
        .filter(|problem| problem.contains("made.yaml"))
        .map(|text| text.replace(&format!("{}/", folder.path().display()), ""))
        .collect()
}

#[test]
fn what_comes_by_standard_input_is_told_so() {
    let text = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec:\n  \
                defaultBackend: {service: {name: web, port: {name: http}}}\n";
    let conversion = convert_at(&options(Vec::new()), Some(text.to_owned()), &target(), now()).unwrap();
    assert!(conversion.yaml().contains("# Ingress default/web, stdin:1\n"), "{}", conversion.yaml());
    let told: Vec<_> = conversion.findings.iter().map(ToString::to_string).collect();
    assert!(
        told[0].starts_with("stdin:5: Ingress default/web: Service default/web is not among the objects"),
        "{told:?}"
    );
    assert!(conversion.loses());
}

#[test]
fn without_ingresses_there_is_nothing() {
    let conversion = convert_at(&options(Vec::new()), Some(String::new()), &target(), now()).unwrap();
    assert_eq!((conversion.yaml().as_str(), conversion.loses()), ("", false));
}

/// A Gateway can have at most 64 listeners.
#[test]
fn many_hosts_are_shared_among_gateways() {
    let document = |number: usize| {
        format!(
            "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: web-{number}}}\nspec:\n  \
             tls: [{{hosts: [h{number}.test], secretName: tls}}]\n  rules: [{{host: h{number}.test, http: {{paths: \
             [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}}}]\n"
        )
    };
    let text: String = (0..150).map(document).collect();
    let conversion = convert_at(&options(Vec::new()), Some(text), &target(), now()).unwrap();
    assert_eq!(conversion.counts()["Gateway"], 3, "{:?}", conversion.counts());
    let yaml = conversion.yaml();
    assert!(
        yaml.contains("name: web-3\n    namespace: gateways\n    sectionName: https-h99.test\n"),
        "{yaml}"
    );
}
