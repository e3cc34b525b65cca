//! A sample: the contents of files of a machine at one moment, by path.
//!
//! Must not be in here: reading the files, or their meaning.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::str::FromStr;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::sockets::SocketGroup;
use crate::text::{Text, say};

/// The files that were read at one moment. Paths have no leading slash.
///
/// Besides files of `/proc` and `/sys` there are some that no kernel has, in JSON but for the first:
///
/// | path | what |
/// |---|---|
/// | `forebay/metrics` | the proxy's metrics, as Prometheus text |
/// | `forebay/sockets.json` | [`crate::SocketGroup`]s of the network namespace |
/// | `forebay/ticks.json` | [`crate::Ticks`], in the last sample only |
/// | `forebay/udp-sockets.json` | UDP sockets without a peer: address, bytes that wait, datagrams dropped |
/// | `forebay/tunnel-ends.json` | [`crate::TunnelEnd`]s: where the tunnels of this network namespace lead to |
/// | `host/...` | files of the host's network namespace, where it is another |
/// | `host/sysctl.conf` | parameters to compare with, as `sysctl -a` prints them |
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The time of the sample, and what was examined.
    pub taken: SampleOrigin,
    files: BTreeMap<String, Result<String, Absence>>,
    /// The sockets, once they are parsed: many checks want them.
    sockets: OnceLock<Result<Vec<SocketGroup>, Unknown>>,
}

/// The time of a sample, and what was examined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampleOrigin {
    /// Seconds since the first sample.
    pub seconds: f64,
    /// The named process and its descendants; if none was named, the processes that listen on TCP ports in
    /// this network namespace.
    pub pids: Vec<u32>,
    /// The named process; none if none was named.
    pub pid: Option<u32>,
    /// The owner of the network namespace.
    pub namespace: NamespaceOwner,
    /// The time of the sample whose list of TCP sockets this one repeats; none if it has a list of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listed_seconds: Option<f64>,
}

impl SampleOrigin {
    /// When the TCP sockets were listed, in seconds since the first sample.
    pub(crate) fn listed(&self) -> f64 {
        self.listed_seconds.unwrap_or(self.seconds)
    }
}

/// The owner of a network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceOwner {
    /// It is not known: the namespace of the machine's first process cannot be read, or the first process is
    /// not visible.
    #[default]
    Unknown,
    /// The host: it is the namespace of the machine's first process.
    Host,
    /// It is another namespace, such as that of a Pod.
    Other,
}

/// Why a sample does not hold a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Absence {
    /// The machine does not have the file.
    Missing,
    /// The file could not be read; the text is the error.
    Unreadable(String),
}

/// Reasons of this program in [`Absence::Unreadable`]; an error follows those that end with a space.
pub(crate) const PERMISSION_DENIED: &str = "permission denied";
pub(crate) const NO_HOST_IN_CONTAINER: &str = "a container's view has no host in it";
pub(crate) const HOST_HIDDEN: &str = "the host's network namespace cannot be seen: ";
pub(crate) const HOST_CLOSED: &str = "the host's network namespace: ";

/// Why a check could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unknown(pub(crate) Text);

impl Sample {
    /// The content of a file.
    ///
    /// # Errors
    ///
    /// When the machine does not have the file, it could not be read, or it was not captured. The error says
    /// which.
    pub fn text(&self, path: &str) -> Result<&str, Unknown> {
        match self.files.get(path) {
            Some(Ok(text)) => Ok(text),
            Some(Err(Absence::Missing)) => Err(Unknown(say!("there is no /{}", path))),
            Some(Err(Absence::Unreadable(why))) if is_kernels(path) => {
                Err(Unknown(say!("/{}: {}", path, recorded(why))))
            }
            Some(Err(Absence::Unreadable(why))) => Err(Unknown(recorded(why))),
            None => Err(Unknown(say!("/{} was not captured", path))),
        }
    }

    /// The number in a file that holds only a number.
    ///
    /// # Errors
    ///
    /// The same as those of [`text`](Self::text), and when the file does not hold such a number.
    pub fn number<T: FromStr>(&self, path: &str) -> Result<T, Unknown> {
        let text = self.text(path)?.trim();
        text.parse().map_err(|_| Unknown(say!("/{} holds {}, which is no number", path, format!("{text:?}"))))
    }

    /// The content of a JSON file.
    ///
    /// # Errors
    ///
    /// The same as those of [`text`](Self::text), and when the file cannot be parsed.
    pub fn json<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Unknown> {
        serde_json::from_str(self.text(path)?)
            .map_err(|error| Unknown(say!("{}: {}", path, error.to_string())))
    }

    /// Whether the machine does not have this file, so that the feature behind it is not in use.
    pub fn lacks(&self, path: &str) -> bool {
        self.files.get(path) == Some(&Err(Absence::Missing))
    }

    /// The files with this prefix that were read, with their content.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let from = self.files.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(move |(path, _)| path.starts_with(prefix))
            .filter_map(|(path, text)| Some((path.as_str(), text.as_ref().ok()?.as_str())))
    }

    /// The places at which a file about a network namespace may be: the path itself, and the path below
    /// `host/` if the examined namespace may not be that of the host.
    pub(crate) fn places(&self, path: &str) -> &'static [&'static str] {
        let may_be_another =
            self.taken.namespace == NamespaceOwner::Other || self.files.contains_key(&format!("host/{path}"));
        if may_be_another { &["", "host/"] } else { &[""] }
    }

    /// Adds a file, or why it could not be read.
    pub fn put(&mut self, path: impl Into<String>, content: Result<String, Absence>) {
        self.files.insert(path.into(), content);
        self.sockets = OnceLock::new();
    }

    /// The sockets, which `parse` reads out of this sample if no check has asked for them before.
    pub(crate) fn sockets(
        &self,
        parse: fn(&Sample) -> Result<Vec<SocketGroup>, Unknown>,
    ) -> &Result<Vec<SocketGroup>, Unknown> {
        self.sockets.get_or_init(|| parse(self))
    }

    /// All files that were to be read.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Result<String, Absence>)> {
        self.files.iter().map(|(path, content)| (path.as_str(), content))
    }
}

/// Why a file could not be read, as a sample holds it: what this program says itself can be translated, the
/// operating system's errors stay as they are.
fn recorded(why: &str) -> Text {
    if why == PERMISSION_DENIED {
        return say!("permission denied");
    }
    if why == NO_HOST_IN_CONTAINER {
        return say!("a container's view has no host in it");
    }
    if let Some(error) = why.strip_prefix(HOST_HIDDEN) {
        return say!("the host's network namespace cannot be seen: {}", error);
    }
    if let Some(error) = why.strip_prefix(HOST_CLOSED) {
        return say!("the host's network namespace: {}", error);
    }
    Text::from(why)
}

/// Whether the file is one of the kernel's.
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
    fn reasons_of_this_program_are_told_in_chinese() {
        let mut sample = Sample::default();
        let hidden = |why: &str| Err(Absence::Unreadable(why.into()));
        sample.put("proc/a", hidden(PERMISSION_DENIED));
        sample.put("host/a", hidden(NO_HOST_IN_CONTAINER));
        sample.put("host/b", hidden(&format!("{HOST_HIDDEN}/proc/1/ns/net: EIO")));
        sample.put("host/c", hidden(&format!("{HOST_CLOSED}EPERM")));
        sample.put("host/d", hidden("EIO"));
        for (path, english, chinese) in [
            ("proc/a", "/proc/a: permission denied", "/proc/a：权限不足"),
            ("host/a", "a container's view has no host in it", "从容器内看不到宿主机"),
            (
                "host/b",
                "the host's network namespace cannot be seen: /proc/1/ns/net: EIO",
                "看不到宿主机的网络命名空间：/proc/1/ns/net: EIO",
            ),
            ("host/c", "the host's network namespace: EPERM", "宿主机的网络命名空间：EPERM"),
            ("host/d", "EIO", "EIO"),
        ] {
            let Unknown(why) = sample.text(path).unwrap_err();
            assert_eq!((why.english(), why.chinese()), (english.to_owned(), chinese.to_owned()));
        }
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
