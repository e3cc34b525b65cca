//! Flags of the flight recorder.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Where and how often `serve` records itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct RecordArgs {
    /// Folder for the flight recorder's record, which `forebay doctor --record` reads [default: none; the
    /// last hours are kept in memory].
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// Maximum size of that folder: the oldest part is removed.
    #[arg(long, value_name = "SIZE", value_parser = record_size, default_value = "64m")]
    pub(crate) record_size: u64,
    /// Time between two frames of the record.
    #[arg(long, value_name = "TIME", value_parser = record_interval, default_value = "10s")]
    pub(crate) record_interval: Duration,
}

fn record_size(text: &str) -> Result<u64, String> {
    let bytes = model::parse_size(text).map_err(|error| error.to_string())?;
    if bytes < ::record::SIZE_MIN {
        return Err(format!("{text:?} is too little for a record: at least {}m", ::record::SIZE_MIN >> 20));
    }
    Ok(bytes)
}

/// The least time between two frames: a frame takes some milliseconds of CPU time.
const INTERVAL_MIN: Duration = Duration::from_millis(500);

fn record_interval(text: &str) -> Result<Duration, String> {
    let interval = model::parse_duration(text).map_err(|error| error.to_string())?;
    if interval < INTERVAL_MIN {
        return Err(format!("{text:?} is too little: at least {} ms", INTERVAL_MIN.as_millis()));
    }
    Ok(interval)
}
