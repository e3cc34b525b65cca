//! Tenants cannot change each other's requests, whatever they write. The fuzz target `tenants` and the smoke
//! test call the same function.
//!
//! An owner has a host, by an Ingress or by a Gateway and a route. Younger objects of other namespaces, of
//! all kinds, are added. Requests for the host must have the same result as before, except those at or below
//! a path of a guest that is not a path of the owner in any spelling.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use control::Options;
use control::index::Index;
use control::resolve::Resolved;
use control::source::objects_in;
use control::translate::translate;
use model::{ListenerId, ListenerKind, PathKind, Route, StepBudget};
use routing::{Resolution, Snapshot};

const HTTP: ListenerId = ListenerId { kind: ListenerKind::Http, port: 80, address: None };
const HTTPS: ListenerId = ListenerId { kind: ListenerKind::Https, port: 443, address: None };

/// The most younger objects beside the owner's.
const GUESTS_MAX: usize = 4;

const HOSTS: &[&str] = &["a.test", "b.test", "*.test", "x.a.test", "*.a.test"];
const PATHS: &[&str] =
    &["/app", "/app/", "/APP", "/app/deep", "/admin", "/im/", "/", "/%61pp", "//app", "/x/../app", "/zzz"];
const EXPRESSIONS: &[&str] =
    &["/a.*", "/app(/|$)(.*)", "/(.*)", "/[aA]dmin", "/v[0-9]+/x", "/.{1,40}", "/zzz/?(.*)"];
const KINDS: &[&str] = &["Prefix", "Exact", "ImplementationSpecific"];
const ANNOTATIONS: &[&str] = &[
    "use-regex: \"true\"",
    "rewrite-target: /",
    "rewrite-target: /$2",
    "server-alias: \"a.test, *.test, ~^.*$, *.a.test, b.test\"",
    "app-root: /stolen",
    "from-to-www-redirect: \"true\"",
    "ssl-redirect: \"true\"",
    "force-ssl-redirect: \"true\"",
    "canary: \"true\"",
    "canary-weight: \"100\"",
    "auth-tls-secret: guest/ca",
    "auth-tls-verify-client: \"off\"",
    "ssl-passthrough: \"true\"",
    "permanent-redirect: https://evil.test/",
    "whitelist-source-range: 192.0.2.0/24",
    "default-backend: svc",
    "custom-http-errors: \"404,503\"",
    "enable-cors: \"true\"",
    "proxy-body-size: \"1\"",
];
const CONDITIONS: &[&str] =
    &["", ", method: POST", ", headers: [{name: a, value: b}]", ", queryParams: [{name: a, value: b}]"];

/// Hosts and paths of the requests.
const ASKED_HOSTS: &[&str] = &["a.test", "b.test", "x.test", "x.a.test", "y.x.a.test"];
const ASKED_PATHS: &[&str] = &[
    "/",
    "/app",
    "/app/",
    "/APP",
    "/App/",
    "/app/deep",
    "/app/deep/er",
    "/application",
    "/admin",
    "/ADMIN",
    "/im",
    "/im/",
    "/im/x",
    "/v1/x",
    "/zzz",
    "/zzz/x",
    "/unknown",
];

/// Choices by the bytes of the input; after its end, always the first option.
struct Choices<'i>(std::slice::Iter<'i, u8>);

impl Choices<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or_default()) % bound
    }

    fn of<'c>(&mut self, all: &[&'c str]) -> &'c str {
        all[self.below(all.len())]
    }

    fn is(&mut self) -> bool {
        self.below(2) == 1
    }
}

/// No object of another namespace changes the result of the owner's requests.
pub(crate) fn tenants(input: &[u8]) {
    let mut choices = Choices(input.iter());
    let mut owner = shared();
    let of_gateway = choices.is();
    if of_gateway {
        gateway(&mut owner, &mut choices, "owner", 0);
        route(&mut owner, &mut choices, "owner", 0, "owner");
    } else {
        ingress(&mut owner, &mut choices, "owner", 0);
    }
    let mut all = owner.clone();
    for number in 1..=1 + choices.below(GUESTS_MAX) {
        let namespace = if choices.is() { "guest" } else { "other" };
        match choices.below(4) {
            0 | 1 => ingress(&mut all, &mut choices, namespace, number),
            2 => route(&mut all, &mut choices, namespace, number, "infra"),
            _ => {
                gateway(&mut all, &mut choices, namespace, number);
                route(&mut all, &mut choices, namespace, number, namespace);
            }
        }
    }
    let (before, after) = (compiled(&owner), compiled(&all));
    for listener in [HTTP, HTTPS] {
        for host in ASKED_HOSTS {
            for path in ASKED_PATHS {
                for accepts in [false, true] {
                    let asked = Asked { listener, host, path, accepts };
                    asked.compare(&before, &after, &all);
                }
            }
        }
    }
}

struct Asked<'a> {
    listener: ListenerId,
    host: &'a str,
    path: &'a str,
    accepts: bool,
}

impl Asked<'_> {
    fn answer<'s>(&self, snapshot: &'s Snapshot) -> Resolution<'s> {
        let (host, path) = (self.host.as_bytes(), self.path.as_bytes());
        snapshot.resolve(self.listener, host, path, &StepBudget::default(), |_| self.accepts)
    }

    fn compare(&self, before: &Snapshot, after: &Snapshot, all: &str) {
        let (own, now) = (self.answer(before), self.answer(after));
        let (table, owned) = match &own {
            Resolution::Route(table, route, _) | Resolution::AddSlash(table, route) => (table, Some(*route)),
            Resolution::UnknownPath(table) => (table, None),
            Resolution::UnknownHost | Resolution::Undecided(_) => return,
        };
        // Longer names are not part of wildcards and expressions among an owner's aliases.
        if !table.name().takes(self.host) && self.host != "b.test" {
            return;
        }
        // An exact name beside a wildcard of another namespace is another host.
        let is_same_host = match &now {
            Resolution::Route(after, _, _)
            | Resolution::AddSlash(after, _)
            | Resolution::Undecided(after)
            | Resolution::UnknownPath(after) => after.name() == table.name(),
            Resolution::UnknownHost => false,
        };
        let is_narrower = !is_same_host && !matches!(now, Resolution::UnknownHost) && {
            let (Resolution::Route(after, _, _)
            | Resolution::AddSlash(after, _)
            | Resolution::Undecided(after)
            | Resolution::UnknownPath(after)) = &now
            else {
                unreachable!("it is none of the others")
            };
            specificity(after.name()) > specificity(table.name())
        };
        if is_narrower {
            return;
        }
        let told = || {
            format!(
                "{} {} {} with conditions that are {}: {:?} and then {:?}\n{all}",
                self.listener.kind.as_str(),
                self.host,
                self.path,
                self.accepts,
                owned.map(said),
                now
            )
        };
        assert!(is_same_host, "another host answers: {}", told());
        if let (Resolution::Route(a, _, _), Resolution::Route(b, _, _)) = (&own, &now) {
            assert!(
                a.tls().certificate == b.tls().certificate && a.tls().client_auth == b.tls().client_auth,
                "{}",
                told()
            );
        }
        match (owned, &now) {
            (_, Resolution::Route(_, route, _) | Resolution::AddSlash(_, route))
                if route.labels.namespace() != "owner" =>
            {
                assert!(self.is_added(owned, route), "{}", told());
            }
            (Some(route), Resolution::Route(_, after, _) | Resolution::AddSlash(_, after)) => {
                assert_eq!(said(route), said(after), "{}", told());
            }
            (None, Resolution::UnknownPath(_)) => {}
            _ => panic!("{}", told()),
        }
    }

    /// Whether a guest's route is for a path that does not belong to the owner.
    fn is_added(&self, owned: Option<&Arc<Route>>, guest: &Arc<Route>) -> bool {
        let text = guest.path.path().trim_end_matches('/');
        let is_plain = guest.path.kind() != PathKind::Regex && guest.conditions.is_none();
        let below = self.path.strip_prefix(text);
        let is_at = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // The path "/" has no owner if the owner's object names no backend for it.
        let is_deeper = owned.is_none_or(|owned| {
            if owned.labels.service().is_empty() && owned.path.path() == "/" {
                return true;
            }
            let own = owned.path.path();
            let is_rest = own == "/" || owned.path.kind() != PathKind::Regex;
            is_rest
                && own.trim_end_matches('/').len() < text.len()
                && !own.trim_end_matches('/').eq_ignore_ascii_case(text)
        });
        is_plain && is_at && is_deeper
    }
}

fn specificity(name: &model::HostName) -> usize {
    match name {
        model::HostName::Exact(_) => 1000,
        model::HostName::OneLabel(suffix) | model::HostName::Suffix(suffix) => 1 + suffix.len(),
        model::HostName::Any => 0,
    }
}

/// The parts of a route that affect a request. The id of its cluster is left out, because it differs if other
/// clusters exist.
fn said(route: &Arc<Route>) -> String {
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        route.path, route.conditions, route.request_filters, route.access, route.script, route.labels
    )
}

fn compiled(text: &str) -> Snapshot {
    let objects = objects_in(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    let options = Options { ssl_passthrough: true, ..Options::default() };
    let now = UNIX_EPOCH + Duration::from_secs(1_782_864_000);
    let translation = translate(&Index::build(&objects).0, &options, &Resolved::default(), now);
    routing::compile(&translation.model, None, 1)
}

/// Objects of all cases: the class, a Gateway without hosts of its own, and Services.
fn shared() -> String {
    let mut text = String::from(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: forebay}\n\
         spec: {controllerName: forebay.io/gateway-controller}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
         metadata: {name: web, namespace: infra, creationTimestamp: 2018-01-01T00:00:00Z}\nspec:\n  gatewayClassName: forebay\n  \
         listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]\n",
    );
    for namespace in ["owner", "guest", "other"] {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: svc, namespace: {namespace}}}\nspec: {{ports: [{{port: 80}}]}}\n"
        );
    }
    text
}

/// Metadata with a creation time: the owner's objects are of 2019, the others' later ones.
fn metadata(name: &str, namespace: &str, number: usize) -> String {
    let year = 2019 + number;
    format!(
        "  name: {name}-{number}\n  namespace: {namespace}\n  creationTimestamp: {year}-01-01T00:00:00Z\n"
    )
}

fn ingress(text: &mut String, choices: &mut Choices<'_>, namespace: &str, number: usize) {
    let meta = metadata("ingress", namespace, number);
    let _ = write!(
        text,
        "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n{meta}  annotations:\n    by: it\n"
    );
    let mut named = Vec::new();
    for _ in 0..choices.below(4) {
        let annotation = choices.of(ANNOTATIONS);
        let (key, _) = annotation.split_once(':').expect("it has a value");
        // An owner that is a canary would own nothing.
        if !(named.contains(&key) || number == 0 && key.starts_with("canary")) {
            named.push(key);
            let _ = writeln!(text, "    nginx.ingress.kubernetes.io/{annotation}");
        }
    }
    let host = if number == 0 { "a.test" } else { choices.of(HOSTS) };
    let _ = write!(text, "spec:\n  rules:\n  - host: {host:?}\n    http:\n      paths:\n");
    for _ in 0..=choices.below(3) {
        let path = if choices.below(4) == 0 { choices.of(EXPRESSIONS) } else { choices.of(PATHS) };
        let kind = choices.of(KINDS);
        let backend = "{service: {name: svc, port: {number: 80}}}";
        let _ = writeln!(text, "      - {{path: {path:?}, pathType: {kind}, backend: {backend}}}");
    }
    if choices.is() {
        let _ = writeln!(text, "  tls: [{{hosts: [{host:?}], secretName: cert}}]");
    }
    if choices.below(4) == 0 {
        let _ = writeln!(text, "  defaultBackend: {{service: {{name: svc, port: {{number: 80}}}}}}");
    }
}

fn gateway(text: &mut String, choices: &mut Choices<'_>, namespace: &str, number: usize) {
    let meta = metadata("gateway", namespace, number);
    let host = if number == 0 { "a.test" } else { choices.of(HOSTS) };
    let _ = write!(
        text,
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata:\n{meta}spec:\n  gatewayClassName: forebay\n  \
         listeners: [{{name: http, port: 80, protocol: HTTP, hostname: {host:?}}}]\n"
    );
}

/// A route for the Gateway with its number in its namespace, or for the Gateway in `infra`.
fn route(text: &mut String, choices: &mut Choices<'_>, namespace: &str, number: usize, parent: &str) {
    let meta = metadata("route", namespace, number);
    let name = if parent == "infra" { "web".to_owned() } else { format!("gateway-{number}") };
    let host = if number == 0 { "a.test" } else { choices.of(HOSTS) };
    let _ = write!(
        text,
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n{meta}spec:\n  \
         parentRefs: [{{name: {name}, namespace: {parent}}}]\n  hostnames: [{host:?}]\n  rules:\n  - backendRefs: [{{name: svc, port: 80}}]\n    \
         matches:\n"
    );
    for _ in 0..=choices.below(3) {
        let (kind, path) = match choices.below(4) {
            0 => ("RegularExpression", choices.of(EXPRESSIONS)),
            1 => ("Exact", choices.of(PATHS)),
            _ => ("PathPrefix", choices.of(PATHS)),
        };
        let conditions = choices.of(CONDITIONS);
        let _ = writeln!(text, "    - {{path: {{type: {kind}, value: {path:?}}}{conditions}}}");
    }
}
