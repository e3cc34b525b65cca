//! Measurements at intervals: memory, descriptors and threads of the process, and the p99 of a calm host.
//!
//! Memory is measured twice. Pages with memory in use tell a leak: caches and rings with a bound stop growing
//! in the part of a life that is left out. What is resident also has free pages that the allocator keeps,
//! which follow the load of the last minutes: so it may differ more.
//!
//! Must not be in here: slopes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Pid;
use serde_json::{Map, Value};

use crate::disturb::open_descriptors;
use crate::slope::{Point, Slope};

/// The series, and the share of its median by which each may grow without being a fault.
const SERIES: [Series; 5] = [
    Series { name: "active, KiB", growth_max: 0.02 },
    Series { name: "resident, KiB", growth_max: 0.10 },
    Series { name: "descriptors", growth_max: 0.10 },
    Series { name: "threads", growth_max: 0.02 },
    Series { name: LATENCY, growth_max: 0.25 },
];
const LATENCY: &str = "p99, ms";

#[derive(Clone, Copy, Debug)]
struct Series {
    name: &'static str,
    growth_max: f64,
}

/// All samples, by series and process. A file has them too, for those who want to judge them otherwise.
#[derive(Debug)]
pub(crate) struct Samples {
    all: BTreeMap<(&'static str, i32), Vec<Point>>,
    file: File,
}

impl Samples {
    /// Without a sample yet. They are also written into `samples.csv` of a folder.
    pub(crate) fn new(folder: &Path) -> Result<Samples> {
        let path = folder.join("samples.csv");
        let mut file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let names = SERIES.map(|series| series.name.replace(", ", " in "));
        writeln!(file, "seconds,process,{}", names.join(","))?;
        Ok(Samples { all: BTreeMap::new(), file })
    }

    /// Samples a process. Its pages with memory in use, in KiB, it tells itself.
    pub(crate) fn take(
        &mut self,
        at: Duration,
        pid: Pid,
        active: Option<f64>,
        p99: Option<f64>,
    ) -> Result<()> {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))?;
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            let value = value.and_then(|value| value.trim().trim_end_matches(" kB").parse::<f64>().ok());
            value.with_context(|| format!("no {name}"))
        };
        let resident = Some(field("RssAnon:")?);
        let descriptors = Some(open_descriptors(pid)? as f64);
        let values = [active, resident, descriptors, Some(field("Threads:")?), p99];
        for (series, value) in SERIES.iter().zip(values) {
            if let Some(value) = value {
                let life = self.all.entry((series.name, pid.as_raw_nonzero().get())).or_default();
                life.push(Point { at: at.as_secs_f64(), value });
            }
        }
        let cells = values.map(|value| value.map(|value| format!("{value:.1}")).unwrap_or_default());
        writeln!(self.file, "{:.1},{},{}", at.as_secs_f64(), pid.as_raw_nonzero(), cells.join(","))?;
        Ok(())
    }

    /// The slopes of all series behind the first part of each life: a line for the report, JSON, and what
    /// grows.
    pub(crate) fn slopes(&self, warm_up: Duration) -> Slopes {
        let mut slopes = Slopes::default();
        for series in SERIES {
            let lives = self.all.iter().filter(|((name, _), _)| *name == series.name).map(|(_, life)| {
                let begun = life.first().map_or(0.0, |point| point.at) + warm_up.as_secs_f64();
                life.iter().filter(|point| point.at >= begun).copied().collect::<Vec<_>>()
            });
            let lives: Vec<Vec<Point>> = lives.collect();
            let Some(slope) = Slope::of(&lives) else {
                let line = format!("{}: too few samples for a slope", series.name);
                if series.name != LATENCY {
                    slopes.missing.push(line.clone());
                }
                slopes.lines.push(line);
                continue;
            };
            let Slope { an_hour, low, high, median, noise, samples, hours, .. } = slope;
            let line = format!(
                "{}: median {median:.1}, noise {noise:.1}, slope {an_hour:+.2} an hour ({low:+.2} to \
                 {high:+.2} with 99 %), {samples} values of lives of up to {hours:.2} hours",
                series.name
            );
            if slope.grows(series.growth_max) {
                slopes.faults.push(format!("{line}: it grows"));
            }
            slopes.lines.push(line);
            slopes.json.insert(series.name.to_owned(), slope.to_json());
        }
        slopes
    }

    /// The last sample of each series, for the line of a minute.
    pub(crate) fn last(&self, pid: Pid) -> String {
        let last = |series: &Series| {
            let life = self.all.get(&(series.name, pid.as_raw_nonzero().get()))?;
            Some(format!("{} {:.0}", series.name, life.last()?.value))
        };
        SERIES.iter().filter_map(last).collect::<Vec<_>>().join(", ")
    }
}

/// The verdict on all slopes.
#[derive(Debug, Default)]
pub(crate) struct Slopes {
    pub(crate) lines: Vec<String>,
    pub(crate) json: Map<String, Value>,
    pub(crate) faults: Vec<String>,
    /// Series without a slope, which is a fault in a run that is long enough for one. That of the p99 is
    /// none: a slow machine has few answers.
    pub(crate) missing: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_sampled_and_its_first_part_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut samples = Samples::new(folder.path()).expect("a file");
        let own = rustix::process::getpid();
        for second in 0..60 {
            let active = Some(4096.0).filter(|_| second % 2 == 0);
            samples.take(Duration::from_secs(second), own, active, Some(5.0)).expect("this process");
        }
        assert!(samples.last(own).contains("p99, ms 5"), "{}", samples.last(own));
        let slopes = samples.slopes(Duration::from_secs(20));
        let has = |line: usize, text| slopes.lines[line].contains(text);
        assert!(has(0, "active, KiB: median 4096.0") && has(0, "20 values"), "{slopes:?}");
        assert!(has(4, "median 5.0") && has(4, "40 values"), "{slopes:?}");
        assert!(slopes.faults.iter().all(|fault| !fault.contains("p99")), "{slopes:?}");
        let short = samples.slopes(Duration::from_secs(50));
        assert!(short.lines[4].contains("too few"), "{short:?}");
        assert_eq!((slopes.missing.len(), short.missing.len()), (0, SERIES.len() - 1));
        let written = fs::read_to_string(folder.path().join("samples.csv")).expect("it is there");
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!((lines.len(), lines[0].split(',').nth(6)), (61, Some("p99 in ms")));
        assert!(lines[1].starts_with("0.0,") && lines[1].ends_with(",5.0"), "{}", lines[1]);
        assert!(lines[1].contains(",4096.0,") && lines[2].contains(",,"), "{}", lines[2]);
    }
}
