//! The certificates of a run: made for it, in its folder, and the same for every proxy.
//!
//! Must not be in here: who uses them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize};

/// What a certificate's key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Rsa2048,
    EcdsaP256,
}

/// A certificate that is signed with its own key, as files and as text, all PEM.
pub(crate) struct Certificate {
    pub(crate) chain_file: PathBuf,
    pub(crate) key_file: PathBuf,
    /// Both in one, as `HAProxy` wants them.
    pub(crate) both_file: PathBuf,
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// One certificate of each kind.
pub(crate) struct Certificates {
    rsa: Certificate,
    ecdsa: Certificate,
}

impl Certificates {
    /// Makes them for `host`, in `folder`.
    pub(crate) fn make(host: &str, folder: &Path) -> Result<Certificates> {
        let rsa = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let ecdsa = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok(Certificates {
            rsa: Certificate::make("rsa", host, &rsa, folder)?,
            ecdsa: Certificate::make("ecdsa", host, &ecdsa, folder)?,
        })
    }

    pub(crate) fn of(&self, key: Key) -> &Certificate {
        match key {
            Key::Rsa2048 => &self.rsa,
            Key::EcdsaP256 => &self.ecdsa,
        }
    }
}

impl Certificate {
    fn make(name: &str, host: &str, pair: &KeyPair, folder: &Path) -> Result<Certificate> {
        let chain = CertificateParams::new([host.to_owned()])?.self_signed(pair)?.pem();
        let key = pair.serialize_pem();
        let write = |kind: &str, text: &str| -> Result<PathBuf> {
            let path = folder.join(format!("{name}.{kind}"));
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        Ok(Certificate {
            chain_file: write("crt", &chain)?,
            key_file: write("key", &key)?,
            both_file: write("pem", &format!("{chain}{key}"))?,
            chain,
            key,
        })
    }
}

#[cfg(test)]
impl Certificate {
    /// The names of one's files, for who writes them into a configuration.
    pub(super) fn at(folder: &str) -> Certificate {
        let path = |name: &str| Path::new(folder).join(name);
        Certificate {
            chain_file: path("chain"),
            key_file: path("key"),
            both_file: path("both"),
            chain: String::new(),
            key: String::new(),
        }
    }
}
