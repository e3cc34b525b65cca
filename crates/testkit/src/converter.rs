//! Replaces Ingresses by the output of `forebay convert`, so that conversations about Ingresses test it too.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::Authority;
use crate::manifest::tls_secret;

/// Environment variable with which all Forebays of a process serve the converted Ingresses.
pub const CONVERTED: &str = "FOREBAY_TEST_CONVERTED";

/// The flags of `serve` that decide about Ingresses, which `convert` needs too.
const FLAGS: &[&str] = &[
    "--annotations-prefix",
    "--configmap",
    "--default-backend-service",
    "--default-ssl-certificate",
    "--disable-catch-all",
    "--enable-annotation-validation",
    "--files-root",
    "--cache-memory",
    "--waf-unenforced",
    "--snippets-unenforced",
];

/// Name of the file with the result, and of one with the certificate of hosts that have none.
const FILE: &str = "converted.yaml";
const CERTIFICATE: &str = "converted-certificate.yaml";

/// Converts the Ingresses of a folder.
#[derive(Debug)]
pub(crate) struct Converter {
    command: Vec<OsString>,
}

impl Converter {
    /// The flags with which Ingresses themselves are not served.
    pub(crate) const NO_INGRESS: [&str; 2] = ["--ingress-class=none", "--watch-ingress-without-class=false"];

    /// A converter for a Forebay with this command and these arguments; none unless the environment asks for
    /// one.
    pub(crate) fn new(command: &[OsString], arguments: &[OsString]) -> Option<Self> {
        std::env::var_os(CONVERTED)?;
        let decides = |argument: &&OsString| {
            let text = argument.to_string_lossy();
            FLAGS.contains(&text.split('=').next().unwrap_or_default())
        };
        let own =
            ["convert", "ingress", "--default-ssl-certificate=default/of-all-hosts"].map(OsString::from);
        let command = command.iter().cloned().chain(own).chain(arguments.iter().filter(decides).cloned());
        Some(Self { command: command.collect() })
    }

    /// Writes the result into the folder, in place of the previous one.
    pub(crate) fn convert(&self, manifests: &Path) {
        let file = manifests.join(FILE);
        let _ = std::fs::remove_file(&file);
        let certificate = manifests.join(CERTIFICATE);
        if !certificate.exists() {
            let of_all_hosts = Authority::new("converted").server(&["web.test"]);
            std::fs::write(&certificate, tls_secret("of-all-hosts", &of_all_hosts)).expect("a file");
        }
        let mut command = Command::new(&self.command[0]);
        let output =
            command.args(&self.command[1..]).arg("-f").arg(manifests).output().expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.code().is_some_and(|code| code < 2),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let aside = manifests.with_extension("aside");
        std::fs::write(&aside, &*text).expect("a file");
        std::fs::rename(&aside, &file).expect("a rename");
        eprintln!("{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}
