//! `forebay waf test`: gives recorded requests to rules of the firewall before an object has them.
//!
//! Requests are read by the proxy's own parser, and rules are compiled as an object's are.

mod har;
mod matched;
mod raw;
mod recorded;
mod show;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use ::waf::Connection;
use ::waf::settings::Mode;
use anyhow::{Context, bail, ensure};
use control::firewalls::Trial;
use model::RuleSet;

use crate::cli::{Engine, Expected, Output, WafCommand, WafTest};
use crate::{firewalls, output};
pub(crate) use matched::Matched;
use recorded::Recorded;
use show::{Judged, Tested};

/// Longest file of requests, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Folders of requests inside one another, from the first to the last.
const DEPTH_MAX: usize = 8;

/// The exit status says whether all requests got the expected verdict: 0 if so, 1 if not.
pub(crate) fn run(command: WafCommand) -> anyhow::Result<ExitCode> {
    let WafCommand::Test(options) = command;
    let rules = rules(&options)?;
    if rules.rules().settings().mode == Mode::Off {
        output::complain("SecRuleEngine is off, so that no rule runs; --engine on turns it on");
    }
    let mut files = Vec::new();
    for path in &options.requests {
        list(path, DEPTH_MAX, &mut files)?;
    }
    let mut requests = Vec::new();
    for file in &files {
        for recorded in read(file)? {
            requests.push(judge(&recorded, &rules, &options));
        }
    }
    ensure!(!requests.is_empty(), "there are no requests: folders are searched for *.http and *.har");
    let tested = Tested { requests };
    let text = match options.output {
        Output::Text => show::text(&tested, options.verbose),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(&tested)?),
    };
    output::print(&text)?;
    let is_expected = |judged: &Judged| judged.is_blocked() == (options.expect == Expected::Blocked);
    Ok(ExitCode::from(u8::from(!tested.requests.iter().all(is_expected))))
}

/// Compiles the rules that the command line names.
fn rules(options: &WafTest) -> anyhow::Result<RuleSet> {
    let mut rules = Vec::new();
    for path in [&options.rules].into_iter().chain(&options.further) {
        for file in rule_files(path)? {
            let text =
                fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            rules.push((file.display().to_string(), text));
        }
    }
    let trial = Trial {
        rules,
        default_settings: options.default_settings,
        core_rules: options.core_rules,
        paranoia_level: options.paranoia_level,
        mode: options.engine.map(|engine| match engine {
            Engine::On => Mode::On,
            Engine::DetectionOnly => Mode::DetectionOnly,
        }),
    };
    firewalls::load(&options.waf_rules)?.trial(&trial).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("the rules have faults:\n{}", lines.join("\n"))
    })
}

/// A file with rules, or the files *.conf of a folder in the order of their names.
fn rule_files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let files: Vec<_> = entries(path)?.into_iter().filter(|file| has_extension(file, &["conf"])).collect();
    ensure!(!files.is_empty(), "{}: there is no file *.conf", path.display());
    Ok(files)
}

/// Adds a file with requests, or those below a folder in the order of their names.
fn list(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in entries(path)? {
        if entry.is_dir() {
            ensure!(depth > 0, "{}: the folders are too deep", entry.display());
            list(&entry, depth - 1, files)?;
        } else if has_extension(&entry, &["http", "har"]) {
            files.push(entry);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read {}", folder.display());
    let found: Result<Vec<_>, _> =
        fs::read_dir(folder).with_context(cannot)?.map(|entry| Ok(entry?.path())).collect();
    let mut found = found.map_err(|error: std::io::Error| error).with_context(cannot)?;
    found.sort();
    Ok(found)
}

fn has_extension(file: &Path, wanted: &[&str]) -> bool {
    file.extension()
        .is_some_and(|extension| wanted.iter().any(|wanted| extension.eq_ignore_ascii_case(wanted)))
}

/// Reads the requests of a file: HAR by its extension or its first byte, messages of HTTP otherwise.
fn read(file: &Path) -> anyhow::Result<Vec<Recorded>> {
    let cannot = || format!("cannot read {}", file.display());
    let length = fs::metadata(file).with_context(cannot)?.len();
    if length > FILE_BYTES_MAX {
        bail!("{}: longer than {FILE_BYTES_MAX} bytes", file.display());
    }
    let bytes = fs::read(file).with_context(cannot)?;
    let name = file.display().to_string();
    let is_har = has_extension(file, &["har"]) || bytes.trim_ascii_start().starts_with(b"{");
    if is_har { har::read(&name, &bytes) } else { raw::read(&name, &bytes) }
}

fn judge(recorded: &Recorded, rules: &RuleSet, options: &WafTest) -> Judged {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let connection = Connection {
        client: SocketAddr::new(options.client_ip, 0),
        server: SocketAddr::new(options.client_ip, 80),
        unique_id: recorded.place.clone(),
        unix_time: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
        seed: 0,
    };
    let outcome =
        recorded.with_exchange(|exchange| exchange.play(rules.rules(), rules.collections(), connection));
    Judged::new(recorded, &outcome)
}
