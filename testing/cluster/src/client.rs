//! A client of the API, for tests: one request after the other, objects as JSON.
//!
//! Must not be in here: watches, caches, types of Kubernetes' own.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

const READ_LIMIT: Duration = Duration::from_secs(30);
/// The manager of applied fields.
const MANAGER: &str = "test";

/// Where objects of a kind are: group and version, plural, and whether in namespaces.
type Place = (&'static str, &'static str, bool);

/// The kinds that tests make, with their places.
const KINDS: &[(&str, Place)] = &[
    ("ClusterRole", ("apis/rbac.authorization.k8s.io/v1", "clusterroles", false)),
    ("ClusterRoleBinding", ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", false)),
    ("ConfigMap", ("api/v1", "configmaps", true)),
    ("DaemonSet", ("apis/apps/v1", "daemonsets", true)),
    ("Deployment", ("apis/apps/v1", "deployments", true)),
    ("EndpointSlice", ("apis/discovery.k8s.io/v1", "endpointslices", true)),
    ("Event", ("api/v1", "events", true)),
    ("ForebayPolicy", ("apis/forebay.io/v1alpha1", "forebaypolicies", true)),
    ("Gateway", ("apis/gateway.networking.k8s.io/v1", "gateways", true)),
    ("GatewayClass", ("apis/gateway.networking.k8s.io/v1", "gatewayclasses", false)),
    ("HTTPRoute", ("apis/gateway.networking.k8s.io/v1", "httproutes", true)),
    ("HorizontalPodAutoscaler", ("apis/autoscaling/v2", "horizontalpodautoscalers", true)),
    ("Ingress", ("apis/networking.k8s.io/v1", "ingresses", true)),
    ("IngressClass", ("apis/networking.k8s.io/v1", "ingressclasses", false)),
    ("Lease", ("apis/coordination.k8s.io/v1", "leases", true)),
    ("Namespace", ("api/v1", "namespaces", false)),
    ("Node", ("api/v1", "nodes", false)),
    ("Pod", ("api/v1", "pods", true)),
    ("PodDisruptionBudget", ("apis/policy/v1", "poddisruptionbudgets", true)),
    ("ReferenceGrant", ("apis/gateway.networking.k8s.io/v1", "referencegrants", true)),
    ("Role", ("apis/rbac.authorization.k8s.io/v1", "roles", true)),
    ("RoleBinding", ("apis/rbac.authorization.k8s.io/v1", "rolebindings", true)),
    ("Secret", ("api/v1", "secrets", true)),
    ("Service", ("api/v1", "services", true)),
    ("ServiceAccount", ("api/v1", "serviceaccounts", true)),
    (
        "ValidatingWebhookConfiguration",
        ("apis/admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", false),
    ),
    ("XBackendTrafficPolicy", ("apis/gateway.networking.x-k8s.io/v1alpha1", "xbackendtrafficpolicies", true)),
];

/// Asks the API server on a connection that is kept.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    token: String,
    connection: Mutex<Option<Connection>>,
}

/// The API server's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body, where it is JSON, and else a string.
    pub body: Value,
    /// Warnings of the API server, in lower case.
    pub warnings: Vec<String>,
}

#[derive(Debug)]
struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    unread: Vec<u8>,
}

impl Client {
    /// The user of a kubeconfig that a [`Cluster`](crate::Cluster) wrote.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        let text = fs::read(kubeconfig).with_context(|| kubeconfig.display().to_string())?;
        let config: Value = serde_json::from_slice(&text)?;
        let cluster = &config["clusters"][0]["cluster"];
        let text =
            |value: &Value| value.as_str().map(ToOwned::to_owned).context("no kubeconfig of a test cluster");
        let address = text(&cluster["server"])?.trim_start_matches("https://").parse()?;
        let authority = BASE64_STANDARD.decode(text(&cluster["certificate-authority-data"])?)?;
        let authority = CertificateDer::from_pem_slice(&authority)?;
        Self::with_token(address, authority, text(&config["users"][0]["user"]["token"])?)
    }

    pub(crate) fn with_token(
        address: SocketAddr,
        authority: CertificateDer<'static>,
        token: String,
    ) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
        Ok(Self { address, config, token, connection: Mutex::default() })
    }

    /// Server-side apply of an object, with all conflicts forced; returns the new object.
    pub fn apply(&self, object: &Value) -> Result<Value> {
        self.try_apply(object)?.expect_success(&path_of(object)?)
    }

    /// The same, for one that may be refused.
    pub fn try_apply(&self, object: &Value) -> Result<Answer> {
        let path = format!("{}?fieldManager={MANAGER}&force=true", path_of(object)?);
        self.request("PATCH", &path, "application/apply-patch+yaml", Some(object))
    }

    /// Merges into an object (RFC 7396), which is named by `kind` and `metadata`.
    pub fn merge(&self, object: &Value) -> Result<Value> {
        let path = path_of(object)?;
        self.request("PATCH", &path, "application/merge-patch+json", Some(object))?.expect_success(&path)
    }

    /// Merges into an object's status.
    pub fn merge_status(&self, object: &Value) -> Result<Value> {
        let path = path_of(object)? + "/status";
        self.request("PATCH", &path, "application/merge-patch+json", Some(object))?.expect_success(&path)
    }

    /// Makes what a path is for: objects, or tokens of a `ServiceAccount`.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.request("POST", path, "application/json", Some(body))?.expect_success(path)
    }

    /// Deletes an object at once, if it is there.
    pub fn delete(&self, object: &Value) -> Result<()> {
        let path = path_of(object)?;
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        let answer = self.request("DELETE", &path, "application/json", Some(&options))?;
        if answer.status == 404 { Ok(()) } else { answer.expect_success(&path).map(drop) }
    }

    /// An object as it is; `None` if there is none.
    pub fn find(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>> {
        let path = path_of(&json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}}))?;
        let answer = self.get(&path)?;
        if answer.status == 404 { Ok(None) } else { answer.expect_success(&path).map(Some) }
    }

    /// All objects of a kind in a namespace, or in all of them if it is empty.
    pub fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>> {
        let path = collection(kind, namespace)?;
        let list = self.get(&path)?.expect_success(&path)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Whatever a path says.
    pub fn get(&self, path: &str) -> Result<Answer> {
        self.request("GET", path, "application/json", None)
    }

    fn request(&self, method: &str, path: &str, content_type: &str, body: Option<&Value>) -> Result<Answer> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: application/json\r\n\
             Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        // A thread that panicked with it is no reason not to clean up.
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        // The server may have closed a kept connection meanwhile.
        if let Some(mut connection) = kept.take()
            && let Ok(answer) = connection.ask(&request)
        {
            *kept = Some(connection);
            return Ok(answer);
        }
        let mut connection = self.connect()?;
        let answer = connection.ask(&request).with_context(|| format!("{method} {path}"))?;
        *kept = Some(connection);
        Ok(answer)
    }

    fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_LIMIT))?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let session = ClientConnection::new(Arc::clone(&self.config), name)?;
        Ok(Connection { stream: StreamOwned::new(session, stream), unread: Vec::new() })
    }
}

impl Answer {
    fn expect_success(self, path: &str) -> Result<Value> {
        ensure!((200..300).contains(&self.status), "{path}: {} {}", self.status, self.body);
        Ok(self.body)
    }
}

impl Connection {
    fn ask(&mut self, request: &str) -> Result<Answer> {
        self.stream.write_all(request.as_bytes())?;
        self.stream.flush()?;
        let head = String::from_utf8(self.read_until(b"\r\n\r\n")?)?.to_ascii_lowercase();
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let warnings = head.lines().filter_map(|line| line.strip_prefix("warning: ")).map(ToOwned::to_owned);
        let warnings = warnings.collect();
        let body = if let Some(length) = header("content-length: ") {
            self.read_exactly(length.parse()?)?
        } else if header("transfer-encoding: chunked").is_some() {
            self.read_chunks()?
        } else {
            bail!("an answer without length: {head}")
        };
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        Ok(Answer { status, body: serde_json::from_slice(&body).unwrap_or_else(|_| text()), warnings })
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8(self.read_until(b"\r\n")?)?;
            let length = usize::from_str_radix(line.trim(), 16)?;
            body.extend(self.read_exactly(length)?);
            self.read_until(b"\r\n")?;
            if length == 0 {
                return Ok(body);
            }
        }
    }

    fn read_until(&mut self, end: &[u8]) -> Result<Vec<u8>> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|window| window == end) {
                return Ok(self.unread.drain(..at + end.len()).collect());
            }
            self.read_more()?;
        }
    }

    fn read_exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.unread.len() < length {
            self.read_more()?;
        }
        Ok(self.unread.drain(..length).collect())
    }

    fn read_more(&mut self) -> Result<()> {
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => bail!("the API server has closed"),
            Ok(length) => self.unread.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// The `apiVersion` of a kind's objects.
pub fn api_version(kind: &str) -> Option<&'static str> {
    let (_, (group, ..)) = KINDS.iter().find(|(known, _)| *known == kind)?;
    group.strip_prefix("apis/").or_else(|| group.strip_prefix("api/"))
}

/// The path of the objects of a kind in a namespace, or in all of them if it is empty.
pub fn collection(kind: &str, namespace: &str) -> Result<String> {
    let place = KINDS.iter().find(|(known, _)| *known == kind);
    let (_, (group, plural, namespaced)) = place.with_context(|| format!("no place is known for {kind}"))?;
    Ok(match namespace {
        "" => format!("/{group}/{plural}"),
        _ if !namespaced => format!("/{group}/{plural}"),
        _ => format!("/{group}/namespaces/{namespace}/{plural}"),
    })
}

/// The path of an object, by its kind, namespace and name.
fn path_of(object: &Value) -> Result<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (kind, name) = (text(&object["kind"]), text(&metadata["name"]));
    ensure!(!name.is_empty(), "an object without name: {object}");
    Ok(format!("{}/{name}", collection(&kind, &text(&metadata["namespace"]))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_their_places() {
        let path = |kind: &str| path_of(&json!({"kind": kind, "metadata": {"namespace": "a", "name": "b"}}));
        assert_eq!(path("Secret").unwrap(), "/api/v1/namespaces/a/secrets/b");
        assert_eq!(path("IngressClass").unwrap(), "/apis/networking.k8s.io/v1/ingressclasses/b");
        assert!(path("Widget").is_err());
        assert_eq!(collection("Pod", "").unwrap(), "/api/v1/pods");
        assert_eq!(api_version("Pod").zip(api_version("Lease")), Some(("v1", "coordination.k8s.io/v1")));
    }
}
