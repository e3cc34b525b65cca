//! `cargo xtask recorder`: what the flight recorder costs with thousands of Ingresses: CPU time and bytes of
//! a frame, and the memory of the process.
//!
//! The interval is short, so that there are many frames in a minute; the goal is about one each ten seconds.
//! The memory of the recorder is the difference to a process that takes two frames only, in the pages of the
//! allocator with memory in use: resident memory has free pages too, and when they are given back is chance.
//! Two processes that do the same differ by some pages all the same, so that pairs of them are compared.
//! Must not be in here: the form of a record.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use record::Record;
use testkit::manifest::{Ingress, service};
use testkit::{Canned, Connection};

use crate::ask;
use crate::child::{Program, free_address};
use crate::interrupt::Interrupt;
use crate::machine;
use crate::proxies::forebay_of;

/// The `ConfigMap` with settings of the proxy.
const SETTINGS: &str = "default/settings";
const PATIENCE: Duration = Duration::from_mins(2);
const INTERVAL: Duration = Duration::from_millis(500);
/// The interval of a process without frames: it takes its first two, and no more.
const NEVER: Duration = Duration::from_hours(24);
/// The interval that users have.
const USUAL: Duration = Duration::from_secs(10);
const ALL: RangeInclusive<u64> = 0..=u64::MAX;

/// The metric with the pages in which something is in use.
const ACTIVE: &str = "forebay_memory_active_bytes";
/// Pairs of processes, with frames and without, whose memory is compared.
const PAIRS: usize = 3;

/// Goals: the share of a CPU, the days that fit in the default size, and the megabytes of memory.
const SHARE_MAX: f64 = 0.001;
const DAYS_MIN: f64 = 7.0;
const SIZE: f64 = 64.0 * 1024.0 * 1024.0;
const MEGABYTES_MAX: f64 = 10.0;
/// Bytes of a full record in memory.
const BYTES_OF_RING: f64 = 5.0 * 1_048_576.0;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Profile of the binary.
    #[arg(long, default_value = "release")]
    profile: String,
    /// A binary instead of that of a profile.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Ingresses, each with a host, a Service and an endpoint of its own.
    #[arg(long, default_value_t = 5_000)]
    ingresses: u16,
    /// Time of the measurement in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Requests between two looks, a hundred milliseconds apart, each to another host.
    #[arg(long, default_value_t = 20)]
    requests: u16,
    /// Also measure the recorder's memory, in pairs of processes, each for as long.
    #[arg(long)]
    memory: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => forebay_of(&arguments.profile)?,
    };
    let interrupt = Interrupt::install()?;
    let measured = play(arguments, &binary, INTERVAL, &interrupt)?;
    let mut more = Vec::new();
    if arguments.memory {
        for pair in 0..PAIRS {
            let with = if pair == 0 {
                measured.active
            } else {
                play(arguments, &binary, INTERVAL, &interrupt)?.active
            };
            more.push(with - play(arguments, &binary, NEVER, &interrupt)?.active);
        }
    }
    Ok(measured.told(more, arguments))
}

/// Starts a binary, has it serve each host, and measures it for a time.
fn play(arguments: &Arguments, binary: &Path, interval: Duration, interrupt: &Interrupt) -> Result<Measured> {
    let upstream = Canned::saying_at(IpAddr::V4(Ipv4Addr::UNSPECIFIED), "ok");
    let folder = tempfile::tempdir()?;
    let (manifests, record) = (folder.path().join("manifests"), folder.path().join("record"));
    fs::create_dir(&manifests)?;
    fs::write(manifests.join("all.yaml"), objects(arguments.ingresses, upstream.address().port()))?;
    let [http, admin] = [free_address()?, free_address()?];
    let mut command = Command::new(binary);
    command.args(["serve", "--https-port", "0", "--http-port", &http.port().to_string()]);
    command.args(["--healthz-port", &admin.port().to_string(), "--configmap", SETTINGS]);
    command.arg("--manifests").arg(manifests);
    command.arg("--record").arg(&record).arg(format!("--record-interval={}ms", interval.as_millis()));
    let program = Program::start("forebay", command, &[], folder.path())?;
    interrupt.await_that(PATIENCE, "Forebay to be ready", || Ok(ask::get(admin, "/readyz").is_ok()))?;
    let mut clients = Connection::to(http);
    for number in 0..arguments.ingresses {
        interrupt.check()?;
        request(&mut clients, number);
    }
    let measured = measure(arguments, &program, &record, http, interrupt)?;
    let active = ask::metric(admin, ACTIVE)?.with_context(|| format!("no {ACTIVE} in the metrics"))?;
    let measured = Measured { active, ..measured };
    program.interrupted(interrupt)?;
    measured.with_record(&record)
}

/// Resources that the recorder's thread used, and its record.
struct Measured {
    frames: u64,
    cpu: Duration,
    resident: u64,
    /// Bytes of the allocator's pages in which something is in use.
    active: f64,
    sockets: usize,
    bytes_of_frame: f64,
    text_of_frame: usize,
}

fn measure(
    arguments: &Arguments,
    program: &Program,
    record: &Path,
    http: SocketAddr,
    interrupt: &Interrupt,
) -> Result<Measured> {
    let frames = || -> Result<u64> { Ok(Record::open(record)?.count()) };
    let schedstat = schedstat_of(program.pid(), "recorder")?;
    let (before, cpu_before) = (frames()?, cpu_time(&schedstat)?);
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut client = Connection::to(http);
    let mut number = 0_u16;
    while Instant::now() < end {
        interrupt.check()?;
        for _ in 0..arguments.requests {
            number = (number + 7) % arguments.ingresses;
            request(&mut client, number);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let cpu = cpu_time(&schedstat)?.saturating_sub(cpu_before);
    let frames = frames()?.saturating_sub(before);
    let resident = program.resident_bytes()?;
    let sockets = fs::read_to_string("/proc/net/tcp")?.lines().count()
        + fs::read_to_string("/proc/net/tcp6").unwrap_or_default().lines().count();
    Ok(Measured { frames, cpu, resident, active: 0.0, sockets, bytes_of_frame: 0.0, text_of_frame: 0 })
}

impl Measured {
    /// With what the record in a folder says, which is whole.
    fn with_record(self, folder: &Path) -> Result<Measured> {
        let record = Record::open(folder)?;
        let bytes = fs::read_dir(folder)?
            .try_fold(0, |sum, entry| -> Result<u64> { Ok(sum + entry?.metadata()?.len()) })?;
        let text_of_frame = record.frames(ALL).last().map_or(0, |frame| {
            frame.files.values().map(|content| content.as_ref().map_or(0, String::len)).sum()
        });
        Ok(Measured { bytes_of_frame: bytes as f64 / record.count().max(1) as f64, text_of_frame, ..self })
    }

    /// Prints the figures; `more` has the bytes that a process with frames uses more than one without, for
    /// each pair.
    fn told(&self, mut more: Vec<f64>, arguments: &Arguments) -> ExitCode {
        let cpu = self.cpu / u32::try_from(self.frames.max(1)).unwrap_or(u32::MAX);
        let share = cpu.as_secs_f64() / USUAL.as_secs_f64();
        let days = SIZE / self.bytes_of_frame * USUAL.as_secs_f64() / 86_400.0;
        let Measured { frames, sockets, text_of_frame, bytes_of_frame, .. } = self;
        println!("{} Ingresses, {frames} frames; {}", arguments.ingresses, machine::describe());
        println!("{sockets} TCP sockets in this network namespace");
        let megabytes = self.resident as f64 / 1e6;
        println!("a frame: {text_of_frame} bytes of text; the process: {megabytes:.1} MB");
        let mut goals = vec![
            (
                format!("{cpu:.1?} of CPU time a frame, {:.3} % of a CPU; at most 0.1 %", share * 100.0),
                *frames > 0 && share <= SHARE_MAX,
            ),
            (
                format!("{bytes_of_frame:.0} bytes a frame, {days:.1} days in 64 MiB; at least {DAYS_MIN}"),
                days >= DAYS_MIN,
            ),
        ];
        more.sort_by(f64::total_cmp);
        if let Some(median) = more.get(more.len() / 2) {
            let all = (median + BYTES_OF_RING) / 1e6;
            let pairs: Vec<_> = more.iter().map(|bytes| format!("{:.1}", bytes / 1e6)).collect();
            goals.push((
                format!(
                    "{:.1} MB in use more than without frames (pairs: {}); {all:.1} MB with a full record in \
                     memory; at most {MEGABYTES_MAX} MB",
                    median / 1e6,
                    pairs.join(", ")
                ),
                all <= MEGABYTES_MAX,
            ));
        }
        let is_met = goals.iter().all(|(_, holds)| *holds);
        for (what, holds) in goals {
            println!("{} {what}", if holds { "met:   " } else { "missed:" });
        }
        if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// The file with the CPU time of a thread.
fn schedstat_of(pid: u32, name: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = entry?.path();
        if fs::read_to_string(task.join("comm"))?.trim_end() == name {
            return Ok(task.join("schedstat"));
        }
    }
    anyhow::bail!("process {pid} has no thread {name}")
}

fn cpu_time(schedstat: &Path) -> Result<Duration> {
    let text = fs::read_to_string(schedstat)?;
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Ok(Duration::from_nanos(nanoseconds.context("no time in schedstat")?))
}

fn host(number: u16) -> String {
    format!("many-{number}.test")
}

fn request(client: &mut Connection, number: u16) {
    client.ask(&format!("GET /a/b HTTP/1.1\r\nHost: {}\r\n\r\n", host(number)));
}

/// Ingresses, with Services whose endpoints are loopback addresses of the same server.
fn objects(ingresses: u16, port: u16) -> String {
    // A client goes on with its connection.
    let (namespace, name) = SETTINGS.split_once('/').unwrap_or_default();
    let mut text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: {namespace}, name: {name}}}\n\
         data: {{keep-alive-requests: \"1000000\"}}\n---\n"
    );
    for number in 0..ingresses {
        let name = format!("web-{number}");
        let [high, low] = number.to_be_bytes();
        let endpoint = SocketAddr::from(([127, 1, high, low], port));
        text += &Ingress::new(&format!("many-{number}")).path(&host(number), "Prefix", "/", &name).document();
        text += "---\n";
        text += &service(&name, &[endpoint]);
        text += "---\n";
    }
    text
}
