//! `forebay demo`: its figures are about what it says they are, and nothing stays behind.

use std::fs;
use std::process::Command;

use testkit::{left_out, this_test};

use crate::FOREBAY;
use crate::commands::run;

/// The cells of the row with this name, without it.
fn row(stdout: &str, name: &str) -> Vec<f64> {
    let line = stdout.lines().find(|line| line.trim_start().starts_with(name));
    let cells =
        line.unwrap_or_else(|| panic!("no {name} in {stdout}")).trim_start()[name.len()..].split_whitespace();
    cells.map(|cell| cell.replace(',', "").parse().expect("a number")).collect()
}

/// Whether namespaces can be made here; what it said if not has to be why.
fn has_namespaces(code: i32, stderr: &str) -> bool {
    if code == 0 {
        return true;
    }
    assert!(code == 2 && stderr.contains("namespaces"), "{stderr}");
    assert!(stderr.contains("`forebay demo --case c` have no need"), "what still works is said: {stderr}");
    left_out(&this_test(), stderr);
    false
}

#[test]
fn the_ratio_is_that_of_the_figures_above_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(FOREBAY)
        .args(["demo", "--duration", "400ms"])
        .env("TMPDIR", folder.path())
        .output()
        .expect("it runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stderr.is_empty(), "{stdout}{stderr}");
    let [direct, each, kept] =
        ["straight to the Pod", "an ingress that connects for each request", "Forebay "]
            .map(|name| row(&stdout, name));
    assert!(direct[2] > 0.9 && each[2] > 0.9, "the Pod is connected to for each request: {stdout}");
    assert!(kept[2] < 0.5, "Forebay keeps its connections: {stdout}");
    let last = stdout.lines().last().expect("lines");
    let ratio: f64 = last.strip_prefix("ratio: ").expect("the ratio").parse().expect("a number");
    // Rates are rounded to whole numbers, of which a slow machine has few, and the ratio to hundredths.
    let rounding = 0.005 + 0.5 * (1.0 + ratio) / (direct[0] - 0.5);
    assert!((kept[0] / direct[0] - ratio).abs() <= rounding + 1e-6, "{stdout}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "its files are gone");
}

#[test]
fn a_cap_that_is_too_small_opens_connections_again_and_forebay_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("d.html");
    let (code, stdout, stderr) =
        run(&["demo", "--case", "d", "--duration", "2s", "--report", page.to_str().expect("a path of text")]);
    if !has_namespaces(code, &stderr) {
        return;
    }
    let [plain, forebay] =
        ["a plain proxy that keeps 8 connections", "Forebay "].map(|name| row(&stdout, name));
    // Whether the ports run out, and requests fail, hangs on the machine.
    let [failed, opened, time_wait] = [1, 2, 3];
    assert!(plain[opened] > 3.0 * forebay[opened] && plain[time_wait] > 100.0, "{stdout}");
    assert!(forebay[failed] == 0.0 && forebay[time_wait] == 0.0 && forebay[0] > 0.0, "{stdout}");
    assert!(stdout.contains("pool-too-small") && stdout.contains("remedy:"), "{stdout}");
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("Sockets in TIME_WAIT") && page.contains("<svg"), "{page}");
}

#[test]
fn ports_run_out_for_who_connects_each_time() {
    let (code, stdout, stderr) = run(&["demo", "--case", "e", "--duration", "1500ms"]);
    if !has_namespaces(code, &stderr) {
        return;
    }
    let [plain, forebay] =
        ["a plain proxy that connects each time", "Forebay "].map(|name| row(&stdout, name));
    assert!(plain[1] > 0.0 && forebay[1] == 0.0, "{stdout}");
    assert!(stdout.contains("port-range"), "{stdout}");
    // The machine decides which of the two it is.
    assert!(stdout.contains("limits: 100m") || stdout.contains("not run: no CPU quota"), "{stdout}");
}

#[test]
fn a_case_that_nobody_knows_is_refused_with_those_that_there_are() {
    let (code, _, stderr) = run(&["demo", "--case", "x"]);
    assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
    let (code, _, stderr) = run(&["demo", "--case", "d", "--report", "/nonexistent/page.html"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("cannot write /nonexistent/page.html"), "{stderr}");
}
