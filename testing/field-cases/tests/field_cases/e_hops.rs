//! Case E, the static server once more: a compressor in front of a cache in front of a file server, and
//! Forebay as all three. What counts is how many requests the CPU time of all programs in the row is enough
//! for.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use bench::generator::{Pace, Plan};
use lab::Program;
use testkit::manifest::{Ingress, service};

use crate::page::{Section, is_wished};
use crate::stage::{HOST, HTTP, Hop, PROXY, Stage, backends};

const WHAT: &str = "A page of 16 KB that clients want in gzip, asked for at a fixed rate by 32 clients with keep-alive. Three nginx in a row \
compress (gzip 1), cache and serve the file: first as they are by default, with a connection for each request between them, and then with \
`keepalive`. Forebay caches and compresses (gzip 1) in front of the same file server, and serves the file itself. CPU time is that of all \
programs in the row, but for the clients.";
const HEADINGS: &[&str] =
    &["", "programs", "requests", "CPU s", "requests per CPU second", "of nginx with `keepalive`"];
const CLIENTS: usize = 32;
/// Where the cache is, in the namespace of the compressor.
const CACHE: u16 = 81;
const REUSE: &str = "proxy_http_version 1.1; proxy_set_header Connection \"\";";
const FILES: &str = "root {site}; open_file_cache max=100; add_header Cache-Control max-age=60;";
const FILE: &str = "/page.html";
const FILE_BYTES_MIN: usize = 16 << 10;
/// The goal of the issue about three hops.
const GOAL: f64 = 3.0;

/// Results of a chain of programs.
struct Row {
    name: &'static str,
    programs: usize,
    requests: u64,
    cpu: Duration,
}

pub(crate) fn run() -> Result<Section> {
    let mut rows = Vec::new();
    for (name, keeps) in [("nginx, nginx, nginx", false), ("nginx, nginx, nginx, with `keepalive`", true)] {
        let stage = stage()?;
        let programs = three_hops(&stage, keeps)?;
        rows.push(measure(&stage, name, &programs.iter().collect::<Vec<_>>())?);
    }
    {
        let stage = stage()?;
        let files = file_server(&stage)?;
        let ingress = compressing(Ingress::new("web")).annotation("forebay.io/cache", "true");
        let manifests = ingress.document() + &service("web", &backends().take(1).collect::<Vec<_>>());
        let forebay = stage.forebay_with(&manifests, &["--cache-memory=64m"])?;
        rows.push(measure(&stage, "Forebay, nginx", &[forebay.program(), &files])?);
    }
    let stage = stage()?;
    let ingress = compressing(Ingress::new("web")).annotation("forebay.io/files", "site");
    let root = format!("--files-root={}", stage.folder.path().display());
    let forebay = stage.forebay_with(&ingress.document(), &[&root])?;
    rows.push(measure(&stage, "Forebay with the files", &[forebay.program()])?);
    Ok(section(&rows))
}

/// A stage with the file.
fn stage() -> Result<Stage> {
    let stage = Stage::set()?;
    let site = stage.folder.path().join("site");
    fs::create_dir(&site)?;
    fs::write(site.join(FILE.trim_start_matches('/')), page())?;
    Ok(stage)
}

/// Text that gzip makes a fraction of, as pages are.
fn page() -> String {
    let mut page = String::from("<!DOCTYPE html>\n<title>A catalogue</title>\n<ul>\n");
    for number in 1_u32.. {
        if page.len() >= FILE_BYTES_MIN {
            break;
        }
        let price = number.wrapping_mul(2_654_435_761) >> 18;
        let _ =
            writeln!(page, "<li class=\"item\"><a href=\"/items/{number}\">Item {number}</a>, {price}</li>");
    }
    page
}

fn compressing(ingress: Ingress) -> Ingress {
    ingress.path(HOST, "Prefix", "/", "web").annotation("forebay.io/compression", "gzip:1")
}

fn file_server(stage: &Stage) -> Result<Program> {
    let site = stage.folder.path().join("site").display().to_string();
    let location = FILES.replace("{site}", &site);
    stage.hop(&stage.backend, Hop { name: "files", port: HTTP, http: "", location: &location })
}

/// The compressor in front of the cache in front of the file server.
fn three_hops(stage: &Stage, keeps: bool) -> Result<[Program; 3]> {
    let (keepalive, reuse) = if keeps { ("keepalive 64;", REUSE) } else { ("", "") };
    let files = file_server(stage)?;
    let file_server = backends().next().expect("the backend has addresses");
    let folder = stage.folder.path().join("cache");
    let store = format!(
        "proxy_cache_path {} keys_zone=kept:10m; upstream next {{ server {file_server}; {keepalive} }}",
        folder.display()
    );
    let location = format!("proxy_pass http://next; proxy_cache kept; {reuse}");
    let cache = Hop { name: "cache", port: CACHE, http: &store, location: &location };
    let cache = stage.hop(&stage.proxy, cache)?;
    let gzip =
        format!("gzip on; gzip_proxied any; upstream next {{ server 127.0.0.1:{CACHE}; {keepalive} }}");
    let location = format!("proxy_pass http://next; {reuse}");
    let compressor = Hop { name: "compressor", port: HTTP, http: &gzip, location: &location };
    Ok([stage.hop(&stage.proxy, compressor)?, cache, files])
}

fn measure(stage: &Stage, name: &'static str, programs: &[&Program]) -> Result<Row> {
    let cpu = || programs.iter().map(|program| program.cpu_time()).sum::<Result<Duration>>();
    let (rate_per_second, duration) = if is_wished() { (2_000.0, 5_000) } else { (400.0, 500) };
    let plan = Plan {
        connections: CLIENTS,
        headers: vec![("Accept-Encoding".into(), "gzip".into())],
        pace: Pace::Open { rate_per_second },
        duration: Duration::from_millis(duration),
        ..Plan::new(PROXY, FILE)
    };
    stage.load(&Plan { duration: Duration::from_millis(300), ..plan.clone() })?.all_answered()?;
    let before = cpu()?;
    let loaded = stage.load(&plan)?;
    let cpu = cpu()?.saturating_sub(before);
    loaded.all_answered()?;
    let requests = loaded.outcome.answered;
    let sent = loaded.outcome.body_bytes / requests.max(1);
    ensure!(sent < FILE_BYTES_MIN as u64 / 2, "{name}: {sent} bytes are no gzip of the page");
    ensure!(!cpu.is_zero(), "{name}: no CPU time was counted");
    Ok(Row { name, programs: programs.len(), requests, cpu })
}

fn section(rows: &[Row]) -> Section {
    let mut section = Section::new(WHAT, HEADINGS);
    let base = rows[1].per_cpu_second();
    for row in rows {
        let per_second = row.per_cpu_second();
        section.row([
            row.name.into(),
            row.programs.to_string(),
            row.requests.to_string(),
            format!("{:.2}", row.cpu.as_secs_f64()),
            format!("{per_second:.0}"),
            format!("{:.2}", per_second / base),
        ]);
    }
    // Machines differ: a missed goal is reported, and is no failure. A short run of any build cannot decide
    // about it.
    for row in rows[2..].iter().filter(|_| is_wished()) {
        let verdict = if row.per_cpu_second() >= GOAL * base { "met" } else { "not met" };
        let than = "times the requests per CPU second of nginx with `keepalive`";
        section.note(format!("{}: at least {GOAL:.0} {than}: {verdict}", row.name));
    }
    section
}

impl Row {
    fn per_cpu_second(&self) -> f64 {
        self.requests as f64 / self.cpu.as_secs_f64()
    }
}
