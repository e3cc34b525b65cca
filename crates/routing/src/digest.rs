//! What tells one configuration from another, as a number.

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use model::{
    Access, Action, Backend, BackendFilters, BackendTarget, Backends, Canary, Cluster, ErrorPages,
    ExternalAuth, Forward, HostTls, Mirror, Route, Stream, TlsStream, Transfer,
};

use crate::host::Hosts;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// The same number for equal configurations, and most likely another for others. Which ids clusters have, and how often the
    /// configuration was changed before, makes no difference. Costs a look at all of it.
    pub fn digest(&self) -> u64 {
        let mut text = Digest::default();
        text.add(&self.settings);
        let mut of_hosts = Vec::new();
        for (at, listener) in self.listeners().iter().enumerate() {
            // Hosts that listeners share are looked at once; whether they share them makes no difference.
            let known = of_hosts.get(self.first_with_hosts_of(at)).copied();
            of_hosts.push(known.unwrap_or_else(|| Digest::of_hosts(self, listener.hosts())));
            text.add(&(listener.id, of_hosts[at]));
            if let Some(stream) = listener.stream() {
                text.add_stream(self, stream);
            }
        }
        text.0.finish()
    }
}

/// The hash of a text that is never held as a whole.
#[derive(Default)]
struct Digest(DefaultHasher);

impl Digest {
    fn add(&mut self, part: &impl fmt::Debug) {
        write!(self, "{part:?};").expect("a hash takes any text");
    }

    fn of_hosts(snapshot: &Snapshot, hosts: Option<&Arc<Hosts>>) -> u64 {
        let mut text = Self::default();
        for table in hosts.into_iter().flat_map(|hosts| hosts.iter()) {
            text.add(&(table.name(), table.wider()));
            text.add_tls(snapshot, table.tls());
            table.routes().iter().for_each(|route| text.add_route(snapshot, route));
        }
        text.0.finish()
    }

    // Each names all fields, so that a new one cannot be forgotten here.

    fn add_tls(&mut self, snapshot: &Snapshot, tls: &HostTls) {
        let HostTls {
            certificate,
            more_certificates,
            shown_for,
            client_auth,
            ciphers,
            prefer_server_ciphers,
            passthrough,
            stream,
            listener,
        } = tls;
        let passthrough: Option<&Cluster> = passthrough.map(|cluster| &**snapshot.cluster(cluster));
        self.add(&(certificate, more_certificates, shown_for, client_auth, ciphers, prefer_server_ciphers));
        self.add(&(passthrough, listener));
        if let Some(TlsStream { is_terminated, backends, labels }) = stream.as_deref() {
            self.add(&(is_terminated, labels));
            self.add_backends(snapshot, backends);
        }
    }

    fn add_route(&mut self, snapshot: &Snapshot, route: &Route) {
        let Route {
            path,
            conditions,
            request_filters,
            response_filters,
            script,
            access,
            action,
            error_pages,
            labels,
            abuse,
            access_log,
            tracing,
            slash_redirect,
        } = route;
        self.add(&(path, conditions, request_filters, response_filters, labels, access_log, slash_redirect));
        self.add(&(script, tracing, abuse));
        if let Some(access) = access {
            self.add_access(snapshot, access);
        }
        if let Some(pages) = error_pages {
            let ErrorPages { backends, spares_endpoints, fallback, .. } = &**pages;
            self.add(&(pages.statuses(), spares_endpoints, backends.len()));
            for cluster in backends.iter().chain(fallback) {
                self.add(&snapshot.cluster(*cluster));
            }
        }
        match action {
            Action::Forward(forward) => {
                let Forward {
                    backends,
                    timeouts,
                    retry,
                    body_bytes_max,
                    connection_header,
                    sets_affinity_cookie,
                    head,
                    transfer,
                    cache,
                    overload,
                    priority,
                } = forward;
                self.add_backends(snapshot, backends);
                self.add(&(
                    timeouts,
                    retry,
                    body_bytes_max,
                    connection_header,
                    sets_affinity_cookie,
                    head,
                    cache,
                    overload,
                    priority,
                ));
                self.add_transfer(snapshot, transfer);
            }
            Action::Files(files) => self.add(files),
            Action::Respond(fixed) => self.add(fixed),
            Action::NotFound => self.add(&"not found"),
        }
    }

    fn add_transfer(&mut self, snapshot: &Snapshot, transfer: &Transfer) {
        let Transfer { request_buffer_bytes, uses_http_1_0, response_head_bytes_max, response, mirrors } =
            transfer;
        self.add(&(request_buffer_bytes, uses_http_1_0, response_head_bytes_max, response));
        self.add_mirrors(snapshot, mirrors.as_deref().unwrap_or_default());
    }

    fn add_mirrors(&mut self, snapshot: &Snapshot, mirrors: &[Mirror]) {
        for Mirror { cluster, copy, share } in mirrors {
            self.add(&(snapshot.cluster(*cluster), copy, share));
        }
    }

    fn add_access(&mut self, snapshot: &Snapshot, access: &Access) {
        let Access {
            forbidden,
            client_certificate,
            unavailable,
            limits,
            quota,
            networks,
            basic,
            external,
            satisfy,
        } = access;
        self.add(&(forbidden, client_certificate, unavailable, limits, quota, networks, basic, satisfy));
        if let Some(ExternalAuth { cluster, check }) = external {
            self.add(&(snapshot.cluster(*cluster), check));
        }
    }

    fn add_backends(&mut self, snapshot: &Snapshot, backends: &Backends) {
        match backends {
            Backends::One(cluster) => self.add(&snapshot.cluster(*cluster)),
            Backends::Split(split) => {
                for Backend { target, weight, filters } in split.backends() {
                    match target {
                        BackendTarget::Cluster(cluster) => self.add(&(snapshot.cluster(*cluster), weight)),
                        BackendTarget::Invalid => self.add(&("invalid", weight)),
                    }
                    if let Some(filters) = filters {
                        let BackendFilters { rewrite, request_headers, response_headers, mirrors } =
                            &**filters;
                        self.add(&(rewrite, request_headers, response_headers));
                        self.add_mirrors(snapshot, mirrors);
                    }
                }
            }
            Backends::Canary(canary) => {
                let Canary { mainline, cluster, name, rules } = &**canary;
                self.add(&(snapshot.cluster(*mainline), snapshot.cluster(*cluster), name, rules));
            }
        }
    }

    fn add_stream(&mut self, snapshot: &Snapshot, stream: &Stream) {
        let Stream { backends, accepts_proxy_header, sends_proxy_header, counts_responses, labels } = stream;
        self.add(&(accepts_proxy_header, sends_proxy_header, counts_responses, labels));
        self.add_backends(snapshot, backends);
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::{ClusterId, Clusters, Host, HostName, Listener, Model, Protocol, Settings};

    use super::*;
    use crate::compile;

    fn passing_on(id: u32, cluster: &str) -> Model {
        let mut clusters = Clusters::default();
        clusters.insert(ClusterId(id), Arc::new(Cluster { name: cluster.to_owned(), ..Cluster::default() }));
        let tls = HostTls { passthrough: Some(ClusterId(id)), ..HostTls::default() };
        let host = Host {
            name: HostName::Any,
            aliases: Vec::new(),
            tls: Arc::new(tls),
            routes: Vec::new(),
            wider: None,
        };
        let hosts = Arc::new(vec![Arc::new(host)]);
        let listeners = vec![
            Listener { address: None, port: 80, protocol: Protocol::Http(Arc::clone(&hosts)) },
            Listener { address: None, port: 443, protocol: Protocol::Https(hosts) },
        ];
        Model { listeners, clusters, ..Model::default() }
    }

    #[test]
    fn ids_and_generations_make_no_difference_and_all_else_does() {
        let digest = |model: &Model, generation| compile(model, None, generation).digest();
        assert_eq!(digest(&passing_on(0, "a"), 1), digest(&passing_on(7, "a"), 2));
        assert_ne!(digest(&passing_on(0, "a"), 1), digest(&passing_on(0, "b"), 1));
        let mut settings = Settings::default();
        settings.client.keep_alive_requests += 1;
        assert_ne!(digest(&Model { settings, ..passing_on(0, "a") }, 1), digest(&passing_on(0, "a"), 1));
        let mut other = passing_on(0, "a");
        let hosts = other.hosts().cloned().collect();
        other.listeners[1].protocol = Protocol::Https(Arc::new(hosts));
        assert_eq!(digest(&other, 1), digest(&passing_on(0, "a"), 1), "whether hosts are shared");
        other.listeners[1].protocol = Protocol::Https(Arc::default());
        assert_ne!(digest(&other, 1), digest(&passing_on(0, "a"), 1));
        other.listeners[0].port = 81;
        assert_ne!(digest(&other, 1), digest(&passing_on(0, "a"), 1));
    }
}
