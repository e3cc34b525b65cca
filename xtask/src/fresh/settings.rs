//! How this machine reaches packages, as far as a machine beside it has to know: apt's sources, variables,
//! files of settings.
//!
//! Must not be in here: names of hosts.

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;

use crate::template::data;

/// The parts of this machine's settings that hold there too: `xtask/fresh/settings.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// Variables that tell tools where packages are, and whom to trust: by their names, and by the begins and
    /// the ends of their names.
    variables: Vec<String>,
    prefixes: Vec<String>,
    suffixes: Vec<String>,
    /// Parts of the names of variables that may hold a password.
    secrets: Vec<String>,
    /// Files with settings of the network and of tools, in `/` or the user's home (`~`).
    pub(super) files: Vec<String>,
}

impl Settings {
    pub(super) fn read() -> Result<Settings> {
        data("fresh/settings.yaml")
    }

    /// Whether a variable is one of them.
    pub(super) fn wants(&self, variable: &str) -> bool {
        let name = variable.to_uppercase();
        let is_named = self.variables.contains(&name)
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
            || self.suffixes.iter().any(|suffix| name.ends_with(suffix));
        is_named && !self.secrets.iter().any(|secret| name.contains(secret))
    }
}

/// A source of packages, in either of apt's forms.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    /// As it is written.
    pub(super) text: String,
    /// Where it is.
    pub(super) uri: String,
    /// The suites that are got from there.
    suites: Vec<String>,
    /// The file with its keys, where it names one.
    pub(super) keys: Option<String>,
}

/// Whether a file of `apt.conf.d` says how packages are fetched.
pub(super) fn is_about_fetching(configuration: &str) -> bool {
    configuration.lines().any(|line| line.trim_start().starts_with("Acquire"))
}

/// The sources that a file of apt's names.
pub(super) fn sources(file: &Path, text: &str) -> Vec<Source> {
    if file.extension().is_some_and(|extension| extension == "sources") {
        text.split("\n\n").filter_map(stanza).collect()
    } else {
        text.lines().filter_map(line).collect()
    }
}

impl Source {
    /// Whether it has a suite, such as `bookworm`, or one that belongs to it, such as `bookworm-security`.
    pub(super) fn is_of(&self, suite: &str) -> bool {
        let belongs = |one: &String| {
            one.strip_prefix(suite).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.suites.iter().any(belongs)
    }

    /// Whether it has just this suite.
    pub(super) fn has(&self, suite: &str) -> bool {
        self.suites.iter().any(|one| one == suite)
    }
}

/// `Types: deb`, `URIs: ...`, and so on.
fn stanza(text: &str) -> Option<Source> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let field = |name: &str| {
        let value = |line: &&str| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        lines.iter().find_map(value)
    };
    let is_off = field("Enabled").is_some_and(|value| value == "no");
    let has_binaries = field("Types")?.split_whitespace().any(|kind| kind == "deb");
    let uri = field("URIs")?.split_whitespace().next()?.to_owned();
    let suites = field("Suites")?.split_whitespace().map(str::to_owned).collect();
    let keys = field("Signed-By").filter(|value| value.starts_with('/'));
    (has_binaries && !is_off).then(|| Source { text: lines.join("\n") + "\n", uri, suites, keys })
}

/// `deb [signed-by=...] URI SUITE COMPONENT...`
fn line(text: &str) -> Option<Source> {
    let rest = text.trim().strip_prefix("deb ")?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let keys = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    Some(Source {
        text: format!("{}\n", text.trim()),
        uri: words.next()?.to_owned(),
        suites: vec![words.next()?.to_owned()],
        keys: keys.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANZAS: &str = "Types: deb\n# a remark\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates\n\
        Components: main\nSigned-By: /usr/share/keyrings/a.gpg\n\nTypes: deb-src\nURIs: http://mirror.test/sources\n\
        Suites: bookworm\n\nEnabled: no\nTypes: deb\nURIs: http://mirror.test/off\nSuites: bookworm\n";

    #[test]
    fn sources_are_read_in_both_forms() {
        let [only] = &sources(Path::new("debian.sources"), STANZAS)[..] else { panic!("one is on") };
        assert_eq!(
            (&*only.uri, only.keys.as_deref()),
            ("http://mirror.test/debian", Some("/usr/share/keyrings/a.gpg"))
        );
        assert!(only.is_of("bookworm") && only.has("bookworm") && !only.is_of("book"));
        assert!(
            only.text.starts_with("Types: deb\nURIs: ") && !only.text.contains("remark"),
            "{}",
            only.text
        );
        let lines = "# deb http://mirror.test/off bookworm main\ndeb [arch=amd64 signed-by=/k.gpg] http://mirror.test/security bookworm-security main\n\
                     deb http://else.test/debian tool-bookworm main\n";
        let [security, other] = &sources(Path::new("sources.list"), lines)[..] else { panic!("two are on") };
        assert_eq!(
            (&*security.uri, security.keys.as_deref()),
            ("http://mirror.test/security", Some("/k.gpg"))
        );
        assert!(security.is_of("bookworm") && !security.has("bookworm") && !other.is_of("bookworm"));
    }

    #[test]
    fn variables_about_packages_are_taken_and_secrets_are_not() {
        let wanted =
            ["GOPROXY", "https_proxy", "NO_PROXY", "CARGO_HTTP_CAINFO", "PIP_INDEX_URL", "SSL_CERT_FILE"];
        let settings = Settings::read().unwrap();
        assert!(wanted.iter().all(|name| settings.wants(name)));
        let others = ["HOME", "PATH", "CARGO_MANIFEST_DIR", "CARGO_REGISTRIES_OWN_TOKEN", "RUSTFLAGS"];
        assert!(others.iter().all(|name| !settings.wants(name)));
        assert!(is_about_fetching("// a remark\nAcquire::http::Proxy \"http://proxy.test\";\n"));
        assert!(!is_about_fetching("DPkg::Post-Invoke { \"true\"; };\n"));
    }
}
