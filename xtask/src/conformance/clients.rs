//! Clients of HTTP in Go, Python, Node and Java with their default settings, and curl and Apache's ab,
//! through a Forebay of their own to the server in `testing/clients/origin`.
//!
//! Must not be in here: cases; they are the clients'. What may fail stands in
//! `testing/clients/exceptions.txt`.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::stage::{Stage, forebay};
use super::verdicts::Verdicts;
use crate::child::{Program, free_address, is_installed};
use crate::peers::certificate::{Certificates, Key};
use crate::template::render_file;

const LIMIT: Duration = Duration::from_mins(10);

/// The name that clients ask for, as they ask a server on the machine at hand.
const HOST: &str = "localhost";

/// Longer than the idle time after which Forebay closes connections in `conformance/clients.yaml`.
const IDLE_MILLISECONDS: u32 = 1500;

/// Cases of all clients but Java's, and of Java's.
const CASES: usize = 310;
const CASES_OF_JAVA: usize = 28;
/// A Forebay with the server behind it.
pub(super) struct Served {
    pub(super) http: SocketAddr,
    https: SocketAddr,
    folder: PathBuf,
    certificate_file: PathBuf,
    #[expect(dead_code, reason = "held so that they run: the proxy ends first")]
    running: (Program, Program),
}

impl Served {
    /// Starts both, with objects from `conformance/NAME.yaml`.
    pub(super) fn start(stage: &Stage, name: &str, options: &[&str]) -> Result<Served> {
        let folder = stage.folder.join(name);
        let manifests = folder.join("manifests");
        fs::create_dir_all(&manifests)?;
        let certificates = Certificates::make(HOST, &folder)?;
        let certificate = certificates.of(Key::EcdsaP256);
        let template = format!("conformance/{name}.yaml");
        let objects = render_file(&template, json!({"host": HOST, "certificate": certificate}))?;
        fs::write(manifests.join("objects.yaml"), objects)?;
        let [http, https, admin, origin] =
            [free_address()?, free_address()?, free_address()?, free_address()?];
        let mut command = stage.tools.go_program("clients-origin");
        command.arg(origin.to_string());
        let mut server = Program::start(&format!("{name}-origin"), command, &[], &folder)?;
        server.wait_for(origin, &stage.interrupt)?;
        let mut command = forebay(&manifests, http, https, admin)?;
        command.args(["--configmap", "default/forebay"]).args(options);
        command.args(["--endpoints", &format!("default/origin={origin}")]);
        let mut proxy = Program::start(&format!("{name}-forebay"), command, &[], &folder)?;
        proxy.wait_for(https, &stage.interrupt)?;
        let certificate_file = certificate.chain_file.clone();
        Ok(Served { http, https, folder, certificate_file, running: (proxy, server) })
    }

    /// Addresses by name, as clients are given them.
    fn arguments(&self, command: &mut Command) {
        for address in [self.http, self.https] {
            command.arg(format!("{HOST}:{}", address.port()));
        }
    }
}

/// A client: the prefix of its cases, and its command without the addresses.
struct Client {
    prefix: &'static str,
    command: Command,
    /// Its arguments behind the addresses.
    arguments: Vec<String>,
}

impl Client {
    fn of(prefix: &'static str, command: Command, arguments: &[&str]) -> Client {
        Client { prefix, command, arguments: arguments.iter().map(|&one| one.to_owned()).collect() }
    }
}

/// The clients that are on this machine.
fn clients(stage: &Stage, served: &Served) -> Vec<Client> {
    let certificate = served.certificate_file.to_string_lossy().into_owned();
    let folder = served.folder.to_string_lossy().into_owned();
    let modules = stage.tools.node_modules("clients").to_string_lossy().into_owned();
    let milliseconds = IDLE_MILLISECONDS.to_string();
    let seconds = (f64::from(IDLE_MILLISECONDS) / 1000.0).to_string();
    let mut go = stage.tools.go_program("clients-go");
    go.env("SSL_CERT_FILE", &certificate);
    let mut node = stage.tools.node_script("clients/client.mjs");
    node.env("NODE_EXTRA_CA_CERTS", &certificate);
    let python = stage.tools.python_script("clients/client.py", "clients");
    let tools = stage.tools.python_script("clients/tools.py", "clients");
    let mut all = vec![
        Client::of("go ", go, &[&format!("{milliseconds}ms")]),
        Client::of("", node, &[&milliseconds, &modules]),
        Client::of("", python, &[&certificate, &seconds]),
        Client::of("", tools, &[&certificate, &folder]),
    ];
    if is_installed("java") {
        let mut java = Command::new("java");
        java.arg(stage.tools.testing.join("clients/Client.java"));
        all.push(Client::of("java ", java, &[&certificate, &milliseconds]));
    }
    all
}

/// Runs the clients one after the other.
pub(super) fn run(stage: &Stage) -> Result<String> {
    let served = Served::start(stage, "clients", &["--default-ssl-certificate", "default/certificate"])?;
    let mut verdicts = Verdicts::default();
    for Client { prefix, mut command, arguments } in clients(stage, &served) {
        served.arguments(&mut command);
        command.args(arguments);
        let name = format!("client-{}", if prefix.is_empty() { "of-many" } else { prefix.trim() });
        let output = stage.output(&name, command, LIMIT)?;
        verdicts.read(prefix, &output);
    }
    let has_java = is_installed("java");
    let least = if has_java { CASES + CASES_OF_JAVA } else { CASES };
    let (passed, excepted) = verdicts.judge(&stage.tools.testing.join("clients/exceptions.txt"), least)?;
    let java = if has_java { ", Java" } else { "; Java is left out, because there is no java" };
    Ok(format!("{passed} cases pass, {excepted} excepted: curl, ab, Go, Python, Node{java}"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_objects_have_the_values_of_a_run() {
        let values = json!({"host": HOST, "certificate": {"chain": "a", "key": "b"}});
        let text = render_file("conformance/clients.yaml", values).expect("a template");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        let secret = objects.iter().find(|object| object["kind"] == "Secret").expect("a Secret");
        assert_eq!(secret["data"], json!({"tls.crt": "YQ==", "tls.key": "Yg=="}));
    }
}
