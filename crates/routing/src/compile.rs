//! Compiles a model to a Snapshot and reuses the unchanged parts of the previous one by pointer. Must not be
//! in here: how requests are matched.

use std::sync::Arc;

use model::{HostList, Model, Protocol, Settings};

use crate::host::Hosts;
use crate::needs::Needs;
use crate::snapshot::{Content, Listener, Snapshot};

/// Compiles a model to a Snapshot. Settings and host tables that equal those of the previous Snapshot are
/// taken from it, which is cheapest where both models share their parts by pointer.
pub fn compile(model: &Model, previous: Option<&Snapshot>, generation: u64) -> Snapshot {
    Snapshot {
        generation,
        settings: compile_settings(&model.settings, previous),
        needs: Needs::of_settings(&model.settings),
        clusters: model.clusters.clone(),
        listeners: compile_listeners(model, previous),
    }
}

/// Compiles the listeners. Listeners that share a list of hosts in the model share a table in the Snapshot.
fn compile_listeners(model: &Model, previous: Option<&Snapshot>) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = Vec::with_capacity(model.listeners.len());
    for listener in &model.listeners {
        let content = match &listener.protocol {
            Protocol::Http(list) | Protocol::Https(list) => {
                let first = model.listeners.iter().position(|one| has(one, list));
                let known = first.and_then(|first| listeners.get(first)?.hosts().cloned());
                Content::Hosts(known.unwrap_or_else(|| compile_hosts(list, model, previous)))
            }
            Protocol::Tcp(stream) | Protocol::Udp(stream) => Content::Stream(stream.clone()),
        };
        listeners.push(Listener { id: listener.id(), content });
    }
    listeners
}

/// Compiles a list of hosts, reusing the previous tables of the first listener with this list that existed
/// before.
fn compile_hosts(list: &HostList, model: &Model, previous: Option<&Snapshot>) -> Arc<Hosts> {
    let mut with_it = model.listeners.iter().filter(|one| has(one, list));
    let before = previous.and_then(|old| with_it.find_map(|one| old.hosts_of(one.id())));
    match before {
        Some(same) if same.is_of(list) => Arc::clone(same),
        _ => Arc::new(Hosts::new(list, before.map_or(&Hosts::default(), |hosts| hosts))),
    }
}

fn has(listener: &model::Listener, list: &HostList) -> bool {
    listener.hosts().is_some_and(|hosts| Arc::ptr_eq(hosts, list))
}

fn compile_settings(settings: &Settings, previous: Option<&Snapshot>) -> Arc<Settings> {
    match previous {
        Some(old) if *old.settings == *settings => Arc::clone(&old.settings),
        _ => Arc::new(settings.clone()),
    }
}

#[cfg(test)]
mod tests {
    use model::StepBudget;
    use model::{
        Action, Backends, Balance, Cluster, ClusterId, Conditions, DirectResponse, Forward, Host, HostName,
        LabelTexts, Labels, ListenerId, ListenerKind, PathMatch, Route, Wider,
    };

    use super::*;
    use crate::{HostTable, Resolution};

    const HTTP: ListenerId = ListenerId { kind: ListenerKind::Http, port: 80, address: None };

    fn http(port: u16, hosts: &HostList) -> model::Listener {
        model::Listener { address: None, port, protocol: Protocol::Http(Arc::clone(hosts)) }
    }

    /// A model with these hosts at port 80.
    fn serving(hosts: Vec<Arc<Host>>) -> Model {
        Model { listeners: vec![http(80, &Arc::new(hosts.into()))], ..Model::default() }
    }

    fn forward(cluster: u32) -> Action {
        Action::Forward(Forward::to(Backends::One(ClusterId(cluster))))
    }

    fn route(path: &str, action: Action) -> Arc<Route> {
        let labels = Arc::new(Labels::from(LabelTexts { path: path.to_owned(), ..LabelTexts::default() }));
        Arc::new(Route::new(PathMatch::prefix(path).unwrap(), action, labels))
    }

    fn host(name: &str, routes: Vec<Arc<Route>>) -> Arc<Host> {
        Arc::new(Host {
            name: HostName::parse(name).unwrap(),
            aliases: model::Rare::default(),
            tls: Arc::default(),
            routes,
            wider: None,
        })
    }

    fn cluster(name: &str) -> Cluster {
        Cluster { name: name.to_owned(), ..Cluster::default() }
    }

    /// Host `h<i>.test` forwards `/` to cluster `c<i>`.
    fn model(hosts: u32) -> Model {
        let clusters = (0..hosts).map(|i| cluster(&format!("c{i}"))).collect();
        let hosts = (0..hosts).map(|i| host(&format!("h{i}.test"), vec![route("/", forward(i))])).collect();
        Model { clusters, ..serving(hosts) }
    }

    fn cluster_of<'a>(snapshot: &'a Snapshot, host: &str) -> &'a str {
        let Resolution::Route(_, route, _) =
            snapshot.resolve(HTTP, host.as_bytes(), b"/", &StepBudget::default(), |_| true)
        else {
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
        let mut hosts: Vec<_> = model.hosts().cloned().collect();
        hosts[77] = host("h77.test", vec![route("/new", forward(77))]);
        hosts[78] = Arc::new(Host::clone(&hosts[78]));
        model.listeners = serving(hosts).listeners;
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
        let answer = Action::Respond(Box::new(DirectResponse::new(404, "")));
        let hosts = vec![host("a", vec![route("/a", answer.clone())]), host("", vec![route("/", answer)])];
        let snapshot = compile(&serving(hosts), None, 1);
        assert!(matches!(
            snapshot.resolve(HTTP, b"a", b"/b", &StepBudget::default(), |_| true),
            Resolution::UnknownPath(_)
        ));
        let taken = snapshot.resolve(HTTP, b"b", b"/b", &StepBudget::default(), |_| true);
        assert!(matches!(taken, Resolution::Route(host, _, _) if *host.name() == HostName::Any));
        assert!(matches!(
            compile(&Model::default(), None, 1).resolve(HTTP, b"a", b"/", &StepBudget::default(), |_| true),
            Resolution::UnknownHost
        ));
    }

    #[test]
    fn routes_for_wider_names_are_tried_after_those_for_the_own_name() {
        let to = |path: &str, cluster| route(path, forward(cluster));
        let expression = PathMatch::regex("/path/.*$").unwrap();
        let expressive = Arc::new(Route::new(expression, forward(3), Arc::default()));
        let mut conditional = Route::clone(&route("/path", forward(0)));
        let method = Some("PUT".to_owned());
        conditional.conditions = Some(Box::new(Conditions { method, ..Conditions::default() }));
        let routes =
            vec![Arc::new(conditional), to("/own", 1), to("/path/longer", 2), expressive, to("/deep/", 4)];
        let own =
            Host { wider: Wider::boxed(vec![2, 3], Some(HostName::Any)), ..Host::clone(&host("a", routes)) };
        let snapshot =
            compile(&serving(vec![Arc::new(own), host("", vec![route("/", forward(5))])]), None, 1);
        let taken = |path: &str, complies: bool| {
            let found = snapshot.resolve(HTTP, b"a", path.as_bytes(), &StepBudget::default(), |_| complies);
            match found {
                Resolution::Route(host, route, needs) => {
                    assert_eq!(*host.name(), HostName::Exact("a".to_owned()));
                    assert_eq!(needs, Needs::of_route(route) | snapshot.needs);
                    let Action::Forward(forward) = &route.action else { panic!("no forward") };
                    forward.backends.only().map(|cluster| cluster.0)
                }
                Resolution::AddSlash(_, route) if route.path.path() == "/deep/" => None,
                other => panic!("{other:?}"),
            }
        };
        for (path, complies, expected) in [
            ("/path/longer", true, Some(0)),
            ("/path/longer", false, Some(2)),
            ("/path/other", false, Some(3)),
            ("/own", false, Some(1)),
            ("/deep/x", false, Some(4)),
            ("/deep", false, None),
            ("/else", false, Some(5)),
        ] {
            assert_eq!(taken(path, complies), expected, "{path} {complies}");
        }
    }

    #[test]
    fn a_missing_slash_names_the_route_to_redirect_to() {
        let model = serving(vec![host("a", vec![route("/foo/", forward(0))])]);
        let snapshot = compile(&model, None, 1);
        assert!(
            matches!(snapshot.resolve(HTTP, b"a", b"/foo", &StepBudget::default(), |_| true), Resolution::AddSlash(_, route) if route.path.path() == "/foo/")
        );
    }

    #[test]
    fn listeners_share_what_they_share_in_the_model_and_nothing_else() {
        let https = |hosts: &HostList| model::Listener {
            address: None,
            port: 443,
            protocol: Protocol::Https(Arc::clone(hosts)),
        };
        let answer = Action::Respond(Box::new(DirectResponse::new(200, "")));
        let hosts = Arc::new(vec![host("a", vec![route("/", answer.clone())])].into());
        let own = Arc::new(vec![host("b", vec![route("/", answer)])].into());
        let listeners = vec![http(80, &hosts), https(&hosts), http(8080, &own)];
        let old = compile(&Model { listeners, ..Model::default() }, None, 1);
        let tables = |snapshot: &Snapshot| -> Vec<_> {
            snapshot.listeners().iter().filter_map(Listener::hosts).map(Arc::as_ptr).collect()
        };
        let [first, second, third] = tables(&old)[..] else { panic!("three listeners") };
        assert!(first == second && second != third);
        assert_eq!(old.hosts().count(), 2);
        for (port, host, is_served) in
            [(80, "a", true), (80, "b", false), (8080, "b", true), (8081, "b", false)]
        {
            let listener = ListenerId { port, ..HTTP };
            let found = old.resolve(listener, host.as_bytes(), b"/", &StepBudget::default(), |_| true);
            assert_eq!(matches!(found, Resolution::Route(..)), is_served, "{port} {host}");
        }

        // Whichever of them has had the hosts before.
        let listeners = vec![http(81, &hosts), https(&hosts)];
        let new = compile(&Model { listeners, ..Model::default() }, Some(&old), 2);
        assert_eq!(rebuilt(&old, &new), [""; 0]);
    }
}
