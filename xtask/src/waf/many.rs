//! A thousand Ingresses behind the core rules, of which some have exclusions of their own: the memory that
//! their rules take, the time of a start, and the time of a change.
//!
//! Must not be in here: goals of requests.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tempfile::TempDir;
use testkit::manifest::{Ingress, service};

use crate::ask::{self, Question};
use crate::child::{Program, free_address};
use crate::interrupt::Interrupt;
use crate::machine;
use crate::proxies::forebay_of;

/// Ingresses, those of them with exclusions of their own, and changes of one.
const INGRESSES: usize = 1_000;
const OWN: usize = 20;
const CHANGES: usize = 20;
const PATIENCE: Duration = Duration::from_mins(2);
/// Nobody listens there: a request that the rules let pass is answered with an error of the proxy.
const NOBODY: ([u8; 4], u16) = ([127, 0, 0, 1], 9);
const ATTACK: &str = "/?q=1%27%20OR%20%271%27=%271";
const REFUSED: u16 = 403;

/// Goals: beyond what the same Ingresses take without rules, and for one change.
const RESIDENT_MIB_MAX: f64 = 40.0;
const READY_MAX: Duration = Duration::from_secs(2);
const CHANGE_MAX: Duration = Duration::from_millis(100);

/// Measures a binary, and prints what it takes.
pub(super) fn measure(profile: &str, rules: &Path) -> Result<ExitCode> {
    let (binary, interrupt) = (forebay_of(profile)?, Interrupt::install()?);
    let without = Served::start(&binary, rules, false, &interrupt)?.figures()?;
    let served = Served::start(&binary, rules, true, &interrupt)?;
    ensure!(served.status(1)? == REFUSED, "the core rules refuse nothing");
    let with = served.figures()?;
    let mut changes = (0..CHANGES).map(|turn| served.change(turn)).collect::<Result<Vec<_>>>()?;
    changes.sort();
    let (median, worst) = (changes[CHANGES / 2], changes[CHANGES - 1]);
    let more = with.resident_mib - without.resident_mib;
    let later = with.ready.saturating_sub(without.ready);
    println!("{INGRESSES} Ingresses, of which {OWN} have exclusions of their own; {}", machine::describe());
    println!("without rules: ready after {:.2?}, {:.1} MiB", without.ready, without.resident_mib);
    println!("with rules:    ready after {:.2?}, {:.1} MiB", with.ready, with.resident_mib);
    let mut is_met = true;
    for (what, holds) in [
        (format!("{more:.1} MiB more; at most {RESIDENT_MIB_MAX}"), more <= RESIDENT_MIB_MAX),
        (format!("ready {later:.2?} later; at most {READY_MAX:?}"), later <= READY_MAX),
        (
            format!("a change served within {median:.1?} (median) and {worst:.1?}; at most {CHANGE_MAX:?}"),
            worst <= CHANGE_MAX,
        ),
    ] {
        println!("{} {what}", if holds { "met:   " } else { "missed:" });
        is_met &= holds;
    }
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Time and memory of a start.
#[derive(Clone, Copy)]
struct Figures {
    ready: Duration,
    resident_mib: f64,
}

/// A running Forebay with its manifests.
struct Served<'i> {
    program: Program,
    folder: TempDir,
    http: SocketAddr,
    ready: Duration,
    interrupt: &'i Interrupt,
}

impl<'i> Served<'i> {
    fn start(binary: &Path, rules: &Path, guarded: bool, interrupt: &'i Interrupt) -> Result<Served<'i>> {
        let (folder, [http, admin]) = (tempfile::tempdir()?, [free_address()?, free_address()?]);
        let manifests = folder.path().join("manifests");
        fs::create_dir(&manifests)?;
        for number in 0..INGRESSES {
            let own = format!("ARGS:field_{number}");
            let own = if number < OWN { &[&*own][..] } else { &[] };
            fs::write(manifests.join(file(number)), ingress(number, guarded, own))?;
        }
        fs::write(manifests.join("service.yaml"), service("web", &[NOBODY.into()]))?;
        let mut command = Command::new(binary);
        command.args(["serve", "--https-port", "0", "--manifests"]).arg(manifests);
        command.arg("--waf-rules").arg(rules).args(["--http-port", &http.port().to_string()]);
        command.args(["--healthz-port", &admin.port().to_string()]);
        let begun = Instant::now();
        let program = Program::start("forebay", command, &[], folder.path())?;
        interrupt.await_that(PATIENCE, "Forebay to be ready", || Ok(ask::get(admin, "/readyz").is_ok()))?;
        Ok(Served { program, folder, http, ready: begun.elapsed(), interrupt })
    }

    fn figures(&self) -> Result<Figures> {
        let resident_mib = self.program.resident_bytes()? as f64 / f64::from(1 << 20);
        Ok(Figures { ready: self.ready, resident_mib })
    }

    /// The status of an attack on one of the hosts.
    fn status(&self, number: usize) -> Result<u16> {
        let headers = [("User-Agent", "xtask"), ("Accept", "*/*")];
        let host = host(number);
        let question = Question { host: &host, path: ATTACK, headers: &headers, ..Question::default() };
        Ok(question.ask(self.http)?.status)
    }

    /// Turns the exclusion of the attacked argument on or off, and waits until that is served. Each turn has
    /// exclusions that no rule set had before.
    fn change(&self, turn: usize) -> Result<Duration> {
        let excludes = turn.is_multiple_of(2);
        let (aside, own) = (self.folder.path().join("aside"), format!("ARGS:turn_{turn}"));
        let attacked = if excludes { "ARGS:q" } else { "ARGS:field_0" };
        fs::write(&aside, ingress(0, true, &[attacked, &own]))?;
        let begun = Instant::now();
        fs::rename(aside, self.folder.path().join("manifests").join(file(0)))?;
        self.interrupt.await_that(PATIENCE, "the change", || Ok((self.status(0)? != REFUSED) == excludes))?;
        Ok(begun.elapsed())
    }
}

fn file(number: usize) -> String {
    format!("many-{number}.yaml")
}

fn host(number: usize) -> String {
    format!("many-{number}.test")
}

/// One of the Ingresses, which may be guarded, and may exclude targets.
fn ingress(number: usize, guarded: bool, excluded: &[&str]) -> String {
    let mut ingress = Ingress::new(&format!("many-{number}")).path(&host(number), "Prefix", "/", "web");
    if guarded {
        ingress =
            ingress.annotation("forebay.io/waf-mode", "On").annotation("enable-owasp-core-rules", "true");
    }
    if guarded && !excluded.is_empty() {
        let exclusions =
            serde_json::json!([{"targets": excluded}, {"rules": [942_100], "path": {"value": "/editor"}}]);
        ingress = ingress.annotation("forebay.io/waf-exclusions", &exclusions.to_string());
    }
    ingress.document()
}
