//! A [`Translator`] that keeps results between translations gives the same as a new one, while objects of the
//! cases are added, changed and removed, and options, times and addresses change.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use control::index::Index;
use control::objects::{Object, Sourced};
use control::resolve::Resolved;
use control::source::files::Files;
use control::translate::{Translator, translate};
use control::{Options, Translation};
use model::{Host, Model};
use proptest::prelude::*;

use super::canonical::canonical;
use super::{collect, now, options, resolved};

/// A case: its options, addresses and objects.
struct Case {
    options: Options,
    resolved: Resolved,
    objects: Vec<Object>,
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let mut files = Vec::new();
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    collect(&tests.join("cases"), &mut files);
    collect(&tests.join("gateway-cases"), &mut files);
    files.sort();
    let case = |file| {
        let text = std::fs::read_to_string(&file).unwrap();
        let options = options(&text);
        // A Gateway keeps its assigned address, which a new translator cannot know.
        if !options.gateway_addresses.is_empty() {
            return None;
        }
        let objects = Files::open(&[file]).unwrap().objects().cloned().collect();
        Some(Case { options, resolved: resolved(&text), objects })
    };
    files.into_iter().filter_map(case).collect()
});

#[derive(Clone, Debug)]
enum Step {
    /// Adds or replaces an object of one of the cases.
    Apply(usize, prop::sample::Index),
    /// Replaces an object by an equal copy, which has another address in memory.
    Copy(usize, prop::sample::Index),
    /// Removes an object.
    Remove(usize, prop::sample::Index),
    /// Uses the options and addresses of one of the cases.
    Circumstances(usize),
    /// Sets the time to this number of days after a day that is 30 days before the usual time.
    Days(u64),
    /// Serves the Ingresses of these namespaces only; none for all.
    Namespaces(Option<&'static str>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2_usize, any::<prop::sample::Index>()).prop_map(|(case, at)| Step::Apply(case, at)),
        2 => (0..2_usize, any::<prop::sample::Index>()).prop_map(|(case, at)| Step::Copy(case, at)),
        4 => (0..2_usize, any::<prop::sample::Index>()).prop_map(|(case, at)| Step::Remove(case, at)),
        1 => (0..2_usize).prop_map(Step::Circumstances),
        1 => (0_u64..60).prop_map(Step::Days),
        1 => prop::option::of("default|other").prop_map(|name| {
            Step::Namespaces(name.map(|name| if name == "other" { "other" } else { "default" }))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_remembered_makes_no_difference(
        cases in prop::array::uniform2(any::<prop::sample::Index>()),
        steps in prop::collection::vec(step(), 1..12),
    ) {
        let cases = cases.map(|at| at.get(&CASES));
        let mut index = Index::default();
        for object in &cases[0].objects {
            index.apply(object);
        }
        let (mut circumstances, mut time) = (cases[0], now());
        let mut translator = Translator::default();
        for step in std::iter::once(Step::Circumstances(0)).chain(steps) {
            let object = |case: usize, at: &prop::sample::Index| {
                (!cases[case].objects.is_empty()).then(|| at.get(&cases[case].objects).clone())
            };
            match &step {
                Step::Apply(case, at) => drop(object(*case, at).map(|object| index.apply(&object))),
                Step::Copy(case, at) => drop(object(*case, at).map(|object| index.apply(&copy(&object)))),
                Step::Remove(case, at) => drop(object(*case, at).map(|object| {
                    let (kind, key) = object.key();
                    index.remove(kind, &key)
                })),
                Step::Circumstances(case) => circumstances = cases[*case],
                Step::Days(days) => time = now() + Duration::from_hours(24 * days) - Duration::from_hours(720),
                Step::Namespaces(namespaces) => {
                    index.namespaces = namespaces.map(|name| [name.to_owned()].into());
                }
            }
            let Case { options, resolved, .. } = circumstances;
            let remembering = translator.translate(&index, options, resolved, time);
            // A new translator cannot know the version that an invalid update has replaced.
            if !keeps_a_version(&remembering) {
                let anew = translate(&index, options, resolved, time);
                prop_assert!(canonical(&remembering) == canonical(&anew), "after {:?}", step);
            }
            let again = translator.translate(&index, options, resolved, time);
            prop_assert!(remembering == again && is_shared(&remembering.model, &again.model));
        }
    }
}

/// A change of one route out of many makes its own host again, and no other; the reports of the others keep
/// their pointers.
#[test]
fn a_change_of_a_route_touches_its_host_alone() {
    let api = "apiVersion: gateway.networking.k8s.io/v1";
    let mut index = Index::default();
    let apply = |index: &mut Index, text: &str| objects(text).iter().for_each(|it| _ = index.apply(it));
    apply(
        &mut index,
        &format!(
            "{api}\nkind: GatewayClass\nmetadata: {{name: f}}\nspec: {{controllerName: forebay.io/gateway-controller}}\n---\n\
             {api}\nkind: Gateway\nmetadata: {{name: g}}\nspec: {{gatewayClassName: f, listeners: [{{name: h, port: 80, \
             protocol: HTTP}}]}}\n---\napiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec: {{ports: [{{port: 80}}]}}\n"
        ),
    );
    let route = |n: u8, path: &str| {
        format!(
            "{api}\nkind: HTTPRoute\nmetadata: {{name: r{n}}}\nspec: {{parentRefs: [{{name: g}}], hostnames: [h{n}.test], \
             rules: [{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{name: s, port: 80}}]}}]}}\n"
        )
    };
    (0..20).for_each(|n| apply(&mut index, &route(n, "/a")));
    let mut translator = Translator::default();
    let mut translated =
        |index: &Index| translator.translate(index, &Options::default(), &Resolved::new(), now());
    let first = translated(&index);
    apply(&mut index, &route(7, "/b"));
    let second = translated(&index);
    let hosts =
        |translation: &Translation| -> Vec<Arc<Host>> { translation.model.hosts().cloned().collect() };
    let (before, after) = (hosts(&first), hosts(&second));
    assert_eq!((before.len(), after.len()), (21, 21));
    let changed =
        before.iter().zip(&after).filter(|(a, b)| !Arc::ptr_eq(a, b)).map(|(_, b)| b.name.to_string());
    assert_eq!(changed.collect::<Vec<_>>(), ["h7.test"]);
    let mut reports = first.gateway.routes.iter().zip(&second.gateway.routes);
    assert!(reports.all(|(a, b)| Arc::ptr_eq(a, b)), "what the status says is as before");
}

/// Whether an earlier version of an Ingress stays in force, because a later one is refused.
fn keeps_a_version(translation: &Translation) -> bool {
    translation
        .problems
        .iter()
        .any(|problem| problem.to_string().contains("the version before it stays in force"))
}

#[test]
fn a_change_makes_the_hosts_anew_that_it_touches() {
    let mut index = Index::default();
    let apply = |index: &mut Index, n: u8, host: &str, pod: u8| {
        for object in objects(&format!(
            "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: i{n}}}\nspec: {{rules: [{{host: {host}, http: \
             {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: s{n}, port: {{number: 80}}}}}}}}]}}}}]}}\n---\n\
             apiVersion: v1\nkind: Service\nmetadata: {{name: s{n}}}\nspec: {{ports: [{{port: 80}}]}}\n---\n\
             apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: s{n}, labels: \
             {{kubernetes.io/service-name: s{n}}}}}\nendpoints: [{{addresses: [192.0.2.{pod}]}}]\nports: [{{port: 80}}]\n"
        )) {
            index.apply(&object);
        }
    };
    (0..20).for_each(|n| apply(&mut index, n, &format!("h{n}.test"), n));
    let mut translator = Translator::default();
    let mut translated =
        |index: &Index| translator.translate(index, &Options::default(), &Resolved::new(), now()).model;
    let first = translated(&index);
    apply(&mut index, 7, "changed.test", 7);
    let second = translated(&index);
    apply(&mut index, 3, "h3.test", 33);
    let third = translated(&index);
    assert_eq!(new_hosts(&first, &second), ["changed.test"]);
    assert_eq!(new_hosts(&second, &third), [""; 0]);
    let clusters = second.clusters.iter().zip(third.clusters.iter());
    let changed: Vec<_> = clusters.filter(|(a, b)| !Arc::ptr_eq(a.1, b.1)).map(|(a, _)| &a.1.name).collect();
    assert_eq!(changed, ["default-s3-80"]);
}

fn objects(text: &str) -> Vec<Object> {
    control::source::objects_in(text).unwrap()
}

fn new_hosts(before: &Model, after: &Model) -> Vec<String> {
    let is_new = |host: &&Arc<Host>| !before.hosts().any(|old| Arc::ptr_eq(old, host));
    after.hosts().filter(is_new).map(|host| host.name.to_string()).collect()
}

/// Whether two models share all hosts and clusters by pointer.
fn is_shared(a: &Model, b: &Model) -> bool {
    a.hosts().zip(b.hosts()).all(|(a, b)| Arc::ptr_eq(a, b))
        && a.clusters.iter().zip(b.clusters.iter()).all(|(a, b)| Arc::ptr_eq(a.1, b.1))
}

fn copy(object: &Object) -> Object {
    fn of<T: Clone>(object: &Arc<Sourced<T>>) -> Arc<Sourced<T>> {
        Arc::new(Sourced::clone(object))
    }
    match object {
        Object::Ingress(it) => Object::Ingress(of(it)),
        Object::IngressClass(it) => Object::IngressClass(of(it)),
        Object::Service(it) => Object::Service(of(it)),
        Object::EndpointSlice(it) => Object::EndpointSlice(of(it)),
        Object::Endpoints(it) => Object::Endpoints(of(it)),
        Object::ConfigMap(it) => Object::ConfigMap(of(it)),
        Object::Secret(it) => Object::Secret(of(it)),
        Object::Namespace(it) => Object::Namespace(of(it)),
        Object::GatewayClass(it) => Object::GatewayClass(of(it)),
        Object::Gateway(it) => Object::Gateway(of(it)),
        Object::ListenerSet(it) => Object::ListenerSet(of(it)),
        Object::HttpRoute(it) => Object::HttpRoute(of(it)),
        Object::GrpcRoute(it) => Object::GrpcRoute(of(it)),
        Object::TlsRoute(it) => Object::TlsRoute(of(it)),
        Object::TcpRoute(it) => Object::TcpRoute(of(it)),
        Object::UdpRoute(it) => Object::UdpRoute(of(it)),
        Object::ReferenceGrant(it) => Object::ReferenceGrant(of(it)),
        Object::ForebayPolicy(it) => Object::ForebayPolicy(of(it)),
        Object::XBackendTrafficPolicy(it) => Object::XBackendTrafficPolicy(of(it)),
        Object::BackendTlsPolicy(it) => Object::BackendTlsPolicy(of(it)),
    }
}
