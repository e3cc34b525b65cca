//! Manifests in, model and problems out: each file in `cases` and what becomes of it in `snapshots`.
//!
//! `# option NAME = VALUE` lines stand for the command line, `# resolved NAME = ADDRESSES` lines for the DNS. It is always
//! [`NOW_S`]: the certificates in the cases, whose keys are for tests only, are made for that.

#[path = "golden/canonical.rs"]
mod canonical;
#[path = "golden/remembering.rs"]
mod remembering;

use std::collections::BTreeSet;
use std::fmt::{Debug, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::index::Index;
use control::report;
use control::resolve::Resolved;
use control::source::files::Files;
use control::translate::translate;
use control::{Options, Problem, Severity, Translation, load_at};
use model::{
    Action, Authorities, Backends, ClientAuth, ClusterId, Encryption, ErrorPages, HostTls, Listener, Model,
    Protocol, Stream, Transport, UpstreamTls,
};

/// The first of July 2026, in seconds since 1970.
const NOW_S: u64 = 1_782_864_000;

#[test]
fn cases() {
    insta::glob!("cases/*.yaml", |path| {
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

/// The reason of each problem of each case. Reasons are tested since Events carry them, and the webhook decides by them.
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
    // The two together, as the first steps of a new user would serve them.
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

/// What the page shows can be copied: each block of YAML loads without a problem, and compresses something or takes it apart.
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

/// An annotation or a key that is supported is in one of the cases, where its effect can be read.
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
            "deep-inspect" => options.deep_inspect = value == "true",
            "enable-annotation-validation" => options.validates_annotations = value == "true",
            "cache-memory" => options.has_cache = value == "true",
            "limit-redis" => options.has_limit_redis = value == "true",
            "files-root" => options.has_files_root = value == "true",
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

/// The output of `check`, and then what that leaves out: filters, settings and policies that are not the default.
fn describe(translation: &Translation, folder: &Path) -> String {
    let mut text = String::new();
    report::write(&mut text, translation).unwrap();
    let model = &translation.model;
    for host in model.hosts() {
        if host.routes.is_empty() {
            write!(text, "\n{} without routes\n", host.name).unwrap();
        }
        if !host.aliases.is_empty() {
            write!(text, "\n{} also {:?}\n", host.name, host.aliases).unwrap();
        }
        if *host.tls != model::HostTls::default() {
            write!(text, "\n{} {}\n", host.name, tls(&host.tls, model)).unwrap();
        }
        for route in &host.routes {
            let details = route_details(route, model);
            if !details.is_empty() {
                write!(text, "\n{} {:?}\n{}", host.name, route.path, details.concat()).unwrap();
            }
        }
    }
    for (_, cluster) in model.clusters.iter() {
        write_cluster(&mut text, cluster);
    }
    for listener in &model.listeners {
        write_stream(&mut text, listener, model);
    }
    write_certificates(&mut text, translation);
    let mut settings = model.settings.clone();
    settings.tls.default_certificate = None;
    let changed = changed_lines(&model::Settings::default(), &settings);
    if !changed.is_empty() {
        write!(text, "\nsettings\n{changed}").unwrap();
    }
    if !translation.names.is_empty() {
        write!(text, "\nnames needed: {:?}\n", translation.names).unwrap();
    }
    text.replace(&format!("{}/", folder.display()), "")
}

/// What is not the default of a route.
fn route_details(route: &model::Route, model: &Model) -> Vec<String> {
    let mut details = filters(route);
    if let Action::Forward(forward) = &route.action {
        let plain = "timeouts: Timeouts { connect: 5s, read: 60s, send: 60s }, retry: RetryPolicy { on: RetryOn { \
                     error: true, timeout: true, invalid_header: false, statuses: [], non_idempotent: false }, \
                     tries: Some(3), timeout: None }, body_bytes_max: Some(1048576), connection_header: None";
        let debug = describe_forward(forward);
        if !debug.contains(plain)
            || forward.sets_affinity_cookie
            || forward.head.is_some()
            || debug.contains("transfer")
        {
            details.push(format!("  {debug}\n"));
        }
    }
    if let Action::Forward(model::Forward { cache: Some(cache), .. }) = &route.action {
        details.push(format!("  {cache:?}\n"));
    }
    if let Action::Forward(forward) = &route.action {
        match &forward.overload {
            Some(overload) if **overload == model::Overload::default() => {}
            Some(overload) => details.push(format!("  {overload:?}\n")),
            None => details.push("  overload off\n".to_owned()),
        }
        if forward.priority != model::overload::Priority::default() {
            details.push(format!("  priority {:?}\n", forward.priority));
        }
    }
    if let Action::Forward(model::Forward { backends: Backends::Canary(canary), .. }) = &route.action {
        let cluster = &model.cluster(canary.cluster).name;
        let affinity = &model.cluster(canary.cluster).balance;
        details.push(format!("  canary {} of {cluster}, {affinity:?}: {:?}\n", canary.name, canary.rules));
    }
    if let Some(pages) = &route.error_pages {
        details.push(format!("  errors {}\n", error_pages(pages, model)));
    }
    details.extend(route.script.iter().map(|script| describe_script(script)));
    let of_responses = route.response_filters.as_slice().iter();
    details.extend(of_responses.map(|filter| format!("  {filter:?}\n")));
    if route.abuse != model::Abuse::default() {
        details.push(format!("  {}\n", abuse(&route.abuse)));
    }
    if !route.access_log {
        details.push("  not in the access log\n".to_owned());
    }
    details
}

fn abuse(abuse: &model::Abuse) -> String {
    let key = abuse.key.iter().map(|key| {
        format!(" by {:?} of {}", key.template.parts(), if key.zone == 0 { "all" } else { "a namespace" })
    });
    format!("abuse {:?}{}", abuse.mode, key.collect::<String>())
}

fn error_pages(pages: &ErrorPages, model: &Model) -> String {
    let name = |id: &ClusterId| {
        let cluster = model.cluster(*id);
        let endpoints: Vec<_> = cluster.endpoints.iter().map(|one| one.address.to_string()).collect();
        format!("{} {:?} {endpoints:?}", cluster.name, cluster.encryption)
    };
    let backends: Vec<_> = pages.backends.iter().map(name).collect();
    let fallback = pages.fallback.as_ref().map(name);
    let spares = if pages.spares_endpoints { ", spares endpoints" } else { "" };
    format!("{:?} by {backends:?}{spares}, steps in {fallback:?}", pages.statuses())
}

/// What snippets have become, with a line for each thing.
fn describe_script(script: &model::Script) -> String {
    let mut text = String::new();
    if let Some(host) = &script.host {
        text += &describe_block("host", &host.block);
        for model::ScriptPlace { path, block, networks } in &host.places {
            writeln!(text, "  host: at {path:?} for {networks:?}").unwrap();
            text += &describe_block("    at it", block);
        }
    }
    text += &script.route.as_ref().map(|block| describe_block("script", block)).unwrap_or_default();
    if script.adds_headers {
        text += "  script: adds headers itself\n";
    }
    text
}

fn describe_block(name: &str, block: &model::Block) -> String {
    let mut text = String::new();
    for step in &block.steps {
        writeln!(text, "  {name}: {step:?}").unwrap();
    }
    if block.headers != model::Headers::default() {
        writeln!(text, "  {name}: {:?}", block.headers).unwrap();
    }
    text.replace("Template { parts: ", "Template(").replace("] }", "])")
}

/// How a route forwards, without what no Ingress can change.
fn describe_forward(forward: &model::Forward) -> String {
    let id = match &forward.backends {
        Backends::One(id) => *id,
        Backends::Canary(canary) => canary.mainline,
        // A route of the Gateway API, of which `gateway.rs` tests the rest.
        Backends::Split(split) => return format!("{split:?}"),
    };
    let priority = model::overload::Priority::default();
    let forward = &model::Forward { cache: None, overload: None, priority, ..forward.clone() };
    let debug = format!("{forward:?}")
        .replace("backend_request: None, ", "")
        .replace(", backoff: None", "")
        .replace(", cache: None", "")
        .replace(", overload: None", "")
        .replace(", priority: Normal", "")
        .replace("request: None, ", "")
        .replace(", sets_affinity_cookie: false", "");
    let debug = debug.replace(", head: None", "");
    // What ingress-nginx does where nobody says anything.
    let usual = ", transfer: Transfer { request_buffer_bytes: Some(8192), uses_http_1_0: false, \
                 response_head_bytes_max: 4096, response: None, mirrors: None }";
    let debug = debug.replace(usual, "");
    let backends = format!("backends: {:?}", forward.backends);
    debug.replace(&backends, &format!("cluster: {id:?}"))
}

/// The checks that a request passes before the action, in order.
fn filters(route: &model::Route) -> Vec<String> {
    let request = route.request_filters.as_slice().iter().map(|filter| format!("  {filter:?}\n"));
    let mut filters: Vec<String> = request.collect();
    if let Action::Files(files) = &route.action {
        filters.push(format!("  {files:?}\n"));
    }
    filters.extend(route.tracing.iter().map(|tracing| format!("  {tracing:?}\n")));
    if let Some(access) = &route.access {
        let model::Access {
            forbidden,
            client_certificate,
            unavailable,
            limits,
            quota,
            networks,
            basic,
            external,
            satisfy,
        } = &**access;
        filters.extend(forbidden.iter().map(|reason| format!("  Forbidden {{ reason: {reason:?} }}\n")));
        filters.extend(client_certificate.iter().map(|demand| format!("  ClientCertificate({demand:?})\n")));
        filters.extend(unavailable.iter().map(|reason| format!("  Unavailable {{ reason: {reason:?} }}\n")));
        filters.extend(
            limits
                .iter()
                .map(|limits| format!("  {:?}\n", model::ClientLimits { zone: 0, ..limits.clone() })),
        );
        filters.extend(
            quota.iter().map(|quota| format!("  {:?}\n", model::RequestQuota { zone: 0, ..quota.clone() })),
        );
        filters
            .extend(networks.iter().map(|networks| format!("  {networks:?}\n").replace(", rules: []", "")));
        filters.extend(basic.iter().map(|basic| format!("  {basic:?}\n")));
        let asked = external.iter().map(|auth| format!("  {:?} of {:?}\n", auth.check, auth.cluster));
        filters.extend(asked);
        filters.extend((*satisfy == model::Satisfy::Any).then(|| "  satisfy any\n".to_owned()));
    }
    filters
}

fn write_cluster(text: &mut String, cluster: &model::Cluster) {
    let plain = model::Cluster::default();
    if cluster.balance != plain.balance {
        let balance = format!("{:?}", cluster.balance).replace(", header: None, age_max: None", "");
        write!(text, "\nupstream {}: {balance}\n", cluster.name).unwrap();
    }
    if cluster.version != plain.version || cluster.encryption != plain.encryption {
        let encryption = match &cluster.encryption {
            Encryption::Never => "in clear".to_owned(),
            Encryption::Always(tls) => format!("over TLS, {}", upstream_tls(tls)),
            Encryption::AsClient(tls) => format!("as the client, {}", upstream_tls(tls)),
        };
        write!(text, "\nupstream {}: {:?} {encryption}\n", cluster.name, cluster.version).unwrap();
    }
}

fn write_stream(text: &mut String, listener: &Listener, model: &Model) {
    let (transport, stream) = match &listener.protocol {
        Protocol::Http(_) | Protocol::Https(_) => return,
        Protocol::Tcp(stream) => (Transport::Tcp, stream),
        Protocol::Udp(stream) => (Transport::Udp, stream),
    };
    let port = listener.port;
    let Stream { backends, accepts_proxy_header, sends_proxy_header, labels, .. } = stream;
    let labels = format!("{labels:?}").replace(", rule: \"\"", "");
    let cluster = model.cluster(backends.only().expect("a stream of a ConfigMap leads to one Service"));
    let endpoints: Vec<_> = cluster.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect();
    write!(
        text,
        "\nport {port} {transport:?} to {} {endpoints:?}, accepts PROXY {accepts_proxy_header}, sends PROXY \
         {sends_proxy_header}\n  {labels}\n",
        cluster.name
    )
    .unwrap();
}

fn upstream_tls(tls: &UpstreamTls) -> String {
    let UpstreamTls { certificate, authorities, verify, depth, name, send_name, versions, ciphers, .. } = tls;
    let shows = certificate.as_ref().map(|it| format!("shows {}, ", shown(it))).unwrap_or_default();
    let believes = if *verify { "believes" } else { "would believe" };
    let sends = if *send_name { "sends" } else { "does not send" };
    format!(
        "{shows}{believes} {} authorities to depth {depth}, {sends} {name:?}, {versions:?} {ciphers:?}",
        authorities.certificates.len()
    )
}

fn tls(tls: &HostTls, model: &Model) -> String {
    let HostTls {
        certificate,
        more_certificates,
        shown_for,
        client_auth,
        ciphers,
        prefer_server_ciphers,
        passthrough,
        stream,
        listener,
    } = tls;
    let mut parts = Vec::new();
    assert!(more_certificates.is_none() && stream.is_none() && listener.is_none(), "of no Ingress");
    if let Some(certificate) = certificate {
        parts.push(format!("shows {}", shown(certificate)));
    }
    if let Some(names) = shown_for {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        parts.push(format!("only for {}", names.join(" ")));
    }
    if let Some(auth) = client_auth {
        let ClientAuth { authorities, verify, depth, ends_handshake: _ } = auth;
        let Authorities { certificates, revocations } = &**authorities;
        parts.push(format!(
            "asks for certificates: {verify:?} by {} authorities with {} revocation lists to depth {depth}",
            certificates.len(),
            revocations.len()
        ));
    }
    if let Some(ciphers) = ciphers {
        parts.push(format!("{ciphers:?}"));
    }
    if let Some(prefers) = prefer_server_ciphers {
        parts.push(format!("prefers its own: {prefers}"));
    }
    if let Some(cluster) = passthrough {
        parts.push(format!("passed through to {}", model.cluster(*cluster).name));
    }
    parts.join("; ")
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
    for control::HostCertificate { host, info } in &translation.certificates {
        writeln!(text, "metric for {host}: {}/{} until {}", info.namespace, info.object, info.not_after)
            .unwrap();
    }
    if let Some(end) = translation.valid_until {
        writeln!(text, "valid until {end}").unwrap();
    }
}

/// The lines of the fields that differ.
fn changed_lines(before: &impl Debug, after: &impl Debug) -> String {
    let (before, after) = (fields(before), fields(after));
    after
        .iter()
        .filter(|field| !before.contains(field))
        .fold(String::new(), |text, field| text + field + "\n")
}

/// A line `a.b: value` for each field of the `{:#?}` output, at any depth.
fn fields(value: &impl Debug) -> Vec<String> {
    let text = format!("{value:#?}");
    let mut lines = text.lines().skip(1);
    let (mut path, mut fields) = (Vec::new(), Vec::new());
    while let Some(line) = lines.next() {
        let indent = &line[..line.len() - line.trim_start().len()];
        match line.trim().split_once(": ") {
            Some((name, what)) if what.ends_with('{') => path.push(name.to_owned()),
            Some((name, what)) => {
                let mut whole = what.to_owned();
                if what.ends_with(['[', '(']) {
                    let is_inside = |line: &&str| {
                        !line.strip_prefix(indent).is_some_and(|rest| rest.starts_with([']', ')']))
                    };
                    let inside: Vec<_> = lines.by_ref().take_while(is_inside).map(str::trim).collect();
                    let close = if what.ends_with('[') { ']' } else { ')' };
                    whole = format!("{what}{}{close}", inside.join(" ").trim_end_matches(','));
                }
                let place = [path.as_slice(), &[name.to_owned()]].concat().join(".");
                fields.push(format!("{place}: {}", whole.trim_end_matches(',')));
            }
            None => drop(path.pop()),
        }
    }
    fields
}
