//! A run from its start to its report.
//!
//! Must not be in here: what any part of it does.

use std::env;
use std::ffi::{CStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lab::{Namespace, Network, inside};
use rustix::mount::{MountFlags, mount};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use testkit::{Authority, Certificate, left_out, needs_for, serve_names_while};
use tokio::runtime::{Builder, Runtime};

use crate::api_server::Objects;
use crate::audit::Audit;
use crate::clock::{Clock, OFFSET_FILE};
use crate::disturb::{Stage, start_redis};
use crate::endpoints::{Temper, echo, echo_datagrams, echo_messages, serve};
use crate::exchange::Target;
use crate::memory::MemoryGroup;
use crate::options::Options;
use crate::parts::Part;
use crate::process::{Plan, Proxy};
use crate::report::Report;
use crate::shared::{Order, Shared};
use crate::switch::{Parting, Switch};
use crate::{beacon, changes, clients, names, objects, quiet, rude, schedule, streams};

/// The argument of the program once it is inside.
const INSIDE: &str = "--inside";
const NAME: &str = "soak";
/// Certificates that are renewed by turns.
const CERTIFICATES: usize = 4;
/// Frames of the flight recorder in a run, if that is possible.
const FRAMES: u32 = 400;
/// Size of the file system that runs full.
const DISK: &CStr = c"size=24m";

/// A user without credentials.
const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: soak, cluster: {server: 'http://192.0.2.1'}}]
contexts: [{name: soak, context: {cluster: soak, user: soak}}]
users: [{name: soak, user: {}}]
current-context: soak
";

/// Runs the program with its arguments.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[OsString]) -> Result<ExitCode> {
    let words = arguments.iter().filter_map(|argument| argument.to_str().map(str::to_owned));
    let Some(options) = Options::parse(words)? else { return Ok(ExitCode::SUCCESS) };
    if arguments.first().is_some_and(|first| first == INSIDE) {
        if let Err(error) = inside::prepare() {
            left_out(NAME, &format!("no namespaces can be made: {error:#}"));
            return Ok(ExitCode::SUCCESS);
        }
        return play(&options);
    }
    adversary::binary::build()?;
    match inside::make() {
        Ok(inside) => inside.run([OsString::from(INSIDE)].iter().chain(arguments)),
        Err(error) => {
            left_out(NAME, &format!("no namespaces can be made: {error:#}"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The run, inside the namespaces.
fn play(options: &Options) -> Result<ExitCode> {
    let temporary = tempfile::Builder::new().prefix("forebay-soak-").tempdir()?;
    let folder = options.folder.clone().unwrap_or_else(|| temporary.path().to_owned());
    fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    println!("soak: seed {}, {:?}, in {}", options.seed, options.time, folder.display());
    let is_interrupted = inside::kill_others_on_interrupt()?;
    let faults = play_in(options, &folder, &is_interrupted)?;
    if faults == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    if options.folder.is_none() {
        println!("soak: report and logs stay in {}", temporary.keep().display());
    }
    println!("soak: again by `make soak TIME={}s SEED={}`", options.time.as_secs(), options.seed);
    Ok(ExitCode::FAILURE)
}

fn play_in(options: &Options, folder: &Path, is_interrupted: &Arc<AtomicBool>) -> Result<u64> {
    names::ask(objects::name_server(), folder)?;
    let network = Arc::new(Network::set_up()?);
    let authority = Authority::new("soak");
    let certificates: Arc<[Certificate]> =
        (0..CERTIFICATES).map(|_| objects::certificate(&authority)).collect();
    let report = Report::new(options.seed, folder);
    let target =
        Target { http: Network::PROXY, https: objects::https(), tls: Arc::new(believing(&authority)?) };
    let (seed, is_quiet) = (options.seed, options.is_quiet);
    let shared = Shared::new(seed, is_quiet, target, report, Arc::clone(is_interrupted));
    let stage = Arc::new(set(&shared, &network, &certificates[0], options)?);
    let endpoints = start_endpoints(&stage)?;
    stage.proxy.start().context("Forebay does not start: see forebay.log")?;
    let clients = in_namespace(&network.client)?;
    let playing = start_players(&stage, &clients, &certificates, options);
    let audit = Audit::new(Arc::clone(&stage), clients.handle().clone(), options.time);
    let samples = audit.run()?;
    shared.order(Order::End);
    if is_interrupted.load(Ordering::Relaxed) {
        // Whatever is missing now was killed.
        bail!("interrupted");
    }
    for thread in playing {
        if thread.join().is_err() {
            shared.report.fault("a thread of the soak itself panicked");
        }
    }
    if let Err(error) = stage.proxy.stop() {
        shared.report.fault(format!("at the end: {error:#}"));
    }
    let judged = if is_quiet { quiet::judge(&shared.report)? } else { Vec::new() };
    audit.write(&samples, judged)?;
    // Connections that are still open end with their tasks.
    clients.shutdown_timeout(Duration::from_secs(1));
    endpoints.shutdown_timeout(Duration::from_secs(1));
    Ok(shared.report.fault_count())
}

/// Sets the stage: only Redis and the name server run yet.
fn set(
    shared: &Arc<Shared>,
    network: &Arc<Network>,
    certificate: &Certificate,
    options: &Options,
) -> Result<Stage> {
    let folder = shared.report.folder();
    let disk = folder.join("disk");
    fs::create_dir_all(&disk)?;
    mount("tmpfs", &disk, "tmpfs", MountFlags::empty(), Some(DISK))
        .context("cannot mount a small file system")?;
    let clock =
        Clock::build(folder).inspect_err(|error| left_out("soak: clocks that jump", &format!("{error:#}")));
    let memory = MemoryGroup::make()
        .inspect_err(|error| left_out("soak: memory that runs short", &format!("{error:#}")));
    let redis = if needs_for(NAME, "redis-server") { Some(start_redis(network, folder)?) } else { None };
    let names = Arc::new(AtomicBool::new(true));
    network.backend.enter(|| {
        let known = names::names(std::net::Ipv4Addr::from_bits(match objects::outside().ip() {
            std::net::IpAddr::V4(address) => address.to_bits(),
            std::net::IpAddr::V6(_) => 0,
        }));
        serve_names_while(objects::name_server(), known, Arc::clone(&names));
        Ok(())
    })?;
    let all = Objects::default();
    for object in objects::all(certificate) {
        all.apply(object);
    }
    let clock = clock.ok();
    let mut plan = plan(folder, &disk, clock.as_ref(), redis.is_some())?;
    plan.arguments.extend(recording(folder, options)?);
    let proxy = Arc::new(Proxy::new(Arc::clone(network), Arc::clone(shared), plan)?);
    Ok(Stage {
        shared: Arc::clone(shared),
        network: Arc::clone(network),
        proxy,
        objects: all,
        api: Switch::default(),
        auth: Switch::default(),
        churn: objects::churn().map(|_| Switch::default()).into(),
        names,
        redis: Mutex::new(redis),
        clock,
        memory: memory.ok(),
        disk,
    })
}

/// The command line of Forebay.
fn plan(folder: &Path, disk: &Path, clock: Option<&Clock>, has_redis: bool) -> Result<Plan> {
    let kubeconfig = folder.join("kubeconfig");
    fs::write(&kubeconfig, KUBECONFIG)?;
    let [state, cache, bodies] =
        ["state", "cache", "bodies"].map(|name| if name == "state" { folder } else { disk }.join(name));
    for made in [&state, &cache, &bodies] {
        fs::create_dir_all(made)?;
    }
    let text = |path: &PathBuf| path.display().to_string();
    let mut arguments: Vec<String> = vec![
        "serve".to_owned(),
        format!("--kubeconfig={}", text(&kubeconfig)),
        format!("--apiserver-host=http://{}", objects::api_server()),
        format!("--state-dir={}", text(&state)),
        format!("--cache-folder={}", text(&cache)),
        format!("--body-buffer-dir={}", text(&bodies)),
        format!("--http-port={}", Network::HTTP),
        format!("--https-port={}", objects::https().port()),
        format!("--healthz-port={}", objects::ADMIN_PORT),
    ];
    let fixed = "--configmap=default/settings --watch-ingress-without-class --update-status=false \
                 --disable-leader-election --disable-sync-events --workers=2 --cache-memory=4m \
                 --cache-disk=8m --tcp-services-configmap=default/tcp --udp-services-configmap=default/udp";
    arguments.extend(fixed.split_whitespace().map(str::to_owned));
    if has_redis {
        arguments.push(format!("--limit-redis=redis://{}/0", objects::redis()));
    }
    let mut environment = Vec::new();
    if let Some(clock) = clock {
        environment.push(("LD_PRELOAD", clock.library.clone().into_os_string()));
        environment.push((OFFSET_FILE, clock.offset_path.clone().into_os_string()));
    }
    let arguments = arguments.into_iter().map(OsString::from).collect();
    Ok(Plan { binary: adversary::binary::path()?.canonicalize()?, arguments, environment })
}

/// The flags of the flight recorder, whose record stays in the folder.
fn recording(folder: &Path, options: &Options) -> Result<[OsString; 2]> {
    let record = folder.join(quiet::RECORD);
    if record.exists() {
        fs::remove_dir_all(&record).with_context(|| format!("cannot remove {}", record.display()))?;
    }
    let interval = (options.time / FRAMES).clamp(Duration::from_secs(1), Duration::from_secs(10));
    let mut path = OsString::from("--record=");
    path.push(&record);
    Ok([path, format!("--record-interval={}s", interval.as_secs()).into()])
}

/// A runtime whose thread is in a namespace.
fn in_namespace(namespace: &Namespace) -> Result<Runtime> {
    namespace.enter(|| Ok(Builder::new_multi_thread().worker_threads(1).enable_all().build()?))
}

/// Starts everything that Forebay needs.
fn start_endpoints(stage: &Stage) -> Result<Runtime> {
    let runtime = in_namespace(&stage.network.backend)?;
    let always = Switch::default;
    for address in objects::calm().into_iter().chain([objects::outside()]) {
        runtime.spawn(serve(address, Temper::Calm, Parting::Abrupt, always()));
    }
    for (address, switch) in objects::churn().into_iter().zip(&stage.churn) {
        runtime.spawn(serve(address, Temper::Calm, Parting::Orderly, switch.clone()));
    }
    if stage.shared.is_quiet {
        runtime.spawn(serve(objects::moody(), Temper::Calm, Parting::Abrupt, always()));
        runtime.spawn(serve(objects::garbage(), Temper::Calm, Parting::Abrupt, always()));
    } else {
        runtime.spawn(serve(objects::moody(), Temper::Moody, Parting::Abrupt, always()));
        runtime.spawn(always().listen(objects::garbage(), Parting::Abrupt, crate::endpoints::garbage));
    }
    runtime.spawn(serve(objects::canary(), Temper::Canary, Parting::Abrupt, always()));
    runtime.spawn(serve(objects::auth(), Temper::Auth, Parting::Abrupt, stage.auth.clone()));
    runtime.spawn(always().listen(objects::grpc(), Parting::Abrupt, echo_messages));
    runtime.spawn(always().listen(objects::echo(), Parting::Abrupt, echo));
    runtime.spawn(echo_datagrams(objects::echo()));
    runtime.spawn(stage.objects.clone().serve(objects::api_server(), stage.api.clone()));
    Ok(runtime)
}

/// Starts clients, changes and disturbances.
fn start_players(
    stage: &Arc<Stage>,
    clients: &Runtime,
    certificates: &Arc<[Certificate]>,
    options: &Options,
) -> Vec<JoinHandle<()>> {
    let shared = &stage.shared;
    {
        let _entered = clients.enter();
        clients::start(shared, &options.parts, options.pause);
        streams::start(shared, &options.parts);
        clients.spawn(beacon::watch(Arc::clone(shared)));
        if options.parts.has(Part::Rude) {
            rude::start(shared);
        }
    }
    let disturbances = if options.parts.has(Part::Disturbances) {
        schedule::of(options.seed, options.time)
    } else {
        [(); 2].map(|()| Vec::new())
    };
    let [of_process, of_others] = disturbances;
    let mut threads = Vec::new();
    for (name, entries) in [("process", of_process), ("others", of_others)] {
        let stage = Arc::clone(stage);
        threads.push(thread::spawn(move || stage.play(&entries, name)));
    }
    let measuring = Arc::clone(shared);
    threads.push(thread::spawn(move || measure_lateness(&measuring)));
    if options.parts.has(Part::Endpoints) {
        let churning = Arc::clone(stage);
        threads.push(thread::spawn(move || churning.churn()));
    }
    if options.parts.has(Part::Changes) {
        let stage = Arc::clone(stage);
        let certificates = Arc::clone(certificates);
        let rate = options.changes;
        let run = move || changes::run(&stage.shared, &stage.objects, &certificates, rate);
        threads.push(thread::spawn(run));
    }
    threads
}

/// Measures until the soak ends how late the kernel lets a thread go on that sleeps for a moment, and reads
/// for how much of the time threads wait for a CPU, if the kernel says so.
fn measure_lateness(shared: &Shared) {
    const MOMENT: Duration = Duration::from_millis(100);
    while shared.is_running() {
        let begun = Instant::now();
        thread::sleep(MOMENT);
        shared.windows.note_lateness(begun.elapsed().saturating_sub(MOMENT));
        let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        let words = text.lines().find_map(|line| line.strip_prefix("some avg10="));
        let percent = words.and_then(|words| words.split(' ').next()?.parse().ok());
        shared.windows.note_pressure(percent.unwrap_or(0.0));
    }
}

/// The settings of clients that believe an authority.
fn believing(authority: &Authority) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
