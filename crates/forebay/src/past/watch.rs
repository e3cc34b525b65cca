//! `forebay record watch`: records a process that is not Forebay, as `serve` records itself.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use clap::Args;
use doctor::Sample;
use doctor::collect::{CollectError, Scope, Watch};
use record::{Event, Recorder, kind};
use tokio::signal::unix::{SignalKind, signal};

use crate::doctor::metrics_of;
use crate::output;
use crate::recorder::frame_of;

/// The shortest time between two samples: each takes some 20 ms of CPU time.
const INTERVAL_MIN: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(super) struct RecordWatch {
    /// Process that is recorded, with its descendants and its network namespace.
    #[arg(long, value_name = "PID")]
    pid: u32,
    /// Folder of the record; made where it is missing.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Size of the record, from which on its oldest part is deleted.
    #[arg(long, value_name = "SIZE", value_parser = model::parse_size, default_value = "64m")]
    size: u64,
    /// Time between two samples.
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "10s")]
    interval: Duration,
    /// End after this time [default: when the process ends, or this is interrupted].
    #[arg(long = "for", value_name = "TIME", value_parser = model::parse_duration)]
    duration: Option<Duration>,
    /// Also record the cgroups of all Pods of this node.
    #[arg(long)]
    pods: bool,
    /// The proxy's metrics, of Forebay or ingress-nginx; read from where the process is.
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
}

fn interval(text: &str) -> Result<Duration, String> {
    match model::parse_duration(text) {
        Ok(time) if time >= INTERVAL_MIN => Ok(time),
        _ => Err("a time of 500ms or more is wanted".to_owned()),
    }
}

/// Records until somebody interrupts it, its time is over, or the process has ended.
pub(super) fn run(options: &RecordWatch) -> anyhow::Result<ExitCode> {
    let recorder = Recorder::open(&options.output, options.size).context("cannot record")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let samples = runtime.block_on(record(options, &recorder))?;
    let folder = options.output.display();
    output::print(format!("{folder}: {samples} samples; judge it with: forebay doctor --record {folder}\n"))?;
    Ok(ExitCode::SUCCESS)
}

async fn record(options: &RecordWatch, recorder: &Recorder) -> anyhow::Result<u64> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let begun = Instant::now();
    let object = format!("process {}", options.pid);
    note(recorder, kind::START, &object, "is recorded from now on")?;
    let mut samples = 0;
    loop {
        let left = options.duration.map(|all| all.saturating_sub(begun.elapsed()));
        let wait = left.map_or(options.interval, |left| left.min(options.interval));
        let watch = match Watch::start(scope(options)) {
            Ok(watch) => watch,
            Err(CollectError::NoProcess(_)) if samples > 0 => {
                note(recorder, kind::STOP, &object, "has ended")?;
                return Ok(samples);
            }
            Err(error) => return Err(error.into()),
        };
        let first = Moment::now(begun);
        let is_over = tokio::select! {
            () = tokio::time::sleep(wait) => left.is_some_and(|left| left <= options.interval),
            _ = interrupt.recv() => true,
            _ = terminate.recv() => true,
        };
        let watched = watch.finish().all;
        let last = Moment::now(begun);
        ensure!(watched.len() == 2, "the process could not be watched");
        // The first sample of a watch is the last one of the watch before.
        let taken = watched.into_iter().zip([first, last]).skip(usize::from(samples > 0));
        for (sample, moment) in taken {
            keep(recorder, sample, moment)?;
            samples += 1;
        }
        if is_over {
            return Ok(samples);
        }
    }
}

/// When a sample was taken.
#[derive(Clone, Copy)]
struct Moment {
    /// Seconds since the recording began.
    seconds: f64,
    /// Milliseconds since 1970.
    at_ms: u64,
}

impl Moment {
    fn now(begun: Instant) -> Moment {
        Moment { seconds: begun.elapsed().as_secs_f64(), at_ms: now_ms() }
    }
}

fn keep(recorder: &Recorder, mut sample: Sample, moment: Moment) -> anyhow::Result<()> {
    sample.taken.seconds = moment.seconds;
    recorder.frame(&frame_of(&sample, moment.at_ms, false)).context("cannot record")
}

fn scope(options: &RecordWatch) -> Scope {
    Scope {
        pid: Some(options.pid),
        pods: options.pods,
        reference: None,
        metrics: options.metrics.clone().map(metrics_of),
    }
}

fn note(recorder: &Recorder, kind: &str, object: &str, text: &str) -> anyhow::Result<()> {
    let event =
        Event { at: now_ms(), kind: kind.to_owned(), object: object.to_owned(), text: text.to_owned() };
    recorder.event(&event).context("cannot record")
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
