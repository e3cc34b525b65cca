//! What Ingresses ask for beyond a backend: each in nginx's words and in Forebay's, with the load that needs it, and how it is
//! seen to be in force.
//!
//! Must not be in here: goals, and how anything is measured.

mod addresses;
mod auth;
mod backends;
mod basic;
mod cache;
mod compression;
mod conditions;
mod files;
mod headers;
mod limit;
mod mirror;
mod regex;

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use anyhow::Result;
use serde_json::Value;

use super::proxy::manifests::Pairs;
use super::proxy::{HOST, Peer};
use crate::ask::{Answer, Question};
use crate::backend::Backend;

pub(super) use addresses::networks_1000;
pub(super) use auth::{auth_cached, auth_kept_alive};
pub(super) use backends::{affinity, canary};
pub(super) use basic::{basic_bcrypt, wrong_credentials};
pub(super) use cache::{cache, with_disk, zipf};
pub(super) use compression::compressed;
pub(super) use conditions::{CONDITIONAL, UNCONDITIONAL, conditions_16};
pub(super) use files::file;
pub(super) use headers::{cors, headers_10};
pub(super) use limit::limit_rps;
pub(super) use mirror::mirror_hanging;
pub(super) use regex::regex_50;

/// The rate that every peer carries with ease, with most features.
const RATE_PER_SECOND: f64 = 8_000.0;

/// What each peer is told.
#[derive(Clone, Default)]
pub(crate) struct Feature {
    pub(super) directives: Directives,
    pub(super) manifests: Manifests,
    /// Lines for Apache, before all is passed on.
    pub(super) apache: String,
    /// Filters for Envoy, before its router.
    pub(super) envoy: Vec<Value>,
    /// Lines for Caddy's only site, before all is passed on.
    pub(super) caddy: String,
}

/// What nginx is told, by the block that it belongs to; each ends its lines.
#[derive(Clone, Default)]
pub(super) struct Directives {
    /// Modules of the unstable suite that are loaded, by file.
    pub(super) modules: Vec<&'static str>,
    pub(super) http: String,
    /// In the group of the backend's servers, before all else.
    pub(super) upstream: String,
    pub(super) server: String,
    /// In every location whose requests are passed on.
    pub(super) location: String,
    /// A location for each of these expressions, and what the path becomes there; none for one location.
    pub(super) expressions: Vec<(String, &'static str)>,
    /// The group of servers; `None` for the backend's.
    pub(super) group: Option<&'static str>,
    /// Files beside the configuration.
    pub(super) files: Vec<(&'static str, String)>,
}

/// What Forebay is told.
#[derive(Clone, Default)]
pub(super) struct Manifests {
    /// Of the `ConfigMap`.
    pub(super) settings: Pairs,
    /// Of the Ingress, without their prefix.
    pub(super) annotations: Pairs,
    /// Its paths; none for one path that is a prefix of all.
    pub(super) expressions: Vec<String>,
    /// The annotations of another Ingress for the same host, whose Service is `canary`; none for no such Ingress.
    pub(super) canary: Pairs,
    /// Documents of YAML with what these name.
    pub(super) objects: String,
    /// Of its command line.
    pub(super) arguments: Vec<String>,
}

/// A feature under load.
pub(crate) struct Case {
    pub(super) feature: Feature,
    /// How many endpoints the backend has.
    pub(super) endpoints: usize,
    /// The Services that it needs besides.
    pub(super) services: &'static [&'static str],
    pub(super) rate_per_second: f64,
    pub(super) path: &'static str,
    pub(super) headers: Vec<(&'static str, String)>,
    /// What takes turns in path and headers.
    pub(super) variants: fn(&Scene) -> Result<Vec<String>>,
    /// Requests before the measurement; `None` for as many as come in a short time.
    pub(super) warm_up: Option<u64>,
    /// An error where what was asked for is not done.
    pub(super) check: fn(&Scene) -> Result<()>,
    /// How many requests the other Services get for each that is answered.
    pub(super) asked_besides: RangeInclusive<f64>,
}

/// Who runs.
pub(crate) struct Scene<'a> {
    pub(super) peer: Peer,
    pub(super) address: SocketAddr,
    pub(super) backends: &'a [Backend],
}

impl Default for Case {
    fn default() -> Self {
        Case {
            feature: Feature::default(),
            endpoints: 1,
            services: &[],
            rate_per_second: RATE_PER_SECOND,
            path: "/1k",
            headers: Vec::new(),
            variants: |_| Ok(Vec::new()),
            warm_up: None,
            check: |_| Ok(()),
            asked_besides: 0.0..=0.0,
        }
    }
}

impl Scene<'_> {
    /// One answer to a GET with these headers.
    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        self.ask(&Question { path, headers, ..Question::default() })
    }

    fn ask(&self, question: &Question) -> Result<Answer> {
        Question { host: HOST, ..*question }.ask(self.address)
    }

    /// The status of an answer to a client with this address.
    fn status_from(&self, from: Ipv4Addr) -> Result<u16> {
        Ok(self.ask(&Question { path: "/0", from: Some(from), ..Question::default() })?.status)
    }
}

/// How many requests each of several backends had counted at a time.
pub(super) struct Counted(Vec<u64>);

impl Counted {
    pub(super) fn now(backends: &[Backend]) -> Result<Counted> {
        backends.iter().map(Backend::requests).collect::<Result<_>>().map(Counted)
    }

    /// How many more they have counted since, without the questions.
    pub(super) fn since(&self, backends: &[Backend]) -> Result<Vec<u64>> {
        let now = Counted::now(backends)?;
        Ok(now.0.iter().zip(&self.0).map(|(now, before)| now - before - 1).collect())
    }
}
