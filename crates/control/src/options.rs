//! The options of the command line about sources and translation.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use geo::Coverage;
use ipnet::IpNet;
use model::{SessionKey, Transport};

use crate::acme::Acme;
use crate::firewalls::Firewalls;
use crate::geoip::Sources;
use crate::names::{InvalidNsName, NsName, PortRef};
use crate::old_version::OldVersion;
use crate::providers::Providers;

/// The source of the configuration, and the settings of its translation. The defaults are those of
/// ingress-nginx, if it has the option.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Files and folders with manifests.
    pub manifests: Vec<PathBuf>,
    /// Name of the class in the annotation `kubernetes.io/ingress.class`.
    pub ingress_class: String,
    /// Value of `spec.controller` in the `IngressClass`es that Forebay serves.
    pub controller_class: String,
    /// Serve also the `IngressClass` whose name is [`ingress_class`](Self::ingress_class), whatever its
    /// controller is.
    pub ingress_class_by_name: bool,
    /// Serve Ingresses without a class. True by default, unlike in ingress-nginx: a user who names a file
    /// wants it served.
    pub watch_ingress_without_class: bool,
    /// Do not require an `IngressClass` with the name [`ingress_class`](Self::ingress_class). Manifests of
    /// applications seldom include the class, which comes with the installation of the controller. In a
    /// cluster it has to exist.
    pub class_may_be_missing: bool,
    /// Service for the requests that no Ingress or route matches. Its first port is used.
    pub default_backend_service: Option<NsName>,
    /// Name of the `ConfigMap` with the settings.
    pub configmap: Option<NsName>,
    /// Addresses of Services' Pods, for Services without any other source of addresses.
    pub endpoints: Vec<EndpointOverride>,
    /// Prefix of the annotations that Forebay reads, without the slash.
    pub annotations_prefix: String,
    /// Leave out Ingresses that match requests for every host.
    pub disable_catch_all: bool,
    /// Port on which the hosts of Ingresses are served over HTTP; 0 for any free port.
    pub http_port: u16,
    /// Port on which they are served over HTTPS; 0 for any free port. Redirects name it if
    /// `use-port-in-redirects` is set.
    pub https_port: u16,
    /// Secret with the certificate for hosts without one of their own.
    pub default_ssl_certificate: Option<NsName>,
    /// Obey the annotation `ssl-passthrough`.
    pub ssl_passthrough: bool,
    /// Name of the `ConfigMap` with the TCP services.
    pub tcp_services_configmap: Option<NsName>,
    /// Name of the `ConfigMap` with the UDP services.
    pub udp_services_configmap: Option<NsName>,
    /// Addresses of this machine to assign to Gateways, one to each; empty to serve all Gateways at every
    /// address.
    pub gateway_addresses: Vec<IpNet>,
    /// Ports that no TCP or UDP service may use, each with the flag that reserves it.
    pub reserved_ports: Vec<(u16, &'static str)>,
    /// Ports that no UDP service may use, each with the flag that reserves it.
    pub reserved_udp_ports: Vec<(u16, &'static str)>,
    /// Time after which the answer of a TCP service counts as slow.
    pub stream_response_threshold: Duration,
    /// The zone of this machine. Endpoints whose hints name this zone are preferred; none to ignore hints
    /// about zones.
    pub zone: Option<String>,
    /// The node that is this machine. Endpoints whose hints name this node are preferred to those of the
    /// zone; none to ignore hints about nodes.
    pub node: Option<String>,
    /// Secret key that all replicas share and no client knows. Together with a Service's uid it derives the
    /// names of endpoints in cookies.
    pub session_secret: Option<SessionKey>,
    /// Treat Services of type `ExternalName` as if they had no endpoints.
    pub disable_external_names: bool,
    /// Networks that must contain the addresses of external names; empty for all networks.
    pub external_name_allow: Vec<IpNet>,
    /// The only namespace whose Ingresses are served (`--watch-namespace`); none for all.
    pub watch_namespace: Option<String>,
    /// Check also the addresses in `EndpointSlice`s and `Endpoints`. This is necessary in a cluster, where
    /// every user with write access to a namespace can write them. Files belong to the operator.
    pub judges_endpoints: bool,
    /// This process shares the network namespace of its node (`hostNetwork`, or no Pod at all), so that other
    /// processes there have its addresses too.
    pub shares_addresses: bool,
    /// The current addresses of this machine.
    pub own_addresses: BTreeSet<IpAddr>,
    /// Ignore Ingresses whose hosts, paths or TLS names look like nginx configuration.
    pub deep_inspect: bool,
    /// Accept only the characters that ingress-nginx accepts.
    pub validates_annotations: bool,
    /// Handling of locations whose web application firewall cannot have its rules.
    pub waf_unenforced: Unenforced,
    /// The rules of web application firewalls.
    pub firewalls: Arc<Firewalls>,
    /// The providers of identity that objects name.
    pub providers: Providers,
    /// The certificates that this process obtains.
    pub acme: Acme,
    /// Where databases of addresses come from.
    pub geoip: Sources,
    /// The questions that the loaded databases can answer. Without a process that loads any, all.
    pub geoip_coverage: Coverage,
    /// The version of the former ingress-nginx, if the user names it. It affects reports only.
    pub from: Option<OldVersion>,
    /// Defaults of ingress-nginx before 1.12, for keys that the `ConfigMap` lacks.
    pub defaults: OldDefaults,
    /// Handling of snippet lines that are not understood but restrict no client.
    pub snippets_unenforced: Unenforced,
    /// The process has memory for a cache.
    pub has_cache: bool,
    /// The replicas that share a cache and limits, for routes that request it; none where replicas share
    /// nothing.
    pub replicas: Option<ReplicaOptions>,
    /// Replicas count shared limits in a Redis.
    pub has_limit_redis: bool,
    /// The process has a root folder from which files are served.
    pub has_files_root: bool,
    /// The path, at every host, under which all files of the root folder are served.
    pub serve_files: Option<String>,
}

/// The replicas of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// Service whose endpoints are the replicas.
    pub service: NsName,
    /// The address of this process among the replicas.
    pub own: IpAddr,
    /// Replicas exchange their counts with each other.
    pub counts_together: bool,
}

/// The handling of a location that requests a protection which is not available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unenforced {
    /// The location is served without the protection.
    Serve,
    /// Requests for the location are refused.
    #[default]
    Close,
}

/// The keys of the `ConfigMap` that have their default from before ingress-nginx 1.12. Only a check uses old
/// defaults, to compare the results; requests are never served with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldDefaults {
    /// `annotations-risk-level` is `Critical`.
    pub all_risks: bool,
    /// `allow-cross-namespace-resources` is `true`.
    pub crosses_namespaces: bool,
}

impl FromStr for Unenforced {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "serve" => Ok(Self::Serve),
            "close" => Ok(Self::Close),
            _ => Err(format!("{text:?} is neither \"serve\" nor \"close\"")),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            manifests: Vec::new(),
            ingress_class: "nginx".to_owned(),
            controller_class: "k8s.io/ingress-nginx".to_owned(),
            ingress_class_by_name: false,
            watch_ingress_without_class: true,
            class_may_be_missing: true,
            default_backend_service: None,
            configmap: None,
            endpoints: Vec::new(),
            annotations_prefix: "nginx.ingress.kubernetes.io".to_owned(),
            disable_catch_all: false,
            http_port: 80,
            https_port: 443,
            default_ssl_certificate: None,
            ssl_passthrough: false,
            tcp_services_configmap: None,
            udp_services_configmap: None,
            gateway_addresses: Vec::new(),
            reserved_udp_ports: Vec::new(),
            reserved_ports: vec![(80, "--http-port"), (443, "--https-port"), (10254, "--healthz-port")],
            stream_response_threshold: Duration::from_millis(10),
            zone: None,
            node: None,
            session_secret: None,
            disable_external_names: false,
            external_name_allow: Vec::new(),
            watch_namespace: None,
            judges_endpoints: false,
            shares_addresses: false,
            own_addresses: BTreeSet::new(),
            deep_inspect: true,
            validates_annotations: true,
            waf_unenforced: Unenforced::default(),
            firewalls: Arc::default(),
            providers: Providers::default(),
            acme: Acme::default(),
            geoip: Sources::default(),
            geoip_coverage: Coverage { countries: true, systems: true },
            from: None,
            defaults: OldDefaults::default(),
            snippets_unenforced: Unenforced::default(),
            has_cache: false,
            replicas: None,
            has_limit_redis: false,
            has_files_root: false,
            serve_files: None,
        }
    }
}

impl Options {
    /// The flag that reserves a port for this proxy itself; none if the port is free.
    pub(crate) fn reserved(&self, transport: Transport, port: u16) -> Option<&'static str> {
        let of_udp = self.reserved_udp_ports.iter().filter(|_| transport == Transport::Udp);
        self.reserved_ports.iter().chain(of_udp).find(|(own, _)| *own == port).map(|(_, flag)| *flag)
    }

    /// Whether replicas can share counts.
    pub(crate) fn counts_with_replicas(&self) -> bool {
        self.has_limit_redis || self.replicas.as_ref().is_some_and(|replicas| replicas.counts_together)
    }

    /// The options for serving all files of the root folder at a path of every host, beside any other
    /// configuration.
    #[must_use]
    pub fn serving_files(self, path: Option<String>) -> Self {
        Self { serve_files: path, watch_ingress_without_class: true, class_may_be_missing: true, ..self }
    }
}

/// Parses a network in CIDR notation. An address alone is a network that holds only this address.
///
/// # Errors
///
/// When the text is neither. The error is a message for the user.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| address()).map_err(|_| format!("{text:?} is not a network such as 10.0.0.0/8"))
}

/// The addresses of a Service's Pods: `NAMESPACE/SERVICE[:PORT]=HOST:PORT[,HOST:PORT]`.
///
/// A host may be a name, which is looked up once, when the text is read. The first IPv4 address is preferred
/// to an IPv6 address: a server on `localhost` often listens on IPv4 only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointOverride {
    /// The Service that gets the addresses.
    pub service: NsName,
    /// Port of the Service; none for all of its ports.
    pub port: Option<PortRef>,
    /// The addresses of the Service's Pods.
    pub addresses: Vec<SocketAddr>,
}

/// The text is not an [`EndpointOverride`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOverride {
    /// The text has no `=`, or one of its sides is empty.
    #[error("{0:?} is not of the form NAMESPACE/SERVICE[:PORT]=HOST:PORT[,HOST:PORT]")]
    Form(String),
    /// The text before the `=` is not the name of a Service.
    #[error(transparent)]
    Service(#[from] InvalidNsName),
    /// The text after the `=` holds a part that is not an address.
    #[error("{address:?} is not an address of the form HOST:PORT: {reason}")]
    Address {
        /// The part that is not an address.
        address: String,
        /// The reason why the address cannot be used.
        reason: String,
    },
}

impl FromStr for EndpointOverride {
    type Err = InvalidOverride;

    fn from_str(text: &str) -> Result<Self, InvalidOverride> {
        let form = || InvalidOverride::Form(text.to_owned());
        let (target, addresses) = text.split_once('=').ok_or_else(form)?;
        let (service, port) = match target.split_once(':') {
            Some((_, "")) => return Err(form()),
            Some((service, port)) => (service, Some(PortRef::parse(port))),
            None => (target, None),
        };
        let addresses =
            addresses.split(',').map(|address| look_up(address.trim())).collect::<Result<_, _>>()?;
        Ok(Self { service: service.parse()?, port, addresses })
    }
}

/// Resolves an address that is given by number or by name.
fn look_up(address: &str) -> Result<SocketAddr, InvalidOverride> {
    let invalid = |reason: String| InvalidOverride::Address { address: address.to_owned(), reason };
    let found: Vec<_> = address.to_socket_addrs().map_err(|error| invalid(error.to_string()))?.collect();
    let first_v4 = found.iter().find(|address| address.is_ipv4());
    first_v4.or(found.first()).copied().ok_or_else(|| invalid("the name has no address".to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<EndpointOverride, String> {
        text.parse::<EndpointOverride>().map_err(|error| error.to_string())
    }

    #[test]
    fn an_override_names_a_service_and_addresses() {
        let parsed = parse("default/web:http=127.0.0.1:9000, [::1]:9001").unwrap();
        assert_eq!(parsed.service, NsName::new("default", "web"));
        assert_eq!(parsed.port, Some(PortRef::Name("http".to_owned())));
        assert_eq!(parsed.addresses, ["127.0.0.1:9000".parse().unwrap(), "[::1]:9001".parse().unwrap()]);
        assert_eq!(parse("a/b:80=127.0.0.1:1").unwrap().port, Some(PortRef::Number(80)));
        assert_eq!(parse("a/b=127.0.0.1:1").unwrap().port, None);
    }

    #[test]
    fn what_is_no_override_is_told_so() {
        for text in
            ["", "a/b", "a/b:=127.0.0.1:1", "a/b=", "a=127.0.0.1:1", "/b=127.0.0.1:1", "a/b/c=127.0.0.1:1"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(
            parse("a/b=127.0.0.1")
                .unwrap_err()
                .starts_with("\"127.0.0.1\" is not an address of the form HOST:PORT")
        );
        assert_eq!(parse("web=127.0.0.1:1").unwrap_err(), "\"web\" is not of the form NAMESPACE/NAME");
    }

    proptest! {
        #[test]
        fn an_override_is_read_back(
            (namespace, name) in ("[a-z]{1,8}", "[a-z]{1,8}"),
            port in proptest::option::of(1..=u16::MAX),
            addresses in proptest::collection::vec(any::<SocketAddr>(), 1..4),
        ) {
            // The scope id is dropped: the address of a Pod has none.
            let addresses: Vec<_> = addresses.iter().map(|a| SocketAddr::new(a.ip(), a.port())).collect();
            let colon_port = port.map(|port| format!(":{port}")).unwrap_or_default();
            let list: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            let parsed = parse(&format!("{namespace}/{name}{colon_port}={}", list.join(","))).unwrap();
            prop_assert_eq!(parsed.service, NsName::new(namespace, name));
            prop_assert_eq!(parsed.port, port.map(PortRef::Number));
            prop_assert_eq!(parsed.addresses, addresses);
        }

        #[test]
        fn no_text_panics(text in "[a-z/:=,.0-9\\[\\]]{0,24}") {
            let _ = text.parse::<NsName>();
        }
    }
}
