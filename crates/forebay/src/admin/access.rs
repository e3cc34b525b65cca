//! Access to the admin server. Any client may check whether the process is alive; pages that show the
//! configuration of tenants are only for this machine, and for the networks that the operator allows.

use std::net::IpAddr;

use ipnet::IpNet;

/// The host names under which the server answers, and the clients that may see tenants.
pub(crate) struct Access {
    /// Allowed host names in lower case, beside addresses and `localhost`.
    names: Vec<String>,
    /// Namespace of this Pod, whose Services may lead to this server; none if it is not known.
    namespace: Option<String>,
    /// Networks of clients that may see tenants, beside this machine.
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

    /// Whether a `Host` may be a name of this server. In an attack by DNS rebinding, a web page makes its own
    /// name resolve to this server, and the browser sends that name. So names that the public DNS can hold
    /// are refused.
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

    /// Whether the name is `NAME.NAMESPACE.svc` of this Pod's namespace, with or without the usual domain of
    /// a cluster.
    fn is_own_service(&self, name: &str) -> bool {
        let Some(namespace) = &self.namespace else { return false };
        let name = name.strip_suffix(".cluster.local").unwrap_or(name);
        let service = name.strip_suffix(".svc").and_then(|name| name.strip_suffix(namespace));
        service.and_then(|service| service.strip_suffix('.')).is_some_and(|service| !service.contains('.'))
    }

    /// Whether a client may see tenants. A port-forward comes from loopback too.
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
