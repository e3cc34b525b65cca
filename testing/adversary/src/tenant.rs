//! Manifests of several tenants, each with a namespace, and of an age.

use std::fmt::Write;
use std::net::SocketAddr;

use testkit::Certificate;
use testkit::manifest::{secret, service, tls_secret};

/// An Ingress of a tenant, in YAML.
#[derive(Clone, Debug)]
pub struct TenantIngress {
    namespace: &'static str,
    created: &'static str,
    annotations: String,
    paths: String,
    host: &'static str,
    tls: String,
    name: Option<&'static str>,
}

/// The day on which the one who owns a host made it.
pub const OLD: &str = "2024-01-01T00:00:00Z";
/// A later day.
pub const YOUNG: &str = "2025-01-01T00:00:00Z";

impl TenantIngress {
    /// Of a namespace, about a host, made then.
    pub fn new(namespace: &'static str, host: &'static str, created: &'static str) -> Self {
        let (annotations, paths, tls, name) = Default::default();
        Self { namespace, created, annotations, paths, host, tls, name }
    }

    /// Adds an annotation, without its prefix.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        let _ = writeln!(self.annotations, "    nginx.ingress.kubernetes.io/{name}: {value:?}");
        self
    }

    /// Adds a path, which leads to a Service of the namespace.
    #[must_use]
    pub fn path(mut self, path: &str, service: &str) -> Self {
        let backend = format!("{{service: {{name: {service}, port: {{number: 80}}}}}}");
        let _ = writeln!(
            self.paths,
            "      - path: {path}\n        pathType: Prefix\n        backend: {backend}"
        );
        self
    }

    /// Is called so, beside another one of its namespace.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Shows the certificate of a Secret.
    #[must_use]
    pub fn tls(mut self, secret: &str) -> Self {
        self.tls = format!("  tls:\n  - {{hosts: [{:?}], secretName: {secret}}}\n", self.host);
        self
    }

    /// The object as a document.
    pub fn document(&self) -> String {
        let Self { namespace, created, annotations, paths, host, tls, name } = self;
        let name = name.map_or_else(|| format!("of-{namespace}"), str::to_owned);
        format!(
            "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  namespace: {namespace}\n  name: {name}\n  \
             creationTimestamp: {created:?}\n  annotations:\n    by: {namespace}\n{annotations}spec:\n  rules:\n  - host: {host:?}\n    \
             http:\n      paths:\n{paths}{tls}"
        )
    }
}

/// A Service of a namespace, and where its Pods are.
pub fn tenant_service(namespace: &str, name: &str, endpoints: &[SocketAddr]) -> String {
    moved(&service(name, endpoints), namespace)
}

/// A Secret of a namespace with a certificate.
pub fn tenant_certificate(namespace: &str, name: &str, certificate: &Certificate) -> String {
    moved(&tls_secret(name, certificate), namespace)
}

/// A Secret of a namespace.
pub fn tenant_secret(namespace: &str, name: &str, entries: &[(&str, &str)]) -> String {
    moved(&secret(name, "Opaque", entries), namespace)
}

/// A Service of a namespace that is another name.
pub fn external_name(namespace: &str, name: &str, target: &str, port: u16) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{namespace: {namespace}, name: {name}}}\nspec:\n  type: ExternalName\n  \
         externalName: {target:?}\n  ports: [{{port: 80, targetPort: {port}}}]\n"
    )
}

/// Puts what was made for namespace `default` into another.
pub fn moved(documents: &str, namespace: &str) -> String {
    documents.replace("\"namespace\": \"default\"", &format!("\"namespace\": \"{namespace}\""))
}
