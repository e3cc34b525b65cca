//! The combined statements of all Ingresses about each host: TLS and certificate, the comparison of its
//! paths, and its aliases.
//!
//! Never in here: documents.

use std::collections::{BTreeMap, BTreeSet};

use model::HostName;

use super::annotations::Annotations;
use super::paths::{self, Declared, Mode};
use crate::index::Index;
use crate::names::NsName;
use crate::objects::{Ingress, IngressPath, IngressTls, PathType, Sourced};
use crate::options::Options;

/// The name of a host; none for all names that no other host has.
pub(super) type Name = Option<String>;

/// The combined properties of a host.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// An Ingress of the host has an entry in `spec.tls`, even if the entry names other hosts.
    pub(super) has_tls: bool,
    /// The Secret with the host's certificate.
    pub(super) certificate: Option<NsName>,
    pub(super) mode: Mode,
    /// The host has a route for the prefix `/`.
    pub(super) has_root: bool,
    /// Aliases from the first Ingress that has some, each with whether the certificate covers it.
    pub(super) aliases: Vec<(String, bool)>,
    /// The path to which `/` is redirected, from the first Ingress that has one.
    pub(super) app_root: Option<String>,
    /// The name with or without `www.` that redirects to this host.
    pub(super) redirected_from: Option<String>,
}

/// All hosts by name.
pub(super) type Hosts = BTreeMap<Name, Host>;

/// A rule of an Ingress: one host, with all paths that the Ingress declares for it.
pub(super) struct Rule<'i> {
    pub(super) host: Name,
    pub(super) paths: Vec<&'i crate::objects::At<IngressPath>>,
}

/// The rules of an Ingress, joined by host. Invalid host names are left out; the translation reports them.
pub(super) fn rules(ingress: &Ingress) -> Vec<Rule<'_>> {
    let mut rules: Vec<Rule<'_>> = Vec::new();
    for rule in ingress.spec.rules.iter().map(|rule| &rule.value) {
        let host =
            rule.host.as_ref().map(|host| host.value.to_ascii_lowercase()).filter(|host| !host.is_empty());
        if host.as_deref().is_some_and(|host| HostName::parse(host).is_err()) {
            continue;
        }
        let paths = rule.http.iter().flat_map(|http| &http.paths);
        match rules.iter_mut().find(|known| known.host == host) {
            Some(known) => known.paths.extend(paths),
            None => rules.push(Rule { host, paths: paths.collect() }),
        }
    }
    rules
}

/// Collects the hosts of all Ingresses, starting with the oldest Ingress.
pub(super) fn look(ingresses: &[Annotations<'_>], index: &Index, options: &Options) -> Hosts {
    let mut hosts = Hosts::new();
    let mut declared: BTreeMap<Name, Vec<Declared<'_>>> = BTreeMap::new();
    let mut are_expressions: BTreeSet<Name> = BTreeSet::new();
    for one in ingresses {
        let (target, uses_regex) = (paths::target(one), one.is_on("use-regex"));
        let own_rules = rules(one.ingress);
        if own_rules.is_empty() && one.ingress.spec.default_backend.is_some() {
            hosts.entry(None).or_default().has_root = true;
        }
        for rule in own_rules {
            let host = hosts.entry(rule.host.clone()).or_default();
            host.add(one, &rule, index, options);
            for path in &rule.paths {
                let path = declare(&path.value, target);
                if uses_regex || path.target.is_some_and(|target| target != path.path) {
                    are_expressions.insert(rule.host.clone());
                }
                declared.entry(rule.host.clone()).or_default().push(path);
            }
        }
    }
    let names: BTreeSet<_> = hosts.keys().cloned().collect();
    for host in hosts.values_mut() {
        host.aliases.retain(|(name, _)| !names.contains(&Some(name.clone())));
        let secret = host.certificate.as_ref().and_then(|key| index.secrets.get(key));
        let pair = secret.and_then(|secret| secret.pair().as_ref().ok());
        for (name, is_covered) in &mut host.aliases {
            *is_covered = pair.is_some_and(|pair| pair.is_for(name));
        }
    }
    for name in are_expressions {
        let mode = Mode::of_expressions(declared.get(&name).into_iter().flatten());
        hosts.entry(name).or_default().mode = mode;
    }
    hosts
}

/// A path as an Ingress declares it.
pub(super) fn declare<'i>(path: &'i IngressPath, target: Option<&'i str>) -> Declared<'i> {
    Declared {
        path: path.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/"),
        is_exact: path.path_type == Some(PathType::Exact),
        target,
    }
}

impl Host {
    fn add(&mut self, one: &Annotations<'_>, rule: &Rule<'_>, index: &Index, options: &Options) {
        let spec = &one.ingress.spec;
        self.has_root |= spec.default_backend.is_some();
        self.has_root |= rule.paths.iter().any(|path| {
            let path = declare(&path.value, None);
            path.path == "/" && !path.is_exact
        });
        if !spec.tls.is_empty() {
            self.has_tls = true;
            let entry = entry(one.ingress, &rule.host, index);
            let secret = entry.and_then(|entry| entry.secret_name.as_ref()).map(|name| name.value.clone());
            let secret = secret.map(|name| NsName::new(one.ingress.namespace(), name));
            let found = secret.or_else(|| options.default_ssl_certificate.clone());
            self.certificate = self.certificate.take().or(found);
        }
        let Some(name) = &rule.host else { return };
        if self.aliases.is_empty() {
            let names = one.text("server-alias").into_iter().flat_map(|list| list.split(','));
            let names = names.map(str::trim).filter(|name| HostName::parse(name).is_ok());
            self.aliases = names.map(|name| (name.to_ascii_lowercase(), false)).collect();
        }
        self.app_root = self.app_root.take().or_else(|| one.text("app-root").map(str::to_owned));
        if one.is_on("from-to-www-redirect") && !name.starts_with("*.") {
            let other = name.strip_prefix("www.").map_or_else(|| format!("www.{name}"), str::to_owned);
            self.redirected_from.get_or_insert(other);
        }
    }
}

/// The entry of `spec.tls` for a host: an entry that lists the host, or a wildcard for it, or whose
/// certificate covers it, or an entry for all hosts.
fn entry<'i>(ingress: &'i Sourced<Ingress>, host: &Name, index: &Index) -> Option<&'i IngressTls> {
    let entries = || ingress.spec.tls.iter().map(|entry| &entry.value);
    let Some(host) = host.as_deref() else { return entries().find(|entry| entry.secret_name.is_some()) };
    let wildcard = wildcard_of(host);
    let lists = |name: &str| {
        entries().find(|entry| entry.hosts.iter().any(|listed| listed.eq_ignore_ascii_case(name)))
    };
    let is_for = |entry: &&IngressTls| {
        let name = entry.secret_name.as_ref();
        let secret = name.and_then(|name| index.secrets.get(&NsName::new(ingress.namespace(), &name.value)));
        secret.is_some_and(|secret| secret.pair().as_ref().is_ok_and(|pair| pair.is_for(host)))
    };
    lists(host)
        .or_else(|| lists(&wildcard?))
        .or_else(|| entries().find(is_for))
        .or_else(|| entries().find(|entry| entry.hosts.is_empty()))
}

/// The wildcard that matches a name.
pub(super) fn wildcard_of(host: &str) -> Option<String> {
    let (first, rest) = host.split_once('.')?;
    (first != "*").then(|| format!("*.{rest}"))
}
