//! Who the admin server talks to. Whoever reaches it may ask whether the process lives; what it tells about tenants is for this
//! machine, and for those whom the operator names.

use std::net::IpAddr;

use ipnet::IpNet;

/// By which names the server is asked, and by whom.
pub(crate) struct Access {
    /// Names beside addresses and `localhost`, in lower case.
    names: Vec<String>,
    /// Namespace of the Pod that this runs in: its Services' names lead here.
    namespace: Option<String>,
    /// Peers that may see what tells about tenants, beside those of this machine.
    allowed: Vec<IpNet>,
}

impl Access {
    pub(crate) fn new(
        names: impl IntoIterator<Item = String>,
        namespace: Option<String>,
        allowed: Vec<IpNet>,
    ) -> Self {
        let names = names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { names, namespace: namespace.filter(|namespace| !namespace.is_empty()), allowed }
    }

    /// Whether a `Host` is one by which this server is meant. A page whose name was made to lead here (DNS rebinding) asks by the
    /// page's name: one that the public DNS can have is none of ours.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let (name, port) = split_port(&host);
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return false;
        }
        let is_address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        is_address
            || !name.contains('.')
            || self.names.iter().any(|own| own == name)
            || self.is_own_service(name)
    }

    /// `NAME.NAMESPACE.svc`, with or without the usual domain of a cluster.
    fn is_own_service(&self, name: &str) -> bool {
        let Some(namespace) = &self.namespace else { return false };
        let name = name.strip_suffix(".cluster.local").unwrap_or(name);
        let service = name.strip_suffix(".svc").and_then(|name| name.strip_suffix(namespace));
        service.and_then(|service| service.strip_suffix('.')).is_some_and(|service| !service.contains('.'))
    }

    /// Whether a peer may see what tells about tenants: a port-forward comes from loopback, too.
    pub(crate) fn may_see_tenants(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        peer.is_loopback() || self.allowed.iter().any(|network| network.contains(&peer))
    }
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_public_dns_can_have_are_not_ours() {
        let access = Access::new(["Watch.test".to_owned()], Some("ingress".to_owned()), Vec::new());
        for host in [
            "127.0.0.1",
            "10.0.0.1:10254",
            "[::1]:10254",
            "::1",
            "localhost:1",
            "LOCALHOST",
            "forebay-7f9c",
            "watch.test:80",
            "metrics.ingress.svc",
            "metrics.ingress.svc.cluster.local:10254",
        ] {
            assert!(access.is_own_host(host), "{host}");
        }
        for host in [
            "evil.test",
            "evil.test:10254",
            "localhost.evil.test",
            "127.0.0.1.evil.test",
            "127.0.0.1:x",
            "metrics.other.svc",
            "a.b.ingress.svc",
            "xingress.svc",
            "metrics.ingress",
            "metrics.ingress.svc.evil.test",
        ] {
            assert!(!access.is_own_host(host), "{host}");
        }
    }

    #[test]
    fn tenants_are_told_of_to_this_machine_and_to_who_is_named() {
        let access = Access::new([], None, vec!["10.1.0.0/16".parse().unwrap()]);
        for (peer, may) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("10.2.0.1", false),
            ("fe80::1", false),
        ] {
            assert_eq!(access.may_see_tenants(peer.parse().unwrap()), may, "{peer}");
        }
    }
}
