//! Starts the subjects of a sweep: Forebay as a child process on given CPUs, and a payload server behind it.
//!
//! Both end when the stage is dropped, and when a signal ends this process. Must not be in here: load.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ::bench::payload::Payload;
use anyhow::{Context, anyhow, bail};
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

/// Longest time until the proxy serves.
const PATIENCE: Duration = Duration::from_secs(20);

/// The exit status that a shell gives to a process that SIGINT ended.
const EXIT_INTERRUPTED: i32 = 130;

/// The programs, which are started for one number of CPUs after the other.
pub(super) struct Stage {
    folder: Arc<Mutex<Option<TempDir>>>,
    proxy: Arc<Mutex<Option<Proxy>>>,
    payload: Option<Payload>,
}

/// The addresses of the proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) http: u16,
    pub(super) https: u16,
    pub(super) pid: u32,
}

/// The proxy's process, which is killed when this is dropped.
struct Proxy(Child);

impl Stage {
    /// Makes a certificate like that of field case C, and the proxy's manifest.
    pub(super) fn new() -> anyhow::Result<Stage> {
        let folder = tempfile::Builder::new()
            .prefix("forebay-sweep-")
            .tempdir()
            .context("cannot make a folder for what Forebay is to serve")?;
        let pair = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let certificate = CertificateParams::new(["sweep.test".to_owned()])?.self_signed(&pair)?.pem();
        fs::write(folder.path().join("sweep.yaml"), manifest(&certificate, &pair.serialize_pem()))?;
        let stage =
            Stage { folder: Arc::new(Mutex::new(Some(folder))), proxy: Arc::default(), payload: None };
        stage.end_with_signals()?;
        Ok(stage)
    }

    /// Starts both programs on these CPUs, and waits until the proxy serves.
    pub(super) fn start(&mut self, proxy: &[usize], others: &[usize]) -> anyhow::Result<Addresses> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let payload = on_cpus(others, || Payload::bind(any, others.len()))??;
        let endpoint = payload.local_addr();
        self.payload = Some(payload);
        // The lock makes a signal wait until the child is in its place, so that it is killed as well.
        let mut place = lock(&self.proxy);
        let folder = lock(&self.folder).as_ref().map(|folder| folder.path().to_owned());
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("serve")
            .arg("--manifests")
            .arg(folder.context("interrupted")?)
            .args(["--configmap=default/settings", "--default-ssl-certificate=default/sweep"])
            .args(["--http-port=0", "--https-port=0", "--healthz-port=0", "--healthz-host=127.0.0.1"])
            .arg(format!("--endpoints=default/payload={endpoint}"))
            .env_remove("FOREBAY_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = on_cpus(proxy, || command.spawn())?.context("cannot start forebay serve")?;
        let proxy = place.insert(Proxy(child));
        proxy.wait()
    }

    /// Ends both programs.
    pub(super) fn stop(&mut self) {
        drop(lock(&self.proxy).take());
        self.payload = None;
    }

    /// Installs a handler by which signals end the programs and then this process.
    fn end_with_signals(&self) -> anyhow::Result<()> {
        let (folder, proxy) = (Arc::clone(&self.folder), Arc::clone(&self.proxy));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let inside = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        drop(inside);
        let wait = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
            });
            // The lock is held to the end: the measurement that fails without its proxy would otherwise drop
            // the stage and end the process with a status of its own.
            let mut proxy = lock(&proxy);
            drop(proxy.take());
            drop(lock(&folder).take());
            std::process::exit(EXIT_INTERRUPTED);
        };
        thread::Builder::new().name("signals".into()).spawn(wait)?;
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop();
        drop(lock(&self.folder).take());
    }
}

impl Proxy {
    /// Reads the proxy's log until it serves. The log is read on afterwards, so that writing to it does not
    /// block the proxy.
    fn wait(&mut self) -> anyhow::Result<Addresses> {
        let stderr = self.0.stderr.take().context("what it says is not there")?;
        let (tell, told) = mpsc::channel();
        thread::Builder::new().name("proxy's log".into()).spawn(move || read(stderr, &tell))?;
        let end = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        loop {
            let Ok(line) = told.recv_timeout(end.saturating_duration_since(Instant::now())) else {
                let said = said.last().map_or("", String::as_str);
                bail!("forebay serve does not serve: {said}");
            };
            if line.contains(" serving http=") {
                let port = |name| port(&line, name).ok_or_else(|| anyhow!("no {name} in {line:?}"));
                return Ok(Addresses { http: port("http")?, https: port("https")?, pid: self.0.id() });
            }
            said.push(line);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends each line to `tell`, and reads on when the receiver is gone.
fn read(stderr: ChildStderr, tell: &mpsc::Sender<String>) {
    let mut reader = BufReader::new(stderr);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
        if tell.send(std::mem::take(&mut line)).is_err() {
            break;
        }
    }
    let _ = std::io::copy(&mut reader.by_ref(), &mut std::io::sink());
}

/// The port of an address in a log line: `http="[::]:8080"`.
fn port(line: &str, name: &str) -> Option<u16> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    let value = rest.split(' ').next()?.trim().trim_matches('"');
    value.rsplit(':').next()?.parse().ok()
}

/// The proxy's manifest: one Service for all requests, without an access log, as in field case C.
fn manifest(certificate: &str, key: &str) -> String {
    let indent = |text: &str| {
        let lines: Vec<_> = text.lines().map(|line| format!("    {line}\n")).collect();
        lines.concat()
    };
    format!(
        "apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: default}}
data: {{disable-access-log: \"true\", keep-alive: \"315\", keep-alive-requests: \"10000000\"}}
---
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata: {{name: sweep, namespace: default}}
stringData:
  tls.crt: |
{}  tls.key: |
{}---
apiVersion: v1
kind: Service
metadata: {{name: payload, namespace: default}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: sweep
  namespace: default
  annotations: {{nginx.ingress.kubernetes.io/ssl-redirect: \"false\"}}
spec:
  ingressClassName: nginx
  rules:
  - http:
      paths:
      - {{path: /, pathType: Prefix, backend: {{service: {{name: payload, port: {{number: 80}}}}}}}}
",
        indent(certificate),
        indent(key)
    )
}

/// Runs `spawn` on these CPUs; the processes and threads that it starts inherit them.
fn on_cpus<T>(cpus: &[usize], spawn: impl FnOnce() -> T) -> anyhow::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    sched_setaffinity(None, &set).context("cannot set the affinity mask")?;
    let result = spawn();
    sched_setaffinity(None, &before)?;
    Ok(result)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_the_log() {
        let line =
            "INFO serving http=\"[::]:8080\" https=\"0.0.0.0:8443\" admin=\"127.0.0.1:10254\" workers=1\n";
        assert_eq!((port(line, "http"), port(line, "https")), (Some(8080), Some(8443)));
        assert_eq!(port(line, "nothing"), None);
    }

    #[test]
    fn what_is_spawned_inherits_the_cpus() {
        let before = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap();
        let inherited =
            on_cpus(&[first], || thread::spawn(|| sched_getaffinity(None).unwrap()).join().unwrap());
        assert_eq!(inherited.unwrap().count(), 1);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
