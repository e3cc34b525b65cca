//! The connection to a cluster's API server.

mod user;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::config::{Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// The address of the API server. Without any setting it is the API server of the cluster that this process
/// runs in.
#[derive(Clone, Debug, Default)]
pub struct ClusterAddress {
    /// Kubeconfig file; its current context is used.
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server. It takes precedence over the URL in the kubeconfig.
    pub apiserver_host: Option<String>,
    /// PEM file with the authorities that the API server's certificate is verified against.
    pub certificate_authority: Option<PathBuf>,
}

/// The cluster that a user works with, selected as kubectl selects it.
#[derive(Clone, Debug, Default)]
pub struct UserAddress {
    /// Kubeconfig file. Without it: the files of `KUBECONFIG`, then `~/.kube/config`, then the service
    /// account of this Pod.
    pub kubeconfig: Option<PathBuf>,
    /// Name of the context; none for the current context.
    pub context: Option<String>,
    /// Longest time for making a connection.
    pub connect_timeout: Option<Duration>,
}

/// A client of an API server. Creating it sends nothing.
#[derive(Clone)]
pub struct Connection {
    pub(crate) client: Client,
    /// Namespace of this Pod, or of the kubeconfig's context.
    pub namespace: String,
    /// URL of the API server.
    pub url: String,
    pub(crate) versions: Versions,
}

/// The API versions in which the API server has optional kinds. The source that watches the kinds records
/// them; the status writers read them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    kinds: BTreeMap<&'static str, &'static str>,
    bundle: Option<Arc<str>>,
}

impl Versions {
    /// The served version of a kind; none if the API server does not have the kind.
    pub(crate) fn get(&self, kind: &str) -> Option<&'static str> {
        self.lock().kinds.get(kind).copied()
    }

    pub(crate) fn set(&self, kind: &'static str, version: Option<&'static str>) {
        let kinds = &mut self.lock().kinds;
        match version {
            Some(version) => kinds.insert(kind, version),
            None => kinds.remove(kind),
        };
    }

    /// The release of the Gateway API that the CRDs belong to, such as `v1.6.3`; none if it is not known.
    pub(crate) fn bundle(&self) -> Option<Arc<str>> {
        self.lock().bundle.clone()
    }

    pub(crate) fn set_bundle(&self, bundle: Option<&str>) {
        self.lock().bundle = bundle.map(Arc::from);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why no connection can be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read or used.
    #[error("kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        /// The path of the kubeconfig.
        path: PathBuf,
        /// The error of the kubeconfig reader.
        source: KubeconfigError,
    },
    /// No kubeconfig of the user can be read or used.
    #[error("kubeconfig {from}: {source}")]
    UserKubeconfig {
        /// The places where a kubeconfig was looked for.
        from: String,
        /// The error of the kubeconfig reader.
        source: KubeconfigError,
    },
    /// The user has no kubeconfig.
    #[error("there is no kubeconfig: neither --kubeconfig nor KUBECONFIG names one, and {0} is not there")]
    NoKubeconfig(String),
    /// The user's kubeconfig does not have this context.
    #[error("kubeconfig {from} has no context {context:?}; {}", contexts(.known))]
    NoContext {
        /// The places where the context was looked for.
        from: String,
        /// Name of the requested context.
        context: String,
        /// The contexts that the kubeconfig has.
        known: Vec<String>,
    },
    /// The user's kubeconfig names no current context.
    #[error("kubeconfig {from} has no current context; {}", contexts(.known))]
    NoCurrentContext {
        /// The places where the context was looked for.
        from: String,
        /// The contexts that the kubeconfig has.
        known: Vec<String>,
    },
    /// This process does not run in a Pod with a service account.
    #[error(
        "not in a cluster ({0}): give --manifests, --kubeconfig or --apiserver-host, or run as a Pod with a service account"
    )]
    NotInCluster(#[from] kube::config::InClusterError),
    /// The text is not a URL.
    #[error("--apiserver-host {0:?} is not a URL")]
    Host(String),
    /// The file with the authorities cannot be used.
    #[error("--certificate-authority {}: {why}", path.display())]
    Authority {
        /// The path of the file with the authorities.
        path: PathBuf,
        /// The reason why the file cannot be used.
        why: String,
    },
    /// The HTTP client cannot be made.
    #[error("cannot make a client of the API server: {0}")]
    Client(#[from] kube::Error),
}

impl Connection {
    /// Reads the address and the credentials of the API server, from the options or from the Pod's
    /// environment.
    ///
    /// # Errors
    ///
    /// When the address, the credentials or the certificates cannot be read or cannot be used.
    pub async fn open(address: &ClusterAddress) -> Result<Self, ConnectError> {
        Self::with(configure(address).await?)
    }

    /// Reads the address and the credentials from the kubeconfig that kubectl would use for the user who runs
    /// this process.
    ///
    /// # Errors
    ///
    /// When there is no kubeconfig, or the kubeconfig lacks the context, or its credentials or certificates
    /// cannot be used.
    pub async fn of_user(address: &UserAddress) -> Result<Self, ConnectError> {
        let mut config = user::configure(address).await?;
        config.connect_timeout = address.connect_timeout.or(config.connect_timeout);
        Self::with(config)
    }

    fn with(config: Config) -> Result<Self, ConnectError> {
        let (namespace, url) = (config.default_namespace.clone(), config.cluster_url.to_string());
        Ok(Self { client: Client::try_from(config)?, namespace, url, versions: Versions::default() })
    }

    /// The client itself, for requests that are no part of the control plane.
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

/// The known contexts as a hint in an error message.
fn contexts(known: &[String]) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("there are {}", known.join(", ")) }
}

async fn configure(address: &ClusterAddress) -> Result<Config, ConnectError> {
    let host = address.apiserver_host.as_deref().filter(|host| !host.is_empty());
    let host = host.map(|host| host.parse().map_err(|_| ConnectError::Host(host.to_owned()))).transpose()?;
    let mut config = match (&address.kubeconfig, host.clone()) {
        (Some(path), _) => from_file(path.clone()).await?,
        (None, Some(host)) => Config::new(host),
        (None, None) => Config::incluster()?,
    };
    config.cluster_url = host.unwrap_or(config.cluster_url);
    if let Some(path) = &address.certificate_authority {
        let fail = |why: String| ConnectError::Authority { path: path.clone(), why };
        let pem = std::fs::read(path).map_err(|error| fail(error.to_string()))?;
        config.root_cert = Some(certificates(&pem).map_err(fail)?);
    }
    Ok(config)
}

async fn from_file(path: PathBuf) -> Result<Config, ConnectError> {
    let fail = |source| ConnectError::Kubeconfig { path: path.clone(), source };
    let read = Kubeconfig::read_from(&path).map_err(fail)?;
    user::config_of(read, None).await.map_err(fail)
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates: Vec<_> =
        read.map_err(|error| error.to_string())?.into_iter().map(|der| der.to_vec()).collect();
    if certificates.is_empty() { Err("holds no certificate".to_owned()) } else { Ok(certificates) }
}

/// The text of an error and its causes, without the causes that the text already contains.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}
