//! A request that another replica sends for what has its home here.

use std::sync::Arc;

use super::mark::{part, parts};
use crate::cache::Labels;

/// What a home is told about a request beside its head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ask<'a> {
    /// Host and path by which the route is found.
    pub(crate) host: &'a [u8],
    pub(crate) path: &'a [u8],
    /// The identity of the cluster whose endpoints are asked.
    pub(crate) cluster: &'a [u8],
    /// By what the response can be purged: the URL that the client has asked for, which may be another than the endpoint's.
    pub(crate) labels: &'a [u8],
    /// The key of the object.
    pub(crate) key: &'a [u8],
}

/// Such a request, once it is known to be one.
pub(crate) struct Guest {
    /// The key of the object, as the other replica has found it.
    pub(crate) key: Box<[u8]>,
    pub(crate) labels: Labels,
    /// The namespace of the object that asked for the route.
    pub(crate) namespace: Arc<str>,
}

impl<'a> Ask<'a> {
    /// As it stands in a mark.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for one in [self.host, self.path, self.cluster, self.labels, self.key] {
            part(one, &mut out);
        }
        out
    }

    pub(crate) fn read(said: &'a [u8]) -> Option<Self> {
        let [host, path, cluster, labels, key] = parts(said)?.try_into().ok()?;
        Some(Self { host, path, cluster, labels, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let ask = Ask {
            host: b"web.test",
            path: b"/a",
            cluster: b"default/web:80",
            labels: b"",
            key: b"\x00key\xff",
        };
        let said = ask.write();
        assert_eq!(Ask::read(&said), Some(ask));
        for len in 0..said.len() {
            assert_eq!(Ask::read(&said[..len]), None);
        }
        assert_eq!(Ask::read(&[&said[..], &[0, 0, 0, 0]].concat()), None);
    }
}
