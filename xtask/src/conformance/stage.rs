//! Forebay as the suites find it, with the servers behind it.
//!
//! Must not be in here: what is expected of it.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::json;

use super::tools::Tools;
use crate::backend::Backend;
use crate::child::{Program, free_address};
use crate::interrupt::Interrupt;
use crate::peers::certificate::{Certificate, Certificates, Key};
use crate::proxies::forebay_of;
use crate::template::{data, render, render_file};

/// The name in the certificates.
pub(super) const HOST: &str = "conformance.test";

/// Where a challenge is to be answered, and with what.
pub(super) const CHALLENGE: &str = "challenged.test/.well-known/acme-challenge/token-1_a";
pub(super) const KEY: &str = "token-1_a.thumbprint";

/// Everything that runs meanwhile. Fields are dropped in this order: the proxy first, what is behind it last.
pub(super) struct Stage {
    #[expect(dead_code, reason = "held so that it runs")]
    forebay: Program,
    pub(super) http: SocketAddr,
    pub(super) https: SocketAddr,
    /// The TCP service.
    pub(super) redis: SocketAddr,
    /// The certificate that clients trust.
    pub(super) certificate_file: PathBuf,
    pub(super) tools: Tools,
    pub(super) folder: PathBuf,
    pub(super) interrupt: Interrupt,
    /// Suites that can be cut short run in full.
    pub(super) is_thorough: bool,
    #[expect(dead_code, reason = "held so that they run")]
    behind: Behind,
}

/// The servers behind the proxies.
struct Behind {
    web: Backend,
    redis: Backend,
    /// With their addresses.
    others: Vec<(String, SocketAddr, Program)>,
}

/// A server of others: an entry of `xtask/conformance/servers.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    /// The name of the Service.
    name: String,
    /// A program of `testing/tools`, or a script in `testing`.
    go: Option<String>,
    node: Option<String>,
    /// A template with an argument on each line.
    arguments: String,
}

impl Stage {
    pub(super) fn set(tools: Tools, folder: &Path, interrupt: Interrupt, is_thorough: bool) -> Result<Stage> {
        let certificates = Certificates::make(HOST, folder)?;
        let certificate = certificates.of(Key::EcdsaP256);
        let behind = Behind::start(&tools, certificate, folder, &interrupt)?;
        let (http, https, redis) = (free_address()?, free_address()?, free_address()?);
        let manifests = folder.join("manifests");
        fs::create_dir(&manifests)?;
        fs::copy(tools.testing.join("manifests.yaml"), manifests.join("manifests.yaml"))?;
        fs::copy(tools.testing.join("applications/manifests.yaml"), manifests.join("applications.yaml"))?;
        let values = json!({"certificate": certificate, "redis": redis, "folder": folder});
        fs::write(manifests.join("made.yaml"), render_file("conformance/made.yaml", values)?)?;
        let mut command = forebay(&manifests, http, https, free_address()?)?;
        command.args(["--default-ssl-certificate", "default/certificate"]);
        command.args(["--configmap", "default/forebay"]);
        command.args(["--tcp-services-configmap", "default/tcp-services"]);
        for (service, address) in behind.addresses() {
            command.args(["--endpoints", &format!("default/{service}={address}")]);
        }
        let mut forebay = Program::start("forebay", command, &[], folder)?;
        for address in [http, https, redis] {
            forebay.wait_for(address, &interrupt)?;
        }
        let (certificate_file, folder) = (certificate.chain_file.clone(), folder.to_path_buf());
        Ok(Stage {
            forebay,
            http,
            https,
            redis,
            certificate_file,
            tools,
            folder,
            interrupt,
            is_thorough,
            behind,
        })
    }

    /// Runs a program to its end, which has to be a good one; what it printed.
    pub(super) fn output(&self, name: &str, command: Command, limit: Duration) -> Result<String> {
        Program::start(name, command, &[], &self.folder)?.output(limit, &self.interrupt)
    }
}

impl Behind {
    fn start(
        tools: &Tools,
        certificate: &Certificate,
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Behind> {
        let mut others = Vec::new();
        let mut start = |name: String, address: SocketAddr, command: Command| -> Result<()> {
            let mut program = Program::start(&name, command, &[], folder)?;
            program.wait_for(address, interrupt)?;
            others.push((name, address, program));
            Ok(())
        };
        let (host, token) = CHALLENGE.split_once("/.well-known/acme-challenge/").context("a challenge")?;
        let mut addresses = BTreeMap::new();
        for server in data::<Vec<Server>>("conformance/servers.yaml")? {
            let address = free_address()?;
            addresses.insert(server.name.clone(), address);
            let challenge = json!({"host": host, "token": token, "key": KEY});
            let values = json!({"addresses": addresses, "address": address, "certificate": certificate, "challenge": challenge});
            let arguments = render(&server.arguments, values).with_context(|| server.name.clone())?;
            let mut command = match (&server.go, &server.node) {
                (Some(program), _) => tools.go_program(program),
                (None, Some(script)) => tools.node_script(script),
                (None, None) => bail!("{} has no program", server.name),
            };
            command.args(arguments.lines());
            start(server.name, address, command)?;
        }
        let php = free_address()?;
        start("php".into(), php, php_fpm(tools, php, folder)?)?;
        let web = Backend::start("web", &[], folder, interrupt)?;
        Ok(Behind { web, redis: Backend::start_redis(&[], folder, interrupt)?, others })
    }

    /// Of each Service.
    fn addresses(&self) -> Vec<(&str, SocketAddr)> {
        let others = self.others.iter().map(|(name, address, _)| (name.as_str(), *address));
        [("web", self.web.address), ("redis", self.redis.address)].into_iter().chain(others).collect()
    }
}

/// A Forebay that was built for the tests, with these manifests and ports.
pub(super) fn forebay(
    manifests: &Path,
    http: SocketAddr,
    https: SocketAddr,
    admin: SocketAddr,
) -> Result<Command> {
    let mut command = Command::new(forebay_of("debug")?);
    command.arg("serve").arg("--manifests").arg(manifests).args(["--workers", "2"]);
    for (flag, address) in [("--http-port", http), ("--https-port", https), ("--healthz-port", admin)] {
        command.args([flag, &address.port().to_string()]);
    }
    Ok(command)
}

/// PHP-FPM at an address, with its scripts in the folder `php`.
fn php_fpm(tools: &Tools, address: SocketAddr, folder: &Path) -> Result<Command> {
    let scripts = folder.join("php");
    fs::create_dir(&scripts)?;
    fs::copy(tools.testing.join("php/index.php"), scripts.join("index.php"))?;
    let configuration = folder.join("php-fpm.conf");
    let text = render_file("conformance/php-fpm.conf", json!({"address": address}))?;
    fs::write(&configuration, text)?;
    let mut command = tools.php_fpm()?;
    // In the foreground, by root if that is who asks, and without the machine's settings.
    command.args(["-F", "-R", "-n", "-y"]).arg(configuration);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn templates_have_objects_with_their_values() {
        let certificate = json!({"chain": "a", "key": "b"});
        let values = json!({"certificate": certificate, "redis": "127.0.0.1:6379", "folder": "/a"});
        let text = render_file("conformance/made.yaml", values).expect("a template");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        assert_eq!(objects[0]["data"], json!({"tls.crt": "YQ==", "tls.key": "Yg=="}));
        assert_eq!(objects[2]["data"], json!({"6379": "default/redis:6379"}));
        assert_eq!(objects[3]["data"]["SCRIPT_FILENAME"], "/a${fastcgi_script_name}");
        let values = json!({"host": "a.test", "path": "b", "type": "Exact"});
        let text = render_file("conformance/solver.yaml", values).expect("a template");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        assert_eq!(objects[1]["spec"]["rules"][0]["http"]["paths"][0]["path"], "/b");
        let values = json!({"rules": "/r", "target": "127.0.0.1:1", "namespace": "ns", "pod": "p"});
        let text = render_file("conformance/monitoring/prometheus.yaml", values).expect("a template");
        let configuration: Value = serde_saphyr::from_str(&text).expect("YAML");
        let labels = json!({"namespace": "ns", "pod": "p", "kubernetes_pod_name": "p"});
        assert_eq!(configuration["scrape_configs"][0]["static_configs"][0]["labels"], labels);
        render_file("conformance/monitoring/secret.yaml", json!({"chain": "a", "key": "b"}))
            .expect("a template");
    }
}
