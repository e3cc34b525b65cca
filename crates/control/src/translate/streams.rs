//! TCP and UDP services: Services with a port of their own, whose bytes are forwarded unchanged.

use model::{Backends, LabelTexts, Labels, Listener, Protocol, Stream, Transport};

use super::clusters::ClusterQueries;
use super::inputs::Inputs;
use crate::names::{NsName, PortRef};
use crate::objects::{At, ConfigMap, Sourced};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity};

/// The flag that names the `ConfigMap`, the usual name of the `ConfigMap`, and its transport.
const SOURCES: [(&str, &str, Transport); 2] = [
    ("--tcp-services-configmap", "tcp-services", Transport::Tcp),
    ("--udp-services-configmap", "udp-services", Transport::Udp),
];

/// Reads the `ConfigMap`s that the options name. An invalid entry does not affect the others.
pub(super) fn build(
    inputs: &Inputs<'_>,
    clusters: &mut ClusterQueries<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Vec<Listener> {
    let options = inputs.options;
    let mut listeners = Vec::new();
    let given = [&options.tcp_services_configmap, &options.udp_services_configmap];
    for ((flag, usual_name, transport), given) in SOURCES.into_iter().zip(given) {
        let Some(name) = given else {
            let unused = inputs.configmaps().filter(|it| it.name() == usual_name);
            problems.extend(unused.map(|configmap| unused_notice(configmap, flag)));
            continue;
        };
        let Some(configmap) = inputs.configmap(name) else {
            let message = format!("ConfigMap {name} ({flag}) is missing; no port is served for it");
            problems.push(Problem::new(Severity::Error, message).because(Reason::Missing));
            continue;
        };
        let mut reader = Reader { configmap, transport, options, clusters, problems, listeners: Vec::new() };
        for (port, target) in &configmap.data {
            reader.read(port, target);
        }
        let mut found = reader.listeners;
        found.sort_by_key(|listener| listener.port);
        listeners.append(&mut found);
    }
    listeners
}

fn unused_notice(configmap: &Sourced<ConfigMap>, flag: &str) -> Problem {
    let message = format!("is not used; to serve the ports that it names, give {flag} {}", configmap.key());
    Problem::of(Severity::Notice, configmap, message)
}

struct Reader<'a, 'c, 'l> {
    configmap: &'a Sourced<ConfigMap>,
    transport: Transport,
    options: &'a Options,
    clusters: &'a mut ClusterQueries<'c, 'l>,
    problems: &'a mut Vec<Problem>,
    listeners: Vec<Listener>,
}

impl Reader<'_, '_, '_> {
    fn read(&mut self, port: &str, target: &At<String>) {
        let parsed = || Target::parse(&target.value).map_err(|why| (Reason::Invalid, why));
        let read = self.port(port).and_then(|port| Ok((port, parsed()?)));
        match read {
            Ok((port, parsed)) => self.add(port, &parsed, target),
            Err((reason, why)) => self.say(reason, target, format!("port {port}: {why}; it is ignored")),
        }
    }

    fn port(&self, text: &str) -> Result<u16, (Reason, String)> {
        let number = text.trim().parse().ok().filter(|&number: &u16| number > 0);
        let number =
            number.ok_or_else(|| (Reason::Invalid, "the key is not the number of a port".to_owned()))?;
        if let Some(flag) = self.options.reserved(self.transport, number) {
            return Err((Reason::Conflict, format!("it is Forebay's own ({flag})")));
        }
        if self.listeners.iter().any(|listener| listener.port == number) {
            return Err((Reason::Conflict, "another key names it too".to_owned()));
        }
        Ok(number)
    }

    fn add(&mut self, port: u16, target: &Target, value: &At<String>) {
        let Target { service, port: service_port, accepts, sends } = target;
        let (cluster, fault) = self.clusters.for_stream(service, service_port, self.transport);
        if let Some(fault) = fault {
            self.say(Reason::Missing, value, format!("port {port}: {fault}"));
        }
        // "Proxy Protocol is only compatible with TCP Services."
        let is_tcp = self.transport == Transport::Tcp;
        let stream = Stream {
            backends: Backends::One(cluster),
            accepts_proxy_header: *accepts && is_tcp,
            sends_proxy_header: *sends && is_tcp,
            counts_responses: !is_tcp,
            labels: Labels::from(LabelTexts {
                namespace: service.namespace.clone(),
                object: self.configmap.name().to_owned(),
                service: service.name.clone(),
                service_port: service_port.to_string(),
                ..LabelTexts::default()
            }),
        };
        let protocol = match self.transport {
            Transport::Tcp => Protocol::Tcp(stream),
            Transport::Udp => Protocol::Udp(stream),
        };
        self.listeners.push(Listener { address: None, port, protocol });
    }

    fn say(&mut self, reason: Reason, value: &At<String>, message: String) {
        let problem = Problem::at(Severity::Error, self.configmap, value, message);
        self.problems.push(problem.because(reason));
    }
}

/// The value of an entry: `namespace/service:port[:PROXY][:PROXY]`.
#[derive(Debug, PartialEq)]
struct Target {
    service: NsName,
    port: PortRef,
    accepts: bool,
    sends: bool,
}

impl Target {
    fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not of the form NAMESPACE/SERVICE:PORT[:PROXY][:PROXY]");
        let parts: Vec<_> = text.trim().split(':').collect();
        let (service, port, accepts, sends) = match parts.as_slice() {
            [service, port] => (service, port, "", ""),
            [service, port, accepts] => (service, port, *accepts, ""),
            [service, port, accepts, sends] => (service, port, *accepts, *sends),
            _ => return Err(form()),
        };
        let switch = |word: &str| match word {
            "" => Some(false),
            _ => word.eq_ignore_ascii_case("PROXY").then_some(true),
        };
        Ok(Self {
            service: service.parse().map_err(|_| form())?,
            port: if port.is_empty() { return Err(form()) } else { PortRef::parse(port) },
            accepts: switch(accepts).ok_or_else(form)?,
            sends: switch(sends).ok_or_else(form)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switches(text: &str) -> (bool, bool) {
        let target = Target::parse(text).unwrap();
        assert_eq!((target.service, target.port), (NsName::new("a", "b"), PortRef::Number(1)));
        (target.accepts, target.sends)
    }

    #[test]
    fn the_first_word_is_about_clients_and_the_second_about_endpoints() {
        assert_eq!(switches("a/b:1"), (false, false));
        assert_eq!(switches("a/b:1:PROXY"), (true, false));
        assert_eq!(switches("a/b:1::proxy"), (false, true));
        assert_eq!(switches(" a/b:1:PROXY:PROXY "), (true, true));
        assert_eq!(Target::parse("a/b:redis").unwrap().port, PortRef::Name("redis".to_owned()));
    }

    #[test]
    fn what_is_no_target_is_told_so() {
        for text in
            ["", "a/b", "a/b:", "b:1", "a/b/c:1", "a/b:1:HTTP", "a/b:1:PROXY:PROXY:PROXY", "a/b:1:PROXY:x"]
        {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
