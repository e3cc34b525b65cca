//! `forebay serve`: joins the control plane and the data plane, and ends them in order.

mod ending;
mod metrics;
mod programmed;
mod resources;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use control::acme::Acme;
use control::status::{Beside, Keeper, ThisPod};
use control::{
    Condition, Connection, NsName, Problem, Providers, Publisher, Reason, Review, Severity, Translation,
};
use model::ListenerKind;
use observe::{Registry, log::Writer};
use proxy::{HandedSockets, Proxy, WorkerEnds};
use routing::Snapshot;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tracing::field::display;
use tracing_subscriber::EnvFilter;

use crate::admin::{self, Access, Admin, EXPLANATIONS_MAX, SignIn};
use crate::canaries::{self, StateFile};
use crate::cli;
use crate::console::{Console, Replicas};
use crate::doctor::serving::Findings;
use crate::explain::Objects;
use crate::ignored::PassedOver;
use crate::log_output::AuditLog;
use crate::past::answer::Readers;
use crate::recorder::Recording;
use crate::successor::{self, ChosenPort, Successor, Upgrades};
use crate::{
    fallback_certificate, guard, health_news, limit_redis, log_output, machine, relay, replicas,
    service_manager, trouble, webhook,
};
use ending::Ending;
use metrics::metrics_options;
use programmed::{Applied, tell_programmed};
use resources::{
    admin_listener, audit_log, body_folder, cache_disk, check_sources, files, kept_open, recording,
};

/// Environment variable with the log filter: `info`, `debug`, `control=debug,info`.
const LOG_VARIABLE: &str = "FOREBAY_LOG";

/// The default log filter. The client of the API server logs each attempt; we log when a watch breaks and
/// when it is back.
const LOGGED: &str = "info,kube_client=off";

pub(crate) fn run(options: cli::Serve, passed_over: &[PassedOver]) -> anyhow::Result<ExitCode> {
    if options.has_no_source()
        && let Some(error) = trouble::nothing_to_serve()
    {
        return Err(error);
    }
    start_logging();
    for PassedOver { flag, why } in passed_over {
        tracing::warn!(flag, "ignored: {why}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(options))
}

fn start_logging() {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new(LOGGED));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour).init();
}

async fn serve(options: cli::Serve) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let upgrades = Upgrades::follow()?;
    let grace = Duration::from_secs(options.shutdown_grace_period);
    let mut bootstrap = Bootstrap::new(&options)?;
    let cluster = connected(&options).await?;
    let (programmed, served) = watch::channel(None);
    let rollouts = Arc::clone(&bootstrap.proxy.rollouts);
    let health_news = Arc::clone(&bootstrap.proxy.health_news);
    let canary_state = bootstrap.canary_state.take();
    let recording = Arc::clone(&bootstrap.recording);
    let (notices, noticed) = mpsc::channel(canaries::NOTICES_MAX);
    let keeper = cluster.as_ref().map(|connection| {
        let (status, registry) = (options.status.options(this_pod()), Arc::clone(&bootstrap.registry));
        let kept = Arc::new(canaries::InLease(Arc::clone(&rollouts)));
        let published = Some(Arc::new(recording.notes.clone()) as _);
        let beside = Beside { kept: Some(kept), notices: Some(noticed), published };
        control::status::spawn(connection, status, served, registry, beside)
    });
    let handed = Arc::clone(&bootstrap.proxy.handed);
    let ends = Arc::clone(&bootstrap.proxy.worker_ends);
    let acme = options.acme.acme(cluster.as_ref().zip(keeper.as_ref()), this_pod());
    let _ = bootstrap.admin.acme.set(acme.clone());
    let _ = bootstrap.admin.console.as_ref().map(|console| console.acme.set(acme.clone()));
    let (fail, failed) = oneshot::channel();
    let server: Rc<RefCell<Option<Server>>> = Rc::default();
    let applied = watch::Sender::default();
    let registry = Arc::clone(&bootstrap.registry);
    let reviews = webhook::start(&options.webhook, registry, bootstrap.side_connections)?;
    let builder = ServerBuilder {
        server: Rc::clone(&server),
        applied: applied.clone(),
        before: Arc::default(),
        reviews,
        fail: Some(fail),
        bootstrap,
    };
    let ending = tokio::select! {
        ended = control(options, cluster, acme.clone(), builder) => match ended? {},
        () = tell_programmed(applied.subscribe(), programmed, &acme, || begin(&handed)) => Ending::Told,
        () = canaries::follow(&rollouts, notices.clone(), canary_state.as_ref(), applied.subscribe()) => Ending::Told,
        () = health_news::follow(&health_news, notices) => Ending::Told,
        () = hand_over(&server, &handed, upgrades) => Ending::HandedOver,
        () = worker_ended(&server, &ends) => Ending::WorkerEnded,
        Ok(error) = failed => return Err(error),
        _ = terminate.recv() => Ending::Told,
        _ = interrupt.recv() => Ending::Told,
    };
    if ending != Ending::HandedOver {
        service_manager::tell_stopping();
        // The file is the successor's where there is one.
        canary_state.inspect(|file| _ = file.keep(&rollouts));
    }
    let why = ending.why();
    recording.notes.tell(record::kind::STOP, "", format!("{why}: requests in flight are finished"));
    tokio::select! {
        ended = stop(keeper, server.take(), ending, grace) => ended?,
        () = ending.is_too_long() => tracing::warn!("requests in flight are cut off"),
        _ = terminate.recv() => tracing::warn!("told to stop again: requests in flight are cut off"),
        _ = interrupt.recv() => tracing::warn!("told to stop again: requests in flight are cut off"),
    }
    recording.stop(why);
    // Not a return: on a second signal workers are still at it.
    std::process::exit(ending.code());
}

/// The connection to the cluster that is followed; none where files are.
async fn connected(options: &cli::Serve) -> anyhow::Result<Option<Connection>> {
    match options.manifests.as_slice() {
        [] if options.serve_files.is_none() => {
            Ok(Some(Connection::open(&options.cluster.api_server.address()).await?))
        }
        _ => Ok(None),
    }
}

/// Waits until a worker has ended by a fault.
fn worker_ended(server: &RefCell<Option<Server>>, ends: &WorkerEnds) -> impl Future<Output = ()> {
    let ended = ending::worker_ended(ends, || server.borrow().is_some());
    #[cfg(debug_assertions)]
    let ended = ending::with_panics_on_signal(ended, || {
        server.borrow().iter().for_each(|server| server.proxy.panic_worker(0));
    });
    ended
}

/// Ends what writes objects, and the proxy.
async fn stop(
    keeper: Option<Keeper>,
    server: Option<Server>,
    ending: Ending,
    grace: Duration,
) -> anyhow::Result<()> {
    let status = async {
        match keeper {
            // The successor has its duties.
            Some(keeper) if ending == Ending::HandedOver => keeper.abandon(),
            Some(keeper) => keeper.stop().await,
            None => {}
        }
    };
    let proxy = async {
        let grace = ending.grace(grace);
        match server {
            Some(server) if ending == Ending::HandedOver => server.leave(grace).await,
            Some(server) => server.stop(grace).await,
            None => Ok(()),
        }
    };
    let ((), ended) = tokio::join!(status, proxy);
    // The worker's panic is known, and has been reported.
    if ending == Ending::WorkerEnded { Ok(()) } else { ended }
}

/// Tells others that this process serves, and closes what was handed to it for nothing.
fn begin(handed: &HandedSockets) {
    for address in handed.close_rest() {
        tracing::info!(%address, "a socket that was handed over is closed: the configuration has no such port");
    }
    service_manager::tell_ready();
}

/// Waits for the signal to start a successor, and ends when one has taken over.
async fn hand_over(server: &RefCell<Option<Server>>, handed: &HandedSockets, mut upgrades: Upgrades) {
    while upgrades.next().await.is_some() {
        let legacy = match &*server.borrow() {
            Some(server) => server.proxy.bequeath_quic().map(|quic| (server.chosen_ports(), quic)),
            None => continue,
        };
        let started = legacy.context("the sockets of QUIC cannot be copied");
        let started =
            started.and_then(|(ports, quic)| Successor::start(&upgrades, &ports, handed.kept(), quic));
        let started = started.inspect(|successor| {
            let (process, successor) = (std::process::id(), successor.pid());
            tracing::info!(process, successor, "a successor is started, and gets the listening sockets");
        });
        let served = match started {
            Ok(successor) => successor.serves().await,
            Err(error) => Err(error),
        };
        match served {
            Ok(()) => return,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "there is no successor: this process goes on");
            }
        }
    }
    std::future::pending::<()>().await;
}

/// Follows what configures the proxy.
async fn control(
    options: cli::Serve,
    cluster: Option<Connection>,
    acme: Acme,
    builder: ServerBuilder,
) -> anyhow::Result<Infallible> {
    let mut given = options.reading;
    given.replicas_service = given.replicas_service.or(options.status.publish_service);
    let session_secret = replicas::session_secret(&given)?;
    let relay = cluster.as_ref().map(|_| relay::start(&options.cluster, &given)).transpose()?.flatten();
    if let Some(relay) = &relay {
        let _ = builder.bootstrap.admin.relay.set(relay.clone());
    }
    let mut reading = given.into_options(options.manifests)?;
    reading.watch_namespace = options.cluster.api_server.scope().only_namespace();
    reading.session_secret = session_secret;
    reading.acme = acme;
    if options.serve_files.is_some() {
        reading = reading.serving_files(options.serve_files);
    }
    let webhook = options.webhook.validating_webhook.rsplit_once(':');
    let webhook = webhook.and_then(|(_, port)| port.parse().ok());
    reading.reserved_ports.extend(webhook.map(|port| (port, "--validating-webhook")));
    reading
        .reserved_ports
        .extend(relay.iter().map(|relay| (relay.address().port(), "--replicas-watch-port")));
    // Given as 0, it is some other by now.
    reading.reserved_ports.push((builder.bootstrap.admin.address.port(), "--healthz-port"));
    reading.providers = builder.bootstrap.providers.clone();
    let _ = builder.bootstrap.admin.providers.set(reading.providers.clone());
    let Some(connection) = cluster else { return Ok(Box::pin(control::run(reading, builder)).await?) };
    tracing::info!(url = connection.url, admin = %builder.bootstrap.admin.address, "following the cluster");
    let pod = match this_pod() {
        Some(name) => control::status::this_pod(&connection, &name).await,
        None => None,
    };
    // A Pod that cannot be read is taken to have its addresses alone: that refuses more. A process outside
    // shares its machine's.
    let is_in_pod = this_pod().is_some() || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let ThisPod { node, host_network } = pod.unwrap_or_default();
    reading.shares_addresses = host_network || !is_in_pod;
    if options.cluster.enable_topology_aware_routing {
        find_place(&connection, node, &mut reading).await;
    }
    match Box::pin(control::run_cluster(&connection, options.cluster.options(relay), reading, builder)).await {}
}

/// Finds the node and the zone whose endpoints are preferred, as far as flags do not name them.
async fn find_place(connection: &Connection, node: Option<String>, reading: &mut control::Options) {
    reading.node = reading.node.take().or(node).or_else(|| std::env::var("NODE_NAME").ok());
    if let Some(node) = reading.node.as_ref().filter(|_| reading.zone.is_none()) {
        reading.zone = control::status::zone_of_node(connection, node).await;
    }
    if let Some(zone) = &reading.zone {
        tracing::info!(zone, node = reading.node, "endpoints of this node or zone are preferred");
    } else {
        tracing::warn!("the zone of this node is not known: endpoints of all zones are used");
    }
}

/// The Pod that this process runs in, from variables of its manifest.
fn this_pod() -> Option<NsName> {
    Some(NsName::new(std::env::var("POD_NAMESPACE").ok()?, std::env::var("POD_NAME").ok()?))
}

/// Resources that are acquired before there is a configuration: a failure is early and has a one-line
/// message.
struct Bootstrap {
    registry: Arc<Registry>,
    proxy: proxy::Options,
    admin: Arc<Admin>,
    /// The providers of identity that routes need.
    providers: Providers,
    annotations_prefix: Arc<str>,
    audit_log: AuditLog,
    /// The file with the states of canaries.
    canary_state: Option<StateFile>,
    /// Connections of the webhook at a time.
    side_connections: usize,
    recording: Arc<Recording>,
}

/// Builds the server when there is a configuration to run with, and keeps it up to date.
struct ServerBuilder {
    bootstrap: Bootstrap,
    server: Rc<RefCell<Option<Server>>>,
    applied: watch::Sender<Option<Applied>>,
    before: Arc<Translation>,
    /// Reviews from the webhook.
    reviews: Option<mpsc::Receiver<Review>>,
    /// The other end waits for it, and for nothing else once it has come.
    fail: Option<oneshot::Sender<anyhow::Error>>,
}

/// The parts that run once there is a configuration.
struct Server {
    registry: Arc<Registry>,
    snapshot: Arc<Snapshot>,
    proxy: Proxy,
    admin: Arc<Admin>,
    log: Writer,
}

impl Publisher for ServerBuilder {
    fn publish(&mut self, translation: Arc<Translation>) {
        translation.new_problems(&self.before).for_each(report);
        let mut server = self.server.borrow_mut();
        match &mut *server {
            Some(server) if translation.model == self.before.model => {
                server.note_applied(&translation, &self.before);
            }
            Some(server) => server.apply(&translation, &self.before),
            None => match Server::build(&self.bootstrap, &translation) {
                Ok(built) => {
                    *server = Some(built);
                    // The workers have been started, and theirs stays as it was.
                    machine::give_way();
                }
                Err(error) => drop(self.fail.take().map(|fail| fail.send(error))),
            },
        }
        self.bootstrap.registry.set_problems(count(&translation.problems));
        if let Some(server) = &*server {
            let (generation, observer) = (server.snapshot.generation, server.proxy.observer());
            let served = Objects {
                snapshot: Arc::clone(&server.snapshot),
                translation: Arc::clone(&translation),
                prefix: Arc::clone(&self.bootstrap.annotations_prefix),
            };
            if let Some(console) = &self.bootstrap.admin.console {
                console.serves(served.clone(), &self.before);
            }
            *self.bootstrap.admin.served.lock().unwrap_or_else(PoisonError::into_inner) = Some(served);
            let translation = Arc::clone(&translation);
            self.applied.send_replace(Some(Applied { generation, observer, translation }));
        }
        drop(server);
        self.bootstrap.recording.notes.configured(&self.before, &translation);
        self.before = translation;
    }

    fn note(&mut self, condition: &Condition) {
        self.bootstrap.registry.set_watches_failing(condition.troubles.len());
        let mut noted = self.bootstrap.admin.condition.lock().unwrap_or_else(PoisonError::into_inner);
        noted.clone_from(condition);
        if let Some(console) = &self.bootstrap.admin.console {
            console.note(condition);
        }
    }

    fn reviews(&mut self) -> Option<mpsc::Receiver<Review>> {
        self.reviews.take()
    }
}

impl Bootstrap {
    fn new(options: &cli::Serve) -> anyhow::Result<Self> {
        check_sources(options)?;
        let audit_log = audit_log(options)?;
        let workers = machine::worker_cpus(options.workers)?;
        let descriptors = machine::Descriptors::share_out(workers.len(), kept_open(options));
        let registry = Registry::new(metrics_options(&options.metrics, &options.reading));
        let rollouts = canaries::begin(options.keeps_canaries());
        let handed = Arc::new(service_manager::handed_sockets()?);
        let listener = admin_listener(admin_address(options)?, &handed)?;
        let findings = Arc::<Findings>::default();
        let recording = recording(options, &registry, &findings)?;
        let readers = Arc::new(Readers::new(Arc::clone(&recording.recorder)));
        let (replica_secret, providers) = (replicas::secret(&options.reading)?, Providers::default());
        let replicas = Replicas { secret: replica_secret.clone(), port: listener.local_addr()?.port() };
        let console = options
            .console
            .then(|| Console::new(&registry, &findings, &readers, replicas, descriptors.side_connections));
        let admin = Arc::new(Admin {
            registry: Arc::clone(&registry),
            observer: OnceLock::new(),
            providers: OnceLock::new(),
            acme: OnceLock::new(),
            relay: OnceLock::new(),
            condition: Mutex::default(),
            findings,
            readers,
            console,
            stopping: AtomicBool::new(false),
            left: Notify::new(),
            metrics: options.metrics.enable_metrics,
            access: admin_access(options),
            sign_in: SignIn::of(options)?,
            health_path: options.health_check_path.clone(),
            address: listener.local_addr()?,
            served: Mutex::default(),
            explaining: Arc::new(Semaphore::new(1)),
            explanations: Semaphore::new(EXPLANATIONS_MAX),
            begun: Instant::now(),
        });
        admin::spawn(listener, Arc::clone(&admin), descriptors.side_connections)?;
        Ok(Self {
            registry,
            canary_state: StateFile::of(options.canary_state.as_deref(), &rollouts)?,
            proxy: proxy::Options {
                workers,
                source_addresses: options.upstream_source_address.clone(),
                body_folder: options.body_buffer_dir.as_deref().map(body_folder).transpose()?,
                cache_bytes: options.reading.cache_memory,
                files: files(options)?,
                cache_disk: cache_disk(options)?,
                replica_secret,
                sign_ins: providers.directory(),
                replicas_udp_port: options.reading.replicas_udp_port,
                limit_redis: limit_redis::of(&options.reading)?,
                budget: descriptors.worker,
                rollouts,
                health_news: Arc::default(),
                worker_ends: Arc::default(),
                handed,
                fallback_certificate: Some(fallback_certificate::make()?),
                hostname: machine::hostname(),
            },
            admin,
            providers,
            annotations_prefix: options.reading.annotations_prefix.as_str().into(),
            audit_log,
            side_connections: descriptors.side_connections,
            recording,
        })
    }
}

fn admin_address(options: &cli::Serve) -> anyhow::Result<SocketAddr> {
    let (host, port) = (options.healthz_host.as_str(), options.reading.healthz_port);
    if host.is_empty() {
        return Ok(machine::any_address(port));
    }
    let ip = host.parse().with_context(|| format!("--healthz-host {host} is not an address"))?;
    Ok(SocketAddr::new(ip, port))
}

/// Access rules of the admin server: its host names, where names of our own Services are recognised by their
/// form.
fn admin_access(options: &cli::Serve) -> Access {
    let pod = this_pod();
    let own = [pod.as_ref().map(|pod| pod.name.clone()), Some(machine::hostname())];
    let names = options.admin_host.iter().cloned().chain(own.into_iter().flatten());
    Access::new(names, pod.map(|pod| pod.namespace), options.admin_allow.clone())
}

impl Server {
    fn build(bootstrap: &Bootstrap, translation: &Arc<Translation>) -> anyhow::Result<Self> {
        let registry = Arc::clone(&bootstrap.registry);
        let log = log_output::begin(&bootstrap.audit_log, &registry)?;
        log_output::redirect(&log, None, &translation.model.settings);
        let snapshot = Arc::new(routing::compile(&translation.model, None, 1));
        let proxy = Proxy::start(&bootstrap.proxy, Arc::clone(&snapshot), &registry, &log)
            .map_err(|error| trouble::cannot_listen("", &error, "--http-port or --https-port"))?;
        let admin = Arc::clone(&bootstrap.admin);
        let _ = admin.observer.set(proxy.observer());
        if let Some(console) = &admin.console {
            console.begins(proxy.observer());
        }
        guard::spawn(proxy.guard()).context("cannot start a thread")?;
        let address = |kind| {
            let found = proxy.addresses().iter().find(|(listener, _)| listener.kind == kind);
            found.map(|(_, address)| display(*address))
        };
        let (http, https) = (address(ListenerKind::Http), address(ListenerKind::Https));
        let (workers, hosts) = (bootstrap.proxy.workers.len(), translation.model.hosts().count());
        let server = Self { registry, snapshot, proxy, admin, log };
        server.note_applied(translation, &Translation::default());
        let admin = server.admin.address;
        let console = server.admin.console.as_ref().map(|_| format!("http://{admin}/console/"));
        tracing::info!(http, https, %admin, workers, hosts, console, "serving");
        Ok(server)
    }

    /// Goes over to another configuration.
    fn apply(&mut self, translation: &Arc<Translation>, before: &Translation) {
        log_output::redirect(&self.log, Some(&self.snapshot.settings), &translation.model.settings);
        let generation = self.snapshot.generation + 1;
        self.snapshot = Arc::new(routing::compile(&translation.model, Some(&self.snapshot), generation));
        self.proxy.publish(Arc::clone(&self.snapshot));
        self.note_applied(translation, before);
        tracing::info!(generation, hosts = translation.model.hosts().count(), "configuration applied");
    }

    fn note_applied(&self, translation: &Arc<Translation>, before: &Translation) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let snapshot = Arc::clone(&self.snapshot);
        self.registry.config_applied(move || snapshot.digest(), now);
        if !Arc::ptr_eq(&translation.certificates, &before.certificates) {
            let certificates = translation.certificates.iter();
            let certificates = certificates.map(|one| (one.host.clone(), one.info.clone()));
            self.registry.set_certificates(certificates.collect());
        }
        let translation = Arc::clone(translation);
        self.registry.set_orphans(move || translation.orphans());
    }

    /// The ports that are others than configured, for a successor.
    fn chosen_ports(&self) -> Vec<ChosenPort> {
        let mut ports = vec![ChosenPort { what: "admin", port: self.admin.address.port() }];
        for (what, kind) in [("http", ListenerKind::Http), ("https", ListenerKind::Https)] {
            let of_kind = self.proxy.addresses().iter().find(|(id, _)| id.kind == kind && id.port == 0);
            ports.extend(of_kind.map(|(_, address)| ChosenPort { what, port: address.port() }));
        }
        ports
    }

    /// Leaves everything to a successor that serves already, and ends when the last request has.
    async fn leave(self, grace: Duration) -> anyhow::Result<()> {
        let time = if grace.is_zero() { successor::PARTING } else { grace };
        let process = std::process::id();
        tracing::info!(process, "the successor serves: this process finishes its requests and ends");
        self.admin.left.notify_one();
        self.proxy.hand_over(time);
        self.end_after(time).await
    }

    /// Fails the health check, waits until that is known, and ends when the last request has.
    async fn stop(self, grace: Duration) -> anyhow::Result<()> {
        self.admin.stopping.store(true, Ordering::Relaxed);
        tracing::info!("stopping: requests in flight are finished");
        self.proxy.stop_after(grace);
        self.end_after(grace).await
    }

    async fn end_after(self, time: Duration) -> anyhow::Result<()> {
        tokio::time::sleep(time).await;
        self.proxy.stop();
        let Self { proxy, log, .. } = self;
        tokio::task::spawn_blocking(move || {
            proxy.join()?;
            log.join();
            Ok(())
        })
        .await?
    }
}

/// How many problems there are of each severity and reason.
fn count(problems: &[Problem]) -> Vec<(&'static str, &'static str, usize)> {
    let mut counts = BTreeMap::new();
    for problem in problems {
        *counts.entry((problem.severity, problem.reason)).or_default() += 1;
    }
    let named = |((severity, reason), number): ((Severity, Reason), usize)| {
        (severity.as_str(), reason.as_str(), number)
    };
    counts.into_iter().map(named).collect()
}

fn report(problem: &Problem) {
    match problem.severity {
        Severity::Error => tracing::error!("{problem}"),
        Severity::Warning => tracing::warn!("{problem}"),
        Severity::Notice => tracing::info!("{problem}"),
    }
}
