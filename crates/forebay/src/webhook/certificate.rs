//! The webhook's certificate, which is read again when its files change.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;

/// Keeps the certificate up to date.
pub(crate) struct Keeper {
    certificate: PathBuf,
    key: PathBuf,
    /// The stamps of the files that were last read, valid or not; none if they could not be read.
    stamps: Option<[Stamp; 2]>,
    acceptor: TlsAcceptor,
}

/// Properties of a file that change when it is written or replaced.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Keeper {
    /// Reads the files for the first time.
    pub(crate) fn open(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let stamps = stamps(&certificate, &key);
        let acceptor = read(&certificate, &key)?;
        Ok(Self { certificate, key, stamps, acceptor })
    }

    /// The TLS configuration for the next connection. It checks whether the files have changed. If they
    /// cannot be used, the last good certificate stays: while a pair is being replaced, one file changes
    /// before the other.
    pub(crate) fn acceptor(&mut self) -> TlsAcceptor {
        let stamps = stamps(&self.certificate, &self.key);
        if stamps != self.stamps {
            match read(&self.certificate, &self.key) {
                Ok(acceptor) => {
                    self.acceptor = acceptor;
                    tracing::info!(path = %self.certificate.display(), "the webhook has another certificate");
                }
                Err(error) => tracing::error!("the webhook keeps its certificate: {error:#}"),
            }
            self.stamps = stamps;
        }
        self.acceptor.clone()
    }
}

fn read(certificate: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
    let told =
        |flag: &str, path: &Path| format!("--validating-webhook-{flag} {} cannot be used", path.display());
    let chain = fs::read(certificate).with_context(|| told("certificate", certificate))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let chain = chain.with_context(|| told("certificate", certificate))?;
    if chain.is_empty() {
        bail!("{}: it holds no certificate in PEM", told("certificate", certificate));
    }
    let text = fs::read(key).with_context(|| told("key", key))?;
    let private = PrivateKeyDer::from_pem_slice(&text).with_context(|| told("key", key))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| told("certificate", certificate))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn stamps(certificate: &Path, key: &Path) -> Option<[Stamp; 2]> {
    Some([Stamp::of(certificate).ok()?, Stamp::of(key).ok()?])
}

impl Stamp {
    /// The stamp of a file. Symbolic links are followed, since a mounted Secret is updated by changing one.
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}
