//! Completions and manual pages: all commands are in them, and bash takes them.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::commands::run;

/// The commands that `forebay --help` shows.
fn commands() -> Vec<String> {
    let (code, help, stderr) = run(&["--help"]);
    assert_eq!((code, &*stderr), (0, ""));
    let listed = help.split("Commands:").nth(1).expect("commands are listed");
    let listed = listed.split("\n\n").next().expect("a list");
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let names: Vec<_> = names.map(str::to_owned).collect();
    assert!(names.len() > 5 && names.contains(&"serve".to_owned()), "{help}");
    names
}

#[test]
fn completions_know_all_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, stderr) = run(&["completions", shell]);
        assert_eq!((code, &*stderr), (0, ""));
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
        }
        assert!(script.contains("http-port"), "{shell}");
    }
    let (code, _, stderr) = run(&["completions", "tcsh"]);
    assert_eq!(code, 2);
    assert!(stderr.starts_with("forebay: ") && stderr.contains("bash"), "{stderr}");
}

/// Bash's completions behind `forebay ser` are those at a prompt.
#[test]
fn bash_completes_a_command_and_a_flag() {
    if !testkit::needs("bash") {
        return;
    }
    let (_, script, _) = run(&["completions", "bash"]);
    for (words, expected) in [("forebay ser", "serve"), ("forebay serve --http-p", "--http-port")] {
        let count = words.split(' ').count() - 1;
        let ask = format!(
            "\nCOMP_WORDS=({words}); COMP_CWORD={count}\n_forebay forebay \"${{COMP_WORDS[{count}]}}\" \"${{COMP_WORDS[{count}-1]}}\"\necho \"${{COMPREPLY[@]}}\"\n"
        );
        let mut bash = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bash runs");
        let mut stdin = bash.stdin.take().expect("a pipe");
        stdin.write_all((script.clone() + &ask).as_bytes()).expect("bash reads");
        drop(stdin);
        let output = bash.wait_with_output().expect("it ends");
        let offered = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(offered.trim(), expected, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let (code, page, stderr) = run(&["man"]);
    assert_eq!((code, &*stderr), (0, ""));
    assert!(page.contains(".TH forebay 1") && page.contains("forebay\\-serve(1)"), "{page}");
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    let (code, stdout, stderr) = run(&["man", pages.to_str().expect("a path of text")]);
    assert_eq!((code, &*stdout, &*stderr), (0, "", ""));
    for command in commands() {
        let page = fs::read_to_string(pages.join(format!("forebay-{command}.1"))).expect("a page");
        assert!(page.contains(&format!(".TH forebay-{command} 1")), "{command}: {page}");
    }
    assert!(pages.join("forebay-cache-purge.1").exists());
}
