//! Model to Snapshot: what did not change is taken over by pointer. Must not be in here: how requests are matched.

use std::sync::Arc;

use model::{Model, Settings};

use crate::host::Hosts;
use crate::snapshot::Snapshot;

/// Makes a model ready to serve. What is the same in the previous Snapshot is taken over from it: settings and whole host
/// tables. That costs least where the two models share what they have in common.
pub fn compile(model: &Model, previous: Option<&Snapshot>, generation: u64) -> Snapshot {
    Snapshot {
        generation,
        settings: compile_settings(&model.settings, previous),
        clusters: model.clusters.clone(),
        hosts: Hosts::new(&model.hosts, previous.map_or(&Hosts::default(), |old| &old.hosts)),
        streams: model.streams.clone(),
    }
}

fn compile_settings(settings: &Settings, previous: Option<&Snapshot>) -> Arc<Settings> {
    match previous {
        Some(old) if *old.settings == *settings => Arc::clone(&old.settings),
        _ => Arc::new(settings.clone()),
    }
}

#[cfg(test)]
mod tests {
    use model::{
        Action, Backends, Balance, Cluster, ClusterId, DirectResponse, Forward, Host, HostName, Labels,
        PathMatch, RetryPolicy, Route, Timeouts,
    };

    use super::*;
    use crate::{HostTable, Resolution};

    fn forward(cluster: u32) -> Action {
        Action::Forward(Forward {
            backends: Backends::One(ClusterId(cluster)),
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            body_bytes_max: None,
            connection_header: None,
        })
    }

    fn route(path: &str, action: Action) -> Arc<Route> {
        let labels = Arc::new(Labels { path: path.to_owned(), ..Labels::default() });
        Arc::new(Route::new(PathMatch::prefix(path).unwrap(), action, labels))
    }

    fn host(name: &str, routes: Vec<Arc<Route>>) -> Arc<Host> {
        Arc::new(Host { name: HostName::parse(name).unwrap(), tls: Arc::default(), routes })
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
        let Resolution::Route(_, route) = snapshot.resolve(host.as_bytes(), b"/", |_| true) else {
            panic!("no route")
        };
        let Action::Forward(forward) = &route.action else { panic!("no forward") };
        &snapshot.cluster(forward.backends.only().unwrap()).name
    }

    fn rebuilt(old: &Snapshot, new: &Snapshot) -> Vec<String> {
        let is_new = |table: &&Arc<HostTable>| !old.hosts().any(|old| Arc::ptr_eq(old, table));
        new.hosts().filter(is_new).map(|table| table.name().to_string()).collect()
    }

    #[test]
    fn only_the_host_that_changed_is_rebuilt() {
        let mut model = model(5000);
        let old = compile(&model, None, 1);
        model.hosts[77] = host("h77.test", vec![route("/new", forward(77))]);
        model.hosts[78] = Arc::new(Host::clone(&model.hosts[78]));
        let new = compile(&model, Some(&old), 2);
        assert_eq!(rebuilt(&old, &new), ["h77.test"]);
        assert_eq!(new.generation, 2);
        assert!(Arc::ptr_eq(&old.settings, &new.settings));
        assert_eq!(cluster_of(&new, "h78.test"), "c78");
    }

    #[test]
    fn a_change_of_endpoints_touches_one_cluster_and_no_host() {
        let mut model = model(3);
        let old = compile(&model, None, 1);
        let changed = Cluster { balance: Balance::Ewma, ..cluster("c1") };
        model.clusters.insert(ClusterId(1), Arc::new(changed));
        let new = compile(&model, Some(&old), 2);
        assert_eq!(rebuilt(&old, &new), [""; 0]);
        let shared: Vec<_> = old.clusters().zip(new.clusters()).map(|(a, b)| Arc::ptr_eq(a.1, b.1)).collect();
        assert_eq!(shared, [true, false, true]);
        assert_eq!(new.cluster(ClusterId(1)).balance, Balance::Ewma);
    }

    #[test]
    fn a_known_host_stands_alone() {
        let answer = Action::Respond(DirectResponse { status: 404, body: String::new() });
        let hosts = vec![host("a", vec![route("/a", answer.clone())]), host("", vec![route("/", answer)])];
        let snapshot = compile(&Model { hosts, ..Model::default() }, None, 1);
        assert!(matches!(snapshot.resolve(b"a", b"/b", |_| true), Resolution::UnknownPath));
        let taken = snapshot.resolve(b"b", b"/b", |_| true);
        assert!(matches!(taken, Resolution::Route(host, _) if *host.name() == HostName::Any));
        assert!(matches!(
            compile(&Model::default(), None, 1).resolve(b"a", b"/", |_| true),
            Resolution::UnknownHost
        ));
    }

    #[test]
    fn a_missing_slash_names_the_route_to_redirect_to() {
        let model = Model { hosts: vec![host("a", vec![route("/foo/", forward(0))])], ..model(1) };
        let snapshot = compile(&model, None, 1);
        assert!(
            matches!(snapshot.resolve(b"a", b"/foo", |_| true), Resolution::AddSlash(route) if route.path.path() == "/foo/")
        );
    }
}
