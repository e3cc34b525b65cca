//! Certificates from Pebble, Let's Encrypt's small ACME server, with its faults on: it refuses nonces and is
//! slow to look at challenges. Forebay is killed and started again on the way.
//!
//! Must not be in here: how the programs come to be there.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::stage::{Stage, forebay};
use crate::ask::get;
use crate::child::{Program, free_address};
use crate::interrupt::Interrupt;
use crate::peers::certificate::{Certificates, Key};
use crate::template::render_file;

/// Names of hosts that get a certificate, of Ingresses and of a Gateway's listeners in turn. The first half
/// answers over HTTP, the other in handshakes.
const HOSTS: usize = 100;

/// Numbers of certificates at which Forebay is killed and started again.
const KILLED_AT: [usize; 6] = [3, 20, 40, 55, 70, 90];

/// Nonces of a hundred that Pebble refuses, and the longest time in seconds until it looks at a challenge.
const REFUSED_NONCES: &str = "30";
const SLEEP_MAX: &str = "3";

/// Longest time for all certificates.
const LIMIT: Duration = Duration::from_secs(600);

/// Orders that may be lost at a kill: those that Pebble was just placing, at most as many as are placed at a
/// time.
const LOST_MAX: usize = 8;

pub(super) fn run(stage: &Stage) -> Result<String> {
    let programs = |name: &str| stage.tools.go_program(name);
    let folder = stage.folder.join("acme");
    fs::create_dir(&folder)?;
    Scene::set(&programs, &folder, &stage.interrupt)?.play(&stage.interrupt)
}

/// Pebble, and everything that it needs.
struct Scene {
    folder: PathBuf,
    directory: String,
    /// The certificate that Pebble shows.
    trusted: PathBuf,
    http: SocketAddr,
    https: SocketAddr,
    admin: SocketAddr,
    #[expect(dead_code, reason = "held so that they run")]
    behind: [Program; 2],
}

impl Scene {
    fn set(program: &impl Fn(&str) -> Command, folder: &Path, interrupt: &Interrupt) -> Result<Scene> {
        let api = free_address()?;
        let management = free_address()?;
        let names = free_address()?;
        let names_management = free_address()?;
        let http = free_address()?;
        let https = free_address()?;
        let admin = free_address()?;
        let certificates = Certificates::make("localhost", folder)?;
        let certificate = certificates.of(Key::EcdsaP256);
        let values = json!({
            "api": api, "management": management, "http_port": http.port(), "https_port": https.port(),
            "chain_file": certificate.chain_file, "key_file": certificate.key_file,
        });
        let configuration = folder.join("pebble.json");
        fs::write(&configuration, render_file("conformance/pebble.json", values)?)?;
        let mut command = program("pebble-challtestsrv");
        command.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-doh", "", "-http01", ""]);
        command.args(["-https01", "", "-tlsalpn01", ""]).arg("-dnsserver").arg(names.to_string());
        command.arg("-management").arg(names_management.to_string());
        let mut resolver = Program::start("challtestsrv", command, &[], folder)?;
        resolver.wait_for(names_management, interrupt)?;
        let mut command = program("pebble");
        command.arg("-config").arg(&configuration).arg("-dnsserver").arg(names.to_string());
        command.env("PEBBLE_WFE_NONCEREJECT", REFUSED_NONCES).env("PEBBLE_VA_SLEEPTIME", SLEEP_MAX);
        let mut pebble = Program::start("pebble", command, &[], folder)?;
        pebble.wait_for(api, interrupt)?;
        Ok(Scene {
            folder: folder.to_owned(),
            directory: format!("https://localhost:{}/dir", api.port()),
            trusted: certificate.chain_file.clone(),
            http,
            https,
            admin,
            behind: [pebble, resolver],
        })
    }

    /// Obtains all certificates.
    fn play(&self, interrupt: &Interrupt) -> Result<String> {
        let begun = Instant::now();
        self.configure(HOSTS / 2, "http-01")?;
        let mut running = self.start(interrupt)?;
        let mut kills = KILLED_AT.iter();
        let mut next_kill = kills.next();
        let mut is_first_half = true;
        loop {
            interrupt.check()?;
            let valid = self.valid()?;
            if valid == HOSTS {
                break;
            }
            if is_first_half && valid == HOSTS / 2 {
                is_first_half = false;
                self.configure(HOSTS, "tls-alpn-01")?;
            }
            if next_kill.is_some_and(|&at| valid >= at) {
                running.kill();
                running = self.start(interrupt)?;
                next_kill = kills.next();
            }
            ensure!(begun.elapsed() < LIMIT, "{valid} certificates of {HOSTS}: {}", self.report()?);
        }
        drop(running);
        let orders = self.orders()?;
        let most = HOSTS + LOST_MAX * KILLED_AT.len();
        ensure!((HOSTS..=most).contains(&orders), "{orders} orders were placed for {HOSTS} certificates");
        Ok(format!(
            "{HOSTS} certificates of {HOSTS} in {:.0} s with {orders} orders, {} kills and {REFUSED_NONCES} % of nonces refused",
            begun.elapsed().as_secs_f64(),
            KILLED_AT.len()
        ))
    }

    fn configure(&self, hosts: usize, challenge: &str) -> Result<()> {
        let values = json!({"directory": self.directory, "challenge": challenge, "hosts": hosts});
        let folder = self.folder.join("manifests");
        fs::create_dir_all(&folder)?;
        let beside = self.folder.join("new.yaml");
        fs::write(&beside, render_file("conformance/acme.yaml", values)?)?;
        Ok(fs::rename(beside, folder.join("acme.yaml"))?)
    }

    fn start(&self, interrupt: &Interrupt) -> Result<Program> {
        let manifests = self.folder.join("manifests");
        let mut command = forebay(&manifests, self.http, self.https, self.admin)?;
        command.arg("--configmap=default/settings").arg("--acme-dir").arg(self.folder.join("kept"));
        command.env("SSL_CERT_FILE", &self.trusted);
        let mut program = Program::start("forebay-acme", command, &[], &self.folder)?;
        program.wait_for(self.http, interrupt)?;
        Ok(program)
    }

    fn report(&self) -> Result<Value> {
        let status: Value = serde_json::from_str(&get(self.admin, "/status")?)?;
        Ok(status["acme"].clone())
    }

    /// The number of valid certificates; those of a process that has just been started are read again.
    fn valid(&self) -> Result<usize> {
        let valid = self.report()?["counts"][3].as_u64().unwrap_or_default();
        Ok(usize::try_from(valid)?)
    }

    /// The number of orders that were placed.
    fn orders(&self) -> Result<usize> {
        let accounts = self.folder.join("kept/accounts");
        let mut entries = fs::read_dir(&accounts)?;
        let account = entries.next().context("there is no account")??;
        ensure!(entries.next().is_none(), "there is more than one account");
        let state: Value = serde_json::from_slice(&fs::read(account.path().join("state.json"))?)?;
        Ok(state["orders"].as_array().map_or(0, Vec::len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_have_hosts_and_addresses() {
        let values = json!({"directory": "https://localhost:1/dir", "challenge": "http-01", "hosts": 3});
        let text = render_file("conformance/acme.yaml", values).expect("a template");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        assert_eq!(objects.len(), 5);
        assert_eq!(objects[2]["spec"]["listeners"][1]["hostname"], "h1.acme.test");
        assert_eq!(objects[4]["spec"]["tls"][0]["hosts"][0], "h2.acme.test");
        let values = json!({
            "api": "127.0.0.1:1", "management": "127.0.0.1:2", "http_port": 3, "https_port": 4,
            "chain_file": "/a", "key_file": "/b",
        });
        let text = render_file("conformance/pebble.json", values).expect("a template");
        let made: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(made["pebble"]["tlsPort"], 4);
    }
}
