//! Kubernetes manifests for tests, as JSON, which YAML is a superset of.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};

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

    /// An annotation of ingress-nginx, without its prefix.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.insert(format!("nginx.ingress.kubernetes.io/{name}"), value.into());
        self
    }

    /// A host with a certificate.
    #[must_use]
    pub fn tls(mut self, host: &str) -> Self {
        self.tls.push(json!({"hosts": [host], "secretName": "certificate"}));
        self
    }

    /// Where requests go that no rule takes.
    #[must_use]
    pub fn default_backend(mut self, service: &str) -> Self {
        self.default_backend = Some(backend(service));
        self
    }

    /// The document.
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
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"ports": [{"port": 80}]},
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

/// The `ConfigMap` `default/settings`.
pub fn settings(entries: &[(String, String)]) -> String {
    let data: Map<_, _> = entries.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    document(&json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "settings"},
        "data": data,
    }))
}

fn backend(service: &str) -> Value {
    json!({"service": {"name": service, "port": {"number": 80}}})
}

fn document(object: &Value) -> String {
    format!("---\n{object:#}\n")
}
