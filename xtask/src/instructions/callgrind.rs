//! Valgrind's callgrind: switching it on and off in a running program, and reading what it counted.
//!
//! Must not be in here: what the program does meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// A program's own instructions by function, of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts(BTreeMap<String, u64>);

/// The callgrind that a program runs under.
pub(super) struct Callgrind {
    pid: u32,
    output: PathBuf,
}

/// Removes what an earlier run has left in `folder`: it would be counted once more.
pub(super) fn clear(folder: &Path) -> Result<()> {
    for file in fs::read_dir(folder)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with("callgrind.out") {
            fs::remove_file(file.path())?;
        }
    }
    Ok(())
}

/// The words that come before the program's own; what is counted goes into `folder`.
pub(super) fn command(folder: &Path) -> Vec<String> {
    let output = folder.join("callgrind.out");
    vec![
        "valgrind".into(),
        "--quiet".into(),
        "--tool=callgrind".into(),
        "--separate-threads=yes".into(),
        // Starting is not what is counted, and is ten times as quick without.
        "--instr-atstart=no".into(),
        // How many ticks fall into the requests depends on the machine's speed: collecting stops while one
        // runs.
        "--toggle-collect=proxy::listen::thread::tick*".into(),
        "--collect-atstart=yes".into(),
        format!("--callgrind-out-file={}", output.display()),
        format!("--vgdb-prefix={}", folder.join("vgdb").display()),
    ]
}

impl Callgrind {
    /// Of the program with this process id, which was started by [`command`] with this folder.
    pub(super) fn of(pid: u32, folder: &Path) -> Callgrind {
        Callgrind { pid, output: folder.join("callgrind.out") }
    }

    /// Counts from now on.
    pub(super) fn begin(&self) -> Result<()> {
        self.tell(&["instrumentation", "on"])
    }

    /// Forgets what was counted so far.
    pub(super) fn forget(&self) -> Result<()> {
        self.tell(&["zero"])
    }

    /// The counts of the threads that serve requests since then, divided by `requests`.
    pub(super) fn counts(&self, requests: u64) -> Result<Counts> {
        self.tell(&["dump"])?;
        let mut sum = Counts::default();
        for file in fs::read_dir(self.output.parent().context("the folder of the output")?)? {
            let path = file?.path();
            // The first dump has number 1, and each thread a number behind that.
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("callgrind.out.1-")) {
                let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                let thread = parse(&text).with_context(|| path.display().to_string())?;
                // The others look at the machine and at clients now and then, whether or not there are
                // requests.
                if thread.functions().iter().any(|(name, _)| is_of_requests(name)) {
                    thread.functions().into_iter().for_each(|(name, count)| sum.add(name, count));
                }
            }
        }
        ensure!(sum.total() > 0, "callgrind counted nothing");
        Ok(sum.divided_by(requests))
    }

    fn tell(&self, words: &[&str]) -> Result<()> {
        let prefix = self.output.with_file_name("vgdb");
        let output = Command::new("vgdb")
            .arg(format!("--pid={}", self.pid))
            .arg(format!("--vgdb-prefix={}", prefix.display()))
            .args(words)
            .output()?;
        if !output.status.success() {
            bail!("vgdb {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}

impl Counts {
    pub(super) fn add(&mut self, function: &str, instructions: u64) {
        *self.0.entry(function.to_owned()).or_default() += instructions;
    }

    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The dearest first.
    pub(super) fn functions(&self) -> Vec<(&str, u64)> {
        let mut functions: Vec<_> = self.0.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        functions.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        functions
    }

    /// Functions that need more than they did, and how much; those that grew most first.
    pub(super) fn grown_since(&self, before: &Counts) -> Vec<(&str, i64)> {
        let more =
            |name: &str, now: u64| now.cast_signed() - before.0.get(name).map_or(0, |n| n.cast_signed());
        let mut grown: Vec<_> = self.0.iter().map(|(name, now)| (name.as_str(), more(name, *now))).collect();
        grown.retain(|(_, more)| *more > 0);
        grown.sort_by_key(|(_, more)| std::cmp::Reverse(*more));
        grown
    }

    fn divided_by(mut self, requests: u64) -> Counts {
        for count in self.0.values_mut() {
            *count = (*count + requests / 2) / requests;
        }
        self.0.retain(|_, count| *count > 0);
        self
    }
}

/// Whether only a worker and the access log's writer run this function.
fn is_of_requests(function: &str) -> bool {
    ["proxy::io::socket::", "observe::log::"]
        .iter()
        .any(|module| function.trim_start_matches('<').starts_with(module))
}

/// Sums up each function's own cost. The format is in Valgrind's manual, "Callgrind Format Specification".
fn parse(text: &str) -> Result<Counts> {
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut counts = Counts::default();
    let mut function = String::new();
    let mut is_callee = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = named(name, &mut names);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            // The one that is called may be named here first.
            named(name, &mut names);
        } else if line.starts_with("calls=") {
            is_callee = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            // The line after a call has what is called with all below it, which is counted where it is.
            if !std::mem::take(&mut is_callee) {
                let cost = line.split_ascii_whitespace().nth(1).context("a line without a cost")?;
                counts.add(&function, cost.parse().with_context(|| line.to_owned())?);
            }
        }
    }
    Ok(counts)
}

/// A name is written once, with a number, and is the number later: `(12) name`, then `(12)`.
fn named<'a>(text: &'a str, names: &mut HashMap<&'a str, String>) -> String {
    let Some((number, name)) = text.split_once(')') else { return text.to_owned() };
    if !name.is_empty() {
        names.insert(number, without_hash(name.trim_start()));
    }
    names.get(number).cloned().unwrap_or_else(|| text.to_owned())
}

/// The compiler's hash at the end of a symbol changes with each build.
fn without_hash(symbol: &str) -> String {
    let is_hash = |hash: &str| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = symbol.rsplit_once("::h").filter(|(_, hash)| is_hash(hash)).map(|(name, _)| name);
    name.unwrap_or(symbol).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "version: 1\nevents: Ir\n\nfl=(1) a.rs\nfn=(1) a::serve::h0123456789abcdef\n10 5\n+2 7\n\
        cfn=(2) b::write\ncalls=3 20\n+1 400\n* 1\nfn=(2)\n20 300\n-4 100\nfn=(1)\n9 2\n\ntotals: 415\n";

    #[test]
    fn a_function_s_own_instructions_are_counted_and_those_of_calls_are_not() {
        let counts = parse(DUMP).expect("a dump");
        assert_eq!(counts.functions(), [("b::write", 400), ("a::serve", 15)]);
        assert_eq!(counts.total(), 415);
    }

    #[test]
    fn counts_are_of_one_request_and_rounded() {
        let counts = parse(DUMP).expect("a dump").divided_by(10);
        assert_eq!(counts.functions(), [("b::write", 40), ("a::serve", 2)]);
    }

    #[test]
    fn what_grew_most_comes_first_and_what_shrank_not_at_all() {
        let mut before = Counts::default();
        let mut now = Counts::default();
        for (name, then, today) in [("a", 10, 30), ("b", 10, 9), ("c", 0, 90), ("d", 5, 5)] {
            before.add(name, then);
            now.add(name, today);
        }
        assert_eq!(now.grown_since(&before), [("c", 90), ("a", 20)]);
    }
}
