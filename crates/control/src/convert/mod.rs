//! Converts Ingresses to Gateways, routes and policies, as YAML with remarks on settings without a
//! counterpart.
//!
//! `annotations` hands out the annotations of an Ingress and records which are left; `hosts` collects the
//! statements of all Ingresses about a host; `listeners` creates Gateways, `routes` the routes of one Ingress
//! with its `paths`, `filters`, `redirects` and `backends`; `kinds` detects routes that cannot be attached
//! side by side; `policy` converts the rest. `yaml` writes the result.
//!
//! An annotation becomes the field of the Gateway API that does the same. Without such a field it goes into a
//! `ForebayPolicy`. A setting that restricts access and fits into neither closes the route.
//!
//! Never in here: reading manifests, and serving the result.

mod annotations;
mod backends;
mod defaults;
mod document;
mod draft;
mod filters;
mod grpc;
mod hosts;
mod kinds;
mod listeners;
mod names;
mod paths;
mod policy;
mod protocol;
mod redirects;
mod routes;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use crate::index::Index;
use crate::names::NsName;
use crate::objects::gateway_api::{
    GROUP, Gateway, GatewayClass, GatewayClassSpec, GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec,
};
use crate::objects::{Ingress, Resource, Service, Sourced, forebay_policy};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::Translation;
use crate::translate::ingress::class::is_ours;
use crate::translate::value;
use annotations::Annotations;
use backends::Canaries;
use defaults::Defaults;
pub use document::Document;
use filters::Common;
use kinds::AttachedRoute;
use listeners::Listeners;
pub use listeners::Target;
use names::Names;
use protocol::Protocol;
use routes::{Claims, Context, Wishes};

/// The controller of the classes that Forebay serves.
const CONTROLLER: &str = "forebay.io/gateway-controller";

/// The result of converting Ingresses.
#[derive(Debug, Default)]
pub struct Conversion {
    /// The objects, in the order in which they are written.
    pub documents: Vec<Document>,
    /// The settings that are lost or left out, in the order of the Ingresses.
    pub findings: Vec<Problem>,
    /// The number of converted Ingresses.
    pub ingresses: usize,
    /// The number of Ingresses that were left out.
    pub left_out: usize,
}

impl Conversion {
    /// The documents as YAML.
    pub fn yaml(&self) -> String {
        let mut text = String::new();
        for document in &self.documents {
            text.push_str("---\n");
            document.write(&mut text);
        }
        text
    }

    /// The documents as one List, as JSON without remarks.
    pub fn json(&self) -> String {
        let items: Vec<_> = self.documents.iter().map(Document::json).collect();
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
        format!("{list:#}\n")
    }

    /// The number of objects of each kind.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for document in &self.documents {
            *counts.entry(document.kind()).or_default() += 1;
        }
        counts
    }

    /// Whether a part of an Ingress is lost.
    pub fn loses(&self) -> bool {
        self.left_out > 0 || self.findings.iter().any(|problem| problem.severity != Severity::Notice)
    }
}

/// Converts all Ingresses of an index that Forebay serves, with the problems of their translation.
pub fn ingresses(index: &Index, options: &Options, target: &Target, translation: &Translation) -> Conversion {
    let mut as_http = BTreeSet::new();
    loop {
        let (conversion, placed) = convert(index, options, target, translation, &as_http);
        let in_conflict = kinds::in_conflict(&placed);
        if in_conflict.is_empty() {
            return conversion;
        }
        as_http.extend(in_conflict);
    }
}

/// Converts the Ingresses; those in `as_http` never become `GRPCRoute`s. Returns also the attachments of the
/// routes.
fn convert(
    index: &Index,
    options: &Options,
    target: &Target,
    translation: &Translation,
    as_http: &BTreeSet<NsName>,
) -> (Conversion, Vec<AttachedRoute>) {
    let ours = index.ingresses.iter().filter(|ingress| is_ours(ingress, index, options)).count();
    let mut conversion = Conversion { findings: faults(&translation.problems), ..Conversion::default() };
    let taken =
        translation.ingresses.iter().map(|ingress| Annotations::new(ingress, &options.annotations_prefix));
    let (canaries, mains): (Vec<_>, Vec<_>) = taken.partition(|one: &Annotations<'_>| one.is_on("canary"));
    conversion.ingresses = canaries.len() + mains.len();
    conversion.left_out = ours.saturating_sub(conversion.ingresses);
    if conversion.ingresses == 0 {
        return (conversion, Vec::new());
    }
    let defaults = Defaults::read(index, options);
    let hosts = hosts::look(&mains, index, options);
    let namespaces: BTreeSet<_> = mains.iter().map(|one| one.ingress.namespace().to_owned()).collect();
    let listeners = Listeners::new(&hosts, namespaces, options, target);
    let mut all = All::new(&mains);
    let policy = all.policies.take(&target.namespace, &target.name);
    conversion.of_gateway(index, target, &listeners, (&defaults, &policy));
    let canaries_by_path = Canaries::new(&canaries);
    let around = Context {
        index,
        hosts: &hosts,
        listeners: &listeners,
        canaries: &canaries_by_path,
        defaults: &defaults,
        as_http,
    };
    for one in &mains {
        conversion.of_ingress(one, &around, &mut all);
    }
    for one in &canaries {
        conversion.findings.extend(one.findings());
    }
    let grants = all.named.iter().map(|((service, namespace), kinds)| grant(namespace, service, kinds));
    conversion.documents.extend(grants);
    (conversion, all.placed)
}

/// The results of the Ingresses converted so far.
struct All {
    claims: Claims,
    /// The names of the created routes and policies.
    routes: Names,
    policies: Names,
    /// The Services that have a policy for TLS.
    with_tls: BTreeSet<NsName>,
    /// The kinds of objects that name a Service of another namespace, for copies of requests or as a
    /// fallback, by Service and namespace of the object.
    named: BTreeMap<(NsName, String), BTreeSet<&'static str>>,
    placed: Vec<AttachedRoute>,
}

impl All {
    fn new(ingresses: &[Annotations<'_>]) -> Self {
        let names = Names::kept_for(ingresses);
        Self {
            claims: Claims::new(),
            routes: names.clone(),
            policies: names,
            with_tls: BTreeSet::new(),
            named: BTreeMap::new(),
            placed: Vec::new(),
        }
    }
}

/// The problems that say why an Ingress, or a part of it, is not served as it is.
fn faults(problems: &[Problem]) -> Vec<Problem> {
    let is_fault = |problem: &&Problem| {
        let reasons =
            [Reason::Annotation, Reason::Invalid, Reason::Undecodable, Reason::NoEffect, Reason::NotOwner];
        problem.severity != Severity::Notice && reasons.contains(&problem.reason)
    };
    problems.iter().filter(is_fault).cloned().collect()
}

impl Conversion {
    fn of_gateway(
        &mut self,
        index: &Index,
        target: &Target,
        listeners: &Listeners<'_>,
        (defaults, policy): (&Defaults, &str),
    ) {
        if index.gateway.classes.get(&NsName::new("", &*target.class)).is_none() {
            let spec = GatewayClassSpec { controller_name: CONTROLLER.to_owned(), parameters_ref: None };
            self.documents.push(Document::of_gateway_api(GatewayClass::KIND, None, &target.class, &spec));
        }
        let gateways = listeners.documents(index);
        let attached: Vec<_> =
            listeners.names().map(|name| policy::Attached { kind: Gateway::KIND, name }).collect();
        self.documents.extend(gateways);
        let settings = policy::Settings::of_gateway(&defaults.settings);
        if !settings.is_empty() {
            let mut document = settings.document(&target.namespace, policy, &attached);
            document.remark("", "What holds for all Ingresses.");
            self.documents.push(document);
        }
    }

    fn of_ingress<'s>(&mut self, one: &'s Annotations<'s>, around: &Context<'s>, all: &mut All) {
        let defaults = around.defaults;
        let force = one.boolean("force-ssl-redirect").unwrap_or(defaults.force_ssl_redirect);
        let with_certificate = one.boolean("ssl-redirect").unwrap_or(defaults.ssl_redirect);
        let mut common = Common::read(one, around.index);
        let vhost = one
            .peek("upstream-vhost")
            .filter(|host| !host.contains('$') && model::HostName::parse(host).is_ok());
        if vhost.is_some() {
            common.host = one.text("upstream-vhost").map(str::to_owned);
        }
        let mut protocol = Protocol::read(one);
        protocol.is_grpc_route &= !around.as_http.contains(&one.ingress.key());
        let redirect = redirects::of_all(one);
        one.pass_over(&[
            "preserve-trailing-slash",
            "from-to-www-redirect",
            "app-root",
            "server-alias",
            "rewrite-target",
            "use-regex",
        ]);
        one.pass_over(&["permanent-redirect-code", "temporal-redirect-code", "canary"]);
        let settings = policy::Settings::of(one);
        let closed = (settings.is_open || protocol.is_unknown).then(|| {
            "requests are answered 500, since something that keeps requests away would be lost".to_owned()
        });
        let wishes = Wishes {
            annotations: one,
            common,
            redirect,
            protocol,
            to_tls: (with_certificate, force),
            closed,
        };
        let mut routes = routes::make(&wishes, around, &mut all.claims, &mut all.routes);
        all.placed.append(&mut routes.placed);
        let ingress = one.ingress;
        let is_grpc = routes.documents.iter().any(|document| document.kind() == grpc::KIND);
        let services = wishes.protocol.of_services(one, &routes.services, around.index, is_grpc);
        let remarks = wishes.common.remarks.iter().chain(&wishes.protocol.remarks).chain(&settings.lost);
        let remarks: Vec<_> = remarks.chain(&services).chain(&wishes.closed).cloned().collect();
        if let Some(first) = routes.documents.first_mut() {
            first.remark("", from(ingress));
            for remark in remarks {
                first.remark("", remark);
            }
        }
        self.documents.append(&mut routes.documents);
        for service in &routes.services {
            if all.with_tls.insert(NsName::new(ingress.namespace(), &*service.name)) {
                self.documents.extend(wishes.protocol.policy(one, service, around.index));
            }
        }
        if let Some(service) = &wishes.common.mirrored {
            for route in &routes.attached {
                let key = (service.clone(), ingress.namespace().to_owned());
                all.named.entry(key).or_default().insert(route.kind);
            }
        }
        if !settings.is_empty() && !routes.attached.is_empty() {
            for service in fallbacks(one).into_iter().filter(|_| around.defaults.crosses_namespaces) {
                let key = (service, ingress.namespace().to_owned());
                all.named.entry(key).or_default().insert(policy::KIND);
            }
            self.documents.push(settings.document(ingress.namespace(), ingress.name(), &routes.attached));
        }
        self.findings.extend(one.findings());
        self.findings.append(&mut routes.findings);
    }
}

/// The origin of a route, for a remark.
fn from(ingress: &Sourced<Ingress>) -> String {
    let origin = &ingress.origin;
    let file = origin.file.as_ref().map(|file| format!(", {}:{}", file.display(), origin.line));
    format!("{}{}", ingress.reference(), file.unwrap_or_default())
}

/// The Services of other namespaces that annotation `fallback` names.
fn fallbacks(one: &Annotations<'_>) -> Vec<NsName> {
    let listed = one.peek("fallback").map(value::list).unwrap_or_default();
    let service = |item: &String| {
        let (namespace, rest) = item.split_once('/')?;
        let name = rest.split_once(':').map_or(rest, |(name, _)| name);
        (namespace != one.ingress.namespace()).then(|| NsName::new(namespace, name))
    };
    listed.iter().filter_map(service).collect()
}

/// A grant that lets objects of these kinds name a Service of another namespace.
fn grant(namespace: &str, service: &NsName, kinds: &BTreeSet<&str>) -> Document {
    let from = |kind: &&str| {
        let group = if *kind == policy::KIND { forebay_policy::GROUP } else { GROUP };
        GrantFrom { group: group.into(), kind: (*kind).into(), namespace: namespace.into() }
    };
    let to =
        GrantTo { group: "".into(), kind: Service::KIND.into(), name: Some(service.name.as_str().into()) };
    let spec = ReferenceGrantSpec { from: kinds.iter().map(from).collect(), to: vec![to] };
    let name = format!("{}-from-{namespace}", service.name);
    Document::of_gateway_api(ReferenceGrant::KIND, Some(&service.namespace), &name, &spec)
}
