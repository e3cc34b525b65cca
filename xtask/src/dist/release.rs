//! A release, in the words of its labels: version, revision, time, source.
//!
//! Must not be in here: the time of day, which would make each build another one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::child::{output, root};

/// The version, commit and time that all files of a release share.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    /// The workspace's folder.
    pub(crate) root: PathBuf,
    /// The version of the workspace.
    pub(crate) version: String,
    /// The commit, with `-modified` where files differ from it; `None` outside of a clone.
    pub(crate) revision: Option<String>,
    /// Seconds since 1970: `SOURCE_DATE_EPOCH`, or the commit's time.
    pub(crate) time: u64,
    /// Where the source is; `None` if nobody said so.
    pub(crate) source: Option<String>,
}

impl Release {
    /// Asks git, and the environment.
    pub(crate) fn find(source: Option<&str>) -> Result<Release> {
        let root = root();
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text.parse().with_context(|| format!("SOURCE_DATE_EPOCH={text} is not a number"))?,
            Err(_) => git(root, &["log", "-1", "--format=%ct"])
                .and_then(|text| Ok(text.parse()?))
                .context("set SOURCE_DATE_EPOCH where there is no clone whose last commit says the time")?,
        };
        Ok(Release {
            root: root.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            revision: revision(root).ok(),
            time,
            source: source.map(String::from),
        })
    }

    /// The time as images and bills of materials have it (RFC 3339).
    pub(crate) fn timestamp(&self) -> Result<String> {
        let second = i64::try_from(self.time)?;
        Ok(jiff::Timestamp::from_second(second)?.to_string())
    }

    /// One of nobody, for tests.
    #[cfg(test)]
    pub(crate) fn of_tests() -> Release {
        Release {
            root: root().into(),
            version: "1.2.3".into(),
            revision: Some("abc".into()),
            time: 1_700_000_000,
            source: Some("https://example.com/forebay".into()),
        }
    }
}

fn revision(root: &Path) -> Result<String> {
    let commit = git(root, &["rev-parse", "HEAD"])?;
    let is_clean = git(root, &["status", "--porcelain"])?.is_empty();
    Ok(if is_clean { commit } else { commit + "-modified" })
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    Ok(output(Command::new("git").current_dir(root).args(arguments))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date() {
        let at = |time| Release { time, ..Release::of_tests() }.timestamp();
        assert_eq!(at(1_700_000_000).unwrap(), "2023-11-14T22:13:20Z");
        assert!(at(u64::MAX).is_err());
    }
}
