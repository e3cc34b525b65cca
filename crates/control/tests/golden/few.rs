//! A change of few Ingresses gives the translation that a new translator makes of all objects, and visits
//! only the hosts of the changed Ingresses.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
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
    /// A value that is not valid.
    Wrong,
    /// TLS with a Secret that does not exist.
    NoSecret,
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
        4 => prop::sample::select(vec![Extra::Wrong, Extra::NoSecret]),
        1 => prop::sample::select(vec![
            Extra::Tls, Extra::Canary, Extra::OtherClass, Extra::Alias, Extra::WwwRedirect, Extra::Balance,
        ]),
    ];
    let service = prop_oneof![6 => 0..3_usize, 1 => Just(3)];
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
        Extra::Nothing | Extra::Tls | Extra::NoSecret | Extra::OtherClass => {}
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
    if *extra == Extra::NoSecret {
        writeln!(text, "  tls: [{{hosts: ['{}'], secretName: none}}]", HOSTS[hosts[0]]).unwrap();
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

/// Translations that have visited fewer hosts than there are, and those of them with problems.
#[derive(Clone, Copy, Default)]
struct Few {
    all: usize,
    with_problems: usize,
}

/// Takes steps, several at a time, and compares after each group of them.
fn compare(groups: &[Vec<Step>]) -> Result<Few, TestCaseError> {
    let mut index = begun();
    let mut translator = Translator::default();
    let options = Options::default();
    let mut few = Few::default();
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
        if translator.visited() < made.model.hosts().count() {
            few.all += 1;
            few.with_problems += usize::from(!made.problems.is_empty());
        }
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
        let few = Cell::new(Few::default());
        let strategy = prop::collection::vec(prop::collection::vec(step(is_dated), 1..3), 1..25);
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let outcome = runner.run(&strategy, |groups| {
            let (before, of_groups) = (few.get(), compare(&groups)?);
            few.set(Few {
                all: before.all + of_groups.all,
                with_problems: before.with_problems + of_groups.with_problems,
            });
            Ok(())
        });
        if let Err(failure) = outcome {
            panic!("{failure}");
        }
        let Few { all, with_problems } = few.get();
        assert!(all > 50, "{all} translations visited few hosts (dated: {is_dated})");
        assert!(with_problems > 20, "{with_problems} with problems (dated: {is_dated})");
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

/// A host with a problem is made by itself, and its problems come and go with it.
#[test]
fn a_problem_concerns_the_hosts_of_its_ingress() {
    let put = |index: &mut Index, name: &str, service: usize, extra: Extra| {
        let shape = Shape { hosts: Vec::new(), service, path: "/", extra, born: Some(1) };
        let backend = format!("{{service: {{name: s{service}, port: {{number: 80}}}}}}");
        let rule = format!(
            "{{host: {name}.test, http: {{paths: [{{path: /, pathType: Prefix, backend: {backend}}}]}}}}"
        );
        apply(index, &format!("{}  - {rule}\n", ingress("blue", name, &shape)));
    };
    let mut index = begun();
    (0..500).for_each(|number| put(&mut index, &format!("h{number}"), 0, Extra::Nothing));
    let mut translator = Translator::default();
    let options = Options::default();
    let mut translated = |index: &Index| {
        let made = translator.translate(index, &options, &Resolved::new(), now());
        let problems: Vec<_> = made.problems.iter().map(|problem| problem.message.clone()).collect();
        (translator.visited(), problems, made.missing_services)
    };
    assert_eq!(translated(&index), (500, Vec::new(), BTreeSet::new()));

    put(&mut index, "new", 3, Extra::Nothing);
    let (visited, problems, missing) = translated(&index);
    assert_eq!((visited, missing), (1, BTreeSet::from([NsName::new("blue", "s3")])));
    assert!(problems.len() == 1 && problems[0].contains("blue/s3"), "{problems:?}");

    put(&mut index, "h7", 0, Extra::Wrong);
    let (visited, problems, _) = translated(&index);
    assert_eq!((visited, problems.len()), (1, 2), "{problems:?}");
    assert!(problems[0].contains("proxy-read-timeout"), "Ingresses come first: {problems:?}");

    put(&mut index, "h7", 0, Extra::Nothing);
    let (visited, problems, _) = translated(&index);
    assert_eq!((visited, problems.len()), (1, 1), "{problems:?}");

    index.remove("Ingress", &NsName::new("blue", "new"));
    assert_eq!(translated(&index), (1, Vec::new(), BTreeSet::new()));
}

/// The hosts that one translation has and the other one has not.
fn changed(before: &Translation, after: &Translation) -> Vec<String> {
    let known: std::collections::HashSet<*const Host> = before.model.hosts().map(Arc::as_ptr).collect();
    let new = after.model.hosts().filter(|host| !known.contains(&Arc::as_ptr(host)));
    new.map(|host| host.name.to_string()).collect()
}

/// A Gateway, and a Secret for its listener with TLS, which no query reads.
const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: c}\n\
    spec: {controllerName: forebay.io/gateway-controller}\n---\n\
    apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g, namespace: blue, uid: g}\n\
    spec: {gatewayClassName: c, listeners: [{name: http, port: 80, protocol: HTTP}, \
    {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}]}\n";

/// A route of the Gateway to a Service.
fn route(number: usize, service: usize) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r{number}, namespace: blue, uid: r{number}}}\n\
         spec: {{parentRefs: [{{name: g}}], hostnames: [r{number}.test], rules: [{{backendRefs: [{{name: s{service}, port: 80}}]}}]}}\n"
    )
}

/// Beside Gateways, a change of endpoints visits no host; other changes visit all, and none is missed.
#[test]
fn endpoints_beside_gateways_visit_no_host() {
    let mut index = begun();
    let mut translator = Translator::default();
    let options = Options::default();
    let shape = Shape { hosts: vec![0], service: 0, path: "/", extra: Extra::Nothing, born: Some(1) };
    apply(&mut index, &ingress("blue", "i0", &shape));
    apply(&mut index, GATEWAY);
    (0..20).for_each(|number| apply(&mut index, &route(number, number % 3)));
    let mut follow = |index: &Index, what: &str| {
        let made = translator.translate(index, &options, &Resolved::new(), now());
        let anew = translate(index, &options, &Resolved::new(), now());
        assert!(canonical(&made) == canonical(&anew), "{what}: {}\ninstead of\n{}", said(&made), said(&anew));
        translator.visited()
    };
    let all = follow(&index, "at first");
    assert!(all > 0);
    for round in 0..3 {
        apply(&mut index, &service("blue", 1, 2 + round));
        assert_eq!(follow(&index, "other endpoints"), 0);
        apply(&mut index, &service("blue", 1, 3 + round));
        apply(&mut index, &route(usize::from(round), usize::from(round + 1) % 3));
        assert_eq!(follow(&index, "endpoints and a route"), all);
        apply(&mut index, &route(20 + usize::from(round), 1));
        assert_eq!(follow(&index, "a new route"), all);
        let secret = format!(
            "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {{name: cert, namespace: blue}}\nstringData: {{tls.crt: x{round}}}\n"
        );
        apply(&mut index, &secret);
        assert_eq!(follow(&index, "a Secret of a listener"), all);
        apply(&mut index, &service("blue", 1, 1));
        assert_eq!(follow(&index, "fewer endpoints"), 0);
        index.remove("HTTPRoute", &NsName::new("blue", format!("r{}", 10 + round)));
        assert_eq!(follow(&index, "a removed route"), all);
        apply(
            &mut index,
            &ingress("blue", "i0", &Shape { path: ["/a", "/b", "/"][usize::from(round)], ..shape.clone() }),
        );
        assert_eq!(follow(&index, "an Ingress"), all);
    }
}
