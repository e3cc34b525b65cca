//! Features of Ingresses beyond a backend, from `xtask/peers/features`: the configuration of each peer, the
//! load that needs it, and requests that show that it is in force.
//!
//! Must not be in here: goals, and how anything is measured.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::decider::Decider;
use super::{contents, sign_in, tokens};
use crate::ask::{Answer, Question};
use crate::backend::Backend;
use crate::proxies::target_folder;
use crate::template;

/// The host that all load asks for.
pub(crate) const HOST: &str = "web.test.com";

/// The feature that needs a provider.
const SIGN_IN: &str = "oidc-session";

/// Requests with one cookie whose endpoints are compared.
const STICKY_REQUESTS: u64 = 20;

/// A feature by name, with the values that its file has places for.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Feature {
    name: String,
    #[serde(flatten)]
    values: BTreeMap<String, Value>,
}

/// A feature: the content of its file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Case {
    /// How many endpoints the backend has; `None` for one.
    #[serde(skip_serializing)]
    pub(super) endpoints: Option<usize>,
    /// The Services that it needs besides.
    #[serde(skip_serializing)]
    pub(super) services: Vec<String>,
    /// The service that decides about each request.
    #[serde(skip_serializing)]
    pub(super) decider: Option<Decider>,
    /// How many requests these get for each that is answered: the least, and the most.
    #[serde(skip_serializing)]
    pub(super) asked_besides: [f64; 2],
    /// The method of the load; `None` for GET.
    #[serde(skip_serializing)]
    pub(super) method: Option<String>,
    #[serde(skip_serializing)]
    pub(super) body: String,
    #[serde(skip_serializing)]
    pub(super) headers: BTreeMap<String, String>,
    /// Texts that take turns in path and headers.
    #[serde(skip_serializing)]
    pub(super) variants: Vec<String>,
    /// In place of variants: the cookies of so many clients.
    #[serde(skip_serializing)]
    sessions: usize,
    /// In place of variants: the tokens of so many clients.
    #[serde(skip_serializing)]
    tokens: usize,
    /// In place of variants: the session of a client that has signed in.
    #[serde(skip_serializing)]
    signs_in: bool,
    /// Requests before the measurement; `None` for as many as come in a short time.
    #[serde(skip_serializing)]
    pub(super) warm_up: Option<u64>,
    /// Files that are served, and how long they are.
    #[serde(skip_serializing)]
    files: BTreeMap<String, usize>,
    #[serde(skip_serializing)]
    check: Vec<Check>,
    pub(super) nginx: Nginx,
    pub(super) forebay: Forebay,
    /// Lines in front of those that pass everything on.
    apache: String,
    caddy: String,
    /// Filters in front of the router.
    envoy: Vec<Value>,
}

/// Lines of nginx's configuration, by the block that they belong to.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Nginx {
    /// Modules of the unstable suite by file, or of another nginx by path.
    modules: Vec<String>,
    http: String,
    /// In the group of the backend's servers.
    upstream: String,
    server: String,
    /// In every location whose requests are passed on.
    location: String,
    /// A location for each of these expressions, and what the path becomes there; none for one location.
    rewrites: BTreeMap<String, String>,
    /// The group of servers, which may be a variable; `None` for the backend's.
    group: Option<String>,
    /// Files beside the configuration.
    files: BTreeMap<String, String>,
}

/// The configuration of Forebay for a feature.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Forebay {
    /// Keys of the `ConfigMap`.
    pub(super) settings: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// The paths of the Ingress; none for `/` as a prefix.
    pub(super) paths: Vec<String>,
    /// The annotations of another Ingress for the same host, whose Service is `canary`; none for no such
    /// Ingress.
    pub(super) canary: BTreeMap<String, String>,
    /// Manifests beside the Ingress and its Service.
    objects: String,
    /// Further arguments of its command line.
    arguments: Vec<String>,
}

/// Requests that show whether a feature is in force. What is empty is not compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Check {
    method: Option<String>,
    /// `None` for [`HOST`].
    host: Option<String>,
    /// `None` for an answer without a body.
    path: Option<String>,
    headers: BTreeMap<String, String>,
    from: Option<Ipv4Addr>,
    /// How many requests; `None` for one.
    times: Option<usize>,
    /// The first answer has one of these.
    status: Vec<u16>,
    /// One of the other answers has this one.
    later: Option<u16>,
    /// Headers of the first answer, and names of headers that it must not have.
    shows: BTreeMap<String, String>,
    hides: Vec<String>,
    /// Strings of JSON in its body, in whatever case.
    body: Vec<String>,
    /// How many of the requests reach the backend.
    asked: Option<u64>,
}

/// A peer that runs with a feature, and its backends.
pub(crate) struct Scene<'a> {
    /// Whether the peer gives clients cookies by itself.
    pub(super) sets_cookies: bool,
    pub(super) address: SocketAddr,
    pub(super) backends: &'a [Backend],
}

impl Feature {
    /// One of this name, without values.
    pub(crate) fn named(name: &str) -> Feature {
        Feature { name: name.into(), values: BTreeMap::new() }
    }

    /// The same with a value.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Feature {
        self.values.insert(name.into(), value.into());
        self
    }

    /// The feature under a load for `path`.
    pub(crate) fn case(self, path: &str) -> Result<Case> {
        let file = format!("peers/features/{}.yaml", self.name);
        let files = target_folder()?.join("peers-files");
        let issuer = if self.name == SIGN_IN { sign_in::issuer() } else { String::new() };
        let context = self
            .with("path", path)
            .with("issuer", issuer)
            .with("host", HOST)
            .with("files", files.display().to_string())
            .with("keys", tokens::key_set().to_string())
            .with("contents", contents::ALL.map(|(name, _)| name).to_vec());
        let case: Case =
            serde_saphyr::from_str(&template::render_file(&file, &context.values)?).context(file)?;
        case.serve_files(&files)?;
        Ok(case)
    }
}

impl Case {
    /// Puts the files that are served where all peers find them.
    fn serve_files(&self, root: &Path) -> Result<()> {
        let folder = root.join("site/files");
        for (name, length) in &self.files {
            fs::create_dir_all(&folder)?;
            // Renamed rather than overwritten: a server of an earlier run may be reading it.
            fs::write(folder.join("new"), vec![b'x'; *length])?;
            fs::rename(folder.join("new"), folder.join(name))?;
        }
        Ok(())
    }

    /// Writes what nginx needs beside its configuration.
    pub(super) fn write_files(&self, folder: &Path) -> Result<()> {
        for (name, text) in &self.nginx.files {
            fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        Ok(())
    }

    /// The texts that take turns in requests.
    pub(super) fn variants(&self, scene: &Scene) -> Result<Vec<String>> {
        let sessions = (0..self.sessions).map(|number| scene.session(number));
        let tokens = (0..self.tokens).map(tokens::token);
        let signed_in = self.signs_in.then(|| sign_in::session(HOST, scene.address));
        sessions.chain(tokens).chain(signed_in).chain(self.variants.iter().cloned().map(Ok)).collect()
    }

    /// An error where the feature is not in force.
    pub(super) fn check(&self, scene: &Scene) -> Result<()> {
        if self.sessions > 0 {
            (0..scene.backends.len()).try_for_each(|number| scene.check_session(number))?;
        }
        self.check.iter().try_for_each(|check| check.run(scene).with_context(|| format!("{check:?}")))
    }
}

impl Check {
    fn run(&self, scene: &Scene) -> Result<()> {
        let before = self.asked.map(|_| Counted::now(scene.backends)).transpose()?;
        let answers =
            (0..self.times.unwrap_or(1)).map(|_| self.ask(scene.address)).collect::<Result<Vec<_>>>()?;
        let (first, later) = answers.split_first().context("no requests")?;
        ensure!(self.status.is_empty() || self.status.contains(&first.status), "status {}", first.status);
        let statuses: Vec<_> = later.iter().map(|answer| answer.status).collect();
        ensure!(self.later.is_none_or(|status| statuses.contains(&status)), "later statuses {statuses:?}");
        for (name, value) in &self.shows {
            ensure!(first.header(name) == Some(value), "not {name}: {value}, but {first:?}");
        }
        for name in &self.hides {
            ensure!(first.header(name).is_none(), "{name} is there: {first:?}");
        }
        let body = first.text().to_ascii_lowercase();
        for text in &self.body {
            ensure!(body.contains(&format!("\"{}\"", text.to_ascii_lowercase())), "no {text} in {body}");
        }
        if let Some((before, expected)) = before.zip(self.asked) {
            let asked: u64 = before.since(scene.backends)?.iter().sum();
            ensure!(asked == expected, "the backend is asked {asked} times");
        }
        Ok(())
    }

    fn ask(&self, address: SocketAddr) -> Result<Answer> {
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let question = Question {
            method: self.method.as_deref().unwrap_or("GET"),
            host: self.host.as_deref().unwrap_or(HOST),
            path: self.path.as_deref().unwrap_or("/0"),
            headers: &headers,
            from: self.from,
        };
        question.ask(address)
    }
}

impl Scene<'_> {
    fn get(&self, headers: &[(&str, &str)]) -> Result<Answer> {
        Question { host: HOST, path: "/0", headers, ..Question::default() }.ask(self.address)
    }

    /// The cookie of a new client. Where the peer sets none, one of the same form.
    fn session(&self, number: usize) -> Result<String> {
        if !self.sets_cookies {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            return Ok(format!("route={key:032x}|{key:032x}"));
        }
        let answer = self.get(&[])?;
        let cookie = answer.header("Set-Cookie").context("a new client gets no cookie")?;
        let cookie = cookie.split(';').next().unwrap_or_default();
        ensure!(cookie.starts_with("route="), "a new client gets another cookie: {cookie}");
        Ok(cookie.into())
    }

    /// An error where one client's requests go to several endpoints.
    fn check_session(&self, number: usize) -> Result<()> {
        let cookie = self.session(number)?;
        let before = Counted::now(self.backends)?;
        for _ in 0..STICKY_REQUESTS {
            self.get(&[("Cookie", &cookie)])?;
        }
        let asked = before.since(self.backends)?;
        ensure!(
            asked.contains(&STICKY_REQUESTS),
            "one client's requests went to several endpoints: {asked:?}"
        );
        Ok(())
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
