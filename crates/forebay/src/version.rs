//! The version of this binary, and the commit that it was built from.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::output::{Output, print};

/// Version of the release.
pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");
/// The commit, with `-modified` where files differed from it. `make dist` and `make image` set it. Other
/// builds leave it out, since they would otherwise compile this crate again for each commit.
pub(crate) const COMMIT: Option<&str> = option_env!("FOREBAY_BUILD");

/// Options of `forebay version`.
#[derive(Args, Debug)]
pub(crate) struct Version {
    /// How it is printed.
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    output: Output,
}

pub(crate) fn run(options: &Version) -> anyhow::Result<ExitCode> {
    print(match options.output {
        Output::Text => format!("{}\n", line(COMMIT)),
        Output::Json => format!("{:#}\n", json!({ "version": RELEASE, "commit": COMMIT })),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn line(commit: Option<&str>) -> String {
    match commit {
        Some(commit) => format!("forebay {RELEASE} (commit {commit})"),
        None => {
            format!("forebay {RELEASE} (built without its commit; `make dist` and `make image` record it)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_named_where_the_build_recorded_it() {
        assert_eq!(line(Some("abc123")), format!("forebay {RELEASE} (commit abc123)"));
        assert!(line(None).contains("built without its commit"));
    }
}
