//! The command line of `forebay top`.

use std::time::Duration;

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Admin server of the Forebay that is shown: its URL, or its address.
    #[arg(long, value_name = "URL|ADDRESS", default_value = "http://127.0.0.1:10254")]
    pub(crate) admin: String,
    #[command(flatten)]
    pub(crate) watching: Watching,
}

/// How a Forebay is watched.
#[derive(Args, Debug)]
pub(crate) struct Watching {
    /// Time between two looks, from 1s to 10s.
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    pub(crate) interval: Duration,
    /// Print what there is, and end; so it is where standard output is no terminal.
    #[arg(long)]
    pub(crate) once: bool,
}

/// Forebay measures once a second, and no longer than for ten seconds after it was asked last.
fn interval(text: &str) -> Result<Duration, String> {
    match model::parse_duration(text) {
        Ok(time) if (1..=10).contains(&time.as_secs()) && time <= Duration::from_secs(10) => Ok(time),
        _ => Err("a time from 1s to 10s is wanted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_one_at_which_there_are_rates() {
        assert_eq!(interval("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("2500ms"), Ok(Duration::from_millis(2500)));
        for wrong in ["", "0", "999ms", "10001ms", "1h", "-1s", "soon"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
