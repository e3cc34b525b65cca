//! `forebay convert ingress`: its streams and exit status, and that what it makes of Ingresses answers as
//! they do. For that, the conversations about Ingresses run a second time, with what their Ingresses are
//! converted to served in their place.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use testkit::CONVERTED;
use testkit::manifest::Ingress;

use crate::commands::run;

/// The rooms of the conversations about Ingresses.
const ROOMS: &[&str] = &[
    "routing::",
    "paths::",
    "access::",
    "error_pages::",
    "mirror::",
    "grpc::",
    "bodies::",
    "cache::",
    "failures::",
    "files::",
    "heads::",
    "tenants::",
];

/// The conversations that do not hold, one a line with the reason. The list may only become shorter.
const DIFFERENT: &str = "tests/e2e/convert/different.txt";

/// By itself, since some conversations watch for how long nothing comes, and would hear of others beside
/// them: `make unit` runs it.
#[test]
#[ignore = "has the machine to itself: cargo test --test e2e -- --ignored what_ingresses_become"]
fn what_ingresses_become_answers_as_they_do() {
    let different = different();
    let different = different.iter().flat_map(|name| ["--skip", name]);
    let failed = conversations(ROOMS.iter().copied().chain(different));
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Takes long, since many wait in vain for what does not come: `cargo test -- --ignored`.
#[test]
#[ignore = "takes minutes, and matters only when something has begun to hold"]
fn what_is_known_to_be_different_is_different() {
    let different = different();
    let failed = conversations(different.iter().map(String::as_str).chain(["--exact"]));
    assert_eq!(failed, different);
}

/// The names in the list.
fn different() -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(DIFFERENT);
    let text = std::fs::read_to_string(file).expect("a list");
    let line = |line: &str| {
        let (name, reason) = line.split_once(": ").expect("a name and a reason");
        assert!(ROOMS.iter().any(|room| name.starts_with(room)) && !reason.is_empty(), "{line}");
        name.to_owned()
    };
    text.lines().map(line).collect()
}

/// Runs tests of this program on converted Ingresses, and returns the names of those that fail.
fn conversations<'a>(arguments: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    let output =
        command.args(arguments).arg("--test-threads=2").env(CONVERTED, "1").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let results = text.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let failed = results.clone().filter(|(_, result)| result.starts_with("FAILED"));
    let failed: BTreeSet<_> = failed.map(|(name, _)| name.to_owned()).collect();
    assert!(results.count() > 0, "no conversation ran: {text}");
    assert!(!failed.is_empty() || output.status.success(), "{text}");
    failed
}

#[test]
fn yaml_and_summary_go_to_streams_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    let web = Ingress::new("web").path("web.test", "Prefix", "/", "web");
    std::fs::write(&file, web.document()).unwrap();
    let arguments =
        ["convert", "ingress", "--gateway-name=edge", "--gateway-class=c", "-f", file.to_str().unwrap()];
    let (code, stdout, stderr) = run(&arguments);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("gatewayClassName: c\n") && stdout.contains("- name: edge\n"), "{stdout}");
    assert_eq!(stderr, "forebay: 1 Ingress became 1 ForebayPolicy, 1 Gateway, 1 GatewayClass, 1 HTTPRoute\n");
    std::fs::write(&file, web.annotation("rewrite-target", "/a/$3").document()).unwrap();
    let (code, stdout, stderr) = run(&arguments);
    assert_eq!(code, 1);
    let lost = "Ingress default/web: rewrite-target: \"/a/$3\" cannot be said";
    assert!(stdout.contains("# rewrite-target: \"/a/$3\"") && stderr.contains(lost), "{stdout}{stderr}");
    let (code, _, stderr) = run(&["convert", "ingress", "-f", "/nowhere"]);
    assert_eq!(code, 2, "{stderr}");
}
