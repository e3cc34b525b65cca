//! The Gateways: a listener for each port and, with TLS, for each host that has a certificate of its own.
//!
//! Never in here: routes.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Document, all, at};
use super::hosts::{Host, Hosts, Name, wildcard_of};
use crate::index::Index;
use crate::names::NsName;
use crate::objects::gateway_api::{
    AllowedNamespaces, AllowedRoutes, FromNamespaces, GROUP, GatewaySpec, GrantFrom, GrantTo, Listener,
    ListenerTls, ObjectReference, ParentReference, Protocol, ReferenceGrantSpec, TlsMode,
};
use crate::objects::gateway_api::{Gateway, ReferenceGrant};
use crate::objects::{Map, Resource, Secret};
use crate::options::Options;

/// The most listeners of a Gateway (Gateway API).
const LISTENERS_MAX: usize = 64;

const HTTP: &str = "http";
const HTTPS: &str = "https";

/// The name, namespace and class of the Gateways to create.
#[derive(Clone, Debug)]
pub struct Target {
    /// Name of the first Gateway.
    pub name: String,
    /// Namespace of the Gateways.
    pub namespace: String,
    /// Name of the `GatewayClass` of the Gateways.
    pub class: String,
}

/// The listeners at which a host is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sections {
    pub(super) http: ParentReference,
    /// The HTTPS listener; none where TLS of the host does not end here.
    pub(super) https: Option<ParentReference>,
}

/// The listeners of all hosts.
pub(super) struct Listeners<'t> {
    target: &'t Target,
    all: Vec<Listener>,
    /// The index in `all`, by scheme and host.
    by_host: BTreeMap<(&'static str, Name), usize>,
    /// Namespaces that have routes.
    namespaces: BTreeSet<String>,
}

impl<'t> Listeners<'t> {
    /// Creates listeners for these hosts, with routes in these namespaces.
    pub(super) fn new(
        hosts: &Hosts,
        namespaces: BTreeSet<String>,
        options: &Options,
        target: &'t Target,
    ) -> Self {
        let by_host = BTreeMap::new();
        let mut listeners = Self { target, all: Vec::new(), by_host, namespaces };
        listeners.add(HTTP, &None, None);
        for (name, host) in hosts.iter().filter(|(name, host)| is_alone(name, host, hosts)) {
            debug_assert!(!host.has_root);
            listeners.add(HTTP, name, None);
        }
        let names = |host: &Host| {
            let covered =
                host.aliases.iter().filter(|(_, is_covered)| *is_covered).map(|(name, _)| name.clone());
            covered.chain(host.redirected_from.clone()).map(Some).collect::<Vec<_>>()
        };
        for (name, host) in hosts {
            let Some(certificate) = host.certificate.as_ref().filter(|_| host.has_tls) else { continue };
            for name in std::iter::once(name.clone()).chain(names(host)) {
                listeners.add(HTTPS, &name, Some(certificate));
            }
        }
        if let Some(certificate) = &options.default_ssl_certificate {
            listeners.add(HTTPS, &None, Some(certificate));
        }
        listeners
    }

    fn add(&mut self, scheme: &'static str, host: &Name, certificate: Option<&NsName>) {
        let key = (scheme, host.clone());
        if self.by_host.contains_key(&key) {
            return;
        }
        self.by_host.insert(key, self.all.len());
        let name = match host {
            None => scheme.to_owned(),
            Some(host) => format!("{scheme}-{}", host.replace('*', "wildcard")),
        };
        let own = |namespace: &str| *namespace != self.target.namespace;
        let from = if self.namespaces.iter().any(|namespace| own(namespace)) {
            FromNamespaces::All
        } else {
            FromNamespaces::Same
        };
        let namespaces = AllowedNamespaces { from, selector: None };
        let certificate = certificate.map(|secret| ObjectReference {
            name: secret.name.as_str().into(),
            namespace: own(&secret.namespace).then(|| secret.namespace.as_str().into()),
            ..ObjectReference::default()
        });
        let tls = certificate.map(|certificate| ListenerTls {
            mode: TlsMode::Terminate,
            certificate_refs: all([certificate]),
            options: Map::default(),
        });
        self.all.push(Listener {
            name: name.into(),
            hostname: host.clone().map(at),
            port: if tls.is_some() { 443 } else { 80 },
            protocol: if tls.is_some() { Protocol::Https } else { Protocol::Http },
            tls,
            allowed_routes: AllowedRoutes { namespaces, kinds: Vec::new() },
            filters: None,
        });
    }

    /// The listeners of a host, as a route in `namespace` refers to them.
    pub(super) fn of(&self, host: &Name, namespace: &str) -> Sections {
        let wildcard = host.as_deref().and_then(wildcard_of).map(Some);
        let find = |scheme| {
            let of = |host: &Name| self.by_host.get(&(scheme, host.clone())).copied();
            of(host).or_else(|| of(wildcard.as_ref()?)).or_else(|| of(&None))
        };
        let reference = |place: usize| self.reference(place, namespace);
        Sections {
            http: reference(find(HTTP).expect("it was added first")),
            https: find(HTTPS).map(reference),
        }
    }

    /// The names of the Gateways.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        (0..self.all.len().div_ceil(LISTENERS_MAX)).map(|number| gateway_name(self.target, number))
    }

    fn reference(&self, place: usize, namespace: &str) -> ParentReference {
        let own = self.target.namespace.as_str();
        ParentReference {
            name: gateway_name(self.target, place / LISTENERS_MAX).into(),
            namespace: (namespace != own).then(|| own.into()),
            section_name: Some(self.all[place].name.clone()),
            ..ParentReference::default()
        }
    }

    /// The Gateways, and the grants that allow them to name Secrets of other namespaces.
    pub(super) fn documents(&self, index: &Index) -> Vec<Document> {
        let own = self.target.namespace.as_str();
        let mut documents = Vec::new();
        for (number, listeners) in self.all.chunks(LISTENERS_MAX).enumerate() {
            let spec = GatewaySpec {
                gateway_class_name: at(self.target.class.clone()),
                listeners: all(listeners.iter().cloned()),
                addresses: Vec::new(),
                infrastructure: None,
                allowed_listeners: None,
                tls: None,
            };
            let name = gateway_name(self.target, number);
            let mut document = Document::of_gateway_api(Gateway::KIND, Some(own), &name, &spec);
            if number > 0 {
                document.remark("", format!("A Gateway has {LISTENERS_MAX} listeners at most."));
            }
            for (place, listener) in listeners.iter().enumerate() {
                if listener.protocol == Protocol::Http && listener.hostname.is_some() {
                    let text = "A listener of its own, since paths that its routes do not take are answered 404, whatever other hosts have.";
                    document.remark(format!("/spec/listeners/{place}"), text);
                }
                for secret in missing_certificates(listener, own, index) {
                    let text = format!("Secret {secret} is not among the objects that were read.");
                    document.remark(format!("/spec/listeners/{place}"), text);
                }
            }
            documents.push(document);
        }
        documents.extend(self.grants());
        documents
    }

    fn grants(&self) -> impl Iterator<Item = Document> {
        let own = self.target.namespace.as_str();
        let mut secrets: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for reference in
            self.all.iter().flat_map(|listener| &listener.tls).flat_map(|tls| &tls.certificate_refs)
        {
            if let Some(namespace) = &reference.value.namespace {
                secrets.entry(namespace).or_default().insert(&reference.value.name);
            }
        }
        let from = || GrantFrom { group: GROUP.into(), kind: Gateway::KIND.into(), namespace: own.into() };
        let to =
            |name: &&str| GrantTo { group: "".into(), kind: Secret::KIND.into(), name: Some((*name).into()) };
        secrets.into_iter().map(move |(namespace, names)| {
            let spec = ReferenceGrantSpec { from: vec![from()], to: names.iter().map(to).collect() };
            let name = format!("{}-certificates", self.target.name);
            Document::of_gateway_api(ReferenceGrant::KIND, Some(namespace), &name, &spec)
        })
    }
}

/// Whether a host needs a listener of its own for plain HTTP. In ingress-nginx a host without a rule for the
/// path answers 404. In the Gateway API the routes of more general hosts would be tried then, unless the host
/// has a listener.
fn is_alone(name: &Name, host: &Host, hosts: &Hosts) -> bool {
    let Some(name) = name else { return false };
    let wildcard = wildcard_of(name).is_some_and(|wildcard| hosts.contains_key(&Some(wildcard)));
    !host.has_root && (wildcard || hosts.contains_key(&None))
}

fn gateway_name(target: &Target, number: usize) -> String {
    if number == 0 { target.name.clone() } else { format!("{}-{}", target.name, number + 1) }
}

fn missing_certificates(listener: &Listener, own: &str, index: &Index) -> Vec<NsName> {
    let references =
        listener.tls.iter().flat_map(|tls| &tls.certificate_refs).map(|reference| &reference.value);
    let keys = references.map(|one| NsName::new(one.namespace.as_deref().unwrap_or(own), &*one.name));
    keys.filter(|key| index.secrets.get(key).is_none()).collect()
}
