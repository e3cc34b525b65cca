//! The certificates of a run: made for it, in its folder, and the same for every proxy.
//!
//! Must not be in here: what they are used for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize};
use serde::{Deserialize, Serialize};

/// The kind of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Key {
    Rsa2048,
    EcdsaP256,
}

/// A certificate that is signed with its own key, as files and as text, all PEM.
#[derive(Serialize)]
pub(crate) struct Certificate {
    pub(crate) chain_file: PathBuf,
    pub(crate) key_file: PathBuf,
    /// Both in one, as `HAProxy` wants them.
    pub(crate) both_file: PathBuf,
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// One certificate of each kind.
pub(crate) struct Certificates(BTreeMap<Key, Certificate>);

impl Certificates {
    /// Makes them for `host`, in `folder`.
    pub(crate) fn make(host: &str, folder: &Path) -> Result<Certificates> {
        let rsa = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let ecdsa = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok(Certificates(BTreeMap::from([
            (Key::Rsa2048, Certificate::make("rsa", host, &rsa, folder)?),
            (Key::EcdsaP256, Certificate::make("ecdsa", host, &ecdsa, folder)?),
        ])))
    }

    pub(crate) fn of(&self, key: Key) -> &Certificate {
        &self.0[&key]
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
    /// The names of the files of one, for tests of configurations.
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
