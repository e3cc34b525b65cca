//! The parts of the mixture, of which a run may have some only: so the cause of what a whole run shows is
//! narrowed down.
//!
//! Must not be in here: what a part does.

use anyhow::{Result, bail};

use crate::ask::Wire;

/// A part of the mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Web clients over HTTP/1, in the clear and over TLS.
    Http1,
    Http2,
    Http3,
    /// Tunnels of `WebSockets`.
    Tunnels,
    /// Streams of gRPC.
    Grpc,
    /// The TCP service.
    Tcp,
    /// The UDP service.
    Udp,
    /// Clients that misbehave.
    Rude,
    /// Changes of the configuration.
    Changes,
    /// Endpoints that come and go.
    Endpoints,
    /// Outages, shortages, kills and restarts.
    Disturbances,
}

/// All parts, by name.
const ALL: [(&str, Part); 11] = [
    ("http1", Part::Http1),
    ("http2", Part::Http2),
    ("http3", Part::Http3),
    ("tunnels", Part::Tunnels),
    ("grpc", Part::Grpc),
    ("tcp", Part::Tcp),
    ("udp", Part::Udp),
    ("rude", Part::Rude),
    ("changes", Part::Changes),
    ("endpoints", Part::Endpoints),
    ("disturbances", Part::Disturbances),
];

/// The parts of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts(Vec<Part>);

impl Default for Parts {
    fn default() -> Self {
        Self(ALL.iter().map(|(_, part)| *part).collect())
    }
}

impl Parts {
    /// The parts of a list such as `http1,changes`.
    pub(crate) fn parse(list: &str) -> Result<Parts> {
        let part = |name: &str| match ALL.iter().find(|(known, _)| *known == name) {
            Some((_, part)) => Ok(*part),
            None => bail!("--parts knows {}, not {name:?}", ALL.map(|(known, _)| known).join(", ")),
        };
        list.split(',').map(part).collect::<Result<_>>().map(Parts)
    }

    /// Without what a quiet run does not have.
    pub(crate) fn undisturbed(mut self) -> Parts {
        self.0.retain(|part| !matches!(part, Part::Rude | Part::Disturbances));
        self
    }

    pub(crate) fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }

    /// Whether web clients of this protocol are among them.
    pub(crate) fn has_wire(&self, wire: Wire) -> bool {
        self.has(match wire {
            Wire::Http1 | Wire::Http1Tls => Part::Http1,
            Wire::Http2 | Wire::Http2Tls => Part::Http2,
            Wire::Http3 => Part::Http3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_what_it_names_and_no_list_has_everything() {
        let parts = Parts::parse("http2,changes").expect("no mistake");
        assert!(parts.has(Part::Changes) && parts.has_wire(Wire::Http2Tls));
        assert!(!parts.has(Part::Rude) && !parts.has_wire(Wire::Http3));
        assert!(ALL.iter().all(|(_, part)| Parts::default().has(*part)));
        let quiet = Parts::default().undisturbed();
        assert!(quiet.has(Part::Endpoints) && !quiet.has(Part::Rude) && !quiet.has(Part::Disturbances));
    }

    #[test]
    fn an_unknown_name_is_an_error_that_says_which_there_are() {
        let error = Parts::parse("http1,gopher").expect_err("a mistake").to_string();
        assert!(error.contains("\"gopher\"") && error.contains("http1, http2"), "{error}");
        assert!(Parts::parse("").is_err());
    }
}
