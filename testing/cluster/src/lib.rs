//! A Kubernetes cluster for tests: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and a
//! kubelet that runs containers as processes, all of them children of the process that starts it.
//!
//! A whole cluster makes network interfaces and mounts, and so wants namespaces of its own:
//! `cargo xtask cluster` enters them. One that is only the API needs nothing of the kind. Must not be in
//! here: what is tested in the cluster.

#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "what fails in a test fails it, wherever it is"
)]

mod binary;
mod cache;
mod client;
mod credentials;
mod etcd;
mod gateway;
mod helm;
mod process;

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

pub use binary::{binary, kubectl};
pub use cache::cache;
pub use client::{Answer, Client, api_version, collection};
use credentials::{Credentials, User};
pub use gateway::{GATEWAY_TOOLCHAIN, gateway_crds};
pub use helm::Helm;
use process::{Process, Program};

/// The node's address on the bridge that joins the Pods, where they reach the API server.
pub const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);

/// Longest wait for a component. A loaded machine is slow; they take two seconds on one that is not.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a component is looked at that is awaited.
const LOOK: Duration = Duration::from_millis(20);

/// The options of a cluster.
#[derive(Debug, Default)]
pub struct Options {
    /// Only etcd and kube-apiserver: no Pods, and no `EndpointSlice` but those that a test creates.
    pub api_only: bool,
    /// The program that stands for an image, and its default arguments, by image without tag.
    pub images: BTreeMap<String, Vec<String>>,
    /// How willing everything is to let others run (nice(1)): for measurements beside it.
    pub niceness: u8,
    /// An existing folder for state and logs, which stays; one that goes with the cluster without it.
    pub folder: Option<PathBuf>,
}

/// A running cluster, which ends when it is dropped or when the process ends.
#[derive(Debug)]
pub struct Cluster {
    // Stopped in this order.
    others: Vec<Process>,
    api_server: Process,
    etcd: Process,
    client: Client,
    etcd_address: SocketAddr,
    folder: PathBuf,
    _temporary: Option<TempDir>,
}

impl Cluster {
    /// Starts one and waits until it can be used. Builds it where that was not done yet on this machine,
    /// which takes ten minutes.
    pub fn start(options: &Options) -> Result<Cluster> {
        let plan = Plan::make(options)?;
        let (etcd, api_server) = (plan.start_etcd()?, plan.start_api_server(options.api_only)?);
        let mut cluster = Cluster {
            others: Vec::new(),
            api_server,
            etcd,
            client: plan.credentials.client(plan.api)?,
            etcd_address: plan.etcd,
            folder: plan.folder.clone(),
            _temporary: plan.temporary,
        };
        cluster.await_api_server()?;
        if !options.api_only {
            cluster.others = start_others(&plan.program, &plan.folder, plan.api.port(), options)?;
            cluster.await_that("the first ServiceAccount", |client| {
                Ok(client.find("ServiceAccount", "default", "default")?.is_some())
            })?;
            cluster.await_that("the node to be ready", has_ready_node)?;
        }
        Ok(cluster)
    }

    /// Where the kubeconfig of a user who may do everything is.
    pub fn kubeconfig(&self) -> PathBuf {
        User::Admin.kubeconfig(&self.folder)
    }

    /// Asks the API as that user.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where each component's output is.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Stops the API server from running: its connections stay and nobody answers.
    pub fn freeze_api_server(&self) -> Result<()> {
        self.api_server.freeze()
    }

    /// Lets it run again.
    pub fn thaw_api_server(&self) -> Result<()> {
        self.api_server.thaw()
    }

    /// Ends the API server: connections are reset, and refused from then on.
    pub fn kill_api_server(&mut self) {
        self.api_server.kill();
    }

    /// Starts the API server, at the same address as before, and waits until it is ready.
    pub fn start_api_server(&mut self) -> Result<()> {
        self.api_server.restart()?;
        self.await_api_server()
    }

    /// Compacts all revisions but the last: a client that watched from an earlier one has to list again. The
    /// API server has revisions of its own in memory until it is restarted.
    pub fn compact(&self) -> Result<()> {
        etcd::compact(self.etcd_address)
    }

    fn await_api_server(&mut self) -> Result<()> {
        self.await_that("the API server to be ready", |client| Ok(client.get("/readyz")?.status == 200))
    }

    fn await_that(&mut self, what: &str, holds: impl Fn(&Client) -> Result<bool>) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = holds(&self.client);
            if matches!(answer, Ok(true)) {
                return Ok(());
            }
            for process in [&mut self.etcd, &mut self.api_server].into_iter().chain(&mut self.others) {
                process.check()?;
            }
            if Instant::now() > end {
                answer.with_context(|| format!("waited in vain for {what}"))?;
                bail!("waited in vain for {what}");
            }
            thread::sleep(LOOK);
        }
    }
}

/// The decisions that are made before anything runs.
struct Plan {
    program: Program,
    folder: PathBuf,
    temporary: Option<TempDir>,
    credentials: Credentials,
    etcd: SocketAddr,
    etcd_peer: SocketAddr,
    api: SocketAddr,
}

impl Plan {
    fn make(options: &Options) -> Result<Plan> {
        let program = Program { binary: binary()?, niceness: options.niceness };
        let temporary = options.folder.is_none().then(tempfile::tempdir).transpose()?;
        let folder = options.folder.as_deref().or(temporary.as_ref().map(TempDir::path));
        let folder = folder.context("a folder")?.to_path_buf();
        fs::create_dir_all(folder.join("logs"))?;
        let [etcd, etcd_peer, api] = free_addresses()?;
        let credentials = Credentials::make(&folder, api)?;
        Ok(Plan { program, folder, temporary, credentials, etcd, etcd_peer, api })
    }

    fn start_etcd(&self) -> Result<Process> {
        let (clients, peers) = (format!("http://{}", self.etcd), format!("http://{}", self.etcd_peer));
        let arguments = [
            format!("--data-dir={}", self.folder.join("etcd").display()),
            // Nothing has to outlive this machine.
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
        ];
        Process::start(&self.program, "etcd", arguments, &self.folder)
    }

    fn start_api_server(&self, api_only: bool) -> Result<Process> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        // Pods reach it over their bridge.
        let address = if api_only { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let arguments = [
            format!("--etcd-servers=http://{}", self.etcd),
            format!("--bind-address={address}"),
            format!("--secure-port={}", self.api.port()),
            format!("--tls-cert-file={}", path(credentials::API_CERTIFICATE)),
            format!("--tls-private-key-file={}", path(credentials::API_KEY)),
            format!("--client-ca-file={}", path(credentials::AUTHORITY)),
            format!("--token-auth-file={}", path(credentials::TOKENS)),
            "--authorization-mode=RBAC".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", path(credentials::ACCOUNTS_PUBLIC_KEY)),
            format!("--service-account-signing-key-file={}", path(credentials::ACCOUNTS_KEY)),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            // There is no default route by which it could find one, and loopback is not allowed.
            format!("--advertise-address={NODE_ADDRESS}"),
            "--endpoint-reconciler-type=none".into(),
            "--kubelet-preferred-address-types=InternalIP".into(),
            "--allow-privileged".into(),
            "--profiling=false".into(),
            "--enable-priority-and-fairness=false".into(),
        ];
        Process::start(&self.program, "kube-apiserver", arguments, &self.folder)
    }
}

/// Starts the programs that make a cluster of an API.
fn start_others(program: &Program, folder: &Path, api_port: u16, options: &Options) -> Result<Vec<Process>> {
    let path = |name: &str| folder.join(name).display().to_string();
    let user = |user: User| user.kubeconfig(folder).display().to_string();
    let controllers = [
        format!("--kubeconfig={}", user(User::Controllers)),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        format!("--root-ca-file={}", path(credentials::AUTHORITY)),
        format!("--service-account-private-key-file={}", path(credentials::ACCOUNTS_KEY)),
        "--kube-api-qps=500".into(),
        "--kube-api-burst=1000".into(),
        "--profiling=false".into(),
    ];
    let scheduler = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false},
        "clientConnection": {"kubeconfig": user(User::Scheduler), "qps": 500, "burst": 1000},
    });
    fs::write(path("scheduler.json"), scheduler.to_string())?;
    fs::write(path("images.json"), serde_json::to_vec(&options.images)?)?;
    let scheduler = [format!("--config={}", path("scheduler.json")), "--secure-port=0".into()];
    let kubelet = [
        format!("--kubeconfig={}", user(User::Kubelet)),
        format!("--directory={}", path("pods")),
        format!("--images={}", path("images.json")),
        format!("--subnet={}", NODE_ADDRESS.to_string().trim_end_matches(".1")),
        format!("--api-port={api_port}"),
    ];
    Ok(vec![
        Process::start(program, "kubelet", kubelet, folder)?,
        Process::start(program, "kube-scheduler", scheduler, folder)?,
        Process::start(program, "kube-controller-manager", controllers, folder)?,
    ])
}

/// Whether there is a node that Pods can run on.
fn has_ready_node(client: &Client) -> Result<bool> {
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    let can_run = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(is_ready)) && node["spec"]["taints"].is_null()
    };
    Ok(client.list("Node", "")?.iter().any(can_run))
}

/// Addresses on loopback where nobody listens now.
fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    let held = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for (address, listener) in addresses.iter_mut().zip(held) {
        *address = listener?.local_addr()?;
    }
    Ok(addresses)
}
