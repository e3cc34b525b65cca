//! Invariants for any configuration and any request. The fuzz target and the smoke test call the same
//! function.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use model::StepBudget;
use model::{
    Action, DirectResponse, Host, HostName, LabelTexts, Labels, Listener, ListenerId, ListenerKind, Model,
    PathKind, PathMatch, Protocol, Rare, Route,
};
use routing::{Resolution, Snapshot};

/// Lines that are read: longer inputs find nothing new and take their time.
const LINES_MAX: usize = 200;

/// Bytes of a host name or path.
const WORD_BYTES_MAX: usize = 300;

/// The listener of all hosts in the test.
const HTTP: ListenerId = ListenerId { kind: ListenerKind::Http, port: 80, address: None };

/// Reads a model, a second one and requests, a line each, and compares each result with that of a search
/// through all hosts and routes; for the second model also when it is compiled from the Snapshot of the
/// first.
///
/// A line that begins with `=` is an exact path, with `^` a prefix of characters, with `/` a prefix of
/// elements: of the host before it. `? HOST PATH` is a request. `--` begins the second model. Anything else
/// is a host.
pub(crate) fn compile(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut hosts = [Vec::new(), Vec::new()];
    let (mut at, mut asked) = (0, Vec::new());
    for line in text.lines().take(LINES_MAX).filter(|line| line.len() <= WORD_BYTES_MAX) {
        if line == "--" {
            at = 1;
        } else if let Some(request) = line.strip_prefix("? ") {
            asked.push(request.split_once(' ').unwrap_or((request, "/")));
        } else {
            add(&mut hosts[at], line);
        }
    }
    let models = hosts.map(|hosts| Model {
        listeners: vec![Listener {
            address: None,
            port: HTTP.port,
            protocol: Protocol::Http(Arc::new(hosts.into())),
        }],
        ..Model::default()
    });
    let first = routing::compile(&models[0], None, 1);
    let second = routing::compile(&models[1], None, 2);
    let from_first = routing::compile(&models[1], Some(&first), 2);
    let hosts = models.iter().flat_map(Model::hosts).map(|host| host.name.to_string());
    let paths = models.iter().flat_map(Model::hosts).flat_map(|host| &host.routes);
    let hosts: BTreeSet<String> =
        hosts.chain(asked.iter().map(|(host, _)| (*host).to_owned())).take(20).collect();
    let paths: BTreeSet<&str> =
        paths.map(|route| route.path.path()).chain(asked.iter().map(|(_, path)| *path)).take(50).collect();
    for host in &hosts {
        for path in &paths {
            agree(&models[0], &first, host, path);
            agree(&models[1], &second, host, path);
            agree(&models[1], &from_first, host, path);
        }
    }
    assert_eq!(second.digest(), from_first.digest());
}

fn add(hosts: &mut Vec<Arc<Host>>, line: &str) {
    let (kind, rest) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
    let path = match kind {
        "=" => PathMatch::exact(rest),
        "^" => PathMatch::regex(rest),
        "/" => PathMatch::prefix(line),
        _ => {
            let name = if line == "_" { Ok(HostName::Any) } else { HostName::parse(line) };
            // A name occurs at most once in a model.
            if let Ok(name) = name.map(|name| Host {
                name,
                aliases: Rare::default(),
                tls: Arc::default(),
                routes: Vec::new(),
                wider: None,
            }) && hosts.iter().all(|host| host.name != name.name)
            {
                hosts.push(Arc::new(name));
            }
            return;
        }
    };
    if let (Ok(path), Some(host)) = (path, hosts.last_mut()) {
        let labels =
            Arc::new(Labels::from(LabelTexts { path: path.path().to_owned(), ..LabelTexts::default() }));
        let action = Action::Respond(Box::new(DirectResponse::new(200, "")));
        Arc::make_mut(host).routes.push(Arc::new(Route::new(path, action, labels)));
    }
}

/// The Snapshot gives the same result as a search through everything.
fn agree(model: &Model, snapshot: &Snapshot, host: &str, path: &str) {
    let expected = match find_host(model, host) {
        None => "no host".to_owned(),
        Some(host) => match find_route(host, path) {
            None => format!("{} without a route", host.name),
            Some((slash, route)) => format!("{} {slash}{:?}", host.name, host.routes[route].path),
        },
    };
    let name = |table: &routing::HostTable| table.name().to_string();
    let table = || {
        snapshot
            .hosts_of(HTTP)
            .and_then(|hosts| hosts.find(host.as_bytes()))
            .map(|table| name(table))
            .expect("a host was found")
    };
    let budget = StepBudget::default();
    let found = match snapshot.resolve(HTTP, host.as_bytes(), path.as_bytes(), &budget, |_| true) {
        // The search through everything has a budget for each expression.
        Resolution::Undecided(_) => return,
        Resolution::UnknownHost => "no host".to_owned(),
        Resolution::UnknownPath(_) => format!("{} without a route", table()),
        Resolution::Route(host, route, _) => format!("{} {:?}", name(host), route.path),
        Resolution::AddSlash(_, route) => format!("{} slash {:?}", table(), route.path),
    };
    assert_eq!(found, expected, "{host:?} {path:?}");
}

/// Compares every host in turn.
fn find_host<'m>(model: &'m Model, asked: &str) -> Option<&'m Host> {
    let digits = asked.bytes().rev().take_while(u8::is_ascii_digit).count();
    let name = asked[..asked.len() - digits].strip_suffix(':').unwrap_or(asked);
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let is_exact = |host: &HostName| matches!(host, HostName::Exact(exact) if *exact == name);
    let is_wildcard = |host: &HostName| match (host, name.split_once('.')) {
        (HostName::OneLabel(suffix), Some((label, rest))) => {
            rest == suffix && is_label(label) && name.len() <= 253
        }
        _ => false,
    };
    let find = |fits: &dyn Fn(&HostName) -> bool| model.hosts().find(|host| fits(&host.name));
    let any = |host: &HostName| *host == HostName::Any;
    find(&is_exact).or_else(|| find(&is_wildcard)).or_else(|| find(&any)).map(|host| &**host)
}

/// Tries every route in turn.
fn find_route(host: &Host, path: &str) -> Option<(&'static str, usize)> {
    let matches = |one: &PathMatch| {
        one.expression().is_some_and(|expression| {
            expression.try_match(path.as_bytes(), &StepBudget::default()) == Ok(true)
        })
    };
    if let Some(first) = host.routes.iter().position(|route| matches(&route.path)) {
        return Some(("", first));
    }
    let rank = |one: &PathMatch| u8::from(one.kind() == PathKind::Prefix);
    let below = |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
    let takes = |one: &PathMatch| match (one.kind(), one.path()) {
        (PathKind::Exact, text) => path == text,
        (PathKind::Prefix, text) => path == text || below(text.strip_suffix('/').unwrap_or(text)),
        (PathKind::Regex, _) => false,
    };
    let best = |taking: &dyn Fn(&PathMatch) -> bool| {
        let taking = host.routes.iter().enumerate().filter(|(_, route)| taking(&route.path));
        let best = taking.min_by_key(|(_, route)| (Reverse(route.path.path().len()), rank(&route.path)));
        best.map(|(number, _)| number)
    };
    let slashed = format!("{path}/");
    let lacks_slash = |one: &PathMatch| one.path() == slashed && rank(one) > 0 && !path.is_empty();
    if host.routes.iter().all(|route| route.path.path() != path || route.path.kind() == PathKind::Regex)
        && let Some(route) = best(&lacks_slash)
    {
        return Some(("slash ", route));
    }
    best(&takes).map(|route| ("", route))
}
