//! The connection to a cluster's API server.

use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// Where the API server is. With nothing given, the one of the cluster that this process runs in.
#[derive(Clone, Debug, Default)]
pub struct ClusterAddress {
    /// Kubeconfig file; its current context is used.
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server; it comes before the kubeconfig's.
    pub apiserver_host: Option<String>,
    /// PEM file with the authorities of the API server's certificate.
    pub certificate_authority: Option<PathBuf>,
}

/// Speaks with an API server. Nothing is sent until something is asked for.
#[derive(Clone)]
pub struct Connection {
    pub(crate) client: Client,
    /// Namespace of this process, or of the kubeconfig's context.
    pub namespace: String,
    /// URL of the API server.
    pub url: String,
}

/// Why no connection can be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: KubeconfigError,
    },
    /// This process does not run in a Pod with a service account.
    #[error(
        "not in a cluster ({0}): give --manifests, --kubeconfig or --apiserver-host, or run as a Pod with a service account"
    )]
    NotInCluster(#[from] kube::config::InClusterError),
    /// The URL is none.
    #[error("--apiserver-host {0:?} is not a URL")]
    Host(String),
    /// The authorities cannot be read.
    #[error("--certificate-authority {}: {why}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The client cannot be made.
    #[error("cannot make a client of the API server: {0}")]
    Client(#[from] kube::Error),
}

impl Connection {
    /// Reads how to reach the API server.
    ///
    /// # Errors
    ///
    /// When the address, the credentials or the certificates cannot be read, or are of no use.
    pub async fn open(address: &ClusterAddress) -> Result<Self, ConnectError> {
        let config = configure(address).await?;
        let (namespace, url) = (config.default_namespace.clone(), config.cluster_url.to_string());
        Ok(Self { client: Client::try_from(config)?, namespace, url })
    }
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
    Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(fail)
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates: Vec<_> =
        read.map_err(|error| error.to_string())?.into_iter().map(|der| der.to_vec()).collect();
    if certificates.is_empty() { Err("holds no certificate".to_owned()) } else { Ok(certificates) }
}
