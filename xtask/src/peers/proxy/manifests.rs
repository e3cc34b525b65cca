//! Kubernetes manifests as text.
//!
//! Must not be in here: what they are to bring about.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Names and values.
pub(crate) type Pairs = Vec<(&'static str, String)>;

/// The namespace of `ConfigMap`s, and that of all else.
pub(crate) const SETTINGS: &str = "bench";

const ANNOTATION: &str = "nginx.ingress.kubernetes.io/";

/// An Ingress with one host.
pub(crate) struct Ingress<'a> {
    pub(crate) name: &'a str,
    pub(crate) host: &'a str,
    pub(crate) service: &'a str,
    /// Without their prefix.
    pub(crate) annotations: &'a [(&'static str, String)],
    /// Regular expressions; none for one path that is a prefix of all.
    pub(crate) expressions: &'a [String],
    /// The Secret with the host's certificate.
    pub(crate) secret: Option<&'a str>,
}

impl Ingress<'_> {
    pub(crate) fn write(&self, yaml: &mut String) {
        let Ingress { name, host, service, .. } = self;
        let annotations = match self.annotations {
            [] => String::new(),
            all => {
                // One of Forebay's own has a prefix already.
                let prefix = |name: &str| if name.contains('/') { "" } else { ANNOTATION };
                let names = all.iter().map(|(name, value)| (format!("{}{name}", prefix(name)), value));
                format!("\n  annotations: {}", json(names))
            }
        };
        let tls =
            self.secret.map(|secret| format!("\n  tls:\n  - hosts: [{host}]\n    secretName: {secret}"));
        let _ = write!(
            yaml,
            "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: default{annotations}\n\
             spec:{}\n  rules:\n  - host: {host}\n    http:\n      paths:\n",
            tls.unwrap_or_default()
        );
        let mut path = |path: &str, kind| {
            let path = Value::from(path);
            let _ = write!(
                yaml,
                "      - path: {path}\n        pathType: {kind}\n        backend:\n          service:\n            \
                 name: {service}\n            port:\n              number: 80\n"
            );
        };
        if self.expressions.is_empty() {
            path("/", "Prefix");
        }
        self.expressions.iter().for_each(|expression| path(expression, "ImplementationSpecific"));
    }
}

pub(crate) fn service(name: &str, protocol: Option<&str>) -> String {
    let protocol = protocol.map(|protocol| format!("\n    appProtocol: {protocol}")).unwrap_or_default();
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: default\n\
         spec:\n  ports:\n  - port: 80\n    targetPort: 80{protocol}\n"
    )
}

pub(crate) fn config_map(name: &str, data: &[(&str, String)]) -> String {
    let data = json(data.iter().map(|(name, value)| ((*name).to_owned(), value)));
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {SETTINGS}\ndata: {data}\n"
    )
}

pub(crate) fn secret(name: &str, kind: &str, data: &[(&str, String)]) -> String {
    let encoded: Vec<_> = data.iter().map(|(name, value)| (*name, STANDARD.encode(value))).collect();
    let data = json(encoded.iter().map(|(name, value)| ((*name).to_owned(), value)));
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n  namespace: default\ntype: {kind}\ndata: {data}\n"
    )
}

/// A mapping of YAML in the words of JSON, whatever its values have in them.
fn json<'a>(pairs: impl Iterator<Item = (String, &'a String)>) -> Value {
    pairs.map(|(name, value)| (name, Value::from(value.as_str()))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_they_were() {
        let annotations = [("rewrite-target", "/$2: \"x\"".to_owned())];
        let expressions = ["/a/([0-9]+)/(.*)".to_owned()];
        let ingress = Ingress {
            name: "web",
            host: "web.test",
            service: "web",
            annotations: &annotations,
            expressions: &expressions,
            secret: None,
        };
        let mut yaml = String::new();
        ingress.write(&mut yaml);
        let read: Value = serde_saphyr::from_str(&yaml).expect("YAML");
        let annotation = &read["metadata"]["annotations"]["nginx.ingress.kubernetes.io/rewrite-target"];
        assert_eq!(annotation, "/$2: \"x\"");
        assert_eq!(read["spec"]["rules"][0]["http"]["paths"][0]["path"], "/a/([0-9]+)/(.*)");
    }
}
