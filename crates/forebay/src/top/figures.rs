//! The figures of the overview, those first that people look for first, and what needs a look.

use super::answers::{Failing, State};
use super::paint::Tone;
use super::text::Signs;
use super::unit::{bytes, count, counted, number, percent, quantile, rate};

/// Share of local ports from which the figure is marked.
const PORTS_MANY: f64 = 0.8;

/// Share of the CPUs from which the figure is marked.
const CPU_MUCH: f64 = 0.9;

/// Most failing routes that are shown; the console lists all.
const FAILING_MAX: usize = 3;

const DAY_SECONDS: f64 = 86400.0;

/// A figure with its label.
pub(super) struct Figure {
    pub(super) label: &'static str,
    pub(super) value: String,
    /// A note beside it, shown where there is room.
    pub(super) note: String,
    pub(super) tone: Tone,
}

/// A problem that needs attention.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Concern {
    pub(super) tone: Tone,
    pub(super) text: String,
}

/// All figures, by rank.
pub(super) fn figures(state: &State, signs: Signs) -> Vec<Figure> {
    let State { requests, connections, upstream, process, .. } = state;
    let errors = |of: fn(&super::answers::Classes) -> f64| requests.by_class.as_ref().map(of);
    let server_errors = errors(|classes| classes.server_error);
    let cpus = process.cpu_quota.unwrap_or(process.cpus as f64);
    let ports = upstream.ports_available.filter(|all| *all > 0);
    let port_share = ports.map(|all| upstream.ports_in_use_max as f64 / all as f64);
    let marked = |is_marked: bool, tone: Tone| if is_marked { tone } else { Tone::Plain };
    let figure = |label, value: String, note: String, tone| Figure { label, value, note, tone };
    let plain = |label, value: String| figure(label, value, String::new(), Tone::Plain);
    vec![
        plain("requests", rate(requests.per_second, signs)),
        figure(
            "5xx",
            rate(server_errors, signs),
            String::new(),
            marked(server_errors > Some(0.0), Tone::Bad),
        ),
        plain("p50", quantile(requests.latency.p50, signs)),
        plain("p99", quantile(requests.latency.p99, signs)),
        figure("reuse", percent(upstream.reuse_ratio, signs), "upstream".to_owned(), Tone::Plain),
        figure(
            "CPU",
            process.cpu_used.map_or_else(|| signs.nothing().to_owned(), |used| format!("{used:.2}")),
            format!("of {}{}", number(cpus), if process.cpu_quota.is_some() { " quota" } else { "" }),
            marked(process.cpu_used.is_some_and(|used| cpus > 0.0 && used > CPU_MUCH * cpus), Tone::Warn),
        ),
        plain("clients", count(connections.active)),
        figure("upstream", count(upstream.open), format!("({} idle)", count(upstream.idle)), Tone::Plain),
        figure(
            "ports",
            percent(port_share, signs),
            ports.map(|all| format!("of {}", count(all))).unwrap_or_default(),
            marked(port_share > Some(PORTS_MANY), Tone::Bad),
        ),
        plain("4xx", rate(errors(|classes| classes.client_error), signs)),
        plain("memory", bytes(process.resident_bytes)),
    ]
}

/// Concerns that need attention, the worst first.
pub(super) fn concerns(state: &State, signs: Signs) -> Vec<Concern> {
    let State { configuration, findings, problems, certificates, upstream, .. } = state;
    let mut all = Vec::new();
    let mut add = |tone, text: String| all.push(Concern { tone, text });
    for route in state.failing.iter().take(FAILING_MAX) {
        add(Tone::Bad, failing(route, signs));
    }
    for trouble in &configuration.troubles {
        add(Tone::Bad, format!("a watch fails: {}", signs.clean(trouble)));
    }
    for one in state.shortages.iter().filter(|one| one.level > 0) {
        let of = signs.clean(&one.of).replace('_', " ");
        add(Tone::Bad, format!("the process is short of something: {of} (level {})", one.level));
    }
    for found in &findings.worst {
        let tone = if found.verdict == "failure" { Tone::Bad } else { Tone::Warn };
        add(tone, format!("doctor: {}", signs.clean(&found.message)));
    }
    if problems.error > 0 {
        add(Tone::Bad, format!("{} in objects", counted(problems.error, "error")));
    }
    if certificates.expired > 0 {
        add(Tone::Bad, format!("{} ended", counted(certificates.expired, "certificate")));
    }
    if certificates.ending_soon > 0 {
        let first = certificates.first_end_seconds.filter(|_| certificates.expired == 0);
        let days = first.map(|end| ((end as f64 - state.at_seconds) / DAY_SECONDS).max(0.0).floor());
        let when = days.map(|days| format!(", the first in {days:.0}d")).unwrap_or_default();
        add(Tone::Warn, format!("{} about to end{when}", counted(certificates.ending_soon, "certificate")));
    }
    if upstream.ejected > 0 {
        add(Tone::Warn, format!("{} ejected", counted(upstream.ejected, "endpoint")));
    }
    if upstream.failing_checks > 0 {
        let failing = counted(upstream.failing_checks, "endpoint");
        add(Tone::Warn, format!("{failing} with failing health checks"));
    }
    if problems.warning > 0 {
        add(Tone::Warn, format!("{} about objects", counted(problems.warning, "warning")));
    }
    if configuration.is_from_disk {
        add(Tone::Warn, "the API server was not reached: what was kept on disk is served".to_owned());
    }
    if configuration.acknowledged < configuration.generation {
        let generation = configuration.generation;
        add(Tone::Warn, format!("configuration {generation} is not in force at every worker yet"));
    }
    all.sort_by_key(|concern| concern.tone != Tone::Bad);
    all
}

/// A route that fails: how often, and for which reason most often.
fn failing(route: &Failing, signs: Signs) -> String {
    let Failing { host, path, server_errors_per_second, error_ratio, causes } = route;
    let host = if host == "_" { "*" } else { host };
    let why = causes.first().map(|cause| cause.reason.as_deref().unwrap_or("the endpoint's own status"));
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let (rate, share) = (number(*server_errors_per_second), percent(Some(*error_ratio), signs));
    signs.clean(&format!("{host}{path} fails {rate}/s, {share} of its requests{why}"))
}
