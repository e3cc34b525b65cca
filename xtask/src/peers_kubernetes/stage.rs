//! A cluster, Forebay in front of it, and what is put into it.
//!
//! Must not be in here: figures.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use cluster::{Client, Cluster, NODE_ADDRESS, Options, api_version};
use serde::Deserialize;
use serde_json::{Value, json};
use strum::IntoStaticStr;
use tempfile::TempDir;

use crate::ask::{self, Asker, Question};
use crate::backend::Backend;
use crate::child::{Program, free_address};
use crate::gateway::Kubectl;
use crate::interrupt::Interrupt;
use crate::machine::Cpus;
use crate::proxies::forebay_binary;
use crate::template::{merged, render_file};

/// The namespace of everything, the class, and its controller.
pub(super) const SPACE: &str = "scale";
const CONTROLLER: &str = "forebay.test/scale";
/// Ingresses and Services at full size; each Service has two endpoints.
const MANY: u32 = 5_000;
const PLACES: u32 = 200;
/// Connections to the API server that fill the cluster.
const FILLERS: u32 = 4;
/// Longest wait for anything in the cluster.
const PATIENCE: Duration = Duration::from_secs(60);
/// The shortest time of a measurement.
const TIME_MIN: Duration = Duration::from_secs(2);
/// The least priority: what is measured, and the load, go first.
pub(super) const NICENESS: u8 = 19;

/// The kind of object that routes to Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Kind {
    Ingress,
    HttpRoute,
}

/// The cluster and load of all measures. Fields are dropped in this order.
pub(super) struct Stage {
    pub(super) client: Client,
    pub(super) cpus: Cpus,
    pub(super) interrupt: Interrupt,
    pub(super) backend: Backend,
    cluster: Cluster,
    pub(super) folder: TempDir,
    percent: u32,
    /// Of what there are many.
    pub(super) kind: Kind,
    is_filled: bool,
    /// Whether the Ingresses of many have annotations, and so those that are made beside them.
    pub(super) is_annotated: bool,
}

/// A running Forebay.
pub(super) struct Forebay {
    pub(super) program: Program,
    pub(super) http: SocketAddr,
    pub(super) admin: SocketAddr,
    /// From its start until it was ready.
    pub(super) started: Duration,
}

impl Stage {
    pub(super) fn set(percent: u32, kind: Kind, interrupt: &Interrupt) -> Result<Stage> {
        let (interrupt, cpus, folder) = (interrupt.clone(), Cpus::choose()?, tempfile::tempdir()?);
        let program = forebay_binary()?.display().to_string();
        let images = BTreeMap::from([("forebay".to_owned(), vec![program])]);
        let cluster = Cluster::start(&Options { images, niceness: NICENESS, ..Options::default() })?;
        let client = Client::new(&cluster.kubeconfig())?;
        apply(&client, "prepare", json!({}))?;
        if kind == Kind::HttpRoute {
            Kubectl::of(&cluster, folder.path())?.install_kinds(&cluster::gateway_crds("experimental")?)?;
            apply(&client, "gateway", json!({}))?;
        }
        // The API refuses endpoints on loopback; the node's own address will do.
        let address = TcpListener::bind((NODE_ADDRESS, 0))?.local_addr()?;
        let backend = Backend::start_at(address, "payload", &cpus.load, folder.path(), &interrupt)?;
        Ok(Stage {
            client,
            cpus,
            interrupt,
            backend,
            cluster,
            folder,
            percent,
            kind,
            is_filled: false,
            is_annotated: false,
        })
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.cluster.kubeconfig()
    }

    /// How many Ingresses or routes there are when the cluster is filled.
    pub(super) fn many(&self) -> u32 {
        self.part_of(MANY)
    }

    pub(super) fn part_of(&self, all: u32) -> u32 {
        (all * self.percent / 100).max(1)
    }

    /// The same of a time in which something is measured.
    pub(super) fn part_of_time(&self, all: Duration) -> Duration {
        (all * self.percent / 100).max(TIME_MIN)
    }

    /// Starts Forebay as it ships, on all CPUs, and waits until it is ready.
    pub(super) fn forebay(&self) -> Result<Forebay> {
        self.forebay_following(&self.kubeconfig())
    }

    pub(super) fn forebay_following(&self, kubeconfig: &Path) -> Result<Forebay> {
        self.forebay_with(kubeconfig, &[])
    }

    pub(super) fn forebay_with(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<Forebay> {
        let [http, admin] = [free_address()?, free_address()?];
        let mut command = Command::new(forebay_binary()?);
        command.arg("serve").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--http-port", &http.port().to_string(), "--https-port", "0"]);
        command.args(["--healthz-port", &admin.port().to_string(), "--controller-class", CONTROLLER]);
        command.args(arguments);
        if self.kind == Kind::HttpRoute {
            // The writer of the status has to be the leader.
            command.args(["--publish-status-address=192.0.2.1", "--election-id=leader"]);
            command.env("POD_NAMESPACE", SPACE);
        }
        let begun = Instant::now();
        let program = Program::start("forebay", command, &[], self.folder.path())?;
        self.await_that("Forebay to be ready", || Ok(ask::get(admin, "/readyz").is_ok()))?;
        Ok(Forebay { program, http, admin, started: begun.elapsed() })
    }

    /// Waits until a host answers 200.
    pub(super) fn await_host(&self, forebay: &Forebay, host: &str) -> Result<()> {
        let mut asker = Asker::new(forebay.http, host);
        self.await_that(host, || Ok(asker.status()? == 200))
    }

    /// Waits until the annotations of a host are in force: those that an answer shows.
    pub(super) fn await_annotated(&self, forebay: &Forebay, number: u32) -> Result<()> {
        let (host, origin) = (many_host(number), format!("https://team-{number}.example.com"));
        let question = Question {
            host: &host,
            headers: &[("Origin", &origin)],
            // Rewritten, it is 1 KB.
            path: "/1m",
            ..Question::default()
        };
        self.await_that(&host, || {
            let answer = question.ask(forebay.http)?;
            let is_allowed = answer.header("Access-Control-Allow-Origin") == Some(&origin);
            let is_kept = answer.header("Set-Cookie").is_some();
            Ok(answer.status == 200 && is_allowed && is_kept && answer.body.len() == 1024)
        })
    }

    /// Makes a Service whose one endpoint is the backend.
    pub(super) fn expose(&self, client: &Client, name: &str) -> Result<()> {
        let address = self.backend.address;
        let values = json!({"name": name, "port": address.port(), "addresses": [address.ip()]});
        apply(client, "service", values)
    }

    /// Waits until the cluster is as it is to be.
    pub(super) fn await_that(&self, what: &str, holds: impl FnMut() -> Result<bool>) -> Result<()> {
        self.interrupt.await_that(PATIENCE, what, holds)
    }

    /// As many Ingresses or routes and Services, and twice as many endpoints, as the goals are about. The
    /// first endpoint of each is the backend; nobody listens at the second ones.
    pub(super) fn fill(&mut self) -> Result<()> {
        if self.is_filled {
            return Ok(());
        }
        let backend = self.backend.address;
        let (many, kind) = (self.many(), self.kind);
        eprintln!("making {many} of kind {}, as many Services, and twice as many endpoints", kind.name());
        self.for_each_of_many(|client, number| {
            many_objects(kind, number, backend)?
                .iter()
                .try_for_each(|object| client.post(&collection(object)?, object).map(drop))
        })?;
        self.is_filled = true;
        Ok(())
    }

    /// The same with annotations on every Ingress.
    pub(super) fn annotate(&mut self) -> Result<()> {
        self.fill()?;
        if !self.is_annotated {
            eprintln!("annotating {} Ingresses", self.many());
            self.for_each_of_many(|client, number| {
                let metadata =
                    json!({"name": many_name(number), "namespace": SPACE, "annotations": annotations(number)?});
                client.merge(&json!({"kind": "Ingress", "metadata": metadata})).map(drop)
            })?;
            self.is_annotated = true;
        }
        Ok(())
    }

    /// Takes the status of all routes away.
    pub(super) fn forget_status(&self) -> Result<()> {
        self.for_each_of_many(|client, number| {
            let status = json!({"status": {"parents": []}});
            client.merge_status(&object("HTTPRoute", &many_name(number), status)).map(drop)
        })
    }

    /// Waits until all routes have one, by what the API server says. It is asked for one after the other,
    /// since listing thousands again and again would take from it what writing them needs.
    pub(super) fn await_status(&self) -> Result<()> {
        let has_one = |name: &str| -> Result<bool> {
            let route = self.client.find("HTTPRoute", SPACE, name)?;
            Ok(route.is_some_and(|route| has_parent(&route)))
        };
        let mut awaited: BTreeSet<String> = (0..self.many()).map(many_name).collect();
        while let Some(name) = awaited.pop_last() {
            self.await_that("the status of all routes", || has_one(&name))?;
            let routes = self.client.list("HTTPRoute", SPACE)?;
            for route in routes.iter().filter(|route| has_parent(route)) {
                awaited.remove(route["metadata"]["name"].as_str().unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Does something with each of many, on several connections to the API server.
    fn for_each_of_many(&self, work: impl Fn(&Client, u32) -> Result<()> + Sync) -> Result<()> {
        let work = |filler: u32| -> Result<()> {
            let client = Client::new(&self.kubeconfig())?;
            (filler..self.many()).step_by(FILLERS as usize).try_for_each(|number| {
                self.interrupt.check()?;
                work(&client, number)
            })
        };
        thread::scope(|scope| {
            let work = &work;
            let fillers: Vec<_> = (0..FILLERS).map(|filler| scope.spawn(move || work(filler))).collect();
            fillers
                .into_iter()
                .try_for_each(|filler| filler.join().map_err(|_| anyhow!("a thread panicked"))?)
        })
    }
}

fn has_parent(route: &Value) -> bool {
    route["status"]["parents"].as_array().is_some_and(|parents| !parents.is_empty())
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Ingress => "Ingress",
            Kind::HttpRoute => "HTTPRoute",
        }
    }

    /// One that leads from a host to a Service.
    pub(super) fn object(self, name: &str, host: &str, service: &str) -> Result<Value> {
        single(self.into(), json!({"name": name, "host": host, "service": service}))
    }

    /// A patch of one of many objects, another one in each round.
    pub(super) fn change(self, name: &str, round: u32) -> Result<Value> {
        let template = format!("{}-change", <&str>::from(self));
        single(&template, json!({"name": name, "seconds": 61 + round % 60}))
    }
}

/// The objects of a template in `xtask/peers-kubernetes`.
pub(super) fn objects(template: &str, values: Value) -> Result<Vec<Value>> {
    let values = merged(values, json!({"space": SPACE, "controller": CONTROLLER}))?;
    let text = render_file(&format!("peers-kubernetes/{template}.yaml"), values)?;
    serde_saphyr::from_multiple(&text).with_context(|| template.to_owned())
}

/// The object of a template that has one.
fn single(template: &str, values: Value) -> Result<Value> {
    objects(template, values)?.pop().with_context(|| format!("{template} has no object"))
}

/// Makes the objects of a template what they are there.
pub(super) fn apply(client: &Client, template: &str, values: Value) -> Result<()> {
    objects(template, values)?.iter().try_for_each(|object| client.apply(object).map(drop))
}

/// A Service, and a slice with its endpoints.
pub(super) fn service(name: &str, port: u16, addresses: &[IpAddr]) -> Result<Vec<Value>> {
    objects("service", json!({"name": name, "port": port, "addresses": addresses}))
}

/// The name of an object of many, and the host that leads to it.
pub(super) fn many_name(number: u32) -> String {
    format!("many-{number}")
}

pub(super) fn many_host(number: u32) -> String {
    format!("many-{number}.test")
}

/// The addresses of the endpoints of one of many.
pub(super) fn many_addresses(number: u32, backend: SocketAddr) -> [IpAddr; 2] {
    let nobody = Ipv4Addr::new(10, 245, (number / PLACES) as u8, (number % PLACES) as u8 + 1);
    [backend.ip(), nobody.into()]
}

/// The annotations of one of many.
pub(super) fn annotations(number: u32) -> Result<Value> {
    single("annotations", json!({"number": number}))
}

fn many_objects(kind: Kind, number: u32, backend: SocketAddr) -> Result<Vec<Value>> {
    let name = many_name(number);
    let mut objects = service(&name, backend.port(), &many_addresses(number, backend))?;
    objects.push(kind.object(&name, &many_host(number), &name)?);
    Ok(objects)
}

pub(super) fn object(kind: &str, name: &str, mut content: Value) -> Value {
    content["apiVersion"] = api_version(kind).into();
    content["kind"] = kind.into();
    content["metadata"] = json!({"name": name, "namespace": SPACE});
    content
}

fn collection(object: &Value) -> Result<String> {
    cluster::collection(object["kind"].as_str().unwrap_or_default(), SPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_have_objects_with_their_values() -> Result<()> {
        let backend = SocketAddr::from(([192, 0, 2, 9], 8080));
        for kind in [Kind::Ingress, Kind::HttpRoute] {
            let many = many_objects(kind, 7, backend)?;
            let kinds: Vec<_> =
                many.iter().map(|object| object["kind"].as_str().unwrap_or_default()).collect();
            assert_eq!(kinds, ["Service", "EndpointSlice", kind.name()]);
            assert!(many.iter().all(|object| object["metadata"]["namespace"] == SPACE));
            assert_eq!(many[1]["endpoints"][0]["addresses"], json!(["192.0.2.9"]));
            assert_eq!(many[1]["ports"], json!([{"port": 8080}]));
        }
        let change = Kind::HttpRoute.change("many-7", 62)?;
        assert_eq!(change["spec"]["rules"][0]["timeouts"]["request"], "63s");
        let change = Kind::Ingress.change("many-7", 62)?;
        let annotation = "nginx.ingress.kubernetes.io/proxy-read-timeout";
        assert_eq!(change["metadata"]["annotations"], json!({annotation: "63"}));
        let annotations = annotations(7)?;
        let values = annotations.as_object().context("annotations")?;
        assert!(values.len() == 10 && values.values().all(Value::is_string), "{values:?}");
        assert_eq!(values["nginx.ingress.kubernetes.io/limit-rps"], "1007");
        let values = json!({"host": "a.test", "address": backend.ip(), "closed_port": 1, "shares": [3, 1]});
        let route = &objects("route-with-shares", values)?[1];
        assert_eq!(route["spec"]["rules"][0]["backendRefs"][1]["weight"], 1);
        for (template, kind) in
            [("prepare", "IngressClass"), ("gateway", "Gateway"), ("deployment", "Service")]
        {
            assert_eq!(objects(template, json!({}))?[1]["kind"], kind);
        }
        Ok(())
    }
}
