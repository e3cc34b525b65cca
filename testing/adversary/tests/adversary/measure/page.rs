//! The figures: printed, and put into docs/figures.md where that is wished.

use std::path::Path;
use std::{fs, thread};

use adversary::kernel::Drops;
use anyhow::{Context, Result};

use super::stage::Others;
use crate::options::Arguments;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures.md");
const BEGIN: &str = "<!-- adversary: begin (written by `cargo xtask adversary --measure --write`) -->";
const END: &str = "<!-- adversary: end -->";

/// Limits that each attack has to keep.
const RATIO_MAX: f64 = 3.0;
const GROWTH_MIB_MAX: f64 = 64.0;
/// Memory that may remain in use: the allocator returns pages when it likes.
const LEFT_MIB_MAX: f64 = 16.0;

/// Results of an attack.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) quiet: Others,
    pub(super) attacked: Others,
    /// Microseconds a request.
    pub(super) quiet_cpu: f64,
    pub(super) attacked_cpu: f64,
    pub(super) quiet_kib: u64,
    pub(super) peak_kib: u64,
    pub(super) after_kib: u64,
    pub(super) drops: Drops,
    pub(super) connections: u64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.attacked.p99 / self.quiet.p99.max(1.0)
    }

    fn is_met(&self) -> bool {
        let growth = |kib: u64| kib.saturating_sub(self.quiet_kib) as f64 / 1024.0;
        self.attacked.failed == 0
            && self.ratio() <= RATIO_MAX
            && growth(self.peak_kib) <= GROWTH_MIB_MAX
            && growth(self.after_kib) <= LEFT_MIB_MAX
    }

    pub(super) fn in_words(&self) -> String {
        let cells = self.cells();
        let pairs = HEADINGS.iter().zip(&cells).skip(1).map(|(heading, cell)| format!("{heading} {cell}"));
        format!("{}: {}", self.name, pairs.collect::<Vec<_>>().join(", "))
    }

    fn cells(&self) -> [String; HEADINGS.len()] {
        let mib = |kib: u64| format!("{:.0}", kib as f64 / 1024.0);
        let Self { quiet, attacked, drops, .. } = self;
        [
            self.name.to_owned(),
            self.connections.to_string(),
            attacked.failed.to_string(),
            format!("{:.0}/{:.0}", quiet.p50, attacked.p50),
            format!("{:.0}/{:.0}", quiet.p99, attacked.p99),
            format!("{:.1}", self.ratio()),
            format!("{:.1}", attacked.max / 1000.0),
            format!("{:.1}/{:.1}", self.quiet_cpu, self.attacked_cpu),
            format!("{}/{}/{}", mib(self.quiet_kib), mib(self.peak_kib), mib(self.after_kib)),
            format!("{}/{}/{}", drops.overflows, drops.drops, drops.syn_retransmits),
            if self.is_met() { "met" } else { "NOT MET" }.to_owned(),
        ]
    }
}

const HEADINGS: [&str; 11] = [
    "attack",
    "connections made",
    "failed",
    "p50 us quiet/attacked",
    "p99 us quiet/attacked",
    "ratio",
    "max ms",
    "CPU us/request quiet/attacked",
    "MiB quiet/peak/10 s after",
    "queue overflows/drops/SYNs sent again",
    "goals",
];

/// A Markdown table, and where it comes from.
pub(super) fn table(rows: &[Row], arguments: &Arguments) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let headings = HEADINGS.map(str::to_owned);
    let body: String = rows.iter().map(|row| line(&row.cells())).collect();
    let only: Vec<&str> = arguments.only.iter().flat_map(|name| ["--only", name]).collect();
    let command = format!("cargo xtask adversary --measure --rate {} {}", arguments.rate, only.join(" "));
    format!(
        "{}|{}\n{body}\n- `{}`; {}\n",
        line(&headings),
        "---|".repeat(HEADINGS.len()),
        command.trim(),
        machine()
    )
}

/// Puts the table between the page's markers.
pub(super) fn write(table: &str) -> Result<()> {
    let path = Path::new(PAGE);
    let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.with_context(|| format!("{} lacks the line {BEGIN}", path.display()))?;
    fs::write(path, format!("{before}{BEGIN}\n\n{table}\n{END}{after}")).context("cannot write the page")
}

/// CPU and kernel, in a few words.
fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown CPU");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}, {cpus} CPUs for everything, Linux {}",
        model.trim_start_matches([' ', '\t', ':']),
        kernel.trim()
    )
}
