//! The hosts and streams of the model, assembled from listeners and the routes that are attached to them.
//!
//! Never in here: the contents of routes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::fast::FixedState;
use model::{
    Action, Backend, BackendAnswer, BackendFilters, Backends, ClientAuth, ClientCertificate, Forward, Host,
    HostName, HostTls, LabelTexts, Labels, Listener, Protocol as Spoken, Rare, RequestFilter, RequestFilters,
    RequestRedirect, Route, Split, Stream, TlsStream, Transport, VerifyClient, Wider,
};
use smallvec::SmallVec;

use super::effective::{Effective, ParentKey};
use super::hostnames::{self, Shared, Width};
use super::listeners::Listeners;
use super::routes::{Content, Template};
use crate::objects::gateway_api::Protocol;
use crate::translate::origin::RouteOrigin;
use crate::translate::{acme, sign_in};

/// An address and port for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
    pub(super) is_tls: bool,
}

/// A host, and the origins of its routes.
pub(super) type Served = (Arc<Host>, Arc<[RouteOrigin]>);

/// The hosts and streams of all Gateways.
#[derive(Default)]
pub(super) struct Assembled {
    pub(super) hosts: BTreeMap<Slot, Vec<Served>>,
    pub(super) streams: Vec<Listener>,
}

/// The previous result: unchanged parts keep their pointers.
#[derive(Default)]
pub(super) struct Kept {
    hosts: HashMap<Slot, KeptHosts>,
    tls: HashMap<(Slot, ParentKey, Box<str>), Arc<HostTls>>,
    plain: Arc<HostTls>,
}

type KeptHosts = HashMap<HostName, KeptHost, FixedState>;

/// A host and its inputs.
struct KeptHost {
    contents: Vec<(Width, Arc<[Template]>)>,
    tls: Arc<HostTls>,
    /// The listener's next wider name.
    wider: Option<HostName>,
    /// The port number that clients connect to.
    port: u16,
    challenge: Option<Challenge>,
    served: Served,
}

/// The route that answers an authority, which verifies over HTTP that a host is served here.
type Challenge = Arc<(Route, RouteOrigin)>;

/// The challenges of one slot, by host.
type Challenges = BTreeMap<HostName, Challenge>;

/// The routes that are attached to one listener: contents with their names, the oldest first.
pub(super) type AttachedTo<'r> = Vec<(&'r Content, &'r [Shared])>;

/// The content of a route for one of its names, and its rank among those for the name.
type OfName<'r> = (Width, &'r Content);

/// Assembles the result. `attached` has an entry for each listener, by its index.
pub(super) fn assemble(listeners: &Listeners<'_>, attached: &[AttachedTo<'_>], kept: &mut Kept) -> Assembled {
    let mut slots: BTreeMap<Slot, Vec<usize>> = BTreeMap::new();
    let mut assembled = Assembled::default();
    for (at, one) in listeners.all.iter().enumerate().filter(|(_, one)| one.refused.is_none()) {
        for &address in &one.addresses {
            match one.listener.protocol {
                Protocol::Tcp | Protocol::Udp => {
                    assembled.streams.extend(stream(one, address, &attached[at]));
                }
                Protocol::Http | Protocol::Https | Protocol::Tls => {
                    let is_tls = one.listener.protocol != Protocol::Http;
                    slots.entry(Slot { address, port: one.port, is_tls }).or_default().push(at);
                }
                Protocol::Other(_) => {}
            }
        }
    }
    let mut before = std::mem::take(kept);
    kept.plain = Arc::clone(&before.plain);
    for (slot, places) in slots {
        let own: Vec<_> = places.iter().map(|&at| (&listeners.all[at], &attached[at])).collect();
        let hosts = KeptHosts::with_capacity_and_hasher(
            own.iter().map(|(_, it)| it.len() + 1).sum(),
            FixedState::default(),
        );
        let hosts_before = before.hosts.remove(&slot).unwrap_or_default();
        let challenges = challenges(listeners, slot);
        let mut builder = Builder {
            slot,
            listeners: &own,
            challenges: &challenges,
            hosts_before,
            hosts,
            before: &before,
            kept,
        };
        assembled.hosts.insert(slot, builder.all());
        let hosts = builder.hosts;
        kept.hosts.insert(slot, hosts);
    }
    assembled
}

/// The challenges that are answered at a slot: those of all listeners at its address, since authorities ask
/// at the port for HTTP.
fn challenges(listeners: &Listeners<'_>, slot: Slot) -> Challenges {
    if slot.is_tls {
        return Challenges::new();
    }
    let usable = |one: &&Effective<'_>| one.refused.is_none() && one.addresses.contains(&slot.address);
    let challenge = |one: &Effective<'_>| {
        let made = one.obtained.as_ref()?.route(&one.hostname)?;
        Some((one.hostname.clone(), Arc::new(made)))
    };
    listeners.all.iter().filter(usable).filter_map(challenge).collect()
}

/// The stream of a listener. "If there are several `TCPRoute`s, the oldest takes the traffic." Without a
/// route the port stays closed.
fn stream(one: &Effective<'_>, address: Option<IpAddr>, attached: &AttachedTo<'_>) -> Option<Listener> {
    let template = attached.iter().find_map(|(content, _)| content.stream.as_ref())?;
    let stream = Stream {
        backends: template.backends.clone(),
        accepts_proxy_header: false,
        sends_proxy_header: false,
        counts_responses: false,
        labels: template.labels.clone(),
    };
    let protocol = match one.transport() {
        Transport::Tcp => Spoken::Tcp(stream),
        Transport::Udp => Spoken::Udp(stream),
    };
    Some(Listener { address, port: one.port, protocol })
}

struct Builder<'b, 'l> {
    slot: Slot,
    listeners: &'b [(&'b Effective<'l>, &'b AttachedTo<'b>)],
    challenges: &'b Challenges,
    /// The previous hosts of this slot that have not been used yet.
    hosts_before: KeptHosts,
    hosts: KeptHosts,
    before: &'b Kept,
    kept: &'b mut Kept,
}

impl Builder<'_, '_> {
    fn all(&mut self) -> Vec<Served> {
        let mut hosts = Vec::new();
        for at in 0..self.listeners.len() {
            self.add(at, &mut hosts);
        }
        let is_stream = |one: &Effective<'_>| one.listener.protocol == Protocol::Tls;
        let knows_all = hosts.iter().any(|(host, _)| host.name == HostName::Any);
        if !knows_all && self.listeners.iter().all(|(one, _)| is_stream(one)) {
            // A client that requests a name without a listener gets no certificate.
            hosts.push(self.serve(&HostName::Any, &[], Arc::new(closing_tls()), None, 0));
        }
        hosts
    }

    /// Adds the hosts of one listener: one for its own name, which answers 404 without attached routes, and
    /// one for each name of a route, unless a more specific listener has the name.
    fn add(&mut self, at: usize, hosts: &mut Vec<Served>) {
        let (one, attached) = self.listeners[at];
        let names_of_listeners = || self.listeners.iter().map(|(one, _)| &one.hostname);
        let is_ours = |name: &HostName| hostnames::owner(name, names_of_listeners()) == Some(&one.hostname);
        let mut order = vec![&one.hostname];
        let mut contents: HashMap<&HostName, SmallVec<[OfName<'_>; 2]>, FixedState> = HashMap::default();
        contents.insert(&one.hostname, SmallVec::new());
        for (content, names) in attached {
            for Shared { name, width } in names.iter().filter(|shared| is_ours(&shared.name)) {
                let of_name = contents.entry(name).or_insert_with(|| {
                    order.push(name);
                    SmallVec::new()
                });
                // Of two equal ones the older stays the first.
                let at = of_name.partition_point(|(other, _)| other <= width);
                of_name.insert(at, (*width, content));
            }
        }
        if one.lacks_tls {
            // The names stay reserved: a less specific listener for them may belong to somebody else.
            hosts.push(self.serve(&one.hostname, &[], Arc::new(closed(one)), None, 0));
            return;
        }
        for name in self.challenges.keys().filter(|name| is_ours(name)) {
            contents.entry(name).or_insert_with(|| {
                order.push(name);
                SmallVec::new()
            });
        }
        let suffixes: HashSet<&str, FixedState> = order.iter().filter_map(|name| suffix(name)).collect();
        let has_any = one.hostname == HostName::Any;
        let tls = self.tls(at);
        for name in order {
            let of_name = &contents[name];
            let tls = if one.listener.protocol == Protocol::Tls {
                Arc::new(stream_tls(one, name, of_name))
            } else {
                Arc::clone(&tls)
            };
            let wider = wider(name, &suffixes, has_any);
            hosts.push(self.serve(name, of_name, tls, wider, one.listener.port));
        }
    }

    /// The TLS settings for the hosts of an HTTPS listener. If a slot has several, each has a number, by
    /// which misdirected requests are detected.
    fn tls(&mut self, at: usize) -> Arc<HostTls> {
        let one = self.listeners[at].0;
        let Some(tls) = one.tls.as_ref().filter(|_| one.listener.protocol == Protocol::Https) else {
            return Arc::clone(&self.kept.plain);
        };
        let https = self.listeners.iter().filter(|(one, _)| one.listener.protocol == Protocol::Https);
        if https.count() < 2 {
            return Arc::clone(tls);
        }
        let key = (self.slot, one.parent.clone(), one.listener.name.clone());
        let made = HostTls { listener: Some(at as u32), ..(**tls).clone() };
        let known = self.before.tls.get(&key).filter(|known| ***known == made).cloned();
        let made = known.unwrap_or_else(|| Arc::new(made));
        self.kept.tls.insert(key, Arc::clone(&made));
        made
    }

    fn serve(
        &mut self,
        name: &HostName,
        contents: &[OfName<'_>],
        tls: Arc<HostTls>,
        wider: Option<HostName>,
        port: u16,
    ) -> Served {
        let (name, old) = match self.hosts_before.remove_entry(name) {
            Some((name, old)) => (name, Some(old)),
            None => (name.clone(), None),
        };
        // An equal existing value is shared.
        let tls = old.as_ref().map(|old| &old.tls).filter(|old| **old == tls).cloned().unwrap_or(tls);
        let challenge = self.challenges.get(&name);
        let host = match old {
            Some(old)
                if old.challenge.as_ref() == challenge
                    && old.is_made_of(contents, &tls, wider.as_ref(), port) =>
            {
                old
            }
            old => {
                let contents = contents.iter().map(|(width, content)| (*width, Arc::clone(&content.routes)));
                let contents = contents.collect();
                let new = NewHost { contents, tls, wider, port, challenge: challenge.cloned() };
                KeptHost::make(&name, new, old.as_ref())
            }
        };
        let served = host.served.clone();
        self.hosts.insert(name, host);
        served
    }
}

/// The parts of a host.
struct NewHost {
    contents: Vec<(Width, Arc<[Template]>)>,
    tls: Arc<HostTls>,
    /// The listener's next wider name.
    wider: Option<HostName>,
    port: u16,
    challenge: Option<Challenge>,
}

impl KeptHost {
    fn make(name: &HostName, new: NewHost, old: Option<&Self>) -> Self {
        let NewHost { contents, tls, wider, port, challenge } = new;
        let client_auth = tls.client_auth.as_ref();
        let templates = || contents.iter().flat_map(|(_, content)| content.iter());
        let routes = templates().map(|template| Arc::new(at_host(&template.route, name, port, client_auth)));
        let mut routes: Vec<_> = routes.collect();
        let mut origins: Vec<_> = templates().map(|template| template.origin.clone()).collect();
        let mut starts = starts(&contents);
        if let Some((route, origin)) = challenge.as_deref() {
            acme::add(route.clone(), origin.clone(), &mut routes, &mut origins);
            for start in &mut starts {
                *start += 1;
            }
        }
        // Routes of other namespaces are there because the Gateway lets them be.
        sign_in::add_endpoints(&mut routes, &mut origins, &mut starts);
        let host = Host {
            name: name.clone(),
            aliases: Rare::default(),
            tls: Arc::clone(&tls),
            routes,
            wider: Wider::boxed(starts, wider.clone()),
        };
        let old = old.map(|old| &old.served);
        let known = old.filter(|(_, known)| **known == *origins).map(|(_, known)| Arc::clone(known));
        let host = crate::translate::hosts::take_over(host, old.map(|(host, _)| host));
        let served = (host, known.unwrap_or_else(|| origins.into()));
        Self { contents, tls, wider, port, challenge, served }
    }

    fn is_made_of(
        &self,
        contents: &[OfName<'_>],
        tls: &Arc<HostTls>,
        wider: Option<&HostName>,
        port: u16,
    ) -> bool {
        let mut pairs = self.contents.iter().zip(contents);
        self.contents.len() == contents.len()
            && pairs.all(|(old, new)| old.0 == new.0 && Arc::ptr_eq(&old.1, &new.1.routes))
            && Arc::ptr_eq(&self.tls, tls)
            && self.wider.as_ref() == wider
            && self.port == port
    }
}

/// The places at which the routes for each wider name begin. The narrowest of the names counts as that of the
/// host.
fn starts(contents: &[(Width, Arc<[Template]>)]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut place = 0;
    let mut before = Width::default();
    for (width, routes) in contents.iter().filter(|(_, routes)| !routes.is_empty()) {
        if *width > before && place > 0 {
            starts.push(place);
        }
        (before, place) = (*width, place + routes.len());
    }
    starts
}

fn suffix(name: &HostName) -> Option<&str> {
    if let HostName::Suffix(suffix) = name { Some(suffix) } else { None }
}

/// The most specific of a listener's other names that contains all names of this one.
fn wider(name: &HostName, suffixes: &HashSet<&str, FixedState>, has_any: bool) -> Option<HostName> {
    let text = match name {
        HostName::Exact(name) | HostName::Suffix(name) | HostName::OneLabel(name) => name.as_str(),
        HostName::Any => return None,
    };
    let rest = std::iter::successors(text.split_once('.'), |(_, rest)| rest.split_once('.'));
    let mut wider = rest.map(|(_, rest)| rest).filter(|rest| suffixes.contains(rest));
    let suffix = wider.next().map(|suffix| HostName::Suffix(suffix.to_owned()));
    suffix.or_else(|| has_any.then_some(HostName::Any))
}

/// The route with the values of one host.
fn at_host(route: &Route, host: &HostName, port: u16, client_auth: Option<&ClientAuth>) -> Route {
    let mut route = route.clone();
    route.labels = Arc::new(Labels::from(LabelTexts { host: host.to_string(), ..route.labels.texts() }));
    let redirects = |filter: &RequestFilter| matches!(filter, RequestFilter::RequestRedirect(_));
    if route.request_filters.as_slice().iter().any(redirects) {
        let filters = route.request_filters.as_slice().iter().cloned().map(|filter| match filter {
            RequestFilter::RequestRedirect(redirect) => {
                RequestFilter::RequestRedirect(Box::new(RequestRedirect { listener_port: port, ..*redirect }))
            }
            other => other,
        });
        route.request_filters = RequestFilters::new(filters.collect()).expect("each is of another kind");
    }
    if let Action::Forward(Forward { backends: Backends::Split(split), .. }) = &mut route.action
        && let Some(at_port) = with_port(split, port)
    {
        *split = at_port;
    }
    if let Some(certificate) = client_certificate(client_auth) {
        route.access.get_or_insert_default().client_certificate = Some(certificate);
    }
    route
}

/// The backends with their redirects at a port; none if no backend redirects.
fn with_port(split: &Split, port: u16) -> Option<Split> {
    let redirect = |filters: &BackendFilters| match filters.answer.as_deref() {
        Some(BackendAnswer::Redirect(redirect)) => Some(redirect.clone()),
        _ => None,
    };
    let redirects = |backend: &Backend| backend.filters.as_deref().and_then(redirect);
    split.backends().iter().find_map(redirects)?;
    let at_port = |backend: &Backend| match (redirects(backend), &backend.filters) {
        (Some(redirect), Some(filters)) => {
            let answer = BackendAnswer::Redirect(RequestRedirect { listener_port: port, ..redirect });
            let filters = BackendFilters { answer: Some(Arc::new(answer)), ..(**filters).clone() };
            Backend { filters: Some(Arc::new(filters)), ..backend.clone() }
        }
        _ => backend.clone(),
    };
    Split::new(split.backends().iter().map(at_port).collect()).ok()
}

/// Requirements on clients of routes whose listener requires certificates.
pub(super) fn client_certificate(client_auth: Option<&ClientAuth>) -> Option<ClientCertificate> {
    let auth = client_auth.filter(|auth| auth.verify == VerifyClient::On)?;
    Some(ClientCertificate {
        verify: auth.verify,
        match_subject: None,
        error_page: None,
        pass_certificate: false,
        passes_in_clear: false,
    })
}

/// The handling of connections for a name at a TLS listener.
fn stream_tls(one: &Effective<'_>, name: &HostName, contents: &[OfName<'_>]) -> HostTls {
    let Some(template) = contents.iter().find_map(|(_, content)| content.stream.as_ref()) else {
        return closed(one);
    };
    let stream = TlsStream {
        is_terminated: !one.passes_tls(),
        backends: template.backends.clone(),
        labels: Labels::from(LabelTexts { host: name.to_string(), ..template.labels.texts() }),
    };
    let own = one.tls.as_deref().cloned().unwrap_or_default();
    HostTls { stream: Some(Arc::new(stream)), ..own }
}

/// TLS settings of a listener that serves nobody. An authority that verifies who serves its host is answered.
fn closed(one: &Effective<'_>) -> HostTls {
    let closing = closing_tls();
    let Some(challenge) = one.tls.as_ref().and_then(|tls| tls.challenge.clone()) else { return closing };
    // Only connections whose TLS ends here are shown a certificate; they are closed after the handshake.
    let ended = |stream: Arc<TlsStream>| Arc::new(TlsStream { is_terminated: true, ..(*stream).clone() });
    HostTls { stream: closing.stream.map(ended), challenge: Some(challenge), ..HostTls::default() }
}

/// TLS settings that close connections before any answer.
fn closing_tls() -> HostTls {
    let backends = Split::new(vec![Backend::invalid(1)]).expect("it has a weight");
    let stream =
        TlsStream { is_terminated: false, backends: Backends::Split(backends), labels: Labels::default() };
    HostTls { stream: Some(Arc::new(stream)), ..HostTls::default() }
}
