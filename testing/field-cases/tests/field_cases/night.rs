//! The same misfortunes at night, and nobody looks: a recorder runs beside the process, and `forebay doctor
//! --record` says the next morning when each began and ended. Case C has no misfortune.
//!
//! Must not be in here: what the doctor finds while it lasts, which is in the files of the cases.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use bench::generator::{Pace, Plan};
use doctor::Sample;
use lab::counters::Connections;
use lab::{Program, set_parameter};
use record::{Absent, Frame, Record, Recorder};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::page::{Section, is_wished};
use crate::program::forebay;
use crate::redis::{self, Clients, Server};
use crate::stage::{DIRECT, HTTP, PORT_RANGE, PROXY, Stage, backends};

const WHAT: &str = "`forebay record watch` beside the process, a quiet time, the misfortune and a quiet time again; then `forebay doctor \
--record`. Begin and end as the doctor tells them, beside when the kernel counted it first and last. Case B is made of a node's files. \
The ports of case E are used up within a second, and free when their TIME_WAIT are over, a minute later.";
const HEADINGS: &[&str] =
    &["case", "finding", "seconds between samples", "lasted", "begin off by", "end off by"];
const LIMIT: Duration = Duration::from_secs(60);
/// The longest that a `TIME_WAIT` holds its port: a minute, and what the kernel's timers are late for times
/// as long as that.
const TIME_WAIT: Duration = Duration::from_secs(68);
/// Time between two looks at the kernel's counters.
const LOOK: Duration = Duration::from_millis(100);

const NO_KEEPALIVE: &str = "proxy_http_version 1.1; proxy_set_header Connection \"\";";
const MACHINE: &str = "32768 34767";
const CONTAINER: &str = "32768 33767";
/// Above this number of the container's ports, the doctor says that they are used up.
const USED_UP: usize = 800;
const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/captures/b-3.10");

/// Times of a night. With few seconds between samples, little more than the misfortune's own length is
/// needed; figures for the page are those of two minutes at the usual interval.
#[derive(Clone, Copy)]
struct Times {
    interval: Duration,
    quiet: Duration,
    misfortune: Duration,
}

/// A misfortune that was recorded.
struct Night {
    record: PathBuf,
    began: SystemTime,
    ended: SystemTime,
}

/// The finding that a night has to have.
struct Expected {
    case: &'static str,
    id: &'static str,
    /// A word that the remedy has to have.
    remedy: &'static str,
}

pub(crate) fn run() -> Result<Section> {
    let times = if is_wished() {
        Times {
            interval: Duration::from_secs(10),
            quiet: Duration::from_secs(60),
            misfortune: Duration::from_secs(120),
        }
    } else {
        Times {
            interval: Duration::from_secs(1),
            quiet: Duration::from_secs(7),
            misfortune: Duration::from_secs(8),
        }
    };
    let mut section = Section::new(WHAT, HEADINGS);
    connections(times, &mut section)?;
    files_of_a_node(&mut section)?;
    bursts(times, &mut section)?;
    quota(times, &mut section)?;
    ports(times, &mut section)?;
    Ok(section)
}

/// Case A: a connection for each request.
fn connections(times: Times, section: &mut Section) -> Result<()> {
    let stage = Stage::set()?;
    let _payload = stage.payload()?;
    let nginx = stage.nginx("auto", &backends().take(1).collect::<Vec<_>>(), "", "")?;
    let plan =
        Plan { connections: 16, pace: Pace::Open { rate_per_second: 400.0 }, ..Plan::new(PROXY, "/1k") };
    let opens = growing(|| opened(nginx.pid()));
    let night = times.night(&stage, nginx.pid(), times.quiet, opens, || load(&stage, &plan, times))?;
    let expected = Expected { case: "A", id: "upstream-reuse", remedy: "keepalive" };
    night.check(&expected, times.interval, section)
}

/// Case D: a cap of 8 connections.
fn bursts(times: Times, section: &mut Section) -> Result<()> {
    let stage = Stage::set()?;
    stage.proxy.set(PORT_RANGE, "1024 65535")?;
    let _payload = stage.payload()?;
    let nginx = stage.nginx("1", &backends().collect::<Vec<_>>(), "keepalive 8;", NO_KEEPALIVE)?;
    let pace = Pace::Bursts { every: Duration::from_millis(90) };
    let plan = Plan { connections: 100, pace, ..Plan::new(PROXY, "/delay/20") };
    let opens = growing(|| opened(nginx.pid()));
    let night = times.night(&stage, nginx.pid(), times.quiet, opens, || load(&stage, &plan, times))?;
    let expected = Expected { case: "D", id: "pool-too-small", remedy: "keepalive" };
    night.check(&expected, times.interval, section)
}

/// Case E, the static server: half as many ports.
fn ports(times: Times, section: &mut Section) -> Result<()> {
    set_parameter(PORT_RANGE, MACHINE)?;
    let stage = Stage::set()?;
    stage.proxy.set(PORT_RANGE, CONTAINER)?;
    let _payload = stage.payload()?;
    let nginx = stage.nginx("auto", &backends().take(1).collect::<Vec<_>>(), "", NO_KEEPALIVE)?;
    let plan =
        Plan { connections: 32, pace: Pace::Open { rate_per_second: 1_000.0 }, ..Plan::new(PROXY, "/1k") };
    // The ports are free again when their TIME_WAIT are over, to be used up again while there is load.
    let after = TIME_WAIT + times.quiet;
    let used_up = || -> Result<bool> { Ok(ports_used(nginx.pid())? > USED_UP) };
    let night = times.night(&stage, nginx.pid(), after, used_up, || load(&stage, &plan, times))?;
    let expected = Expected { case: "E, ports", id: "port-range", remedy: "port" };
    night.check(&expected, times.interval, section)
}

/// Ports of a process's namespace that its connections to endpoints use, by the kernel's list of sockets.
fn ports_used(pid: u32) -> Result<usize> {
    let remote = format!(":{HTTP:04X}");
    let list = fs::read_to_string(format!("/proc/{pid}/net/tcp"))?;
    let is_outgoing =
        |line: &&str| line.split_whitespace().nth(2).is_some_and(|address| address.ends_with(&remote));
    Ok(list.lines().filter(is_outgoing).count())
}

/// Connections that were opened in a process's namespace.
fn opened(pid: u32) -> Result<u64> {
    Ok(Connections::read_of(&format!("/proc/{pid}"), HTTP)?.opened)
}

/// Whether a count has grown since the last look.
fn growing(count: impl Fn() -> Result<u64>) -> impl FnMut() -> Result<bool> {
    let mut last = None;
    move || {
        let now = count()?;
        Ok(last.replace(now).is_some_and(|last| now > last))
    }
}

/// Case E, Redis: bursts that spend the quota.
fn quota(times: Times, section: &mut Section) -> Result<()> {
    let period = Duration::from_millis(100);
    let limit = Duration::from_millis(10);
    let every = Duration::from_millis(430);
    let stage = Stage::set()?;
    let mut server = Server::start(&stage)?;
    let mut clients = Clients::connect(&stage, redis::at(DIRECT), limit)?;
    server.hold(limit, period)?;
    clients.grow(every, || Ok(server.throttling()?.throttled))?;
    let throttles = growing(|| Ok(server.throttling()?.throttled));
    let night = times.night(&stage, server.pid(), times.quiet, throttles, || {
        let end = Instant::now() + times.misfortune;
        clients.bursts(every, || Ok(Instant::now() > end)).map(|_| ())
    })?;
    let expected = Expected { case: "E, quota", id: "cpu-throttled", remedy: "largest burst" };
    night.check(&expected, times.interval, section)
}

/// Case B: a record of files that were captured on a node, in which the counters grow for two minutes of last
/// night as they grew between the two samples of the capture.
fn files_of_a_node(section: &mut Section) -> Result<()> {
    const EVERY: Duration = Duration::from_secs(10);
    const BAD: std::ops::Range<u32> = 30..42;
    let samples = doctor::collect::load(Path::new(CAPTURE))?;
    let (first, second) = samples.ends()?;
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let recorder = Recorder::open(&record, 1 << 20)?;
    let begin = SystemTime::now() - Duration::from_secs(8 * 3600);
    for number in 0..72 {
        let mut sample = if BAD.contains(&number) { second.clone() } else { first.clone() };
        for path in ["proc/net/netstat", "proc/net/snmp"] {
            let steps = number.clamp(BAD.start, BAD.end) - BAD.start;
            sample.put(path, Ok(grown(first.text(path)?, second.text(path)?, steps)));
        }
        sample.taken.seconds = f64::from(number) * EVERY.as_secs_f64();
        recorder.frame(&frame(&sample, begin + EVERY * number))?;
    }
    let night = Night { record, began: begin + EVERY * BAD.start, ended: begin + EVERY * BAD.end };
    let expected = Expected { case: "B", id: "syn-retry", remedy: "ipvs-reuse" };
    night.check(&expected, EVERY, section)
}

/// Counters that have grown so many times as they grew from the first text to the second.
fn grown(first: &str, second: &str, steps: u32) -> String {
    let word = |(before, after): (&str, &str)| match (before.parse::<i64>(), after.parse::<i64>()) {
        (Ok(before), Ok(after)) => (before + (after - before) * i64::from(steps)).to_string(),
        _ => before.to_owned(),
    };
    let line = |(before, after): (&str, &str)| {
        let words: Vec<_> = before.split(' ').zip(after.split(' ')).map(word).collect();
        words.join(" ") + "\n"
    };
    first.lines().zip(second.lines()).map(line).collect()
}

fn frame(sample: &Sample, at: SystemTime) -> Frame {
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let files =
        sample.files().map(|(path, content)| (path.to_owned(), content.clone().map_err(|_| Absent::Missing)));
    let origin = serde_json::to_string(&sample.taken).expect("numbers and names");
    Frame { at, finer: false, origin, files: files.collect() }
}

fn load(stage: &Stage, plan: &Plan, times: Times) -> Result<()> {
    let loaded = stage.load(&Plan { duration: times.misfortune, ..plan.clone() })?;
    ensure!(loaded.outcome.sent > 100, "there was no load: {loaded:?}");
    Ok(())
}

// === impl Times ===

impl Times {
    /// Records the process `pid` through a quiet time, the misfortune and another quiet time. `lasts` says at
    /// each look whether the misfortune does, by what the kernel counts.
    fn night(
        self,
        stage: &Stage,
        pid: u32,
        after: Duration,
        lasts: impl FnMut() -> Result<bool> + Send,
        misfortune: impl FnOnce() -> Result<()>,
    ) -> Result<Night> {
        let record = stage.folder.path().join("record");
        let mut command: Command = forebay()?;
        command.args(["record", "watch", "--pid", &pid.to_string(), "--output"]).arg(&record);
        command.args(["--interval", &format!("{}ms", self.interval.as_millis())]);
        let recorder = Program::start("recorder", command, stage.folder.path())?;
        let is_over = AtomicBool::new(false);
        let (played, seen) = thread::scope(|scope| {
            let watch = scope.spawn(|| first_and_last(lasts, &is_over));
            thread::sleep(self.quiet);
            let played = misfortune();
            thread::sleep(after);
            is_over.store(true, Relaxed);
            (played, watch.join())
        });
        played?;
        let seen = seen.map_err(|_| anyhow!("the watch panicked"))??;
        let (began, ended) = seen.context("the kernel has counted no misfortune")?;
        recorder.signal(Signal::TERM);
        let (status, output) = recorder.ending(LIMIT)?;
        ensure!(status.success(), "the recorder ended with {status}: {output}");
        Ok(Night { record, began, ended })
    }
}

/// When a misfortune was seen first and last.
fn first_and_last(
    mut lasts: impl FnMut() -> Result<bool>,
    is_over: &AtomicBool,
) -> Result<Option<(SystemTime, SystemTime)>> {
    let mut seen = None;
    while !is_over.load(Relaxed) {
        if lasts()? {
            let now = SystemTime::now();
            seen = Some((seen.map_or(now, |(first, _)| first), now));
        }
        thread::sleep(LOOK);
    }
    Ok(seen)
}

// === impl Night ===

impl Night {
    /// Checks the doctor's finding of the next morning: its times have to be within one sample of the truth.
    /// A busy machine is late with its samples, so that the longest time between two of them counts.
    fn check(&self, expected: &Expected, interval: Duration, section: &mut Section) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let told = self.judged(&folder)?;
        let findings = told["findings"].as_array().context("no findings")?;
        let found = findings.iter().find(|found| found["id"] == expected.id);
        let found = found.with_context(|| format!("case {}: no {}: {told:#}", expected.case, expected.id))?;
        let remedy = found["remedy"].as_str().unwrap_or_default();
        ensure!(remedy.contains(expected.remedy), "the remedy does not name {}: {found:#}", expected.remedy);
        ensure!(found["cause"] != "" && found["beganBefore"] == false, "{found:#}");
        let began = off(&found["began"], self.began)?;
        let ended = off(&found["ended"], self.ended)?;
        // A sample of which the misfortune takes a small part may not show it yet. A busy machine sends its
        // load with pauses, of which one at an end counts for much where the misfortune is short.
        let slack = self.longest_gap()? + if is_wished() { 1.5 } else { 4.0 };
        let is_near = |off: f64| (-slack..=slack).contains(&off);
        ensure!(
            is_near(began) && is_near(ended),
            "{found:#}\ncase {}: it began {began:.1} s and ended {ended:.1} s after the truth, at most {slack:.1} s are allowed",
            expected.case
        );
        let seconds = |seconds: f64| format!("{seconds:.1} s");
        section.row([
            expected.case.into(),
            format!("`{}`", expected.id),
            interval.as_secs().max(1).to_string(),
            seconds(self.ended.duration_since(self.began)?.as_secs_f64()),
            seconds(began),
            seconds(ended),
        ]);
        Ok(())
    }

    /// The longest time between two samples, in seconds.
    fn longest_gap(&self) -> Result<f64> {
        let record = Record::open(&self.record)?;
        let times: Vec<_> = record.frames(0..=u64::MAX).map(|frame| frame.at).collect();
        let gaps = times.windows(2).map(|pair| pair[1].abs_diff(pair[0]));
        Ok(gaps.max().context("a record without samples")? as f64 / 1000.0)
    }

    fn judged(&self, folder: &TempDir) -> Result<Value> {
        let mut command = forebay()?;
        command.args(["doctor", "--output", "json", "--record"]).arg(&self.record);
        let (status, output) = Program::start("doctor", command, folder.path())?.ending(LIMIT)?;
        ensure!(matches!(status.code(), Some(1 | 2)), "the doctor ended with {status}: {output}");
        serde_json::from_str(&output).with_context(|| output)
    }
}

/// Seconds from a moment to one that the doctor told.
fn off(told: &Value, truth: SystemTime) -> Result<f64> {
    let told: jiff::Timestamp = told.as_str().context("no time")?.parse()?;
    let truth = truth.duration_since(UNIX_EPOCH)?.as_secs_f64();
    Ok(told.as_millisecond() as f64 / 1000.0 - truth)
}
