//! A translation as text for users: the routes that would be served, and the problems.
//!
//! Never in here: IO. Everything is written to a [`fmt::Write`].

use std::collections::HashSet;
use std::fmt::{self, Write};

use model::{Action, Backends, Cluster, Forward, Host, RequestFilter, Route};

use crate::legible;
use crate::problem::Severity;
use crate::translate::{RouteOrigin, Translation};

/// A path of a host, and the upstream of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The host; `*` for all hosts that no other row names.
    pub host: String,
    /// The path as the object declares it.
    pub path: String,
    /// `Exact`, `Prefix` or `ImplementationSpecific`.
    pub path_type: &'static str,
    /// The result of a request: `ok`, `redirect`, `closed 503`, `no endpoints`, `answer 404` and the like.
    pub state: String,
    /// Name of the upstream, or the response if there is no upstream.
    pub upstream: String,
    /// Addresses of the upstream's endpoints.
    pub endpoints: String,
    /// The object that declares the route, and its place.
    pub origin: String,
}

/// The rows of a translation, in the order of its hosts and routes. A route of several listeners is one row.
pub fn rows(translation: &Translation) -> Vec<Row> {
    let mut origins = translation.origins.iter().flat_map(|origins| origins.iter());
    let mut told: HashSet<(String, usize, String)> = HashSet::new();
    let mut rows = Vec::new();
    for host in translation.model.hosts() {
        for (index, (route, origin)) in host.routes.iter().zip(&mut origins).enumerate() {
            let row = row(translation, host, route, origin);
            if told.insert((row.host.clone(), index, row.cells().concat())) {
                rows.push(row);
            }
        }
    }
    rows
}

fn row(translation: &Translation, host: &Host, route: &Route, origin: &RouteOrigin) -> Row {
    let (upstream, endpoints) = destination(translation, route);
    Row {
        host: if host.name == model::HostName::Any { "*".to_owned() } else { host.name.to_string() },
        path: route.path.path().to_owned(),
        path_type: route.path.kind().as_str(),
        state: state(translation, route),
        upstream,
        endpoints,
        origin: origin.to_string(),
    }
}

/// The result of a request for a route: the first state that applies.
fn state(translation: &Translation, route: &Route) -> String {
    let is_closed = |status: &str| format!("closed {status}");
    if let Some(access) = &route.access {
        if access.forbidden.is_some() {
            return is_closed("403");
        }
        if access.unavailable.is_some() {
            return is_closed("503");
        }
    }
    let redirects = |filter: &RequestFilter| {
        matches!(filter, RequestFilter::Redirect(_) | RequestFilter::RequestRedirect(_))
    };
    if route.request_filters.as_slice().iter().any(redirects) {
        return "redirect".to_owned();
    }
    match &route.action {
        Action::Respond(fixed) => format!("answer {}", fixed.status),
        Action::NotFound => "answer 404".to_owned(),
        Action::Files(_) => "ok".to_owned(),
        Action::Forward(forward) => {
            let fallback = forward.fallback.iter().flat_map(|fallback| fallback.clusters.iter().copied());
            let clusters = forward.backends.clusters().chain(fallback);
            let mut clusters = clusters.map(|id| translation.model.cluster(id));
            let is_served = clusters.any(|cluster| !cluster.endpoints.is_empty());
            if is_served { "ok" } else { "no endpoints" }.to_owned()
        }
    }
}

fn destination(translation: &Translation, route: &Route) -> (String, String) {
    match &route.action {
        Action::Respond(fixed) => (format!("answer {}", fixed.status), String::new()),
        Action::NotFound => ("answer 404".to_owned(), String::new()),
        Action::Files(files) => (format!("files below /{}", files.folder), String::new()),
        Action::Forward(forward) => falling_back(translation, forward),
    }
}

fn of_backends(translation: &Translation, forward: &Forward) -> (String, String) {
    match &forward.backends {
        Backends::One(cluster) => {
            let cluster = translation.model.cluster(*cluster);
            (cluster.name.clone(), endpoints(cluster))
        }
        Backends::Split(_) => {
            let clusters = forward.backends.clusters().map(|one| translation.model.cluster(one));
            let (names, endpoints): (Vec<_>, Vec<_>) =
                clusters.map(|cluster| (cluster.name.clone(), endpoints(cluster))).unzip();
            (names.join(", "), endpoints.join(", "))
        }
        Backends::Canary(canary) => {
            let [mainline, other] = [canary.mainline, canary.cluster].map(|id| translation.model.cluster(id));
            let name = format!("{}, canary {}", mainline.name, other.name);
            (name, format!("{}, canary {}", endpoints(mainline), endpoints(other)))
        }
    }
}

/// The names and endpoints of the clusters that a route falls back to.
fn falling_back(translation: &Translation, forward: &Forward) -> (String, String) {
    let (name, of_name) = of_backends(translation, forward);
    let clusters = forward.fallback.iter().flat_map(|fallback| &fallback.clusters);
    clusters.fold((name, of_name), |(names, all), id| {
        let cluster = translation.model.cluster(*id);
        (format!("{names}, fallback {}", cluster.name), format!("{all}, fallback {}", endpoints(cluster)))
    })
}

fn endpoints(cluster: &Cluster) -> String {
    if cluster.endpoints.is_empty() {
        return "none".to_owned();
    }
    let addresses = cluster.endpoints.iter().map(|endpoint| match endpoint.state {
        model::EndpointState::Ready => endpoint.address.to_string(),
        model::EndpointState::Draining => format!("{} (draining)", endpoint.address),
    });
    addresses.collect::<Vec<_>>().join(" ")
}

/// The text is `Ingress default/web (examples/web.yaml:12)`.
impl fmt::Display for RouteOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object())?;
        match (self.file(), self.line()) {
            (Some(file), Some(line)) => write!(f, " ({}:{line})", file.display()),
            (Some(file), None) => write!(f, " ({})", file.display()),
            (None, _) => Ok(()),
        }
    }
}

/// Whether there are problems to solve. Notices do not count.
pub fn has_problems(translation: &Translation) -> bool {
    translation.problems.iter().any(|problem| problem.severity != Severity::Notice)
}

/// Writes the table of the routes, the problems, and a summary in one line.
///
/// # Errors
///
/// When writing to `out` fails.
pub fn write(out: &mut impl Write, translation: &Translation) -> fmt::Result {
    table(out, &rows(translation))?;
    for problem in &translation.problems {
        writeln!(out, "{:<8} {}", problem.severity, legible::line(&problem.to_string()))?;
    }
    if !translation.problems.is_empty() {
        writeln!(out)?;
    }
    summary(out, translation)
}

const HEADINGS: [&str; 7] = ["HOST", "PATH", "TYPE", "STATE", "UPSTREAM", "ENDPOINTS", "FROM"];

fn table(out: &mut impl Write, rows: &[Row]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let rows = std::iter::once(HEADINGS).chain(rows.iter().map(Row::cells));
    let cells: Vec<_> = rows.map(|row| row.map(legible::line)).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..HEADINGS.len()).map(width).collect();
    for row in &cells {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            write!(line, "{cell:<width$}  ")?;
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)
}

impl Row {
    fn cells(&self) -> [&str; 7] {
        [&self.host, &self.path, self.path_type, &self.state, &self.upstream, &self.endpoints, &self.origin]
    }
}

fn summary(out: &mut impl Write, translation: &Translation) -> fmt::Result {
    let count = |severity| translation.problems.iter().filter(|problem| problem.severity == severity).count();
    let model = &translation.model;
    let routes = rows(translation).len();
    let hosts: HashSet<_> = model.hosts().map(|host| &host.name).collect();
    let counts = [
        (hosts.len(), "host"),
        (routes, "route"),
        (model.clusters.count(), "upstream"),
        (count(Severity::Error), "error"),
        (count(Severity::Warning), "warning"),
        (count(Severity::Notice), "notice"),
    ];
    let counts =
        counts.map(|(number, thing)| format!("{number} {thing}{}", if number == 1 { "" } else { "s" }));
    write!(out, "{}", counts.join(", "))?;
    if !translation.skipped.is_empty() {
        let kinds = translation.skipped.iter().map(|(kind, number)| format!("{number} {kind}"));
        write!(out, "; passed over: {}", kinds.collect::<Vec<_>>().join(", "))?;
    }
    writeln!(out)
}
