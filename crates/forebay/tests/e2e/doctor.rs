//! `forebay doctor`, and the same checks inside `serve`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;

use crate::{FOREBAY, setup};

/// The variables that choose the language.
const LOCALE: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];

fn look(arguments: &[&str]) -> Output {
    look_in("en_US.UTF-8", arguments)
}

/// Looks with a locale in the environment.
fn look_in(locale: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(FOREBAY);
    for name in LOCALE {
        command.env_remove(name);
    }
    command.env("LANG", locale).arg("doctor").args(arguments).output().expect("the binary runs")
}

fn findings(text: &str) -> Vec<(String, String)> {
    let page: Value = serde_json::from_str(text).expect("one object");
    let findings = page["findings"].as_array().expect("a list").iter();
    let word = |finding: &Value, name: &str| finding[name].as_str().expect("a word").to_owned();
    findings.map(|finding| (word(finding, "id"), word(finding, "verdict"))).collect()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn what_is_captured_is_judged_elsewhere() {
    let folder = tempdir().expect("a folder");
    let file = folder.path().join("case.tar");
    let captured = look(&["capture", path(&file), "--watch", "20ms"]);
    assert!(captured.status.success(), "{}", text(&captured.stderr));
    let judged = look(&["--root", path(&file), "--output", "json"]);
    let live = look(&["--watch", "20ms", "--output", "json"]);
    let ids =
        |output: &Output| findings(text(&output.stdout)).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids(&judged), ids(&live));
    let worst = findings(text(&judged.stdout)).into_iter().map(|(_, verdict)| verdict);
    let expected = worst.map(|verdict| match verdict.as_str() {
        "failure" => 2,
        "warning" => 1,
        _ => 0,
    });
    assert_eq!(judged.status.code(), expected.max());
}

#[test]
fn the_text_tells_every_check_and_how_many_looked() {
    let output = look(&["--watch", "20ms"]);
    let text = text(&output.stdout);
    for check in ::doctor::all() {
        assert!(text.contains(&format!(" {}: ", check.id)), "{} is missing in\n{text}", check.id);
    }
    assert!(text.ends_with('\n') && !text.contains('\x1b'), "{text:?}");
    let summary = text.lines().last().expect("a summary");
    assert!(summary.starts_with(&format!("{} checks: ", ::doctor::all().count())), "{summary}");
}

#[test]
fn findings_are_told_in_chinese_where_that_is_the_language() {
    // A machine that has almost as many files open as it may, and shorter queues than the one that it is
    // compared with.
    let folder = tempdir().expect("a folder");
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    fs::create_dir(folder.path().join("sys")).expect("a folder");
    put("proc/sys/fs/file-nr", "950\t0\t1000\n");
    put("proc/sys/fs/file-max", "1000\n");
    put("proc/sys/net/core/somaxconn", "128\n");
    put("reference", "net.core.somaxconn = 4096\n");
    let reference = folder.path().join("reference");
    let look_at_root = |locale: &str, more: &[&str]| {
        let arguments = ["--root", path(folder.path()), "--reference", path(&reference)];
        look_in(locale, &[&arguments[..], more].concat())
    };
    let chinese = "sysctl-drift：net.core.somaxconn 为 128，宿主机为 4096\n    数据：    ";
    let remedy = "在该网络命名空间中执行：sysctl -w net.core.somaxconn=\"4096\"（在 Pod 中使用 securityContext.sysctls）";
    for (locale, lang, is_chinese) in [
        ("en_US.UTF-8", None, false),
        ("en_US.UTF-8", Some("zh"), true),
        ("zh_CN.UTF-8", None, true),
        ("zh_CN.UTF-8", Some("en"), false),
    ] {
        let lang = lang.map_or_else(Vec::new, |lang| vec!["--lang", lang]);
        let output = look_at_root(locale, &lang);
        let told = text(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert_eq!(told.contains(chinese), is_chinese, "{locale} {lang:?}:\n{told}");
        assert_eq!(told.contains(&format!("    处理：    {remedy}\n")), is_chinese, "{told}");
        assert_eq!(told.contains("：未检查："), is_chinese, "{told}");
        assert_eq!(told.contains("files-limit: 950 of the 1,000 files"), !is_chinese, "{told}");
        let summary = told.lines().last().expect("a summary");
        assert_eq!(summary.contains("1 项故障，1 项警告"), is_chinese, "{summary}");
    }
    let output = look_at_root("zh_CN.UTF-8", &["--output", "json"]);
    let page: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let findings = page["findings"].as_array().expect("a list");
    let drift = findings.iter().find(|finding| finding["id"] == "sysctl-drift").expect("a finding");
    assert_eq!(drift["message"], "net.core.somaxconn is 128 and the host's is 4096");
    assert_eq!(drift["zh"]["message"], "net.core.somaxconn 为 128，宿主机为 4096");
    assert!(drift["remedy"].as_str().expect("text").starts_with("in this network namespace: "), "{drift}");
    assert_eq!(drift["zh"]["remedy"], remedy);
}

#[test]
fn what_cannot_be_looked_at_is_one_line() {
    let folder = tempdir().expect("a folder");
    for (arguments, complaint) in [
        (vec!["--pid", "4194305"], "forebay: there is no process 4194305\n"),
        (vec!["--watch", "soon"], "forebay: invalid value 'soon' for '--watch <TIME>'"),
        (vec!["--root", path(folder.path())], "there is neither proc nor sys in it\n"),
        (vec!["--root", "x", "--pid", "1"], "'--root <PATH>' cannot be used with '--pid <PID>'"),
        (vec!["--reference", "/nowhere"], "forebay: cannot read /nowhere: "),
        (vec!["capture", "/nowhere/x.tar", "--watch", "1ms"], "forebay: cannot write /nowhere/x.tar: "),
    ] {
        let output = look(&arguments);
        let told = text(&output.stderr);
        assert!(told.contains(complaint) && told.lines().count() == 1, "{arguments:?}: {told:?}");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn serve_looks_at_itself() {
    let forebay = setup().start();
    forebay.await_that("findings", || forebay.admin("/doctor").status == 200);
    let found = findings(forebay.admin("/doctor").text());
    assert_eq!(found.len(), ::doctor::all().count());
    let metrics = forebay.admin("/metrics");
    for (id, _) in found {
        let label = format!("id=\"{id}\"");
        let mut lines = metrics.text().lines().filter(|line| line.starts_with("forebay_doctor_finding{"));
        let line = lines.find(|line| line.contains(&label)).expect("a series");
        let (_, level) = line.rsplit_once(' ').expect("a value");
        assert!(["-1", "0", "1", "2"].contains(&level), "{line}");
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("text")
}
