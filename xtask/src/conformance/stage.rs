//! Forebay as the suites find it, with the servers behind it.
//!
//! Must not be in here: what is expected of it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::prelude::{BASE64_STANDARD, Engine};

use super::tools::Tools;
use crate::backend::Backend;
use crate::child::{Program, free_address};
use crate::interrupt::Interrupt;
use crate::peers::certificate::{Certificate, Certificates, Key};

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
    /// What clients have to believe.
    pub(super) certificate_file: PathBuf,
    pub(super) tools: Tools,
    pub(super) folder: PathBuf,
    pub(super) interrupt: Interrupt,
    #[expect(dead_code, reason = "held so that they run")]
    behind: Behind,
}

/// The servers.
struct Behind {
    web: Backend,
    redis: Backend,
    /// With their addresses.
    others: Vec<(&'static str, SocketAddr, Program)>,
}

impl Stage {
    pub(super) fn set(tools: Tools, folder: &Path, interrupt: Interrupt) -> Result<Stage> {
        let certificates = Certificates::make(HOST, folder)?;
        let certificate = certificates.of(Key::EcdsaP256);
        let behind = Behind::start(&tools, certificate, folder, &interrupt)?;
        let (http, https, redis) = (free_address()?, free_address()?, free_address()?);
        let manifests = folder.join("manifests");
        fs::create_dir(&manifests)?;
        fs::copy(tools.testing.join("manifests.yaml"), manifests.join("manifests.yaml"))?;
        fs::copy(tools.testing.join("applications/manifests.yaml"), manifests.join("applications.yaml"))?;
        fs::write(manifests.join("made.yaml"), made(certificate, redis, folder))?;
        let mut command = Command::new(binary()?);
        command.arg("serve").arg("--manifests").arg(&manifests);
        command.args(["--default-ssl-certificate", "default/certificate"]);
        command.args(["--tcp-services-configmap", "default/tcp-services", "--workers", "2"]);
        for (flag, address) in
            [("--http-port", http), ("--https-port", https), ("--healthz-port", free_address()?)]
        {
            command.args([flag, &address.port().to_string()]);
        }
        for (service, address) in behind.addresses() {
            command.args(["--endpoints", &format!("default/{service}={address}")]);
        }
        let mut forebay = Program::start("forebay", command, &[], folder)?;
        for address in [http, https, redis] {
            forebay.wait_for(address, &interrupt)?;
        }
        let (certificate_file, folder) = (certificate.chain_file.clone(), folder.to_path_buf());
        Ok(Stage { forebay, http, https, redis, certificate_file, tools, folder, interrupt, behind })
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
        let mut start = |name: &'static str, address: SocketAddr, command: Command| -> Result<()> {
            let mut program = Program::start(name, command, &[], folder)?;
            program.wait_for(address, interrupt)?;
            others.push((name, address, program));
            Ok(())
        };
        let (clear, encrypted, websocket) = (free_address()?, free_address()?, free_address()?);
        let mut command = tools.go_program("grpc-interop-server");
        command.arg(format!("-port={}", clear.port()));
        start("grpc", clear, command)?;
        let mut command = tools.go_program("grpc-interop-server");
        command.arg(format!("-port={}", encrypted.port())).arg("-use_tls");
        command.arg(format!("-tls_cert_file={}", certificate.chain_file.display()));
        command.arg(format!("-tls_key_file={}", certificate.key_file.display()));
        start("grpcs", encrypted, command)?;
        let mut command = tools.node_script("websocket/server.cjs");
        command.args([websocket.ip().to_string(), websocket.port().to_string()]);
        start("websocket", websocket, command)?;
        let php = free_address()?;
        start("php", php, php_fpm(tools, php, folder)?)?;
        start_applications(tools, start)?;
        let web = Backend::start("web", &[], folder, interrupt)?;
        Ok(Behind { web, redis: Backend::start_redis(&[], folder, interrupt)?, others })
    }

    /// Of each Service.
    fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let others = self.others.iter().map(|(name, address, _)| (*name, *address));
        [("web", self.web.address), ("redis", self.redis.address)].into_iter().chain(others).collect()
    }
}

/// Starts the applications, as Services of these names.
fn start_applications(
    tools: &Tools,
    mut start: impl FnMut(&'static str, SocketAddr, Command) -> Result<()>,
) -> Result<()> {
    const CLIENT: [&str; 2] = ["forebay", "secret"];
    let script = |path: &str, address: SocketAddr, more: &[&str]| {
        let mut command = tools.node_script(path);
        command.args([address.ip().to_string(), address.port().to_string()]).args(more);
        command
    };
    for (name, root, serves_from_sub_path) in [
        ("page", "http://signin.test/", "false"),
        ("rewritten", "http://rewritten.test/grafana/", "false"),
        ("whole", "http://whole.test/grafana/", "true"),
    ] {
        let address = free_address()?;
        start(name, address, script("applications/dashboard.cjs", address, &[root, serves_from_sub_path]))?;
    }
    let (host, token) = CHALLENGE.split_once("/.well-known/acme-challenge/").context("a challenge")?;
    let solver = free_address()?;
    let command = script("applications/solver.cjs", solver, &[host, token, KEY]);
    start("cm-acme-http-solver-6k2lm", solver, command)?;
    let (provider, auth) = (free_address()?, free_address()?);
    start("provider", provider, script("applications/provider.cjs", provider, &CLIENT))?;
    start("auth", auth, oauth2_proxy(tools, auth, provider, CLIENT))
}

/// oauth2-proxy at an address, with the provider at another one, and the options that its documentation has for ingress-nginx.
fn oauth2_proxy(
    tools: &Tools,
    address: SocketAddr,
    provider: SocketAddr,
    [client, secret]: [&str; 2],
) -> Command {
    let mut command = tools.go_program("oauth2-proxy");
    command.args([
        "--provider=oidc",
        "--reverse-proxy=true",
        "--set-xauthrequest=true",
        "--upstream=static://202",
    ]);
    command.args(["--email-domain=*", "--cookie-secure=false", "--cookie-domain=signin.test"]);
    command.args(["--whitelist-domain=signin.test", "--skip-provider-button=true"]);
    command.args(["--insecure-oidc-allow-unverified-email=true", "--silence-ping-logging=true"]);
    command.arg("--redirect-url=http://signin.test/oauth2/callback");
    command.arg("--cookie-secret=of-this-test-only-and-32-bytes-!");
    command.args([format!("--client-id={client}"), format!("--client-secret={secret}")]);
    command.args([format!("--http-address={address}"), format!("--oidc-issuer-url=http://{provider}")]);
    command
}

/// PHP-FPM at an address, with its scripts in the folder `php`.
fn php_fpm(tools: &Tools, address: SocketAddr, folder: &Path) -> Result<Command> {
    let scripts = folder.join("php");
    fs::create_dir(&scripts)?;
    fs::copy(tools.testing.join("php/index.php"), scripts.join("index.php"))?;
    let configuration = folder.join("php-fpm.conf");
    let text = format!(
        "[global]\nerror_log = /dev/stderr\ndaemonize = no\n\
         [www]\nuser = root\nlisten = {address}\npm = static\npm.max_children = 2\n"
    );
    fs::write(&configuration, text)?;
    let mut command = tools.php_fpm()?;
    // In the foreground, by root if that is who asks, and without the machine's settings.
    command.args(["-F", "-R", "-n", "-y"]).arg(configuration);
    Ok(command)
}

/// The objects that are made for a run.
fn made(certificate: &Certificate, redis: SocketAddr, folder: &Path) -> String {
    let [chain, key] = [&certificate.chain, &certificate.key].map(|pem| BASE64_STANDARD.encode(pem));
    format!(
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {{namespace: default, name: certificate}}\n\
         data: {{tls.crt: {chain}, tls.key: {key}}}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {{namespace: default, name: authority}}\ndata: {{ca.crt: {chain}}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: default, name: tcp-services}}\n\
         data: {{\"{}\": \"default/redis:6379\"}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: default, name: php}}\n\
         data: {{SCRIPT_FILENAME: \"{}${{fastcgi_script_name}}\", PATH_INFO: $fastcgi_script_name}}\n",
        redis.port(),
        folder.display()
    )
}

/// The one that was built for the tests.
pub(super) fn binary() -> Result<PathBuf> {
    // This program is in the target folder too, in the one of its profile.
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this program is not in a target folder")?;
    let binary = target.join("debug/forebay");
    if !binary.is_file() {
        bail!("{} is not there; build it first: cargo build -p forebay", binary.display());
    }
    Ok(binary)
}
