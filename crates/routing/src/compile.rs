//! Model to Snapshot: what did not change is taken over by pointer. Must not be in here: how requests are matched.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Action, Forward, Host, HostTls, Labels, Model, Settings, Stream};

use crate::clusters::{Clusters, Slots};
use crate::host::HostTable;
use crate::route::Route;
use crate::snapshot::Snapshot;

/// Makes a model ready to serve. What is the same in the previous Snapshot is taken over from it: settings, clusters, whole
/// host tables, and of a host that changed its routes and labels.
pub fn compile(model: &Model, previous: Option<&Snapshot>, generation: u64) -> Snapshot {
    let none = Clusters::default();
    let (clusters, slots) = Clusters::place(&model.clusters, previous.map_or(&none, |old| &old.clusters));
    let table = |host: &Host| {
        let old = previous.and_then(|old| old.hosts.get(&host.name));
        compile_host(host, &slots, old)
    };
    Snapshot {
        generation,
        settings: compile_settings(&model.settings, previous),
        clusters,
        hosts: model.hosts.iter().map(table).collect(),
        streams: model.streams.iter().map(|stream| place_stream(stream, &slots)).collect(),
    }
}

fn compile_settings(settings: &Settings, previous: Option<&Snapshot>) -> Arc<Settings> {
    match previous {
        Some(old) if *old.settings == *settings => Arc::clone(&old.settings),
        _ => Arc::new(settings.clone()),
    }
}

fn compile_host(host: &Host, slots: &Slots, old: Option<&Arc<HostTable>>) -> Arc<HostTable> {
    let Some(old) = old else {
        let (name, tls) = (Arc::new(host.name.clone()), Arc::new(place_tls(&host.tls, slots)));
        let routes = host.routes.iter().map(|route| compile_route(route, &name, slots, None));
        return Arc::new(HostTable::new(Arc::clone(&name), tls, routes.collect()));
    };
    if is_unchanged(host, slots, old) {
        return Arc::clone(old);
    }
    let by_labels: HashMap<&Labels, &Arc<Route>> = old.routes.iter().map(|one| (&*one.labels, one)).collect();
    let routes = host.routes.iter().map(|route| {
        let old_route = by_labels.get(&route.labels).copied();
        compile_route(route, &old.name, slots, old_route)
    });
    let tls = place_tls(&host.tls, slots);
    let tls = if tls == *old.tls { Arc::clone(&old.tls) } else { Arc::new(tls) };
    Arc::new(HostTable::new(Arc::clone(&old.name), tls, routes.collect()))
}

fn is_unchanged(host: &Host, slots: &Slots, old: &HostTable) -> bool {
    // Names all fields, so that a new one cannot be forgotten here.
    let Host { name: _, tls, routes } = host;
    place_tls(tls, slots) == *old.tls
        && routes.len() == old.routes.len()
        && routes.iter().zip(&old.routes).all(|(route, old)| is_same(route, slots, old))
}

fn is_same(route: &model::Route, slots: &Slots, old: &Route) -> bool {
    // Names all fields, so that a new one cannot be forgotten here.
    let model::Route { path, filters, action, labels, access_log } = route;
    *path == old.path
        && *filters == old.filters
        && *access_log == old.access_log
        && *labels == *old.labels
        && place_action(action, slots) == old.action
}

/// `old` is a route with the same labels.
fn compile_route(
    route: &model::Route,
    host: &Arc<model::HostName>,
    slots: &Slots,
    old: Option<&Arc<Route>>,
) -> Arc<Route> {
    if let Some(old) = old
        && is_same(route, slots, old)
    {
        return Arc::clone(old);
    }
    Arc::new(Route {
        host: Arc::clone(host),
        path: route.path.clone(),
        filters: route.filters.clone(),
        action: place_action(&route.action, slots),
        labels: old.map_or_else(|| Arc::new(route.labels.clone()), |old| Arc::clone(&old.labels)),
        access_log: route.access_log,
    })
}

/// What is said of TLS, with the cluster's slot in place of its index in the model.
fn place_tls(tls: &HostTls, slots: &Slots) -> HostTls {
    HostTls { passthrough: tls.passthrough.map(|cluster| slots.of(cluster)), ..tls.clone() }
}

fn place_stream(stream: &Stream, slots: &Slots) -> Stream {
    Stream { cluster: slots.of(stream.cluster), ..stream.clone() }
}

/// The action with the cluster's slot in place of its index in the model.
fn place_action(action: &Action, slots: &Slots) -> Action {
    match action.clone() {
        Action::Forward(forward) => {
            Action::Forward(Forward { cluster: slots.of(forward.cluster), ..forward })
        }
        Action::Respond(fixed) => Action::Respond(fixed),
    }
}

#[cfg(test)]
mod tests {
    use model::{Balance, Cluster, ClusterId, Fixed, HostName, PathMatch, RetryPolicy, Timeouts};

    use super::*;
    use crate::Resolution;

    fn forward(cluster: u32) -> Action {
        Action::Forward(Forward {
            cluster: ClusterId(cluster),
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            body_bytes_max: None,
            connection_header: None,
        })
    }

    fn route(path: &str, action: Action) -> model::Route {
        let labels = Labels { path: path.to_owned(), ..Labels::default() };
        let path = PathMatch::prefix(path).unwrap();
        model::Route { path, filters: Vec::new(), action, labels, access_log: true }
    }

    fn host(name: &str, routes: Vec<model::Route>) -> Host {
        Host { name: HostName::parse(name).unwrap(), tls: HostTls::default(), routes }
    }

    fn cluster(name: &str) -> Cluster {
        Cluster { name: name.to_owned(), ..Cluster::default() }
    }

    /// Host `h<i>.test` forwards `/` to cluster `c<i>`.
    fn model(hosts: u32) -> Model {
        Model {
            hosts: (0..hosts).map(|i| host(&format!("h{i}.test"), vec![route("/", forward(i))])).collect(),
            clusters: (0..hosts).map(|i| cluster(&format!("c{i}"))).collect(),
            ..Model::default()
        }
    }

    fn cluster_of<'a>(snapshot: &'a Snapshot, host: &str) -> &'a str {
        let Resolution::Route(route) = snapshot.resolve(host.as_bytes(), b"/") else { panic!("no route") };
        let Action::Forward(forward) = &route.action else { panic!("no forward") };
        &snapshot.cluster(forward.cluster).name
    }

    fn rebuilt(old: &Snapshot, new: &Snapshot) -> Vec<String> {
        let is_new = |table: &&Arc<HostTable>| !old.hosts().any(|old| Arc::ptr_eq(old, table));
        new.hosts().filter(is_new).map(|table| table.name().to_string()).collect()
    }

    #[test]
    fn only_the_host_that_changed_is_rebuilt() {
        let mut model = model(5000);
        let old = compile(&model, None, 1);
        model.hosts[77].routes[0].access_log = false;
        let new = compile(&model, Some(&old), 2);
        let shared = old.hosts().zip(new.hosts()).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, 4999);
        assert_eq!(new.generation, 2);
        assert!(Arc::ptr_eq(&old.settings, &new.settings));
    }

    #[test]
    fn routes_keep_their_cluster_when_its_index_shifts() {
        let mut model = model(4);
        let old = compile(&model, None, 1);
        model.hosts.remove(1);
        model.clusters.remove(1);
        model.clusters.insert(0, cluster("new"));
        model.clusters.swap(0, 3);
        for host in &mut model.hosts {
            let name = host.name.to_string().replace('h', "c").replace(".test", "");
            let at = model.clusters.iter().position(|one| one.name == name).unwrap();
            host.routes[0].action = forward(at as u32);
        }
        let new = compile(&model, Some(&old), 2);
        assert_eq!(rebuilt(&old, &new), [""; 0]);
        for (host, cluster) in [("h0.test", "c0"), ("h2.test", "c2"), ("h3.test", "c3")] {
            assert_eq!(cluster_of(&new, host), cluster);
        }
    }

    #[test]
    fn a_host_that_forwards_elsewhere_is_rebuilt() {
        let mut model = model(3);
        let old = compile(&model, None, 1);
        model.clusters.swap(0, 1);
        let new = compile(&model, Some(&old), 2);
        assert_eq!(rebuilt(&old, &new), ["h0.test", "h1.test"]);
        assert_eq!(cluster_of(&new, "h0.test"), "c1");
    }

    #[test]
    fn a_change_of_endpoints_touches_one_cluster_and_no_host() {
        let mut model = model(3);
        let old = compile(&model, None, 1);
        model.clusters[1].balance = Balance::Ewma;
        let new = compile(&model, Some(&old), 2);
        assert_eq!(rebuilt(&old, &new), [""; 0]);
        let shared: Vec<_> = old.clusters().zip(new.clusters()).map(|(a, b)| Arc::ptr_eq(a.1, b.1)).collect();
        assert_eq!(shared, [true, false, true]);
        assert_eq!(new.cluster(ClusterId(1)).balance, Balance::Ewma);
    }

    #[test]
    fn a_changed_host_keeps_its_other_routes_and_all_its_labels() {
        let paths = vec![route("/a", forward(0)), route("/b", forward(0))];
        let mut model = Model { hosts: vec![host("h", paths)], ..model(1) };
        let old = compile(&model, None, 1);
        model.hosts[0].routes[1].access_log = false;
        let new = compile(&model, Some(&old), 2);
        let (old, new) = (old.hosts().next().unwrap().routes(), new.hosts().next().unwrap().routes());
        assert!(Arc::ptr_eq(&old[0], &new[0]));
        assert!(!Arc::ptr_eq(&old[1], &new[1]));
        assert!(Arc::ptr_eq(&old[1].labels, &new[1].labels));
    }

    #[test]
    fn a_known_host_stands_alone() {
        let answer = Action::Respond(Fixed { status: 404, body: String::new() });
        let hosts = vec![host("a", vec![route("/a", answer.clone())]), host("", vec![route("/", answer)])];
        let snapshot = compile(&Model { hosts, ..Model::default() }, None, 1);
        assert_eq!(snapshot.resolve(b"a", b"/b"), Resolution::UnknownPath);
        assert!(
            matches!(snapshot.resolve(b"b", b"/b"), Resolution::Route(route) if *route.host == HostName::Any)
        );
        assert_eq!(compile(&Model::default(), None, 1).resolve(b"a", b"/"), Resolution::UnknownHost);
    }

    #[test]
    fn a_missing_slash_names_the_route_to_redirect_to() {
        let model = Model { hosts: vec![host("a", vec![route("/foo/", forward(0))])], ..model(1) };
        let snapshot = compile(&model, None, 1);
        assert!(
            matches!(snapshot.resolve(b"a", b"/foo"), Resolution::AddSlash(route) if route.path.path() == "/foo/")
        );
    }
}
