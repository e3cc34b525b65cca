//! `forebay top` in a terminal: what is seen there, and how the terminal is given back.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use testkit::manifest::Ingress;
use testkit::{Canned, Forebay, Refusing, Terminal};

use crate::{FOREBAY, setup};

fn top(admin: SocketAddr) -> Command {
    let mut command = Command::new(FOREBAY);
    command.args(["top", "--admin", &admin.to_string()]).stdin(Stdio::null());
    command
        .env("TERM", "xterm-256color")
        .env("LC_ALL", "C.UTF-8")
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR");
    command
}

fn ended(mut command: Command) -> (Output, String) {
    let output = command.output().expect("it runs");
    let stderr = String::from_utf8(output.stderr.clone()).expect("text");
    (output, stderr)
}

fn two_hosts(upstream: &Canned) -> Forebay {
    let other = Ingress::new("other").path("other.test", "Prefix", "/there", "web").document();
    setup().endpoint(upstream.address()).manifest("other.yaml", other).start()
}

/// Sends requests until the screen is as it is meant to be.
fn ask_until(forebay: &Forebay, terminal: &Terminal, what: &str, is_meant: impl Fn(&str) -> bool) {
    terminal.await_screen(what, |screen| {
        // A connection has an end to how many requests it takes.
        let mut client = forebay.client();
        assert_eq!(client.get("web.test", "/here").status, 200);
        assert_eq!(client.get("other.test", "/there").status, 200);
        is_meant(screen)
    });
}

/// The rate of all requests that a screen tells.
fn rate(screen: &str) -> Option<f64> {
    let rate = screen.split_once("requests ")?.1.split_once("/s")?.0.trim();
    match rate.strip_suffix('k') {
        Some(thousands) => Some(thousands.parse::<f64>().ok()? * 1000.0),
        None => rate.parse().ok(),
    }
}

#[test]
fn requests_are_seen_filtered_and_at_any_size_and_the_terminal_is_given_back() {
    let upstream = Canned::saying("hello");
    let forebay = two_hosts(&upstream);
    let mut terminal = Terminal::start(&mut top(forebay.admin_address()), 100, 24);
    terminal
        .await_screen("the overview", |screen| screen.contains("1 worker") && screen.contains("no requests"));
    assert!(terminal.is_taken_over() && !terminal.edits_lines());
    ask_until(&forebay, &terminal, "both routes", |screen| {
        screen.contains("web.test/ ") && screen.contains("other.test/there ") && rate(screen) > Some(0.0)
    });
    terminal.types("2");
    terminal.await_screen("hosts", |screen| screen.contains("HOST ") && !screen.contains("/there"));
    terminal.types("3");
    ask_until(&forebay, &terminal, "clusters", |screen| screen.contains("default-web-80 "));
    terminal.types("1/other");
    ask_until(&forebay, &terminal, "the filter", |screen| {
        screen.contains("other.test/there ")
            && !screen.contains("web.test/ ")
            && screen.trim_end().ends_with("/other_")
    });
    terminal.types("\r");
    terminal.await_screen("the keys", |screen| screen.contains("q quit"));
    for (columns, rows) in [(20, 24), (100, 5), (1, 1), (160, 40)] {
        terminal.resize(columns, rows);
        let widest = |screen: &str| screen.lines().map(|line| line.chars().count()).max();
        terminal.await_screen("another size", |screen| {
            widest(screen).is_some_and(|widest| widest > 0 && widest <= usize::from(columns))
        });
    }
    terminal.await_screen("all of it again", |screen| screen.contains("OBJECT") && screen.contains("q quit"));
    terminal.types("q");
    assert!(terminal.wait().success());
    terminal.await_given_back();
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let forebay = setup().start();
    for end in ["Ctrl-C", "SIGTERM", "SIGHUP"] {
        let mut terminal = Terminal::start(&mut top(forebay.admin_address()), 80, 24);
        terminal.await_screen("the overview", |screen| screen.contains("q quit"));
        match end {
            "Ctrl-C" => terminal.types("\x03"),
            "SIGTERM" => terminal.signal(Signal::TERM),
            _ => terminal.signal(Signal::HUP),
        }
        assert!(terminal.wait().success(), "{end}");
        terminal.await_given_back();
    }
}

#[test]
fn a_forebay_that_was_away_is_seen_again() {
    let forebay = setup().start();
    let admin = forebay.admin_address();
    let mut terminal = Terminal::start(&mut top(admin), 120, 24);
    terminal.await_screen("the overview", |screen| screen.contains("q quit"));
    forebay.signal(Signal::TERM);
    forebay.wait();
    terminal.await_screen("that it is away", |screen| {
        screen.contains("no answer for ") && screen.contains(&format!("cannot ask http://{admin}"))
    });
    let again = setup().arguments([format!("--healthz-port={}", admin.port())]).start();
    assert_eq!(again.admin_address(), admin);
    terminal
        .await_screen("that it is back", |screen| !screen.contains("no answer") && screen.contains("up "));
    terminal.types("q");
    assert!(terminal.wait().success());
    terminal.await_given_back();
}

#[test]
fn without_a_terminal_there_is_one_look_as_plain_text() {
    let upstream = Canned::saying("hello");
    let forebay = two_hosts(&upstream);
    let mut client = forebay.client();
    // Nobody measured before: the first look at routes begins to.
    forebay.await_that("a route", || {
        let (output, stderr) = ended({
            assert_eq!(client.get("web.test", "/here").status, 200);
            top(forebay.admin_address())
        });
        assert!(output.status.success(), "{stderr}");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(!text.contains('\x1b') && text.lines().all(|line| line == line.trim_end()), "{text}");
        assert!(text.contains("REQ/S") && !text.contains("q quit"), "{text}");
        client.get("web.test", "/here");
        text.contains("web.test/ ")
    });
    let mut terminal = Terminal::start(top(forebay.admin_address()).arg("--once"), 100, 24);
    assert!(terminal.wait().success());
    terminal.await_screen("one look", |screen| screen.contains("REQ/S"));
    assert!(!terminal.is_taken_over());
    let mut terminal = Terminal::start(top(forebay.admin_address()).env("TERM", "dumb"), 100, 24);
    assert!(terminal.wait().success() && !terminal.is_taken_over());
}

#[test]
fn what_keeps_it_from_looking_is_said_in_one_line() {
    let said = |admin: SocketAddr| {
        let (output, stderr) = ended(top(admin));
        assert_eq!(
            (output.status.code(), output.stdout.len(), stderr.lines().count()),
            (Some(2), 0, 1),
            "{stderr}"
        );
        assert!(!stderr.contains('\x1b'), "{stderr:?}");
        stderr
    };
    let refusing = Refusing::default();
    let away = said(refusing.address());
    assert!(away.contains("refused") && away.contains("--admin says where it is"), "{away}");
    let answering = |status: &str, body: &str| {
        let length = body.len();
        Canned::answering(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}"))
    };
    let forbidden = answering("403 Forbidden", "not for\x1b[2J you\n");
    let told = said(forbidden.address());
    assert!(told.contains("403 Forbidden") && told.contains("--admin-allow"), "{told}");
    for body in ["<html>", "{}", "[]", "{\"version\":"] {
        let other = answering("200 OK", body);
        let told = said(other.address());
        assert!(told.contains("is no admin server of this version"), "{body}: {told}");
    }
    let hidden = setup().arguments(["--console=false"]).start();
    let told = said(hidden.admin_address());
    assert!(told.contains("--console=false"), "{told}");
    let mut wrong = Command::new(FOREBAY);
    wrong.args(["top", "--interval=1h"]);
    assert!(ended(wrong).1.contains("a time from 1s to 10s"));
    let mut wrong = Command::new(FOREBAY);
    wrong.args(["top", "--admin=https://a.test"]);
    assert!(ended(wrong).1.contains("is no URL that begins with http://"));
}
