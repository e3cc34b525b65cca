//! Rules and dashboards for Prometheus and Grafana (`deploy/monitoring`), and ingress-nginx's dashboards: a
//! real Prometheus scrapes a real Forebay, and every query is run.
//!
//! Must not be in here: what may be empty and why; it stands in `testing/monitoring/exceptions.yaml`.

mod prometheus;
mod queries;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::stage::{Stage, forebay};
use crate::ask::{Question, get};
use crate::backend::Backend;
use crate::child::{Program, free_address};
use crate::peers::certificate::{Certificates, Key};
use crate::template::{data, render_file};
use prometheus::Prometheus;
use queries::Query;

const LIMIT: Duration = Duration::from_secs(120);

/// Rounds with requests that fail: few, so that nobody would be called for them.
const ROUNDS_WITH_FAILURES: u32 = 3;

const HOST: &str = "shop.test";
/// Labels of the Pod, by which the dashboards of ingress-nginx select.
const NAMESPACE: &str = "ingress";
const POD: &str = "forebay-1";

/// A known difference, and its reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    lints: BTreeMap<String, String>,
    empty: BTreeMap<String, String>,
    may_be_empty: BTreeMap<String, String>,
    may_fire: BTreeMap<String, String>,
}

/// A Forebay of its own with what is behind it.
struct Watched {
    #[expect(dead_code, reason = "held so that it runs")]
    forebay: Program,
    #[expect(dead_code, reason = "held so that it runs")]
    origin: Backend,
    http: SocketAddr,
    admin: SocketAddr,
    manifests: PathBuf,
}

pub(super) fn run(stage: &Stage) -> Result<String> {
    let root = stage.tools.testing.parent().context("the workspace's folder")?;
    let exceptions: Exceptions = data("../testing/monitoring/exceptions.yaml")?;
    let rules = root.join("deploy/monitoring/rules");
    for arguments in [["check", "rules", "forebay.yaml"], ["test", "rules", "forebay.test.yaml"]] {
        let mut command = Command::new("promtool");
        command.current_dir(&rules).args(arguments);
        stage.output("promtool", command, LIMIT)?;
    }
    let watched = Watched::start(stage)?;
    let prometheus = Prometheus::start(stage, watched.admin, &rules.join("forebay.yaml"))?;
    let queries = queries::all(&prometheus, stage, || watched.ask())?;
    let number = queries.len();
    await_results(stage, &watched, &prometheus, queries, &exceptions)?;
    let lints = lint(stage, watched.admin)?;
    compare("lints", &lints, &exceptions.lints.into_keys().collect())?;
    let alerts = quiet_alerts(&prometheus, &exceptions.may_fire)?;
    Ok(format!("{number} queries have a result or a reason, {alerts} alerts are tested and run"))
}

impl Watched {
    fn start(stage: &Stage) -> Result<Watched> {
        let (http, admin) = (free_address()?, free_address()?);
        let folder = stage.folder.join("monitoring");
        let manifests = folder.join("manifests");
        fs::create_dir_all(&manifests)?;
        fs::copy(stage.tools.testing.join("monitoring/manifests.yaml"), manifests.join("manifests.yaml"))?;
        let certificates = Certificates::make(HOST, &folder)?;
        let secret = render_file("conformance/monitoring/secret.yaml", certificates.of(Key::EcdsaP256))?;
        fs::write(manifests.join("secret.yaml"), secret)?;
        let origin = Backend::start("monitoring-origin", &[], &stage.folder, &stage.interrupt)?;
        let mut command = forebay(&manifests, http, free_address()?, admin)?;
        command.env("POD_NAMESPACE", NAMESPACE).env("POD_NAME", POD);
        command.args(["--cache-memory", "16m", "--configmap", "ingress/forebay"]);
        for service in ["web", "canary"] {
            command.args(["--endpoints", &format!("shop/{service}={}", origin.address)]);
        }
        let mut forebay = Program::start("forebay-monitoring", command, &[], &stage.folder)?;
        forebay.wait_for(http, &stage.interrupt)?;
        Ok(Watched { forebay, origin, http, admin, manifests })
    }

    /// One request of each kind that succeeds or is the client's fault.
    fn ask(&self) -> Result<()> {
        self.ask_for("/", HOST, 200, &[])?;
        self.ask_for("/", HOST, 200, &[("X-Canary", "always")])?;
        self.ask_for("/status/404", HOST, 404, &[])?;
        self.ask_for("/", "unknown.test", 404, &[])
    }

    /// One to an endpoint that fails, one to a Service without endpoints.
    fn ask_in_vain(&self) -> Result<()> {
        self.ask_for("/status/500", HOST, 500, &[])?;
        self.ask_for("/gone", HOST, 503, &[])
    }

    fn ask_for(&self, path: &str, host: &str, status: u16, headers: &[(&str, &str)]) -> Result<()> {
        let answer = Question { host, path, headers, ..Question::default() }.ask(self.http)?;
        ensure!(answer.status == status, "{host}{path} is answered with {} and not {status}", answer.status);
        Ok(())
    }

    /// Has a further configuration be taken into service.
    fn change(&self) -> Result<()> {
        let manifest = include_str!("../../../conformance/monitoring/late.yaml");
        Ok(fs::write(self.manifests.join("late.yaml"), manifest)?)
    }
}

/// Asks for everything again and again, with requests in between, until what is left without a result is what
/// may be.
fn await_results(
    stage: &Stage,
    watched: &Watched,
    prometheus: &Prometheus,
    mut queries: Vec<Query>,
    exceptions: &Exceptions,
) -> Result<()> {
    let is_expected = |query: &Query| {
        exceptions.empty.contains_key(&query.name) || exceptions.may_be_empty.contains_key(&query.name)
    };
    let known: BTreeSet<_> = queries.iter().map(|query| query.name.clone()).collect();
    let named = exceptions.empty.keys().chain(exceptions.may_be_empty.keys());
    let unknown: Vec<_> = named.filter(|name| !known.contains(*name)).collect();
    ensure!(unknown.is_empty(), "no query is called {unknown:?}");
    // Timestamps of configurations are whole seconds.
    prometheus.await_result(
        stage,
        "time() - nginx_ingress_controller_config_last_reload_successful_timestamp_seconds > 1.5",
    )?;
    watched.change()?;
    let mut rounds = 0;
    let done = stage.interrupt.poll(LIMIT, || {
        watched.ask()?;
        rounds += 1;
        if rounds <= ROUNDS_WITH_FAILURES {
            watched.ask_in_vain()?;
        }
        let mut left = Vec::new();
        for query in queries.drain(..) {
            if !prometheus.has_result(&query.expression).with_context(|| query.name.clone())? {
                left.push(query);
            }
        }
        queries = left;
        Ok(queries.iter().all(is_expected).then_some(()))
    })?;
    let left: Vec<_> = queries.iter().filter(|query| !is_expected(query)).collect();
    ensure!(done.is_some(), "no result: {left:#?}");
    let empty =
        queries.into_iter().map(|query| query.name).filter(|name| exceptions.empty.contains_key(name));
    compare("queries without a result", &empty.collect(), &exceptions.empty.keys().cloned().collect())
}

/// The complaints of promtool about a scrape.
fn lint(stage: &Stage, admin: SocketAddr) -> Result<BTreeSet<String>> {
    let file = stage.folder.join("metrics.txt");
    fs::write(&file, get(admin, "/metrics")?)?;
    let output = Command::new("promtool").args(["check", "metrics"]).stdin(File::open(&file)?).output()?;
    // 3 is for lints, 1 for what cannot be read.
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    ensure!(matches!(output.status.code(), Some(0 | 3)), "promtool check metrics: {}: {said}", output.status);
    Ok(said.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect())
}

fn compare(what: &str, found: &BTreeSet<String>, expected: &BTreeSet<String>) -> Result<()> {
    let new: Vec<_> = found.difference(expected).collect();
    ensure!(new.is_empty(), "{what}: {new:#?}");
    let mended: Vec<_> = expected.difference(found).collect();
    ensure!(
        mended.is_empty(),
        "{what} that must not stand in testing/monitoring/exceptions.yaml: {mended:#?}"
    );
    Ok(())
}

/// Whether all rules are evaluated without an error, and no alert has a reason that must have none; how many
/// alerts there are.
fn quiet_alerts(prometheus: &Prometheus, may_fire: &BTreeMap<String, String>) -> Result<usize> {
    prometheus.check_rules()?;
    let rules = queries::rules()?;
    for name in may_fire.keys() {
        ensure!(rules.iter().any(|rule| rule.alert.as_ref() == Some(name)), "no alert is called {name}");
    }
    let mut alerts = 0;
    for rule in &rules {
        let is_true = prometheus.has_result(&rule.expr)?;
        match (&rule.alert, &rule.record) {
            (Some(alert), None) => {
                alerts += 1;
                ensure!(!is_true || may_fire.contains_key(alert), "{alert} would fire: {}", rule.expr);
            }
            (None, Some(record)) => ensure!(is_true, "{record} has no result: {}", rule.expr),
            _ => bail!("a rule is an alert or a record: {rule:?}"),
        }
    }
    Ok(alerts)
}

#[cfg(test)]
mod tests;
