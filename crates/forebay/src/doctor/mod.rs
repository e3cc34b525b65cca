//! `forebay doctor`: finds what costs QPS. What is read and how it is judged is in the crate `doctor`.
#![expect(clippy::doc_markdown, reason = "doc comments are help texts, in which backticks would be printed")]

mod exit;
pub(crate) mod serving;
pub(crate) mod show;

use std::fs::{self, File};
use std::io::{BufWriter, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use doctor::collect::{self, Metrics, Scope, Watch};
use doctor::{Finding, Samples, Verdict};
use serde::Serialize;

use crate::bench::metrics;
use crate::language::Language;
use crate::output::{self, Format};
use crate::past::{self, Past};
pub(crate) use exit::exit_code;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Doctor {
    #[command(subcommand)]
    command: Option<DoctorCommand>,
    #[command(flatten)]
    looking: Looking,
    /// Examine what was captured elsewhere: a file of `capture`, or a folder with a machine's proc and sys.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["watch", "pid", "pods", "metrics"])]
    root: Option<PathBuf>,
    #[command(flatten)]
    past: Past,
    /// Form of the output.
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value_t = Format::Text)]
    output: Format,
    /// Language of the text [default: that of LC_ALL, LC_MESSAGES or LANG if it is Chinese, else English].
    /// JSON has both.
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    lang: Option<Language>,
}

#[derive(Debug, Subcommand)]
enum DoctorCommand {
    /// Write what the checks read into a tar, to be judged on another machine with --root: files of /proc and
    /// /sys and a summary of sockets; no environment, no command lines.
    Capture {
        /// The tar to write.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        looking: Looking,
    },
    /// Compare two times of what was recorded: checks that differ, and the figures that changed most. Exit
    /// status: 0 the second time has no worse finding, 1 warnings, 2 failures.
    #[command(
        after_help = "Examples:\n  forebay doctor diff --a -24h..-23h --b -1h..now\n  forebay doctor diff before.record after.record"
    )]
    Diff(past::Diff),
}

/// Options that select the subject.
#[derive(Args, Debug)]
struct Looking {
    /// How long to watch: many checks compare two samples.
    #[arg(long, value_name = "TIME", value_parser = model::parse_duration, default_value = "5s")]
    watch: Duration,
    /// A process, such as the proxy's; its descendants and its network namespace are examined. Without this,
    /// what listens in the present namespace.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Also examine the cgroups of all Pods of this node.
    #[arg(long)]
    pods: bool,
    /// The proxy's metrics, of Forebay or ingress-nginx, such as http://127.0.0.1:10254/metrics; read from
    /// where the process is.
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// Kernel parameters to compare with instead of the host's, as `sysctl -a` prints them on the machine
    /// that a service came from.
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
}

pub(crate) fn run(options: Doctor) -> anyhow::Result<ExitCode> {
    let language = Language::chosen(options.lang);
    if let Some(DoctorCommand::Diff(options)) = &options.command {
        return past::run_diff(options);
    }
    if options.past.is_asked() {
        return judge_past(&options, language);
    }
    if let Some(DoctorCommand::Capture { file, looking }) = options.command {
        let samples = looking.watch(language)?;
        let write = || collect::write(&samples, BufWriter::new(File::create(&file)?));
        write().with_context(|| format!("cannot write {}", file.display()))?;
        let file = file.display();
        output::print(match language {
            Language::En => format!("{file}: judge it with: forebay doctor --root {file}\n"),
            Language::Zh => format!("{file}：用这条命令评判：forebay doctor --root {file}\n"),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let samples = match &options.root {
        Some(root) => options.looking.with_reference(collect::load(root)?)?,
        None => options.looking.watch(language)?,
    };
    let findings = doctor::examine(&samples);
    let text = match options.output {
        Format::Text => show::text(&findings, language, show::has_colour()),
        Format::Json => json(&findings),
    };
    output::print(&text)?;
    Ok(exit_code(worst(&findings)))
}

/// Judges what was recorded.
fn judge_past(options: &Doctor, language: Language) -> anyhow::Result<ExitCode> {
    let Doctor { past, looking, root, .. } = options;
    let is_of_present = root.is_some() || looking.pid.is_some() || looking.pods || looking.metrics.is_some();
    ensure!(!is_of_present, "--since, --until and --record are not for --root, --pid, --pods and --metrics");
    let asked = past.asked()?;
    let told = past::judge(&asked.open()?, asked.range);
    let text = match options.output {
        Format::Text => past::text(&told, &past.manner(language)),
        Format::Json => serde_json::to_string_pretty(&told)? + "\n",
    };
    output::print(&text)?;
    Ok(exit_code(past::exit_verdict(&told, past.all)))
}

/// All findings as one JSON object.
pub(crate) fn json(findings: &[Finding]) -> String {
    #[derive(Serialize)]
    struct Page<'a> {
        findings: &'a [Finding],
    }
    serde_json::to_string_pretty(&Page { findings }).expect("text and numbers") + "\n"
}

/// The worst verdict; unknown where there is none.
pub(crate) fn worst<Name>(findings: &[Finding<Name>]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Unknown)
}

/// A function that fetches a page of metrics.
pub(crate) fn metrics_of(url: String) -> Metrics {
    Box::new(move || metrics::fetch(&url).map_err(|error| format!("{error:#}")))
}

impl Looking {
    fn watch(&self, language: Language) -> anyhow::Result<Samples> {
        let scope = Scope {
            pid: self.pid,
            pods: self.pods,
            reference: self.reference()?,
            metrics: self.metrics.clone().map(metrics_of),
        };
        if std::io::stderr().is_terminal() {
            let seconds = self.watch.as_secs_f64();
            match language {
                Language::En => eprintln!("watching for {seconds} s"),
                Language::Zh => eprintln!("观察 {seconds} s"),
            }
        }
        Ok(Watch::over(scope, self.watch)?)
    }

    fn reference(&self) -> anyhow::Result<Option<String>> {
        let read = |file: &PathBuf| {
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
        };
        self.reference.as_ref().map(read).transpose()
    }

    /// The captured samples, with the kernel parameters that were given now for comparison.
    fn with_reference(&self, mut samples: Samples) -> anyhow::Result<Samples> {
        if let Some(reference) = self.reference()? {
            for sample in &mut samples.all {
                sample.put("host/sysctl.conf", Ok(reference.clone()));
            }
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use observe::{Kind, METRICS};

    /// A renamed metric would silently leave the checks that read it without data.
    #[test]
    fn what_checks_read_is_what_the_proxy_shows() {
        for name in doctor::METRICS_READ {
            let of_histogram = name.strip_suffix("_bucket").or(name.strip_suffix("_count"));
            let is_shown = METRICS.iter().any(|metric| match metric.kind {
                Kind::Histogram | Kind::Summary => of_histogram == Some(metric.name),
                Kind::Counter | Kind::Gauge => metric.name == *name,
            });
            assert!(is_shown, "{name}");
        }
    }
}
