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
    LOCALE.iter().for_each(|name| {
        command.env_remove(name);
    });
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
    // A machine that has almost as many files open as it may, of which nothing else is known.
    let folder = tempdir().expect("a folder");
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    fs::create_dir(folder.path().join("sys")).expect("a folder");
    put("proc/sys/fs/file-nr", "950\t0\t1000\n");
    put("proc/sys/fs/file-max", "1000\n");
    let root = path(folder.path());
    let message = "files-limit：整机最多打开 1,000 个文件，已打开 950 个\n";
    for (locale, lang, is_chinese) in [
        ("en_US.UTF-8", None, false),
        ("en_US.UTF-8", Some("zh"), true),
        ("zh_CN.UTF-8", None, true),
        ("zh_CN.UTF-8", Some("en"), false),
    ] {
        let mut arguments = vec!["--root", root];
        arguments.extend(lang.iter().flat_map(|lang| ["--lang", *lang]));
        let output = look_in(locale, &arguments);
        let told = text(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert_eq!(told.contains(message), is_chinese, "{locale} {lang:?}:\n{told}");
        assert_eq!(told.contains("    处理：    sysctl -w fs.file-max=4000\n"), is_chinese, "{told}");
        assert_eq!(told.contains("：未检查："), is_chinese, "{told}");
        assert_eq!(told.contains("files-limit: 950 of the 1,000 files"), !is_chinese, "{told}");
        let summary = told.lines().last().expect("a summary");
        assert_eq!(summary.contains("1 项故障"), is_chinese, "{summary}");
    }
    let output = look_in("zh_CN.UTF-8", &["--root", root, "--output", "json"]);
    let page: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let findings = page["findings"].as_array().expect("a list");
    let files = findings.iter().find(|finding| finding["id"] == "files-limit").expect("a finding");
    assert_eq!(files["message"], "950 of the 1,000 files of the machine are open");
    assert_eq!(files["zh"]["message"], "整机最多打开 1,000 个文件，已打开 950 个");
    assert_eq!(files["remedy"], files["zh"]["remedy"]);
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
