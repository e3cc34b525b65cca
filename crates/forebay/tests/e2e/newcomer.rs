//! First steps of a newcomer: each mistake has a message with the missing part, and a remedy.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::manifest::{Ingress, service};

use crate::commands::run;
use crate::{FOREBAY, setup};

fn manifest() -> String {
    let ingress = Ingress::new("web").path("web.test", "Prefix", "/", "web");
    ingress.document() + &service("web", &["192.0.2.1:8080".parse().expect("an address")])
}

/// CPU time that a start may cost, up to the first answer: what ships has to be there at once. Without
/// optimisation it takes several times as long.
const START_CPU_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 200 } else { 50 });

/// CPU time and not time, since tests share the machine. The least of some, since only that is its own.
#[test]
fn a_start_costs_little_before_the_first_answer() {
    let started = || {
        let forebay = setup().start();
        let answer = forebay.client().ask("GET / HTTP/1.1\r\nHost: nobody.test\r\nConnection: close\r\n\r\n");
        assert_eq!(answer.status, 404);
        forebay.cpu_time()
    };
    let least = (0..3).map(|_| started()).min().expect("some");
    assert!(least > Duration::ZERO && least < START_CPU_MAX, "{least:?}");
}

#[test]
fn without_a_command_there_are_three() {
    let (code, stdout, stderr) = run(&[]);
    assert_eq!((code, &*stdout), (2, ""));
    for command in ["forebay demo", "forebay check", "forebay serve", "forebay --help"] {
        assert!(stderr.contains(command), "{stderr}");
    }
    assert!(stderr.lines().count() < 12, "{stderr}");
}

#[test]
fn outside_a_cluster_and_without_manifests_it_says_in_three_lines_what_to_do() {
    let output =
        Command::new(FOREBAY).arg("serve").env_remove("KUBERNETES_SERVICE_HOST").output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 3), "{stderr}");
    for said in ["not in a cluster", "--manifests DIR", "--kubeconfig", "forebay demo"] {
        assert!(stderr.contains(said), "{stderr}");
    }
}

/// As `forebay explain ... | head -1`.
#[test]
fn who_has_read_enough_ends_a_command_without_a_word() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("web.yaml"), manifest()).expect("a file");
    let path = folder.path().to_str().expect("a path of text");
    for arguments in [
        &["explain", "http://web.test/", path][..],
        &["check", path],
        &["completions", "bash"],
        &["doctor", "--watch", "100ms"],
        &["man"],
    ] {
        let mut child = Command::new(FOREBAY)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
        assert_eq!((child.wait().expect("it ends").code(), &*stderr), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_told() {
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = Command::new(FOREBAY).args(["completions", "bash"]).stdout(full).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains("standard output") && stderr.contains("No space left"), "{stderr}");
}

#[test]
fn yaml_that_is_none_is_told_with_file_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("broken.yaml");
    fs::write(&file, "apiVersion: v1\nkind: Service\nmetadata: {name: web\n").expect("a file");
    fs::write(folder.path().join("web.yaml"), manifest()).expect("a file");
    let (code, stdout, stderr) = run(&["check", folder.path().to_str().expect("a path of text")]);
    assert_eq!((code, &*stderr), (1, ""));
    let line =
        stdout.lines().find(|line| line.contains("broken.yaml:")).unwrap_or_else(|| panic!("{stdout}"));
    assert!(line.contains("error"), "{line}");
    assert!(stdout.contains("web.test"), "what is fine is served: {stdout}");
}

#[test]
fn a_port_that_another_has_is_told_with_the_flag_that_chooses() {
    let taken = std::net::TcpListener::bind("0.0.0.0:0").expect("a free port");
    let port = taken.local_addr().expect("it listens").port().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("web.yaml"), manifest()).expect("a file");
    let path = folder.path().to_str().expect("a path of text");
    let arguments =
        ["serve", "--manifests", path, "--healthz-port=0", "--https-port=0", "--http-port", &port];
    let (code, _, stderr) = run(&arguments);
    let last = stderr.lines().last().unwrap_or_default();
    assert_eq!(code, 2, "{stderr}");
    assert!(last.contains(&format!(":{port}")) && last.contains("--http-port"), "{stderr}");
}

#[test]
fn a_locale_without_unicode_gets_signs_of_ascii() {
    let told = |locale: &str| {
        let output = Command::new(FOREBAY)
            .args(["doctor", "--watch", "100ms"])
            .env("LC_ALL", locale)
            .output()
            .expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let signs = text.lines().filter(|line| line.contains(": ") && !line.starts_with(' '));
        signs.filter_map(|line| line.chars().next()).collect::<String>()
    };
    assert!(told("C").is_ascii());
    assert!(told("C.UTF-8").contains('√'));
}
