//! HTTP/3 by others, with a Forebay of its own: the cases of the QUIC interop runner by aioquic and quic-go
//! (`testing/http3/interop.py`), and a page with pictures in a real browser (`testing/http3/pictures.mjs`).
//!
//! Must not be in here: the cases; they are the scripts'.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::console::program;
use super::stage::{HOST, Stage, forebay};
use crate::backend::Backend;
use crate::child::{Program, free_address};
use crate::peers::certificate::{Certificates, Key};
use crate::template::render_file;

/// The cases wait for slow links most of the time.
const LIMIT: Duration = Duration::from_mins(15);
const PICTURES_LIMIT: Duration = Duration::from_mins(2);

/// Cases that the script has at least: one that ran none has shown nothing.
const CASES_MIN: usize = 40;
/// The same of the page.
const CHECKS_MIN: usize = 5;

/// A Forebay that serves HTTP/3 for [`HOST`].
struct Served {
    https: SocketAddr,
    /// The address at which the script serves the page with pictures.
    pictures: SocketAddr,
    certificate_file: PathBuf,
    #[expect(dead_code, reason = "held so that they run")]
    running: (Program, Backend),
}

impl Served {
    fn start(stage: &Stage, name: &str) -> Result<Served> {
        let folder = stage.folder.join(name);
        let manifests = folder.join("manifests");
        fs::create_dir_all(&manifests)?;
        let certificates = Certificates::make(HOST, &folder)?;
        let certificate = certificates.of(Key::EcdsaP256);
        let values = json!({"host": HOST, "certificate": certificate});
        fs::write(manifests.join("http3.yaml"), render_file("conformance/http3.yaml", values)?)?;
        let web = Backend::start(&format!("{name}-web"), &[], &folder, &stage.interrupt)?;
        let [http, https, admin, pictures] =
            [free_address()?, free_address()?, free_address()?, free_address()?];
        let mut command = forebay(&manifests, http, https, admin)?;
        command.args(["--configmap", "default/forebay"]);
        for (service, address) in [("web", web.address), ("pictures", pictures)] {
            command.args(["--endpoints", &format!("default/{service}={address}")]);
        }
        let mut forebay = Program::start(&format!("{name}-forebay"), command, &[], &folder)?;
        forebay.wait_for(https, &stage.interrupt)?;
        let certificate_file = certificate.chain_file.clone();
        Ok(Served { https, pictures, certificate_file, running: (forebay, web) })
    }
}

/// The cases of the QUIC interop runner.
pub(super) fn cases(stage: &Stage) -> Result<String> {
    let served = Served::start(stage, "interop")?;
    let mut command = stage.tools.python_script("http3/interop.py", "http3");
    command.arg(served.https.port().to_string()).arg(HOST).arg(&served.certificate_file);
    command.arg(stage.tools.quic_go());
    let output = stage.output("interop", command, LIMIT)?;
    let count = |end: &str| output.lines().filter(|line| line.contains(end)).count();
    let passed = count(": passed in ");
    ensure!(passed >= CASES_MIN, "{passed} cases have passed: {output}");
    Ok(format!("{passed} cases pass, and {} are known to fail", count(": known to fail ")))
}

/// The page with pictures in a browser.
pub(super) fn pictures(stage: &Stage) -> Result<String> {
    let served = Served::start(stage, "pictures")?;
    let browser = program("chromium").context("chromium is not installed")?;
    let mut command = stage.tools.node_script("http3/pictures.mjs");
    command.arg(stage.tools.node_modules("console")).arg(browser).arg(HOST);
    command.arg(served.https.port().to_string()).arg(&served.certificate_file);
    command.arg(served.pictures.port().to_string());
    let output = stage.output("pictures", command, PICTURES_LIMIT)?;
    let holds = output.lines().filter(|line| line.starts_with("ok: ")).count();
    ensure!(holds >= CHECKS_MIN, "{output}");
    let figures: Vec<_> = output.lines().filter_map(|line| line.strip_prefix("figure: ")).collect();
    Ok(format!("a page with 200 pictures in a browser; {}", figures.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::child::root;
    use crate::conformance::exceptions::exceptions;

    #[test]
    fn the_objects_have_the_values_of_a_run() {
        let values = json!({"host": "a.test", "certificate": {"chain": "a", "key": "b"}});
        let text = render_file("conformance/http3.yaml", values).expect("a template");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        assert_eq!(objects[0]["spec"]["rules"][0]["host"], "a.test");
        assert_eq!(objects[1]["data"], json!({"tls.crt": "YQ==", "tls.key": "Yg=="}));
        assert_eq!(objects[2]["data"]["forebay-http3"], "on");
    }

    #[test]
    fn exceptions_are_cases_of_the_script() {
        let read = |name: &str| {
            fs::read_to_string(root().join("testing/http3").join(name)).expect("a file of the repository")
        };
        let script = read("interop.py");
        for name in exceptions(&read("exceptions.txt")).expect("reasons") {
            let (case, client) = name.split_once(' ').expect("a case and a client");
            assert!(script.contains(&format!("Case(\"{case}\",")), "{case}");
            assert!(script.contains(&format!("\"{client}\": ")), "{client}");
        }
    }
}
