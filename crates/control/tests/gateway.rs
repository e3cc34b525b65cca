//! Objects of the Gateway API in, model and conditions out: each file in `gateway-cases`. The cases cover the
//! sentences of the specification that its conformance tests cover.

mod each;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::translate::gateway::report::{Condition, GatewayReport, ListenerStatus, Subject};
use control::{Firewalls, Options, Translation, load_at};
use model::{
    Access, Action, BackendTarget, Backends, ClusterId, Encryption, Host, Listener, Model, Protocol,
    RetryPolicy, Route, Timeouts,
};

/// The first of July 2026.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_782_864_000)
}

#[test]
fn cases() {
    each::case("gateway-cases", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let options = Options { manifests: vec![path.to_owned()], ..options(&text) };
        insta::assert_snapshot!(describe(&load_at(&options, now()).unwrap(), path.parent().unwrap()));
    });
}

/// The README lists the requirements of the specification, each with the cases that show it.
#[test]
fn the_list_of_sentences_names_every_case_and_no_other() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway-cases");
    let list = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let is_case = |name: &String| Path::new(name).extension().is_some_and(|extension| extension == "yaml");
    let named: BTreeSet<_> = list.split('`').map(str::to_owned).filter(is_case).collect();
    let files = std::fs::read_dir(folder).unwrap();
    let cases: BTreeSet<_> =
        files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(is_case).collect();
    assert_eq!(named, cases);
}

fn options(text: &str) -> Options {
    let mut options = Options::default();
    let lines = text.lines().filter_map(|line| line.strip_prefix("# option ")?.split_once(" = "));
    for (name, value) in lines {
        match name {
            "endpoints" => options.endpoints.push(value.parse().unwrap()),
            "gateway-address" => {
                options.gateway_addresses.push(control::options::parse_network(value).unwrap());
            }
            "reserved-udp-port" => {
                options.reserved_udp_ports.push((value.parse().unwrap(), "--replicas-udp-port"));
            }
            "http-port" => options.http_port = value.parse().unwrap(),
            "configmap" => options.configmap = Some(value.parse().unwrap()),
            "waf-rules" => {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(value);
                options.firewalls = Arc::new(Firewalls::load(&[folder]).unwrap());
            }
            other => panic!("no option {other}"),
        }
    }
    options
}

fn describe(translation: &Translation, folder: &Path) -> String {
    let mut text = String::new();
    for listener in &translation.model.listeners {
        describe_listener(&mut text, listener, &translation.model);
    }
    describe_report(&mut text, &translation.gateway);
    if !translation.acme.hosts.is_empty() {
        let control::acme::Wanted { hosts, by_handshake, .. } = &translation.acme;
        writeln!(text, "certificates are obtained for {hosts:?}, in handshakes for {by_handshake:?}")
            .unwrap();
    }
    for problem in &translation.problems {
        writeln!(text, "{:<8} {problem}", problem.severity).unwrap();
    }
    text.replace(&format!("{}/", folder.display()), "")
}

fn describe_listener(text: &mut String, listener: &Listener, model: &Model) {
    let address = listener.address.map_or("*".to_owned(), |address| address.to_string());
    write!(text, "{} {address}:{}", listener.id().kind.as_str(), listener.port).unwrap();
    match &listener.protocol {
        Protocol::Http(hosts) | Protocol::Https(hosts) => {
            text.push('\n');
            let is_tls = listener.id().is_tls();
            hosts.iter().for_each(|host| describe_host(text, host, is_tls, model));
        }
        Protocol::Tcp(stream) | Protocol::Udp(stream) => {
            writeln!(text, " -> {} [{}]", backends(&stream.backends, model), stream.labels.object()).unwrap();
        }
    }
}

fn describe_host(text: &mut String, host: &Host, is_tls: bool, model: &Model) {
    write!(text, "  {}", host.name).unwrap();
    if let Some(wider) = host.wider.as_ref().and_then(|wider| wider.host.as_ref()) {
        write!(text, ", then {wider}").unwrap();
    }
    if is_tls {
        let tls = &host.tls;
        let shown = tls.certificate.iter().chain(tls.more_certificates.iter().flat_map(|more| more.iter()));
        let shown: Vec<_> = shown.map(|it| format!("{}/{}", it.info.namespace, it.info.object)).collect();
        write!(text, ", shows {shown:?}").unwrap();
        if let Some(number) = tls.listener {
            write!(text, ", listener {number}").unwrap();
        }
        if let Some(auth) = &tls.client_auth {
            write!(text, ", asks clients {:?} {}", auth.verify, auth.authorities.certificates.len()).unwrap();
        }
        if let Some(stream) = &tls.stream {
            let how = if stream.is_terminated { "decrypted" } else { "as it comes" };
            write!(text, ", {how} -> {} [{}]", backends(&stream.backends, model), stream.labels.object())
                .unwrap();
        }
    }
    text.push('\n');
    for (at, group) in host.groups().enumerate() {
        if at > 0 {
            writeln!(text, "    then of a wider name").unwrap();
        }
        host.routes[group].iter().for_each(|route| describe_route(text, route, model));
    }
}

fn describe_route(text: &mut String, route: &Route, model: &Model) {
    let labels = &route.labels;
    write!(text, "    {:?} -> {}", route.path, action(&route.action, model)).unwrap();
    let rule = if labels.rule().is_empty() { String::new() } else { format!(" {}", labels.rule()) };
    writeln!(text, " [{}/{}{rule}]", labels.namespace(), labels.object()).unwrap();
    if let Some(conditions) = &route.conditions {
        writeln!(text, "      {conditions:?}").unwrap();
    }
    for filter in route.request_filters.as_slice() {
        writeln!(text, "      {filter:?}").unwrap();
    }
    for filter in route.response_filters.as_slice() {
        writeln!(text, "      {filter:?}").unwrap();
    }
    if let Some(access) = &route.access {
        describe_access(text, access);
    }
    let Action::Forward(forward) = &route.action else { return };
    if let Some(bytes) = forward.body_bytes_max.bytes() {
        writeln!(text, "      bodies of {bytes} bytes at most").unwrap();
    }
    if let Some(cache) = &forward.cache {
        writeln!(text, "      cache for {:?}, {:?}", cache.default_ttl, cache.query).unwrap();
    }
    if *forward.timeouts != Timeouts::default() {
        writeln!(text, "      {:?}", *forward.timeouts).unwrap();
    }
    if *forward.retry != RetryPolicy::default() {
        writeln!(text, "      {:?}", *forward.retry).unwrap();
    }
    for mirror in forward.transfer.mirrors.iter().flatten() {
        writeln!(text, "      mirrors {} to {}", mirror.share, cluster(mirror.cluster, model)).unwrap();
    }
    if let Some(fallback) = &forward.fallback {
        let clusters: Vec<_> = fallback.clusters.iter().map(|id| cluster(*id, model)).collect();
        writeln!(text, "      falls back to {} for {:?}", clusters.join(", "), fallback.recovery).unwrap();
    }
    if let Backends::Split(split) = &forward.backends {
        for filters in split.backends().iter().filter_map(|backend| backend.filters.as_ref()) {
            writeln!(text, "      {filters:?}").unwrap();
        }
    }
}

fn describe_access(text: &mut String, access: &Access) {
    let Access {
        unavailable, firewall, client_certificate, limits, quota, networks, basic, external, ..
    } = access;
    if client_certificate.is_some() {
        writeln!(text, "      {client_certificate:?}").unwrap();
    }
    if let Some(why) = unavailable {
        writeln!(text, "      closed: {why}").unwrap();
    }
    if let Some(firewall) = firewall {
        writeln!(text, "      firewall of {:?}", firewall.rules).unwrap();
    }
    if let Some(limits) = limits {
        writeln!(text, "      limits {:?}, {:?} connections", limits.rates, limits.connections).unwrap();
    }
    if let Some(quota) = quota {
        writeln!(text, "      quota {:?} by {:?}", quota.windows, quota.key.is_some()).unwrap();
    }
    if let Some(networks) = networks {
        writeln!(text, "      allowed {:?}, denied {:?}", networks.allowed, networks.denied).unwrap();
    }
    if let Some(basic) = basic {
        writeln!(text, "      passwords of {}", basic.realm).unwrap();
    }
    if let Some(external) = external {
        writeln!(text, "      asks {:?}", external.check.target).unwrap();
    }
}

fn action(action: &Action, model: &Model) -> String {
    match action {
        Action::Forward(forward) => backends(&forward.backends, model),
        Action::Respond(response) if response.headers.is_empty() => format!("answer {}", response.status),
        Action::Respond(response) => {
            format!("answer {} {:?} {:?}", response.status, response.headers, response.body)
        }
        other => format!("{other:?}"),
    }
}

fn backends(all: &Backends, model: &Model) -> String {
    match all {
        Backends::One(one) => cluster(*one, model),
        Backends::Split(split) => {
            let parts = split.backends().iter().map(|backend| match backend.target {
                BackendTarget::Cluster(one) => format!("{} of {}", backend.weight, cluster(one, model)),
                BackendTarget::Invalid => format!("{} of nothing", backend.weight),
            });
            parts.collect::<Vec<_>>().join(", ")
        }
        Backends::Canary(_) => panic!("no canaries"),
    }
}

fn cluster(id: ClusterId, model: &Model) -> String {
    let cluster = model.cluster(id);
    let encryption = match &cluster.encryption {
        Encryption::Never => String::new(),
        Encryption::Always(tls) | Encryption::AsClient(tls) => {
            let names = &tls.alternative_names;
            let names = if names.is_empty() { String::new() } else { format!(" for one of {names:?}") };
            format!(" over TLS as {}{names}", tls.name)
        }
    };
    let version = if cluster.version == model::AppProtocol::Http1 { "" } else { " over HTTP/2" };
    let balance = match &cluster.balance {
        model::Balance::RoundRobin => String::new(),
        other => format!(" {other:?}"),
    };
    let retries = cluster.retry_constraint.as_ref().map(|constraint| format!(" {constraint:?}"));
    format!("{}{version}{encryption}{balance}{}", cluster.name, retries.unwrap_or_default())
}

fn describe_report(text: &mut String, report: &GatewayReport) {
    for class in &report.classes {
        described(text, "", &class.subject, &class.conditions);
    }
    for gateway in &report.gateways {
        described(text, "", &gateway.subject, &gateway.conditions);
        if let Some(addresses) = &gateway.addresses {
            let addresses: Vec<_> = addresses.iter().map(|address| address.value.as_str()).collect();
            writeln!(text, "  addresses {addresses:?}").unwrap();
        }
        if gateway.attached_listener_sets > 0 {
            writeln!(text, "  listener sets {}", gateway.attached_listener_sets).unwrap();
        }
        gateway.listeners.iter().for_each(|listener| describe_status(text, listener));
    }
    for set in &report.listener_sets {
        described(text, "", &set.subject, &set.conditions);
        set.listeners.iter().for_each(|listener| describe_status(text, listener));
    }
    for route in &report.routes {
        for parent in &route.parents {
            let to = format!(
                " at {}{}{}",
                parent.parent_ref.name,
                parent.parent_ref.section_name.as_ref().map(|name| format!(" {name}")).unwrap_or_default(),
                parent.parent_ref.port.map(|port| format!(" {port}")).unwrap_or_default()
            );
            described(text, &to, &route.subject, &parent.conditions);
        }
    }
    for policy in &report.policies {
        for ancestor in &policy.ancestors {
            let section = ancestor.ancestor_ref.section_name.as_ref();
            let section = section.map(|name| format!(" {name}")).unwrap_or_default();
            let to = format!(" for {}{section}", ancestor.ancestor_ref.name);
            described(text, &to, &policy.subject, &ancestor.conditions);
        }
    }
}

fn describe_status(text: &mut String, listener: &ListenerStatus) {
    let kinds: Vec<_> = listener.supported_kinds.iter().map(|kind| &*kind.kind).collect();
    let conditions: Vec<_> = listener.conditions.iter().map(condition).collect();
    let (name, count) = (&listener.name, listener.attached_routes);
    writeln!(text, "  listener {name} {kinds:?} {count}: {}", conditions.join(", ")).unwrap();
}

fn described(text: &mut String, to: &str, subject: &Subject, conditions: &[Condition]) {
    let conditions: Vec<_> = conditions.iter().map(condition).collect();
    writeln!(text, "{}{to}: {}", subject.object, conditions.join(", ")).unwrap();
}

/// The text of a condition without its message, which is among the problems.
fn condition(condition: &Condition) -> String {
    let Condition { kind, is_true, reason, .. } = condition;
    match (is_true, *reason) {
        (true, reason) if reason == *kind => (*kind).to_owned(),
        (false, "NoConflicts") => "not Conflicted".to_owned(),
        (true, reason) => format!("{kind} {reason}"),
        (false, reason) => format!("not {kind} {reason}"),
    }
}
