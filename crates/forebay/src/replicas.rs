//! The other replicas, and the secret by which they authenticate each other.

use std::fs;
use std::net::IpAddr;

use anyhow::Context;
use identity::oidc::seal::{CURRENT, Keys};

use crate::cli;

/// Least number of bytes of a secret, so that it cannot be guessed.
const SECRET_BYTES_MIN: usize = 32;

impl cli::Reading {
    /// The replicas that share a cache and limits, if all required options are given.
    pub(crate) fn replica_options(&self) -> Option<control::ReplicaOptions> {
        self.replicas_secret.as_ref()?;
        Some(control::ReplicaOptions {
            service: self.replicas_service.clone()?,
            own: self.own_address()?,
            counts_together: self.replicas_udp_port.is_some(),
        })
    }

    /// The address of this replica.
    pub(crate) fn own_address(&self) -> Option<IpAddr> {
        let of_pod = || std::env::var("POD_IP").ok()?.parse().ok();
        self.replica_address.or_else(of_pod)
    }
}

/// Secret by which replicas recognise each other, if they share anything.
pub(crate) fn secret(options: &cli::Reading) -> anyhow::Result<Option<proxy::ReplicaSecret>> {
    Ok(read(options)?.map(|secret| proxy::ReplicaSecret::new(&secret, options.own_address())))
}

/// Secret for the names of endpoints in cookies.
pub(crate) fn session_secret(options: &cli::Reading) -> anyhow::Result<Option<model::SessionKey>> {
    Ok(read(options)?.map(|secret| model::SessionKey::new(&[b"session", &secret])))
}

/// Key of the cookies of those who have signed in at the console.
pub(crate) fn console_keys(options: &cli::Reading) -> anyhow::Result<Option<Keys>> {
    let Some(secret) = read(options)? else { return Ok(None) };
    let key = [b"console\0".as_slice(), &secret].concat();
    Keys::new([(CURRENT, key)].into_iter()).map(Some).map_err(anyhow::Error::msg)
}

/// The secret that all replicas share; none if there is none.
pub(crate) fn read(options: &cli::Reading) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(path) = &options.replicas_secret else { return Ok(None) };
    let what = || format!("--replicas-secret {}", path.display());
    let bytes = fs::read(path).with_context(what)?;
    let secret = bytes.trim_ascii();
    if secret.len() < SECRET_BYTES_MIN {
        let short =
            anyhow::anyhow!("it has {} bytes; a secret takes {SECRET_BYTES_MIN} at least", secret.len());
        return Err(short.context(what()));
    }
    Ok(Some(secret.to_vec()))
}
