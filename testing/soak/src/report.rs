//! The report: faults as they are found, a line each minute, and at the end a text and JSON.
//!
//! Must not be in here: what is a fault.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::lock::locked;

/// Faults that are kept with their text; all are counted.
const FAULTS_KEPT: usize = 200;
/// Faults that are printed.
const FAULTS_PRINTED: usize = 20;

/// The faults so far, and where the report goes.
#[derive(Debug)]
pub(crate) struct Report {
    begun: Instant,
    seed: u64,
    folder: PathBuf,
    faults: Mutex<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    count: u64,
    kept: Vec<(Duration, String)>,
}

impl Report {
    pub(crate) fn new(seed: u64, folder: &Path) -> Report {
        Report { begun: Instant::now(), seed, folder: folder.into(), faults: Mutex::default() }
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The folder with all that remains of the run.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes a fault, and prints it.
    pub(crate) fn fault(&self, what: impl Into<String>) {
        let (what, at) = (what.into(), self.elapsed());
        let mut faults = locked(&self.faults);
        faults.count += 1;
        if faults.kept.len() < FAULTS_PRINTED {
            println!("{} FAULT (seed {}): {what}", moment(at), self.seed);
        }
        if faults.kept.len() < FAULTS_KEPT {
            faults.kept.push((at, what));
        }
    }

    /// The number of faults so far.
    pub(crate) fn fault_count(&self) -> u64 {
        locked(&self.faults).count
    }

    /// Prints a line with the time since the start.
    pub(crate) fn say(&self, line: &str) {
        println!("{} {line}", moment(self.elapsed()));
    }

    /// Writes `report.json` and `report.txt`, of which the latter is printed too.
    pub(crate) fn write(&self, mut figures: Value, lines: &[String]) -> Result<()> {
        let faults = locked(&self.faults);
        let listed = faults.kept.iter().map(|(at, what)| json!({"at": moment(*at), "what": what}));
        figures["seed"] = self.seed.into();
        figures["seconds"] = self.elapsed().as_secs().into();
        figures["faults"] = faults.count.into();
        figures["first_faults"] = listed.collect();
        let mut text = lines.join("\n");
        match faults.kept.first() {
            None => text.push_str("\nno fault"),
            Some((at, what)) => {
                let Report { seed, .. } = self;
                let _ = write!(
                    text,
                    "\n{} faults; the first one with seed {seed}, {} after the start: {what}",
                    faults.count,
                    moment(*at)
                );
            }
        }
        for (name, content) in
            [("report.json", format!("{figures:#}\n")), ("report.txt", format!("{text}\n"))]
        {
            let path = self.folder.join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        println!("{text}");
        Ok(())
    }
}

/// Hours, minutes and seconds, as the log of the proxy has them beside its own clock.
pub(crate) fn moment(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}.{}", seconds / 3600, seconds / 60 % 60, seconds % 60, time.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fault_is_told_with_its_seed_and_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let report = Report::new(7, folder.path());
        report.fault("one");
        report.fault("two");
        report.write(json!({}), &["head".to_owned()]).expect("a folder");
        let text = fs::read_to_string(folder.path().join("report.txt")).expect("it is there");
        assert!(text.starts_with("head\n2 faults; the first one with seed 7, 0:0"), "{text}");
        assert!(text.contains(" after the start: one\n"), "{text}");
        let json = fs::read_to_string(folder.path().join("report.json")).expect("it is there");
        let json: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((json["faults"].as_u64(), json["seed"].as_u64()), (Some(2), Some(7)));
        assert_eq!(moment(Duration::from_millis(3_723_900)), "1:02:03.9");
    }
}
