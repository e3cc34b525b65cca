//! Manifests in, model and problems out: each file in `cases`, with its result in `snapshots`.
//!
//! `# option NAME = VALUE` lines stand for the command line, `# resolved NAME = ADDRESSES` lines for the DNS.
//! The time is always [`NOW_S`], at which the certificates in the cases are valid; their keys are for tests
//! only.

#[path = "golden/canonical.rs"]
mod canonical;
mod each;
#[path = "golden/few.rs"]
mod few;
#[path = "golden/remembering.rs"]
mod remembering;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::index::Index;
use control::report;
use control::resolve::Resolved;
use control::source::files::Files;
use control::translate::translate;
use control::{Firewalls, Options, Problem, Severity, Translation, load_at};
use model::{Action, Backends, Cluster, ClusterId, Forward, Host, Model, Route, Transfer, to_json};
use serde::Serialize;
use serde_json::Value;

/// The first of July 2026, in seconds since 1970.
const NOW_S: u64 = 1_782_864_000;

#[test]
fn cases() {
    each::case("cases", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let options = Options { manifests: vec![path.to_owned()], ..options(&text) };
        let resolved = resolved(&text);
        let translation = if resolved.is_empty() {
            load_at(&options, now()).unwrap()
        } else {
            let files = Files::open(&options.manifests).unwrap();
            translate(&Index::build(files.objects()).0, &options, &resolved, now())
        };
        insta::assert_snapshot!(describe(&translation, path.parent().unwrap()));
    });
}

/// The reason of each problem of each case. Reasons are tested because Events contain them, and the webhook
/// decides by them.
#[test]
fn reasons() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files = Vec::new();
    collect(&cases, &mut files);
    let mut lines = BTreeSet::new();
    for file in files {
        let options = options(&std::fs::read_to_string(&file).unwrap());
        let translation = load_at(&Options { manifests: vec![file], ..options }, now()).unwrap();
        let line = |problem: &Problem| format!("{} {}", problem.reason.as_str(), problem.message);
        lines.extend(translation.problems.iter().map(line));
    }
    let text = lines.into_iter().collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(text.replace(&format!("{}/", cases.display()), ""));
}

#[test]
fn examples_have_no_errors() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap();
    let mut files = Vec::new();
    collect(&examples, &mut files);
    assert!(files.len() >= 6, "{files:?}");
    files.sort();
    let nothing = translate(&Index::default(), &Options::default(), &Resolved::default(), now()).model;
    for file in &files {
        let options = Options { manifests: vec![file.clone()], ..Options::default() };
        let translation = load_at(&options, now()).unwrap();
        let errors: Vec<_> =
            translation.problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{errors:?}");
        let has_kind = !translation.skipped.is_empty() || translation.model != nothing;
        assert!(has_kind || !translation.problems.is_empty(), "{} holds nothing", file.display());
    }
    // Both together, as a new user would serve them in the first steps.
    let options = Options {
        manifests: vec![examples.clone()],
        configmap: Some("kube-system/nginx-configuration".parse().unwrap()),
        tcp_services_configmap: Some("default/tcp-services".parse().unwrap()),
        endpoints: vec![
            "default/web=127.0.0.1:9001".parse().unwrap(),
            "default/web-server-svc=127.0.0.1:9002".parse().unwrap(),
        ],
        has_cache: true,
        ..Options::default()
    };
    insta::assert_snapshot!(describe(&load_at(&options, now()).unwrap(), &examples));
}

/// Events about endpoints regard the Services whose endpoints are checked.
#[test]
fn services_with_health_checks_are_known_by_their_uid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    let of = |name: &str, check: &str, uid: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: Ingress\n\
             metadata: {{name: {name}, annotations: {{forebay.io/health-check: '{check}'}}}}\n\
             spec: {{rules: [{{host: {name}.test, http: {{paths: [{{path: /, pathType: Prefix, \
             backend: {{service: {{name: {name}, port: {{number: 80}}}}}}}}]}}}}]}}\n---\n\
             apiVersion: v1\nkind: Service\nmetadata: {{name: {name}{uid}}}\n\
             spec: {{ports: [{{port: 80}}]}}\n---\n"
        )
    };
    let objects = [
        of("checked", "http", ", uid: uid-1"),
        of("plain", "off", ", uid: uid-2"),
        of("of-a-file", "tcp", ""),
    ];
    std::fs::write(&file, objects.concat()).unwrap();
    let options = Options {
        manifests: vec![file],
        watch_ingress_without_class: true,
        class_may_be_missing: true,
        ..Options::default()
    };
    let translation = load_at(&options, now()).unwrap();
    let expected = [("default/checked".parse().unwrap(), "uid-1".to_owned())];
    assert_eq!(translation.checked_services, expected.into(), "{:?}", translation.problems);
}

/// Users can copy the page's examples: each block of YAML loads without a problem, and turns on compression
/// or decompression.
#[test]
fn examples_of_the_page_on_compression_load() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compression.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("example.yaml");
    let rest = "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec:\n  ingressClassName: nginx\n  \
                defaultBackend: {service: {name: web, port: {number: 80}}}\n";
    let mut count = 0;
    for block in blocks {
        std::fs::write(&file, format!("{block}{rest}")).unwrap();
        let has_settings = block.contains("kind: ConfigMap");
        let name = "ingress-nginx/ingress-nginx-controller".parse().unwrap();
        let service = |name: &str| format!("default/{name}=192.0.2.1:80").parse().unwrap();
        let options = Options {
            manifests: vec![file.clone()],
            configmap: has_settings.then_some(name),
            endpoints: ["web", "downloads", "stored"].map(service).into(),
            ..Options::default()
        };
        let translation = load_at(&options, now()).unwrap();
        assert!(translation.problems.is_empty(), "{block}: {:?}", translation.problems);
        assert!(format!("{:?}", translation.model).contains("compression: Some("), "{block}");
        count += 1;
    }
    assert_eq!(count, 3);
}

/// Every supported annotation or key is in one of the cases, which shows its effect.
#[test]
fn what_is_supported_is_in_a_case() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files = Vec::new();
    collect(&cases, &mut files);
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let annotations = control::translate::ingress::annotations::ANNOTATIONS.iter();
    let annotations = annotations.copied().chain(control::translate::ingress::own::annotations());
    let annotations = annotations.filter(|one| one.is_supported()).map(|one| format!("/{}: ", one.name));
    let keys = control::translate::configmap::KEYS.iter();
    let keys = keys.filter(|key| key.is_supported() && !key.doc.starts_with("F5: "));
    let keys = keys.flat_map(|key| [' ', '{'].map(|before| format!("{before}{}: ", key.name)));
    let missing: Vec<_> = annotations.filter(|name| !text.contains(name)).collect();
    assert_eq!(missing, [""; 0]);
    let keys: Vec<_> = keys.collect();
    let missing: Vec<_> =
        keys.chunks(2).filter(|names| !names.iter().any(|name| text.contains(name))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A value can be as long as an object. A message must not repeat all of it.
#[test]
fn a_megabyte_of_annotation_makes_short_problems() {
    let names = control::translate::ingress::annotations::ANNOTATIONS;
    let value = "x{".repeat((1 << 20) / 2 / names.len());
    let annotations = names
        .iter()
        .map(|annotation| format!("    nginx.ingress.kubernetes.io/{}: '{value}'", annotation.name))
        .collect::<Vec<_>>()
        .join("\n");
    let text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: a\n  annotations:\n{annotations}\n\
         spec: {{rules: [{{host: a.test}}]}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\n\
         data: {{allow-snippet-annotations: 'true', annotations-risk-level: Critical}}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, text).unwrap();
    let configmap = Some("default/settings".parse().unwrap());
    let options = Options { manifests: vec![file], configmap, ..Options::default() };
    let translation = load_at(&options, now()).unwrap();
    assert!(translation.problems.len() > 20, "{}", translation.problems.len());
    let longest = translation.problems.iter().map(|problem| problem.message.len()).max().unwrap();
    assert!(longest < 2100, "{longest}");
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW_S)
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

fn directives<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = (&'t str, &'t str)> {
    let directive = move |line: &'t str| line.strip_prefix("# ")?.strip_prefix(word)?.split_once('=');
    text.lines().filter_map(directive).map(|(name, value)| (name.trim(), value.trim()))
}

fn options(text: &str) -> Options {
    let mut options = Options::default();
    for (name, value) in directives(text, "option ") {
        match name {
            "annotations-prefix" => value.clone_into(&mut options.annotations_prefix),
            "http-port" => options.http_port = value.parse().unwrap(),
            "configmap" => options.configmap = Some(value.parse().unwrap()),
            "controller-class" => value.clone_into(&mut options.controller_class),
            "enable-ssl-passthrough" => options.ssl_passthrough = value == "true",
            "tcp-services-configmap" => options.tcp_services_configmap = Some(value.parse().unwrap()),
            "udp-services-configmap" => options.udp_services_configmap = Some(value.parse().unwrap()),
            "default-ssl-certificate" => options.default_ssl_certificate = Some(value.parse().unwrap()),
            "default-backend-service" => options.default_backend_service = Some(value.parse().unwrap()),
            "disable-catch-all" => options.disable_catch_all = value == "true",
            "endpoints" => options.endpoints.push(value.parse().unwrap()),
            "disable-svc-external-name" => options.disable_external_names = value == "true",
            "external-name-allow" => {
                let networks = value.split(',').map(control::options::parse_network);
                options.external_name_allow = networks.collect::<Result<_, _>>().unwrap();
            }
            "host-network" => options.shares_addresses = value == "true",
            "source" => options.judges_endpoints = value == "cluster",
            "own-address" => _ = options.own_addresses.insert(value.parse().unwrap()),
            "watch-namespace" => options.watch_namespace = Some(value.to_owned()),
            "ingress-class-by-name" => options.ingress_class_by_name = value == "true",
            "gateway-address" => {
                options.gateway_addresses.push(control::options::parse_network(value).unwrap());
            }
            "reserved-udp-port" => {
                options.reserved_udp_ports.push((value.parse().unwrap(), "--replicas-udp-port"));
            }
            "zone" => options.zone = Some(value.to_owned()),
            "node" => options.node = Some(value.to_owned()),
            "deep-inspect" => options.deep_inspect = value == "true",
            "enable-annotation-validation" => options.validates_annotations = value == "true",
            "cache-memory" => options.has_cache = value == "true",
            "limit-redis" => options.has_limit_redis = value == "true",
            "files-root" => options.has_files_root = value == "true",
            "waf-rules" => {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(value);
                options.firewalls = Arc::new(Firewalls::load(&[folder]).unwrap());
            }
            "waf-unenforced" => options.waf_unenforced = value.parse().unwrap(),
            "snippets-unenforced" => options.snippets_unenforced = value.parse().unwrap(),
            "watch-ingress-without-class" => options.watch_ingress_without_class = value == "true",
            other => panic!("no option {other}"),
        }
    }
    options
}

fn resolved(text: &str) -> Resolved {
    let answer = |value: &str| {
        let addresses: Result<Vec<_>, _> = value.split_whitespace().map(str::parse).collect();
        addresses.map_err(|_| value.to_owned())
    };
    directives(text, "resolved ").map(|(name, value)| (name.to_owned(), answer(value))).collect()
}

/// The output of `check`, followed by the parts that it omits, as far as their values are not the default
/// ones.
fn describe(translation: &Translation, folder: &Path) -> String {
    let mut text = String::new();
    report::write(&mut text, translation).unwrap();
    let model = &translation.model;
    for host in model.hosts() {
        write_host(&mut text, host, model);
    }
    let routes = model.hosts().flat_map(|host| &host.routes);
    let in_report: BTreeSet<_> = routes.flat_map(|route| backends(route)).collect();
    for (id, cluster) in model.clusters.iter() {
        let plain = Cluster {
            name: cluster.name.clone(),
            identity: cluster.identity.clone(),
            endpoints: if in_report.contains(&id) { cluster.endpoints.clone() } else { Vec::new() },
            ..Cluster::default()
        };
        write_changes(&mut text, &format!("upstream {}", cluster.name), [&plain, cluster], model);
    }
    for (listener, stream) in model.listeners.iter().filter_map(|one| Some((one, one.stream()?))) {
        let (kind, port) = (listener.id().kind.as_str(), listener.port);
        write!(text, "\nport {port} {kind}\n  {}\n", json(stream, model)).unwrap();
    }
    write_certificates(&mut text, translation);
    let mut settings = model.settings.clone();
    settings.tls.default_certificate = None;
    write_changes(&mut text, "settings", [&model::Settings::default(), &settings], model);
    if !translation.names.is_empty() {
        write!(text, "\nnames needed: {:?}\n", translation.names).unwrap();
    }
    text.replace(&format!("{}/", folder.display()), "")
}

fn write_host(text: &mut String, host: &Host, model: &Model) {
    if host.routes.is_empty() {
        write!(text, "\n{} without routes\n", host.name).unwrap();
    }
    let plain = Host { aliases: model::Rare::default(), tls: Arc::default(), ..host.clone() };
    write_changes(text, &host.name.to_string(), [&plain, host], model);
    for route in &host.routes {
        write_changes(text, &format!("{} {:?}", host.name, route.path), [&plain_route(route), route], model);
    }
}

/// The route without settings, and with only the first of its backends, which is in the report.
fn plain_route(route: &Route) -> Route {
    let action = match &route.action {
        Action::Forward(forward) => Action::Forward(Forward {
            body_bytes_max: Some(1 << 20).into(),
            transfer: Transfer {
                request_buffer_bytes: Some(8 << 10),
                response_head_bytes_max: 4 << 10,
                ..Transfer::default()
            }
            .into(),
            overload: Some(Arc::default()),
            ..Forward::to(backends(route).next().map_or_else(|| forward.backends.clone(), Backends::One))
        }),
        Action::Files(_) => Action::Files(Box::default()),
        Action::Respond(_) | Action::NotFound => route.action.clone(),
    };
    let mut plain = Route::new(route.path.clone(), action, Arc::clone(&route.labels));
    plain.access = route.access.as_ref().map(|_| Box::default());
    plain
}

fn backends(route: &Route) -> impl Iterator<Item = ClusterId> {
    let forward = match &route.action {
        Action::Forward(forward) => Some(forward),
        Action::Files(_) | Action::Respond(_) | Action::NotFound => None,
    };
    forward.into_iter().flat_map(|forward| forward.backends.clusters())
}

fn shown(certificate: &model::Certificate) -> String {
    let info = &certificate.info;
    format!("{}/{} ({})", info.namespace, info.object, info.public_key_algorithm)
}

fn write_certificates(text: &mut String, translation: &Translation) {
    if translation.valid_until.is_some() {
        text.push('\n');
    }
    if let Some(certificate) = &translation.model.settings.tls.default_certificate {
        writeln!(text, "default certificate {}", shown(certificate)).unwrap();
    }
    for control::HostCertificate { host, info } in translation.certificates.iter() {
        writeln!(text, "metric for {host}: {}/{} until {}", info.namespace, info.object, info.not_after)
            .unwrap();
    }
    if let Some(end) = translation.valid_until {
        writeln!(text, "valid until {end}").unwrap();
    }
}

/// Writes the fields of a part whose values differ from those of a plain one, below a heading.
fn write_changes<T: Serialize>(text: &mut String, heading: &str, [plain, part]: [&T; 2], model: &Model) {
    let mut changes = String::new();
    collect_changes(&mut changes, "", &json(plain, model), &json(part, model));
    if !changes.is_empty() {
        write!(text, "\n{heading}\n{changes}").unwrap();
    }
}

/// Characters of a value that is written in one line, if it has parts.
const LINE_CHARS_MAX: usize = 300;

/// A line `a.b: value` for each field that differs, at any depth.
fn collect_changes(text: &mut String, path: &str, before: &Value, after: &Value) {
    let is_long = || after.to_string().len() > LINE_CHARS_MAX;
    match (before, after) {
        _ if before == after => {}
        (Value::Object(before), Value::Object(fields))
            if fields.keys().any(|name| before.contains_key(name)) =>
        {
            for name in before.keys().filter(|name| !fields.contains_key(*name)) {
                collect_changes(text, &format!("{path}.{name}"), &before[name], &Value::Null);
            }
            for (name, field) in fields {
                let before = before.get(name).unwrap_or(&Value::Null);
                collect_changes(text, &format!("{path}.{name}"), before, field);
            }
        }
        (_, Value::Object(fields)) if is_long() => {
            for (name, field) in fields {
                collect_changes(text, &format!("{path}.{name}"), &Value::Null, field);
            }
        }
        (_, Value::Array(items)) if is_long() => {
            for (at, item) in items.iter().enumerate() {
                collect_changes(text, &format!("{path}[{at}]"), &Value::Null, item);
            }
        }
        _ => writeln!(text, "  {}: {after}", path.trim_start_matches('.')).unwrap(),
    }
}

fn json(part: &impl Serialize, model: &Model) -> Value {
    to_json(part, &|id| model.cluster(id).name.as_str().into())
}
