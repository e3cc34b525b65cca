//! A request from another replica for an object whose home is here.

use std::sync::Arc;

use super::mark::{part, parts};
use crate::store::Labels;

/// Value of the header by which a home reports that it is up, but has no response.
pub(crate) const NO_ANSWER: &[u8] = b"none";

/// Everything that a home needs for a request beside its head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PeerFetch<'a> {
    /// Host and path by which the route is found.
    pub(crate) host: &'a [u8],
    pub(crate) path: &'a [u8],
    /// The identity of the cluster whose endpoints serve the request.
    pub(crate) cluster: &'a [u8],
    /// Labels by which the response can be purged: the URL of the client's request, which may differ from
    /// the endpoint's.
    pub(crate) labels: &'a [u8],
    /// The key of the object.
    pub(crate) key: &'a [u8],
}

/// A request of another replica, after its mark has been verified.
pub(crate) struct PeerRequest {
    /// The key of the object, computed by the other replica.
    pub(crate) key: Box<[u8]>,
    pub(crate) labels: Labels,
    /// The namespace of the object that asked for the route.
    pub(crate) namespace: Arc<str>,
}

impl<'a> PeerFetch<'a> {
    /// The encoding in a mark.
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
        let ask = PeerFetch {
            host: b"web.test",
            path: b"/a",
            cluster: b"default/web:80",
            labels: b"",
            key: b"\x00key\xff",
        };
        let said = ask.write();
        assert_eq!(PeerFetch::read(&said), Some(ask));
        for len in 0..said.len() {
            assert_eq!(PeerFetch::read(&said[..len]), None);
        }
        assert_eq!(PeerFetch::read(&[&said[..], &[0, 0, 0, 0]].concat()), None);
    }
}
