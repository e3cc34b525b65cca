//! Kubernetes manifests for tests, as JSON, of which YAML is a superset.

use std::net::SocketAddr;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Map, Value, json};

use crate::{Authority, Certificate};

/// An Ingress in namespace `default`.
#[derive(Clone, Debug)]
pub struct Ingress {
    name: String,
    annotations: Map<String, Value>,
    rules: Vec<Value>,
    tls: Vec<Value>,
    default_backend: Option<Value>,
}

impl Ingress {
    /// An Ingress without rules.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            annotations: Map::new(),
            rules: Vec::new(),
            tls: Vec::new(),
            default_backend: None,
        }
    }

    /// Takes a path of a host to port 80 of a Service. An empty host is any.
    #[must_use]
    pub fn path(mut self, host: &str, path_type: &str, path: &str, service: &str) -> Self {
        let path = json!({"path": path, "pathType": path_type, "backend": backend(service)});
        let mut rule = json!({"http": {"paths": [path]}});
        if !host.is_empty() {
            rule["host"] = host.into();
        }
        self.rules.push(rule);
        self
    }

    /// A rule for a host without paths.
    #[must_use]
    pub fn rule(mut self, host: &str) -> Self {
        self.rules.push(json!({"host": host}));
        self
    }

    /// An annotation of ingress-nginx without its prefix, or any other by its whole name.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        let prefix = if name.contains('/') { "" } else { "nginx.ingress.kubernetes.io/" };
        self.annotations.insert(format!("{prefix}{name}"), value.into());
        self
    }

    /// A host with a certificate, that of Secret `certificate`.
    #[must_use]
    pub fn tls(self, host: &str) -> Self {
        self.tls_from(&[host], "certificate")
    }

    /// Hosts with the certificate of a Secret.
    #[must_use]
    pub fn tls_from(mut self, hosts: &[&str], secret: &str) -> Self {
        self.tls.push(json!({"hosts": hosts, "secretName": secret}));
        self
    }

    /// Hosts that are served over TLS, without a Secret of their own.
    #[must_use]
    pub fn tls_without_secret(mut self, hosts: &[&str]) -> Self {
        self.tls.push(json!({"hosts": hosts}));
        self
    }

    /// Where requests go that no rule takes.
    #[must_use]
    pub fn default_backend(mut self, service: &str) -> Self {
        self.default_backend = Some(backend(service));
        self
    }

    /// The manifest as a document.
    pub fn document(&self) -> String {
        let mut spec = json!({"rules": self.rules, "tls": self.tls});
        if let Some(backend) = &self.default_backend {
            spec["defaultBackend"] = backend.clone();
        }
        document(&json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"namespace": "default", "name": self.name, "annotations": self.annotations},
            "spec": spec,
        }))
    }
}

/// A Service in namespace `default` with port 80, and where its Pods are.
pub fn service(name: &str, endpoints: &[SocketAddr]) -> String {
    service_with_port(name, &json!({"port": 80}), endpoints)
}

/// A Service as [`service`], whose port names its protocol (`appProtocol`).
pub fn service_speaking(name: &str, app_protocol: &str, endpoints: &[SocketAddr]) -> String {
    service_with_port(name, &json!({"port": 80, "appProtocol": app_protocol}), endpoints)
}

fn service_with_port(name: &str, port: &Value, endpoints: &[SocketAddr]) -> String {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"ports": [port]},
    });
    // A slice has one port for all its endpoints; here each has its own.
    let none = [json!({"endpoints": [], "ports": [{"port": 80}]})];
    let each = endpoints.iter().map(|address| {
        json!({
            "endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}],
            "ports": [{"port": address.port()}],
        })
    });
    let slices = if endpoints.is_empty() { none.into() } else { each.collect::<Vec<_>>() };
    let slices = slices.into_iter().enumerate().map(|(index, mut slice)| {
        slice["apiVersion"] = "discovery.k8s.io/v1".into();
        slice["kind"] = "EndpointSlice".into();
        slice["addressType"] = "IPv4".into();
        slice["metadata"] = json!({
            "namespace": "default",
            "name": format!("{name}-{index}"),
            "labels": {"kubernetes.io/service-name": name},
        });
        document(&slice)
    });
    document(&service) + &slices.collect::<String>()
}

/// An `EndpointSlice` of a Service with Pods that stop and get no requests any more.
pub fn stopping_endpoints(service: &str, addresses: &[SocketAddr]) -> String {
    let endpoints = addresses.iter().map(|address| {
        json!({
            "addresses": [address.ip().to_string()],
            "conditions": {"ready": false, "serving": false, "terminating": true},
        })
    });
    document(&json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "metadata": {
            "namespace": "default",
            "name": format!("{service}-stopping"),
            "labels": {"kubernetes.io/service-name": service},
        },
        "endpoints": endpoints.collect::<Vec<_>>(),
        "ports": [{"port": addresses.first().map_or(80, SocketAddr::port)}],
    }))
}

/// The `ConfigMap` `default/settings`.
pub fn settings(entries: &[(String, String)]) -> String {
    let entries: Vec<_> = entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    config_map("settings", &entries)
}

/// A `ConfigMap` in namespace `default`.
pub fn config_map(name: &str, entries: &[(&str, &str)]) -> String {
    let data: Map<_, _> = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    document(&json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name},
        "data": data,
    }))
}

/// A Secret in namespace `default`.
pub fn secret(name: &str, secret_type: &str, entries: &[(&str, &str)]) -> String {
    let data: Map<_, _> = entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), BASE64_STANDARD.encode(value).into()))
        .collect();
    document(&json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": secret_type,
        "metadata": {"namespace": "default", "name": name},
        "data": data,
    }))
}

/// A Secret with a certificate.
pub fn tls_secret(name: &str, certificate: &Certificate) -> String {
    let entries = [("tls.crt", &*certificate.chain_pem()), ("tls.key", &certificate.key_pem())];
    secret(name, "kubernetes.io/tls", &entries)
}

/// A Secret with the authority that certificates have to be from, and its revocation list.
pub fn authority_secret(name: &str, authority: &Authority, revocations: Option<&str>) -> String {
    let authority = authority.pem();
    let entries = [Some(("ca.crt", &*authority)), revocations.map(|list| ("ca.crl", list))];
    secret(name, "Opaque", &entries.into_iter().flatten().collect::<Vec<_>>())
}

fn backend(service: &str) -> Value {
    json!({"service": {"name": service, "port": {"number": 80}}})
}

fn document(object: &Value) -> String {
    format!("---\n{object:#}\n")
}
