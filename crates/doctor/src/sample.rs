//! What was read of a machine at one moment: the contents of files, by path.
//!
//! Must not be in here: reading them, or what is in them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What was read at one moment. Paths have no leading slash.
///
/// Besides files of `/proc` and `/sys` there are some that no kernel has, in JSON but for the first:
///
/// | path | what |
/// |---|---|
/// | `forebay/metrics` | the proxy's metrics, as Prometheus text |
/// | `forebay/sockets.json` | [`crate::SocketGroup`]s of the network namespace |
/// | `forebay/ticks.json` | [`crate::Ticks`], in the last sample only |
/// | `forebay/tunnel-ends.json` | [`crate::TunnelEnd`]s: where the tunnels of this network namespace lead to |
/// | `host/...` | files of the host's network namespace, where it is another |
/// | `host/sysctl.conf` | parameters to compare with, as `sysctl -a` prints them |
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// When and of what.
    pub taken: Taken,
    files: BTreeMap<String, Result<String, Absence>>,
}

/// When a sample was taken, and of what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Taken {
    /// Since the first sample.
    pub seconds: f64,
    /// The process that was asked about, and its descendants; without one, the processes that listen on TCP ports in this
    /// network namespace.
    pub pids: Vec<u32>,
    /// The process that was asked about.
    pub pid: Option<u32>,
    /// Whose network namespace it was.
    pub namespace: NamespaceOwner,
}

/// Whose a network namespace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceOwner {
    /// It cannot be told: the first process of the machine hides its own, or there is no host in sight.
    #[default]
    Unknown,
    /// The host's, which its first process is in.
    Host,
    /// Another, such as a Pod's.
    Other,
}

/// Why a file is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Absence {
    /// The machine has no such file.
    Missing,
    /// It could not be read, because.
    Unreadable(String),
}

/// Why a check could not look.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(pub String);

impl Sample {
    /// A file's text.
    ///
    /// # Errors
    ///
    /// When the machine does not have the file, it could not be read, or it was not captured. The text says which.
    pub fn text(&self, path: &str) -> Result<&str, Unknown> {
        match self.files.get(path) {
            Some(Ok(text)) => Ok(text),
            Some(Err(Absence::Missing)) => Err(Unknown(format!("there is no /{path}"))),
            Some(Err(Absence::Unreadable(why))) if is_kernels(path) => {
                Err(Unknown(format!("/{path}: {why}")))
            }
            Some(Err(Absence::Unreadable(why))) => Err(Unknown(why.clone())),
            None => Err(Unknown(format!("/{path} was not captured"))),
        }
    }

    /// The number that a file consists of.
    ///
    /// # Errors
    ///
    /// As [`text`](Self::text), and when the file holds something else.
    pub fn number<T: FromStr>(&self, path: &str) -> Result<T, Unknown> {
        let text = self.text(path)?.trim();
        text.parse().map_err(|_| Unknown(format!("/{path} holds {text:?}, which is no number")))
    }

    /// A file in JSON.
    ///
    /// # Errors
    ///
    /// As [`text`](Self::text), and when the file holds something else.
    pub fn json<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Unknown> {
        serde_json::from_str(self.text(path)?).map_err(|error| Unknown(format!("{path}: {error}")))
    }

    /// Whether the machine was asked for the file, and has none: what it tells about is not in use.
    pub fn lacks(&self, path: &str) -> bool {
        self.files.get(path) == Some(&Err(Absence::Missing))
    }

    /// The files that were read whose path begins so, with their text.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let from = self.files.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(move |(path, _)| path.starts_with(prefix))
            .filter_map(|(path, text)| Some((path.as_str(), text.as_ref().ok()?.as_str())))
    }

    /// Where a file about a network namespace may be: as it is, and below `host/` where the namespace that is looked at is
    /// another than the host's, or may be.
    pub(crate) fn places(&self, path: &str) -> &'static [&'static str] {
        let may_be_another =
            self.taken.namespace == NamespaceOwner::Other || self.files.contains_key(&format!("host/{path}"));
        if may_be_another { &["", "host/"] } else { &[""] }
    }

    /// Adds a file, or why there is none.
    pub fn put(&mut self, path: impl Into<String>, content: Result<String, Absence>) {
        self.files.insert(path.into(), content);
    }

    /// All files that were asked for.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Result<String, Absence>)> {
        self.files.iter().map(|(path, content)| (path.as_str(), content))
    }
}

/// Whether a path names a file for those who look for it.
fn is_kernels(path: &str) -> bool {
    path.starts_with("proc/") || path.starts_with("sys/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_says_why() {
        let mut sample = Sample::default();
        sample.put("a", Err(Absence::Missing));
        sample.put("proc/b", Err(Absence::Unreadable("permission denied".into())));
        sample.put("host/b", Err(Absence::Unreadable("no host here".into())));
        sample.put("c", Ok("x".into()));
        let why = |path| sample.text(path).map_err(|unknown| unknown.to_string());
        assert_eq!(why("a"), Err("there is no /a".into()));
        assert_eq!(why("proc/b"), Err("/proc/b: permission denied".into()));
        assert_eq!(why("host/b"), Err("no host here".into()));
        assert_eq!(why("d"), Err("/d was not captured".into()));
        assert_eq!((sample.lacks("a"), sample.lacks("proc/b"), sample.lacks("d")), (true, false, false));
        assert!(sample.number::<u64>("c").is_err_and(|unknown| unknown.to_string().contains("no number")));
    }

    #[test]
    fn files_are_found_by_their_folder() {
        let mut sample = Sample::default();
        for path in ["a/x", "a/y", "ab"] {
            sample.put(path, Ok(String::new()));
        }
        assert_eq!(sample.under("a/").map(|(path, _)| path).collect::<Vec<_>>(), ["a/x", "a/y"]);
    }
}
