//! A change of few Ingresses gives the translation that a new translator makes of all objects, and visits
//! only the hosts of the changed Ingresses.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use control::index::Index;
use control::names::NsName;
use control::resolve::Resolved;
use control::translate::{Translator, translate};
use control::{Options, Translation};
use model::Host;
use proptest::prelude::*;

use super::canonical::canonical;
use super::now;

const NAMESPACES: [&str; 2] = ["blue", "green"];

const HOSTS: [&str; 6] = ["a.test", "b.test", "c.test", "x.w.test", "*.w.test", ""];

/// An Ingress of a random cluster.
#[derive(Clone, Debug)]
struct Shape {
    hosts: Vec<usize>,
    /// Its Service: the last one does not exist.
    service: usize,
    path: &'static str,
    extra: Extra,
    /// The day of its creation; none as in files.
    born: Option<u8>,
}

/// Something that few Ingresses have.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Extra {
    Nothing,
    Tls,
    Canary,
    OtherClass,
    Alias,
    WwwRedirect,
    Balance,
    Wrong,
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize, usize, Shape),
    Remove(usize, usize),
    /// The number of Pods of a Service.
    Scale(usize, usize, u8),
    /// An Ingress of a Service that is created with it.
    PutWithService(usize, usize, Shape, u8),
}

fn shape(is_dated: bool) -> impl Strategy<Value = Shape> {
    let hosts = prop_oneof![
        12 => prop::collection::vec(0..4_usize, 1..3),
        1 => prop::collection::vec(0..HOSTS.len(), 1..3),
    ];
    let extra = prop_oneof![
        24 => Just(Extra::Nothing),
        1 => prop::sample::select(vec![
            Extra::Tls, Extra::Canary, Extra::OtherClass, Extra::Alias, Extra::WwwRedirect, Extra::Balance, Extra::Wrong,
        ]),
    ];
    let service = prop_oneof![12 => 0..3_usize, 1 => Just(3)];
    let path = prop::sample::select(vec!["/", "/a", "/b"]);
    (hosts, service, path, extra, 1..20_u8).prop_map(move |(hosts, service, path, extra, born)| Shape {
        hosts,
        service,
        path,
        extra,
        born: is_dated.then_some(born),
    })
}

fn step(is_dated: bool) -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..2_usize, 0..5_usize, shape(is_dated)).prop_map(|(ns, name, it)| Step::Put(ns, name, it)),
        3 => (0..2_usize, 0..5_usize).prop_map(|(ns, name)| Step::Remove(ns, name)),
        2 => (0..2_usize, 0..3_usize, 0..3_u8).prop_map(|(ns, name, pods)| Step::Scale(ns, name, pods)),
        2 => (0..2_usize, 0..5_usize, shape(is_dated), 10..14_u8)
            .prop_map(|(ns, name, it, service)| Step::PutWithService(ns, name, it, service)),
    ]
}

fn apply(index: &mut Index, text: &str) {
    for object in control::source::objects_in(text).unwrap() {
        index.apply(&object);
    }
}

fn ingress(namespace: &str, name: &str, shape: &Shape) -> String {
    let Shape { hosts, service, path, extra, born } = shape;
    let mut annotations = BTreeMap::new();
    match extra {
        Extra::Canary => {
            annotations.extend([("canary", "true"), ("canary-weight", "10")]);
        }
        Extra::Alias => _ = annotations.insert("server-alias", "alias.test,b.test"),
        Extra::WwwRedirect => _ = annotations.insert("from-to-www-redirect", "true"),
        Extra::Balance => _ = annotations.insert("load-balance", "ewma"),
        Extra::Wrong => _ = annotations.insert("proxy-read-timeout", "soon"),
        Extra::Nothing | Extra::Tls | Extra::OtherClass => {}
    }
    let mut text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: {namespace}\n  uid: {name}-{}\n",
        born.unwrap_or_default()
    );
    if let Some(day) = born {
        writeln!(text, "  creationTimestamp: '2024-01-{day:02}T00:00:00Z'").unwrap();
    }
    text.push_str("  annotations:\n    a: b\n");
    for (key, value) in annotations {
        writeln!(text, "    nginx.ingress.kubernetes.io/{key}: '{value}'").unwrap();
    }
    text.push_str("spec:\n");
    if *extra == Extra::OtherClass {
        text.push_str("  ingressClassName: other\n");
    }
    if *extra == Extra::Tls {
        writeln!(text, "  tls: [{{hosts: ['{}']}}]", HOSTS[hosts[0]]).unwrap();
    }
    text.push_str("  rules:\n");
    for &host in hosts {
        let host = HOSTS[host];
        let host = if host.is_empty() { String::new() } else { format!("host: '{host}', ") };
        writeln!(
            text,
            "  - {{{host}http: {{paths: [{{path: {path}, pathType: Prefix, backend: {{service: {{name: s{service}, port: {{number: 80}}}}}}}}]}}}}"
        )
        .unwrap();
    }
    text
}

/// A Service with so many Pods.
fn service(namespace: &str, service: usize, pods: u8) -> String {
    let pods: Vec<_> = (1..=pods).map(|pod| format!("{{addresses: [192.0.2.{pod}]}}")).collect();
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: s{service}, namespace: {namespace}}}\nspec: {{ports: [{{port: 80}}]}}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: s{service}, namespace: {namespace}, labels: \
         {{kubernetes.io/service-name: s{service}}}}}\nendpoints: [{}]\nports: [{{port: 80}}]\n",
        pods.join(", ")
    )
}

fn begun() -> Index {
    let mut index = Index::default();
    for namespace in NAMESPACES {
        (0..3).for_each(|number| apply(&mut index, &service(namespace, number, 1)));
    }
    index
}

fn take(step: &Step, index: &mut Index) {
    match step {
        Step::Put(namespace, name, shape) => {
            apply(index, &ingress(NAMESPACES[*namespace], &format!("i{name}"), shape));
        }
        Step::Remove(namespace, name) => {
            index.remove("Ingress", &NsName::new(NAMESPACES[*namespace], format!("i{name}")));
        }
        Step::Scale(namespace, number, pods) => {
            apply(index, &service(NAMESPACES[*namespace], *number, *pods));
        }
        Step::PutWithService(namespace, name, shape, number) => {
            let namespace = NAMESPACES[*namespace];
            let shape = Shape { service: usize::from(*number), ..shape.clone() };
            apply(index, &ingress(namespace, &format!("i{name}"), &shape));
            apply(index, &service(namespace, shape.service, 1));
        }
    }
}

/// Takes steps, several at a time, and compares after each group of them. Returns the number of translations
/// that have visited fewer hosts than there are.
fn compare(groups: &[Vec<Step>]) -> Result<usize, TestCaseError> {
    let mut index = begun();
    let mut translator = Translator::default();
    let options = Options::default();
    let mut few = 0;
    for group in groups {
        for step in group {
            take(step, &mut index);
        }
        let made = translator.translate(&index, &options, &Resolved::new(), now());
        let anew = translate(&index, &options, &Resolved::new(), now());
        prop_assert!(
            canonical(&made) == canonical(&anew),
            "after {group:?}: {}\ninstead of\n{}",
            said(&made),
            said(&anew)
        );
        few += usize::from(translator.visited() < made.model.hosts().count());
    }
    Ok(few)
}

fn said(translation: &Translation) -> String {
    let hosts: Vec<_> = translation.model.hosts().map(|host| host.name.to_string()).collect();
    let clusters: Vec<_> = translation.model.clusters.iter().map(|(_, one)| one.name.clone()).collect();
    format!("{hosts:?} {clusters:?} {:?} {:?}", translation.problems, translation.names)
}

#[test]
fn few_changes_give_what_all_objects_give() {
    for is_dated in [true, false] {
        let few = Cell::new(0);
        let strategy = prop::collection::vec(prop::collection::vec(step(is_dated), 1..3), 1..25);
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let outcome = runner.run(&strategy, |groups| {
            few.set(few.get() + compare(&groups)?);
            Ok(())
        });
        if let Err(failure) = outcome {
            panic!("{failure}");
        }
        assert!(few.get() > 50, "{} translations visited few hosts (dated: {is_dated})", few.get());
    }
}

/// The number of hosts that a change visits does not depend on the number of all hosts.
#[test]
fn a_change_visits_the_hosts_of_its_ingresses() {
    let shape = |path| Shape { hosts: Vec::new(), service: 0, path, extra: Extra::Nothing, born: Some(1) };
    let text = |number: usize, path: &'static str| {
        let text = ingress("blue", &format!("i{number}"), &shape(path));
        let backend = "{service: {name: s0, port: {number: 80}}}";
        format!(
            "{text}  - {{host: h{number}.test, http: {{paths: [{{path: {path}, pathType: Prefix, backend: {backend}}}]}}}}\n"
        )
    };
    for count in [20, 2000] {
        let mut index = begun();
        let mut translator = Translator::default();
        let options = Options::default();
        (0..count).for_each(|number| apply(&mut index, &text(number, "/")));
        let mut translated = |index: &Index| {
            let made = translator.translate(index, &options, &Resolved::new(), now());
            (made, translator.visited())
        };
        let (first, visited) = translated(&index);
        assert_eq!(visited, count);
        apply(&mut index, &text(7, "/other"));
        let (second, visited) = translated(&index);
        assert_eq!((visited, changed(&first, &second)), (1, vec!["h7.test".to_owned()]));
        apply(&mut index, &text(count, "/new"));
        let (third, visited) = translated(&index);
        assert_eq!((visited, changed(&second, &third)), (1, vec![format!("h{count}.test")]));
        index.remove("Ingress", &NsName::new("blue", "i3"));
        let (fourth, visited) = translated(&index);
        assert_eq!((visited, changed(&third, &fourth)), (1, Vec::new()));
        assert_eq!(fourth.model.hosts().count(), count);
        assert_eq!(translated(&index).1, 0, "nothing has changed");
    }
}

/// The hosts that one translation has and the other one has not.
fn changed(before: &Translation, after: &Translation) -> Vec<String> {
    let known: std::collections::HashSet<*const Host> = before.model.hosts().map(Arc::as_ptr).collect();
    let new = after.model.hosts().filter(|host| !known.contains(&Arc::as_ptr(host)));
    new.map(|host| host.name.to_string()).collect()
}
