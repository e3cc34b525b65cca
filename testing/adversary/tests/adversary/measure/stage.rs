//! The proxy, an endpoint, and others who ask.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use adversary::binary;
use anyhow::{Context, Result, ensure};
use bench::cpu::CpuTime;
use serde_json::Value;
use testkit::manifest::{Ingress, config_map, secret, service};
use testkit::{Forebay, Port, UdpEcho};

use crate::tokens::{ISSUERS, key_set};

const CONNECTIONS: &str = "64";
/// A user whose password has a hash by bcrypt with cost 10.
const USERS: &str = "alice:$2b$10$abcdefghijklmnopqrstuuKAgiTP38SAMCUosacFdrijE3Ama966u\n";

/// All that runs while it is measured.
pub(super) struct Stage {
    pub(super) forebay: Forebay,
    pub(super) udp: Port,
    rate: u32,
    _payload: Payload,
    _echo: UdpEcho,
    /// The kernel accepts connections for it, and nobody answers.
    _hanging: TcpListener,
}

/// Results of the other clients.
#[derive(Clone, Debug)]
pub(super) struct Others {
    pub(super) requests: u64,
    pub(super) failed: u64,
    /// How many of them in which way.
    pub(super) failures: String,
    /// Latency in microseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// `forebay payload`. Killed when it is dropped.
struct Payload {
    child: Child,
    /// Its further output has to be read.
    _output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Stage {
    /// Host `web.test` for others, `evil.test` for what attackers ask of the same endpoint, `guarded.test`
    /// for which a token is needed, `members.test` for a password, `mirrored.test` whose requests are copied
    /// to a target that hangs, and a UDP service.
    pub(super) fn set(rate: u32, http3: bool) -> Result<Self> {
        let payload = Payload::start()?;
        let udp = Port::udp();
        let echo = UdpEcho::default();
        let evil = Ingress::new("evil").path("evil.test", "Prefix", "/", "evil").document()
            + &service("evil", &[payload.address]);
        let guarded = Ingress::new("guarded")
            .path("guarded.test", "Prefix", "/", "evil")
            .annotation("forebay.io/auth-jwt", ISSUERS)
            .document();
        let members = Ingress::new("members")
            .path("members.test", "Prefix", "/", "evil")
            .annotation("auth-type", "basic")
            .annotation("auth-secret", "users")
            .document();
        let hanging = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
        let mirrored = Ingress::new("mirrored")
            .path("mirrored.test", "Prefix", "/", "evil")
            .annotation("mirror-target", "http://hanging.default.svc.cluster.local/")
            .document()
            + &service("hanging", &[hanging.local_addr()?]);
        let echoing =
            service("echo", &[echo.address()]).replace("\"port\":", "\"protocol\": \"UDP\", \"port\":");
        let forebay = binary::setup()
            .endpoint(payload.address)
            .tls("web.test")
            .annotation("ssl-redirect", "false")
            .setting("disable-access-log", "true")
            .setting("forebay-http3", if http3 { "on" } else { "off" })
            .arguments(["--udp-services-configmap=default/udp"])
            .manifest("evil.yaml", evil)
            .manifest("guarded.yaml", guarded)
            .manifest("keys.yaml", secret("jwks", "Opaque", &[("jwks.json", &key_set())]))
            .manifest("members.yaml", members)
            .manifest("users.yaml", secret("users", "Opaque", &[("auth", USERS)]))
            .manifest("mirrored.yaml", mirrored)
            .manifest("echo.yaml", echoing)
            .manifest("udp.yaml", config_map("udp", &[(&udp.number().to_string(), "default/echo:80")]))
            .start();
        Ok(Self { forebay, udp, rate, _payload: payload, _echo: echo, _hanging: hanging })
    }

    /// Has others ask for a while; what they saw, and the microseconds of CPU time that a request cost the
    /// proxy.
    pub(super) fn others(&self, duration: Duration) -> Result<(Others, f64)> {
        let port = self.forebay.address().port();
        let pid = u32::try_from(self.forebay.pid().as_raw_nonzero().get())?;
        let mut command = Command::new(binary::path()?);
        command.args([
            "bench",
            "rps",
            &format!("http://web.test:{port}/1k"),
            "--resolve",
            &format!("web.test:{port}:127.0.0.1"),
        ]);
        command.args(["--connections", CONNECTIONS, "--threads", "1", "--rate", &self.rate.to_string()]);
        command.args(["--duration", &format!("{}s", duration.as_secs()), "--output", "json"]);
        let before = CpuTime::of_process(pid)?;
        let output = command.stderr(Stdio::piped()).output().context("cannot start forebay bench")?;
        let used = CpuTime::of_process(pid)?.total.saturating_sub(before.total);
        let others = Others::parse(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let cpu = used.as_secs_f64() * 1e6 / others.requests.max(1) as f64;
        Ok((others, cpu))
    }
}

impl Others {
    fn parse(json: &[u8]) -> Result<Self> {
        let object: Value = serde_json::from_slice(json)?;
        let errors = object["errors"].as_object().context("forebay bench tells no errors")?;
        let latency =
            |name: &str| object["latency_us"][name].as_f64().with_context(|| format!("no {name}: {object}"));
        Ok(Self {
            requests: object["requests"].as_u64().context("forebay bench tells no requests")?,
            failures: object["errors"].to_string(),
            failed: errors.values().filter_map(Value::as_u64).sum(),
            p50: latency("p50")?,
            p99: latency("p99")?,
            max: latency("max")?,
        })
    }
}

impl Payload {
    fn start() -> Result<Self> {
        let mut command = Command::new(binary::path()?);
        command.args(["payload", "--port", "0", "--host", "127.0.0.1", "--threads", "1"]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start forebay payload")?;
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().context("it is piped")?);
        output.read_line(&mut line)?;
        let address = line.trim().rsplit("//").next().and_then(|address| address.parse().ok());
        ensure!(address.is_some(), "forebay payload says {line:?}");
        Ok(Self { child, _output: output, address: address.context("it was told")? })
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
