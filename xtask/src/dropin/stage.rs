//! A cluster with the cases' objects, and both ingress controllers in front of it, on addresses of their own.
//!
//! Must not be in here: requests of the cases.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{Client, Cluster, Options};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Authority, Certificate};

use super::case::{CLASS, Case, Names};
use crate::ask::Question;
use crate::child::Program;
use crate::interrupt::Interrupt;
use crate::proxies::{Definition, forebay_of};
use crate::template::{data, render_file};

/// Forebay and Traefik at the usual ports, so that redirects name none.
pub(super) const FOREBAY: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(super) const TRAEFIK: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
pub(super) const HTTP: u16 = 80;
pub(super) const HTTPS: u16 = 443;
const CONTROLLER: &str = "k8s.io/ingress-nginx";
/// The Services of a case that have an endpoint: one Pod serves all cases.
const SERVICES: [&str; 4] = ["a", "b", AUTH, "errors"];
const AUTH: &str = "auth";
/// A Service without endpoints.
const EMPTY_SERVICE: &str = "none";
/// The namespace of the Pods, and of what is made last.
const SPACE: &str = "dropin";
const IMAGE: &str = "endpoint";
const PORT: u16 = 8080;
/// Nobody listens here.
const CLOSED_PORT: u16 = 8079;
/// The host of the Ingress that is made last.
const LAST: &str = "last.test";
const PATIENCE: Duration = Duration::from_secs(60);
/// After this time objects are certainly of another age.
const AGE: Duration = Duration::from_millis(1100);

/// Everything that runs. Fields are dropped in this order.
pub(super) struct Stage {
    client: Client,
    controllers: Vec<Program>,
    interrupt: Interrupt,
    kubeconfig: PathBuf,
    /// Of the Services' endpoints.
    addresses: BTreeMap<&'static str, SocketAddr>,
    certificate: Certificate,
    #[expect(dead_code, reason = "held so that it runs")]
    cluster: Cluster,
    folder: TempDir,
}

/// Where Traefik's program comes from.
pub(super) fn traefik() -> Result<Definition> {
    data("dropin/traefik.yaml")
}

impl Stage {
    /// Starts the cluster and the endpoints, without any case.
    pub(super) fn set(interrupt: &Interrupt) -> Result<Stage> {
        let program = env::current_exe()?.display().to_string();
        let images = BTreeMap::from([(IMAGE.to_owned(), vec![program])]);
        let cluster = Cluster::start(&Options { images, ..Options::default() })?;
        let (kubeconfig, folder) = (cluster.kubeconfig(), tempfile::tempdir()?);
        let client = Client::new(&kubeconfig)?;
        let values = json!({"space": SPACE, "class": CLASS, "controller": CONTROLLER, "image": IMAGE, "port": PORT, "services": SERVICES});
        apply_file(&client, "dropin/cluster.yaml", values)?;
        let mut addresses = BTreeMap::new();
        for name in SERVICES {
            let address = interrupt.poll(PATIENCE, || pod_address(&client, name))?;
            addresses.insert(name, address.with_context(|| format!("no Pod {name}"))?);
        }
        let certificate = Authority::new("dropin").server(&["*.test"]);
        let (controllers, interrupt) = (Vec::new(), interrupt.clone());
        Ok(Stage { client, controllers, interrupt, kubeconfig, addresses, certificate, cluster, folder })
    }

    /// The values of a case.
    pub(super) fn names(&self, number: usize) -> Names {
        let auth = self.addresses[AUTH];
        let closed = SocketAddr::new(auth.ip(), CLOSED_PORT);
        Names { host: format!("case-{number}.test"), space: format!("case-{number}"), auth, closed }
    }

    /// Makes all objects of the cases.
    pub(super) fn add<'a>(&self, cases: impl Iterator<Item = &'a Case>) -> Result<()> {
        let mut rounds: Vec<Vec<Value>> = Vec::new();
        for (number, case) in cases.enumerate() {
            let names = self.names(number);
            let values = json!({
                "space": names.space,
                "chain": STANDARD.encode(self.certificate.chain_pem()),
                "key": STANDARD.encode(self.certificate.key_pem()),
                "addresses": self.addresses,
                "empty": EMPTY_SERVICE,
            });
            self.interrupt.check()?;
            apply_file(&self.client, "dropin/shared.yaml", values)?;
            for (index, round) in case.rounds(&names)?.into_iter().enumerate() {
                rounds.resize(rounds.len().max(index + 1), Vec::new());
                rounds[index].extend(round);
            }
        }
        for round in rounds {
            apply_all(&self.client, &round)?;
            let begun = Instant::now();
            // Objects have their age in whole seconds.
            let is_over = || Ok(begun.elapsed() > AGE);
            self.interrupt.await_that(PATIENCE, "the next second", is_over)?;
        }
        Ok(())
    }

    /// Starts both controllers, and waits until they serve an Ingress that is made after all others.
    pub(super) fn start(&mut self, definition: &Definition) -> Result<()> {
        apply_file(
            &self.client,
            "dropin/last.yaml",
            json!({"space": SPACE, "class": CLASS, "host": LAST, "address": self.addresses["a"]}),
        )?;
        let folder = self.folder.path();
        let traefik = definition.command(&traefik_values(&self.kubeconfig, folder)?, "traefik", folder)?;
        for (name, command) in [("forebay", forebay(&self.kubeconfig)?), ("traefik", traefik)] {
            self.controllers.push(Program::start(name, command, &[], folder)?);
        }
        for address in [FOREBAY, TRAEFIK] {
            let question = Question { host: LAST, ..Question::default() };
            self.interrupt.await_that(PATIENCE, &format!("{address} to serve"), || {
                Ok(question.ask(SocketAddr::new(address, HTTP)).is_ok_and(|answer| answer.status == 200))
            })?;
        }
        Ok(())
    }
}

fn apply_all(client: &Client, objects: &[Value]) -> Result<()> {
    objects.iter().try_for_each(|object| client.apply(object).map(drop))
}

fn apply_file(client: &Client, path: &str, values: Value) -> Result<()> {
    apply_all(client, &serde_saphyr::from_multiple::<Value>(&render_file(path, values)?)?)
}

/// Where the endpoint of a Service is, once its Pod runs.
fn pod_address(client: &Client, name: &str) -> Result<Option<SocketAddr>> {
    let pod = client.find("Pod", SPACE, name)?.context("the Pod is gone")?;
    let conditions = pod["status"]["conditions"].as_array();
    let is_ready =
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"));
    match pod["status"]["podIP"].as_str().filter(|_| is_ready) {
        Some(address) => Ok(Some(SocketAddr::new(address.parse()?, PORT))),
        None => Ok(None),
    }
}

/// Forebay, with its settings in `dropin/cluster.yaml`.
fn forebay(kubeconfig: &Path) -> Result<Command> {
    let mut command = Command::new(forebay_of("debug")?);
    command.arg("serve").arg("--kubeconfig").arg(kubeconfig);
    command.args(["--configmap", &format!("{SPACE}/settings"), "--update-status=false"]);
    Ok(command)
}

fn traefik_values(kubeconfig: &Path, folder: &Path) -> Result<Value> {
    let config: Value = serde_json::from_slice(&fs::read(kubeconfig)?)?;
    let cluster = &config["clusters"][0]["cluster"];
    let authority = cluster["certificate-authority-data"].as_str().context("an authority")?;
    let file = folder.join("authority.crt");
    fs::write(&file, STANDARD.decode(authority)?)?;
    Ok(json!({
        "address": TRAEFIK,
        "api": cluster["server"],
        "token": config["users"][0]["user"]["token"],
        "authority": file,
    }))
}
